//! CLIENT: listings, names, ending connections.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, bulk, error, ok};

/// The fields of a client's line.
fn fields(line: &str) -> Vec<(String, String)> {
    let words = line.trim_end().split(' ');
    let pairs = words.map(|word| word.split_once('=').unwrap());
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn text(value: Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        Value::Verbatim(text) => text,
        other => panic!("{other:?} is no text"),
    }
}

fn field(client: &mut Client, name: &str) -> String {
    let fields = fields(&text(client.run("CLIENT INFO")));
    fields
        .into_iter()
        .find(|(found, _)| found == name)
        .unwrap()
        .1
}

fn id(client: &mut Client) -> i64 {
    match client.run("CLIENT ID") {
        Value::Integer(id) => id,
        other => panic!("{other:?} is no number"),
    }
}

#[test]
fn a_line_tells_what_its_client_holds() {
    // What a client holds is noted behind its replies: one event loop does one after the other.
    let daemon = Daemon::start(&["--threads", "1"]);
    let (mut client, mut other) = (Client::connect(&daemon), Client::connect(&daemon));
    let list = format!("CLIENT LIST ID {}", id(&mut client));
    let mut held = || {
        let fields = fields(&text(other.run(&list)));
        let total = fields.into_iter().find(|(name, _)| name == "tot-mem");
        total.unwrap().1.parse::<usize>().unwrap()
    };
    let idle = held();
    client.run("MULTI");
    client.call(&[b"SET", b"k", &[b'v'; 10_000]]);
    let queued = held();
    assert!(
        (idle + 10_000..idle + 40_000).contains(&queued),
        "{idle} {queued}"
    );
    client.run("DISCARD");
    assert!(held() < idle + 10_000);
}

#[test]
fn a_line_has_the_fields_of_redis_and_what_the_client_did() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let names: Vec<String> = fields(&text(client.run("CLIENT INFO")))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let expected = "id addr laddr fd name age idle flags capa db sub psub ssub multi watch qbuf \
                    qbuf-free argv-mem multi-mem rbs rbp obl oll omem tot-mem events cmd user \
                    redir resp lib-name lib-ver tot-net-in tot-net-out tot-cmds";
    assert_eq!(names.join(" "), expected);
    assert_eq!(field(&mut client, "laddr"), daemon.resp);
    assert_eq!(field(&mut client, "cmd"), "client|info");
    assert_eq!(field(&mut client, "flags"), "N");
    client.run("HELLO 3 SETNAME me");
    client.run("CLIENT SETINFO LIB-NAME library");
    client.run("CLIENT SETINFO lib-ver 1.2");
    client.run("SELECT 3");
    client.run("WATCH a b");
    client.run("SUBSCRIBE channel");
    client.run("CLIENT TRACKING ON BCAST");
    for (name, value) in [
        ("name", "me"),
        ("lib-name", "library"),
        ("lib-ver", "1.2"),
        ("db", "3"),
        ("watch", "2"),
        ("sub", "1"),
        ("resp", "3"),
        ("redir", "0"),
        ("flags", "PtB"),
        ("multi", "-1"),
    ] {
        assert_eq!(field(&mut client, name), value, "{name}");
    }
    let mut other = Client::connect(&daemon);
    let own = id(&mut client);
    let line = text(other.run(&format!("CLIENT LIST ID {own}")));
    assert!(line.contains(" name=me ") && line.lines().count() == 1);
    assert_eq!(
        text(other.run("CLIENT LIST TYPE pubsub")).lines().count(),
        1
    );
    assert_eq!(text(other.run("CLIENT LIST")).lines().count(), 2);
    assert_eq!(text(other.run("CLIENT LIST TYPE replica")), "");
    client.run("MULTI");
    client.run("PING");
    assert!(text(other.run("CLIENT LIST")).contains("multi=1 "));
    client.run("EXEC");
    let line = text(other.run(&format!("CLIENT LIST ID {own}")));
    assert!(line.contains(" cmd=exec "), "{line}");
    client.run("RESET");
    assert_eq!(field(&mut client, "flags"), "N");
    assert_eq!(field(&mut client, "watch"), "0");
    assert_eq!(client.run("CLIENT GETNAME"), Value::Null);
}

