//! RESP over a socket, cut at every byte: what was noted of a part of one command must not be taken
//! for a part of the next.

use crate::support::daemon;

use std::io::Write;

use daemon::{Daemon, check, expect};

#[test]
fn a_command_that_arrives_in_two_parts_does_not_change_what_follows_it() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut other = daemon.connect();
    let get = "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    let set = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n";
    let large = format!(
        "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$17000\r\n{}\r\n",
        "v".repeat(17_000)
    );
    let with_options = "*5\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n$2\r\nEX\r\n$3\r\n100\r\n";
    let commands = [
        (get, "$5\r\nvalue\r\n"),
        (set, "+OK\r\n"),
        (with_options, "+OK\r\n"),
        ("*2\r\n$4\r\nECHO\r\n$4\r\nself\r\n", "$4\r\nself\r\n"),
        ("ECHO line\r\n", "$4\r\nline\r\n"),
        (&large, "+OK\r\n"),
    ];
    let mut stream = daemon.connect_resp();
    stream.write_all(set.as_bytes()).unwrap();
    expect(&mut stream, b"+OK\r\n");
    for (first, answer) in &commands {
        for (second, other_answer) in &commands {
            let step = (first.len() / 40).max(1);
            for cut in (1..first.len()).step_by(step) {
                stream.write_all(&first.as_bytes()[..cut]).unwrap();
                // The only loop has read the first part when it answers this.
                check(&mut other, b"mn\r\n", b"MN\r\n");
                let rest = format!("{}{second}{first}{second}", &first[cut..]);
                stream.write_all(rest.as_bytes()).unwrap();
                let answers = [*answer, *other_answer].concat().repeat(2);
                expect(&mut stream, answers.as_bytes());
            }
        }
    }
}