#[test]
fn a_line_counts_what_went_to_and_fro() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SET a b");
    client.run("GET a");
    client.run("MULTI");
    client.run("PING");
    client.run("EXEC");
    let fields = fields(&text(client.run("CLIENT INFO")));
    let [received, sent, commands] = ["tot-net-in", "tot-net-out", "tot-cmds"].map(|name| {
        let (_, number) = fields.iter().find(|(found, _)| found == name).unwrap();
        number.parse::<usize>().unwrap()
    });
    let requests = [
        &["SET", "a", "b"][..],
        &["GET", "a"],
        &["MULTI"],
        &["PING"],
        &["EXEC"],
    ];
    let bytes = requests
        .into_iter()
        .chain([&["CLIENT", "INFO"][..]])
        .map(|words| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            daemon::frame(&words).len()
        });
    assert_eq!(received, bytes.sum::<usize>());
    let replies = "+OK\r\n$1\r\nb\r\n+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n";
    assert_eq!((sent, commands), (replies.len(), 6));
}

#[test]
fn clients_are_listed_by_all_that_is_asked_of_them() {
    let daemon = Daemon::start(&[]);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&daemon)).collect();
    let ids: Vec<i64> = clients.iter_mut().map(id).collect();
    let (addr, laddr) = (
        field(&mut clients[0], "addr"),
        field(&mut clients[0], "laddr"),
    );
    clients[0].run("CLIENT SETNAME one");
    clients[0].run("CLIENT SETINFO LIB-NAME lib");
    clients[0].run("CLIENT SETINFO LIB-VER 1.2");
    clients[0].run("CLIENT CAPA redirect");
    clients[1].run("SELECT 3");
    clients[1].run("SUBSCRIBE a");
    let (one, two) = (&ids[0], &ids[1]);
    for (asked, count) in [
        (format!("ID {one} {two}"), 2),
        (format!("ID {one} {two} TYPE normal"), 1),
        (format!("ID {one} NAME one"), 1),
        (format!("ID {two} NAME one"), 0),
        (format!("ADDR {addr}"), 1),
        (format!("LADDR {laddr}"), 3),
        ("IP 127.0.0.1".to_owned(), 3),
        ("IP 127.0.0.2".to_owned(), 0),
        ("DB 3".to_owned(), 1),
        ("FLAGS P".to_owned(), 1),
        ("FLAGS N NAME one LIB-NAME lib".to_owned(), 1),
        ("USER default".to_owned(), 3),
        ("SKIPME yes".to_owned(), 2),
        ("SKIPME no".to_owned(), 3),
        ("MAXAGE 1000000".to_owned(), 0),
        ("IDLE 1000000".to_owned(), 0),
        ("LIB-VER 1.2".to_owned(), 1),
        ("CAPA r".to_owned(), 1),
        (format!("NOT-ID {one} {two}"), 1),
        (format!("NOT-ID {one} NOT-TYPE normal"), 1),
        (format!("ID {one} ID {two}"), 2),
        (format!("NOT-ADDR {addr}"), 2),
        (format!("NOT-LADDR {laddr}"), 0),
        ("NOT-IP 127.0.0.1".to_owned(), 0),
        ("NOT-DB 3".to_owned(), 2),
        ("NOT-DB 3 NOT-NAME one".to_owned(), 1),
        ("NOT-FLAGS P".to_owned(), 2),
        ("NOT-FLAGS NP".to_owned(), 3),
        ("NOT-USER default".to_owned(), 0),
        ("NOT-LIB-NAME lib".to_owned(), 2),
        ("NOT-LIB-VER 1.2".to_owned(), 2),
        ("NOT-CAPA r".to_owned(), 2),
        // Nobody has given itself an empty name.
        ("NAME ".to_owned(), 0),
        ("LIB-NAME ".to_owned(), 0),
        ("LIB-VER ".to_owned(), 0),
        ("NOT-NAME ".to_owned(), 3),
    ] {
        let list = text(clients[2].run(&format!("CLIENT LIST {asked}")));
        assert_eq!(list.lines().count(), count, "{asked}: {list}");
    }
}

#[test]
fn what_is_wrong_about_a_filter_is_told() {
    let daemon = Daemon::start(&[]);
    Client::connect(&daemon).check(
        "CLIENT LIST ID => -ERR syntax error
        CLIENT LIST ID x => -ERR Invalid client ID
        CLIENT LIST ID 1 x => -ERR Invalid client ID
        CLIENT LIST NAME => -ERR syntax error
        CLIENT LIST WHO me => -ERR syntax error
        CLIENT LIST USER nobody => -ERR No such user 'nobody'
        CLIENT LIST DB x => -ERR DB is not an integer or out of range
        CLIENT LIST DB 16 => -ERR DB number should be between 0 and 15
        CLIENT LIST NOT-DB -1 => -ERR NOT-DB number should be between 0 and 15
        CLIENT KILL DB 99 => -ERR DB number should be between 0 and 15
        CLIENT LIST NOT-ID 0 => -ERR client-id should be greater than 0
        CLIENT LIST IDLE 0 => -ERR idle should be greater than 0
        CLIENT LIST IDLE x => -ERR idle is not an integer or out of range
        CLIENT LIST MAXAGE -1 => -ERR maxage should be greater than 0
        CLIENT LIST NOT-MAXAGE 1 => -ERR syntax error
        CLIENT LIST NOT-IDLE 1 => -ERR syntax error
        CLIENT LIST NOT-SKIPME yes => -ERR syntax error
        CLIENT LIST NOT-USER nobody => -ERR No such user 'nobody'
        CLIENT LIST CAPA x => -ERR Unknown capa found in the provided filter: x
        CLIENT LIST NOT-FLAGS ? => -ERR Unknown flags found in the NOT-FLAGS filter: ?
        CLIENT LIST FLAGS NZ => -ERR Unknown flags found in the provided filter: NZ",
    );
}

#[test]
fn connections_are_ended_by_what_they_are() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let address = field(&mut client, "addr");
    for kill in [
        "KILL ID {id}",
        "KILL ADDR {addr}",
        "KILL {addr}",
        "KILL ID {id} USER default",
    ] {
        let mut victim = Client::connect(&daemon);
        let (id, addr) = (id(&mut victim), field(&mut victim, "addr"));
        let kill = kill
            .replace("{id}", &id.to_string())
            .replace("{addr}", &addr);
        let answer = client.run(&format!("CLIENT {kill}"));
        let is_old = kill == format!("KILL {addr}");
        assert_eq!(answer, if is_old { ok() } else { Value::Integer(1) });
        assert!(victim.is_closed());
        assert!(!text(client.run("CLIENT LIST")).contains(&addr));
    }
    let mut victim = Client::connect(&daemon);
    victim.run("SUBSCRIBE channel");
    assert_eq!(client.run("CLIENT KILL TYPE pubsub"), Value::Integer(1));
    assert!(victim.is_closed());
    assert_eq!(client.run("CLIENT KILL MAXAGE 1000"), Value::Integer(0));
    let all = format!("CLIENT KILL LADDR {}", daemon.resp);
    assert_eq!(client.run(&all), Value::Integer(0));
    assert_eq!(
        client.run("CLIENT KILL 1.2.3.4:5"),
        error("ERR No such client")
    );
    let refused = error("ERR client-id should be greater than 0");
    assert_eq!(client.run("CLIENT KILL ID 0"), refused);
    assert_eq!(
        client.run("CLIENT KILL USER x"),
        error("ERR No such user 'x'")
    );
    assert_eq!(
        client.run("CLIENT KILL TYPE x"),
        error("ERR Unknown client type 'x'")
    );
    let own = format!("CLIENT KILL ADDR {address} SKIPME no");
    assert_eq!(client.run(&own), Value::Integer(1));
    assert!(client.is_closed());
}

#[test]
fn replies_are_given_as_they_are_wanted() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
    client.send(&[b"ECHO", b"skipped"]);
    assert_eq!(client.run("ECHO first"), bulk("first"));
    client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    client.send(&[b"ECHO", b"unheard"]);
    client.send(&[b"SET", b"key", b"value"]);
    client.send(&[b"NONSENSE"]);
    assert_eq!(client.run("CLIENT REPLY ON"), ok());
    assert_eq!(client.run("GET key"), bulk("value"));
    // What turns them on is answered, what fails is skipped as anything else, once.
    client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    assert_eq!(client.run("RESET"), Value::Simple("RESET".to_owned()));
    for skipped in ["RESET", "CLIENT REPLY FOO", "NONSENSE", "CLIENT ID"] {
        client.send(&[b"CLIENT", b"REPLY", b"SKIP"]);
        let words: Vec<&[u8]> = skipped.split(' ').map(str::as_bytes).collect();
        client.send(&words);
        assert_eq!(client.run("ECHO a"), bulk("a"), "{skipped}");
    }
    client.send(&[b"CLIENT", b"REPLY", b"OFF"]);
    client.send(&[b"MULTI"]);
    for queued in [b"UNSUBSCRIBE".as_slice(), b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"] {
        client.send(&[queued]);
    }
    client.send(&[b"DISCARD"]);
    assert_eq!(client.run("CLIENT REPLY ON"), ok());
}

#[test]
fn the_rest_is_answered_or_refused() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let blank = "ERR Client names cannot contain spaces, newlines or special characters.";
    assert_eq!(client.call(&[b"CLIENT", b"SETNAME", b"a b"]), error(blank));
    assert_eq!(client.run("CLIENT SETNAME name"), ok());
    assert_eq!(client.run("CLIENT GETNAME"), bulk("name"));
    let option = "ERR Unrecognized option 'lib-color'";
    assert_eq!(client.run("CLIENT SETINFO lib-color red"), error(option));
    for accepted in ["NO-EVICT on", "NO-TOUCH on", "UNPAUSE"] {
        assert_eq!(client.run(&format!("CLIENT {accepted}")), ok());
    }
    assert_eq!(field(&mut client, "flags"), "eT");
    assert_eq!(client.run("CLIENT UNBLOCK 1"), Value::Integer(0));
    let unknown = "ERR unknown subcommand 'x'. Try CLIENT HELP.";
    assert_eq!(client.run("CLIENT x"), error(unknown));
    assert!(matches!(client.run("CLIENT HELP"), Value::Array(lines) if lines.len() > 20));
}

#[test]
fn who_does_not_touch_keys_leaves_no_trace_of_reads() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.run("SET a b");
    client.run("RPUSH list x");
    let mut quiet = Client::connect(&daemon);
    quiet.check(
        "CLIENT NO-TOUCH on => +OK
        GET a => b
        MGET a a a => [b, b, b]
        STRLEN a => :1
        LRANGE list 0 -1 => [x]
        EVAL_RO return{redis.call('get','a')} 0 => [b]
        OBJECT FREQ a => :0
        OBJECT FREQ list => :0
        TOUCH a => :1
        OBJECT FREQ a => :1
        CLIENT NO-TOUCH off => +OK
        GET a => b
        OBJECT FREQ a => :2
        CLIENT NO-TOUCH on => +OK
        RESET => +RESET
        GET a => b
        OBJECT FREQ a => :3",
    );
}

#[test]
fn the_time_of_idle_connections_is_changed_while_it_runs() {
    let daemon = Daemon::start(&[]);
    let (mut idle, mut client) = (Client::connect(&daemon), Client::connect(&daemon));
    idle.run("PING");
    assert_eq!(client.run("CONFIG SET timeout 5"), ok());
    client.check("CONFIG GET timeout => [timeout, 5]");
    let mut text = daemon.connect();
    daemon::check(&mut text, b"stats settings\r\n", b"STAT maxbytes ");
    daemon.advance_until(
        "idle clients are closed",
        std::time::Duration::from_secs(1),
        || client.run("CLIENT LIST").shown().lines().count() == 1,
    );
    assert!(idle.is_closed());
    let refused = "ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must \
        be between 0 and 2147483647 inclusive";
    assert_eq!(client.run("CONFIG SET timeout -1"), error(refused));
    assert_eq!(client.run("CONFIG SET timeout 0"), ok());
    daemon.advance(std::time::Duration::from_millis(6_500));
    assert_eq!(client.run("PING").shown(), "+PONG");
}
