//! What an attacker tries on a server with users: to outlive them, to act on more than is theirs,
//! to keep others from logging in.

use crate::support::wait::{PATIENCE, wait_until};
use crate::support::{daemon, http, resp, users};

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::Signal;

use daemon::Daemon;
use http::Http;
use resp::{Client, Value, ok};
use users::{UsersFile, user};

/// A server with these users.
fn serve(file: &UsersFile, more: &[&str]) -> Daemon {
    let flags = file.flags();
    let flags = flags.iter().map(String::as_str);
    let flags: Vec<&str> = flags.chain(more.iter().copied()).collect();
    Daemon::spawn(&flags)
}

/// A client who has logged in.
fn login(daemon: &Daemon, name: &str) -> Client {
    let mut client = Client::connect(daemon);
    assert_eq!(client.run(&format!("AUTH {name} {name}-pw")), ok());
    client
}

/// The field of HTTP by which a user says who it is.
fn basic(name: &str) -> String {
    let secrets = BASE64_STANDARD.encode(format!("{name}:{name}-pw"));
    format!("Authorization: Basic {secrets}")
}

/// A figure of `/metrics`, as root sees it.
fn metric(daemon: &Daemon, name: &str) -> u64 {
    let page = Http::to(daemon).ask("GET /metrics", &[&basic("root")], b"");
    let mut lines = page.text().lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
}

/// All that comes until the connection's end, which has to come in time.
fn rest_of(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut rest = Vec::new();
    let end = stream.read_to_end(&mut rest);
    let is_reset = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionReset;
    assert!(
        end.is_ok() || end.is_err_and(|error| is_reset(&error)),
        "it goes on"
    );
    String::from_utf8_lossy(&rest).into_owned()
}

/// Length of values that are received straight into the cache's memory.
const LARGE_BYTES: usize = 1_000_000;

#[test]
fn a_value_under_way_ends_with_its_user() {
    let root = user("root", "admin", "");
    let file = UsersFile::new(&(root.clone() + &user("wa", "write", "")));
    let daemon = serve(&file, &[]);
    let begin = |mut stream: TcpStream, head: &str| {
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&vec![b'x'; LARGE_BYTES / 2]).unwrap();
        stream
    };
    let mut member = daemon.connect();
    daemon::check(&mut member, &daemon::set("any", b"wa wa-pw"), b"STORED\r\n");
    let member = begin(member, &format!("set m 0 0 {LARGE_BYTES}\r\n"));
    let field = basic("wa");
    let head =
        |rows: &str| format!("PUT /v1/cache/h HTTP/1.1\r\nHost: a\r\n{field}\r\n{rows}\r\n\r\n");
    let known = begin(
        daemon.connect_http(),
        &head(&format!("Content-Length: {LARGE_BYTES}")),
    );
    let chunks = head("Transfer-Encoding: chunked") + &format!("{LARGE_BYTES:x}\r\n");
    let chunked = begin(daemon.connect_http(), &chunks);
    let mut resp = daemon.connect_resp();
    daemon::check(&mut resp, b"AUTH wa wa-pw\r\n", b"+OK\r\n");
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nr\r\n${LARGE_BYTES}\r\n");
    let resp = begin(resp, &set);
    // It may be let in again, and something else then.
    file.write(&(root + &user("wa", "write", "prefixes = [\"wa:\"]")));
    daemon.signal(Signal::HUP);
    for mut stream in [member, known, chunked, resp] {
        let rest = rest_of(&mut stream);
        assert!(!rest.contains("STORED") && !rest.contains("+OK"), "{rest}");
    }
    login(&daemon, "root").check("EXISTS m h r => :0");
}

/// Length and number of values of which an answer has more than sockets and buffers hold.
const MANY: usize = 400;
const MANY_BYTES: usize = 60_000;
/// Size of the receive buffer of a client that does not read.
const SMALL_BUFFER_BYTES: usize = 256 << 10;

/// Stores them, each as long as the others and all of this letter.
fn store_many(daemon: &Daemon, letter: u8) {
    let mut root = login(daemon, "root");
    for number in 0..MANY {
        let (key, value) = (format!("app:{number}"), vec![letter; MANY_BYTES]);
        root.send(&[b"SET", key.as_bytes(), &value]);
        assert_eq!(root.read(), ok());
    }
}

/// The same connection, for which the kernel does not hold a whole answer.
fn bounded(stream: TcpStream) -> TcpStream {
    set_socket_recv_buffer_size(&stream, SMALL_BUFFER_BYTES).unwrap();
    stream
}

#[test]
fn an_answer_under_way_ends_with_its_user() {
    let root = user("root", "admin", "");
    let wa = user("wa", "write", "prefixes = [\"app:\"]");
    let file = UsersFile::new(&(root.clone() + &wa));
    let daemon = serve(&file, &["--memory", "128MiB"]);
    let mut keys = login(&daemon, "root");
    // The shortest of the answers has to exceed what the kernel may hold for a connection: the
    // buffer of this side, and up to 4 MiB of the server's.
    for thousand in 0..100 {
        let pairs = (0..1_000).map(|number| format!(" app:{thousand}.{number}{0:0>80} v", ""));
        keys.run(&format!("MSET{}", pairs.collect::<String>()));
    }
    store_many(&daemon, b'o');
    let names: Vec<String> = (0..MANY).map(|number| format!("app:{number}")).collect();
    let member = || {
        let mut stream = bounded(daemon.connect());
        daemon::check(&mut stream, &daemon::set("any", b"wa wa-pw"), b"STORED\r\n");
        stream
    };
    let mut under_way = Vec::new();
    for request in [
        format!("get {}\r\n", names.join(" ")),
        format!("gat 1000 {}\r\n", names.join(" ")),
        "lru_crawler metadump all\r\n".to_owned(),
        "lru_crawler mgdump all\r\n".to_owned(),
    ] {
        let mut stream = member();
        stream.write_all(request.as_bytes()).unwrap();
        under_way.push(stream);
    }
    let mut packets = bounded(daemon.connect());
    packets
        .write_all(&packet(0x21, b"PLAIN", b"\0wa\0wa-pw"))
        .unwrap();
    let mut head = [0; 24];
    packets.read_exact(&mut head).unwrap();
    let many = names.iter().map(|name| packet(0x00, name.as_bytes(), b""));
    packets
        .write_all(&many.collect::<Vec<_>>().concat())
        .unwrap();
    under_way.push(packets);
    let ids = format!("{{\"ids\":[\"{}\"]}}", names.join("\",\""));
    let mut http = bounded(daemon.connect_http());
    let head = format!(
        "POST /v1/cache/batch/get HTTP/1.1\r\nHost: a\r\n{}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{ids}",
        basic("wa"),
        ids.len()
    );
    http.write_all(head.as_bytes()).unwrap();
    under_way.push(http);
    let mut mget = bounded(daemon.connect_resp());
    daemon::check(&mut mget, b"AUTH wa wa-pw\r\n", b"+OK\r\n");
    mget.write_all(format!("MGET {}\r\n", names.join(" ")).as_bytes())
        .unwrap();
    under_way.push(mget);
    // Each has begun to answer.
    for stream in &under_way {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(stream.peek(&mut [0]).unwrap() > 0);
    }
    replace(&file, &root, &daemon, "mark1");
    store_many(&daemon, b'n');
    for number in 0..1_000 {
        keys.run(&format!("SET app:late.{number} v"));
    }
    for (place, mut stream) in under_way.into_iter().enumerate() {
        let rest = rest_of(&mut stream);
        assert!(!rest.contains("nnnnnnnn"), "{place}: a value of later");
        assert!(!rest.contains("late"), "{place}: a key of later");
    }
    keys.check("TTL app:399 => :-1");
}

/// A packet of memcached's binary protocol.
fn packet(opcode: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x80, opcode];
    packet.extend_from_slice(&(key.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0; 4]);
    packet.extend_from_slice(&((key.len() + value.len()) as u32).to_be_bytes());
    packet.extend_from_slice(&[0; 12]);
    packet.extend_from_slice(key);
    packet.extend_from_slice(value);
    packet
}

#[test]
fn scripts_that_one_user_loads_leave_those_of_others() {
    let some = user("some", "admin", "prefixes = [\"app:\"]");
    let file = UsersFile::new(&(user("root", "admin", "") + &some));
    let daemon = serve(&file, &[]);
    let mut root = login(&daemon, "root");
    let Value::Bulk(digest) = root.run("SCRIPT LOAD return") else {
        panic!("it is not loaded");
    };
    let mut some = login(&daemon, "some");
    for number in 0..40 {
        let source = format!("--{number}\n--{}\nreturn 1", "x".repeat(500_000));
        some.call(&[b"SCRIPT", b"LOAD", source.as_bytes()]);
    }
    for _ in 0..2 {
        assert_eq!(root.call(&[b"EVALSHA", &digest, b"0"]), Value::Null);
    }
}

#[test]
fn an_admin_of_some_keys_acts_on_nothing_of_others() {
    let some = "prefixes = [\"app:\"]";
    let rows = [
        user("root", "admin", ""),
        user("some", "admin", some),
        user("one", "admin", "databases = [0]"),
    ];
    let file = UsersFile::new(&rows.concat());
    let daemon = serve(&file, &[]);
    let mut root = login(&daemon, "root");
    for name in ["some", "one"] {
        let mut client = login(&daemon, name);
        for words in [
            "SCRIPT FLUSH",
            "SCRIPT KILL",
            "FUNCTION FLUSH",
            "CLIENT UNPAUSE",
            "CLIENT PAUSE 1",
            "CLIENT UNBLOCK 1",
            "CLIENT KILL 1.2.3.4:5",
            "FLUSHALL",
            "FLUSHDB",
            "CONFIG SET slowlog-max-len 1",
            "CONFIG RESETSTAT",
            "SHUTDOWN",
            "SLOWLOG RESET",
        ] {
            let reply = client.run(words).shown();
            assert!(
                reply.starts_with("-NOPERM User"),
                "{name}: {words}: {reply}"
            );
        }
        let list = client.run("CLIENT LIST").shown();
        assert!(list.contains(&format!("user={name}")), "{list}");
        assert_eq!(list.matches("user=").count(), 1, "{list}");
        assert!(
            client
                .run("CONFIG GET maxmemory")
                .shown()
                .contains("maxmemory")
        );
        assert_eq!(client.run("EVAL return(1) 0").shown(), ":1");
    }
    let list = root.run("CLIENT LIST").shown();
    assert!(list.contains("user=root"), "{list}");
    root.check("SCRIPT FLUSH => +OK");
}

#[test]
fn an_admin_of_some_keys_has_nobody_else_told() {
    let some = "prefixes = [\"app:\"]";
    let rows = [user("root", "admin", ""), user("some", "admin", some)];
    let file = UsersFile::new(&rows.concat());
    let daemon = serve(&file, &[]);
    let mut listeners = ["root", "some"].map(|name| {
        let mut listener = login(&daemon, name);
        listener.run("HELLO 3");
        let number = listener.run("CLIENT ID").shown();
        (listener, number.trim_start_matches(':').to_owned())
    });
    let mut client = login(&daemon, "some");
    client.run("HELLO 3");
    let others = &listeners[0].1;
    for number in [others, "4711"] {
        client.check(&format!(
            "CLIENT TRACKING ON BCAST REDIRECT {number} => \
             -ERR The client ID you want redirect to does not exist"
        ));
    }
    client.check("CLIENT TRACKINGINFO => [flags, [off], redirect, :-1, prefixes, []]");
    // Its own connections hear of its own keys.
    let own = &listeners[1].1;
    client.check(&format!("CLIENT TRACKING ON BCAST REDIRECT {own} => +OK"));
    login(&daemon, "some").check("SET app:1 v => +OK");
    assert_eq!(listeners[1].0.read().shown(), "[invalidate, [app:1]]");
    listeners[0].0.check("PING => +PONG");
    // Nor does it stay while others are closed for memory.
    let reply = client.run("CLIENT NO-EVICT on").shown();
    assert!(reply.starts_with("-NOPERM User"), "{reply}");
}

/// Gives the server another file of users, and waits until it has read it. `root` stays the same,
/// and a user of this name tells that it was read.
fn replace(file: &UsersFile, text: &str, daemon: &Daemon, mark: &str) {
    file.write(&(user(mark, "read", "") + text));
    daemon.signal(Signal::HUP);
    let mut root = login(daemon, "root");
    wait_until("the file of users is read", || {
        root.run("ACL USERS").shown().contains(mark)
    });
}

/// A user whose passwords have these hashes.
fn with_hashes(name: &str, role: &str, hashes: &[&str]) -> String {
    let hashes = hashes.join("\", \"");
    format!("[[user]]\nname = \"{name}\"\nrole = \"{role}\"\npasswords = [\"{hashes}\"]\n")
}

/// Connections on which `wa` is logged in: text, packets, HTTP, RESP.
struct Kept {
    text: TcpStream,
    packets: TcpStream,
    http: Http,
    resp: Client,
    field: String,
}

impl Kept {
    fn with(daemon: &Daemon, password: &str) -> Kept {
        let mut text = daemon.connect();
        let secrets = format!("wa {password}");
        daemon::check(
            &mut text,
            &daemon::set("any", secrets.as_bytes()),
            b"STORED\r\n",
        );
        let mut packets = daemon.connect();
        let plain = format!("\0wa\0{password}");
        assert_eq!(
            status(&mut packets, &packet(0x21, b"PLAIN", plain.as_bytes())),
            0
        );
        let mut resp = Client::connect(daemon);
        assert_eq!(resp.run(&format!("AUTH wa {password}")), ok());
        let secrets = BASE64_STANDARD.encode(format!("wa:{password}"));
        let mut kept = Kept {
            text,
            packets,
            http: Http::to(daemon),
            resp,
            field: format!("Authorization: Basic {secrets}"),
        };
        kept.go_on();
        kept
    }

    fn put(&mut self) -> u16 {
        self.http
            .ask("PUT /v1/cache/k", &[&self.field], b"v")
            .status
    }

    fn go_on(&mut self) {
        daemon::check(&mut self.text, &daemon::set("k", b"v"), b"STORED\r\n");
        assert_eq!(status(&mut self.packets, &packet(0x00, b"k", b"")), 0);
        assert_eq!(self.put(), 204);
        self.resp.check("SET k v => +OK");
    }

    /// None of them is anybody's any more; what comes over HTTP is a login by itself.
    fn are_over(&mut self, http: u16) {
        let unknown = b"CLIENT_ERROR unauthenticated\r\n";
        daemon::check(&mut self.text, b"flush_all\r\n", unknown);
        assert_eq!(status(&mut self.packets, &packet(0x08, b"", b"")), 0x20);
        assert_eq!(self.put(), http);
        assert!(self.resp.is_closed());
    }
}

/// The status that a packet is answered with.
fn status(stream: &mut TcpStream, packet: &[u8]) -> u8 {
    stream.write_all(packet).unwrap();
    let mut head = [0; 24];
    stream.read_exact(&mut head).unwrap();
    let rest = u32::from_be_bytes(head[8..12].try_into().unwrap());
    stream.read_exact(&mut vec![0; rest as usize]).unwrap();
    head[7]
}

#[test]
fn a_login_ends_with_its_password() {
    let root = user("root", "admin", "");
    let [old, new] = ["old", "new"].map(users::hash);
    let wa = |hashes: &[&str]| root.clone() + &with_hashes("wa", "write", hashes);
    let file = UsersFile::new(&wa(&[&old]));
    let daemon = serve(&file, &[]);
    let mut first = Kept::with(&daemon, "old");
    replace(&file, &wa(&[&new, &old]), &daemon, "mark1");
    // Beside another it is still one.
    first.go_on();
    let mut second = Kept::with(&daemon, "new");
    replace(&file, &wa(&[&new]), &daemon, "mark2");
    first.are_over(401);
    second.go_on();
}

#[test]
fn a_user_who_is_made_anew_inherits_no_connection() {
    let root = user("root", "admin", "");
    let [old, new] = ["old", "new"].map(users::hash);
    let with = |rows: &str| root.clone() + rows;
    let before = with(&with_hashes("wa", "write", &[&old]));
    let gone = with("");
    let off = with(&(with_hashes("wa", "write", &[&old]) + "enabled = false\n"));
    for (between, after, http) in [
        (&gone, with_hashes("wa", "admin", &[&new]), 401),
        // The same password lets in who says it with each request.
        (&gone, with_hashes("wa", "admin", &[&old]), 204),
        (&off, with_hashes("wa", "write", &[&old]), 204),
        (&before, with_hashes("wa", "admin", &[&new]), 401),
    ] {
        let file = UsersFile::new(&before);
        let daemon = serve(&file, &[]);
        let mut kept = Kept::with(&daemon, "old");
        replace(&file, between, &daemon, "mark1");
        // Nothing was asked meanwhile.
        replace(&file, &with(&after), &daemon, "mark2");
        kept.are_over(http);
    }
}

#[test]
fn a_client_waits_no_longer_than_its_user_is_there() {
    let root = user("root", "admin", "");
    let file = UsersFile::new(&(root.clone() + &user("wa", "write", "")));
    let daemon = serve(&file, &[]);
    let mut waiter = login(&daemon, "wa");
    waiter.send(&[b"BLPOP", b"q", b"0"]);
    let mut other = login(&daemon, "root");
    wait_until("a client waits", || {
        let clients = other.run("INFO clients").shown();
        clients.contains("blocked_clients:1")
    });
    replace(&file, &root, &daemon, "mark1");
    other.check("RPUSH q v => :1\nLLEN q => :1");
    assert!(waiter.is_closed());
}

#[test]
fn a_refused_file_is_not_repeated_in_the_log() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file, &[]);
    login(&daemon, "root");
    let hash = users::hash("x");
    file.write(&format!(
        "[[user]]\nname = \"a\"\nrole = \"read\"\npasswords = \"{hash}\"\n"
    ));
    daemon.signal(Signal::HUP);
    let lines = daemon.log_until("the users file is not valid");
    let told = lines.last().unwrap();
    assert!(
        told.contains("line 4: passwords expects a sequence"),
        "{told}"
    );
    assert!(!lines.concat().contains("argon2id"), "{told}");
}

#[test]
fn the_console_shows_a_key_of_the_database_that_is_asked_for() {
    let rows = [
        user("root", "admin", ""),
        user("two", "read", "databases = [2]"),
    ];
    let file = UsersFile::new(&rows.concat());
    let daemon = serve(&file, &[]);
    login(&daemon, "root").check("SELECT 2 => +OK\nSET a 1 => +OK");
    let mut http = Http::to(&daemon);
    let mut ask = |query: &str| {
        http.ask(
            &format!("GET /v1/console/key?{query}"),
            &[&basic("two")],
            b"",
        )
    };
    let page = ask("key=a&database=2");
    assert!(page.text().contains("\"found\":true"), "{}", page.text());
    for query in ["key=a", "key=a&database=0", "key=a&database=1"] {
        assert_eq!(ask(query).status, 403, "{query}");
    }
}

#[test]
fn who_hears_in_the_place_of_another_hears_no_more_as_another_user() {
    let rows = [
        user("root", "admin", ""),
        user("wa", "write", ""),
        user("wb", "write", ""),
    ];
    let file = UsersFile::new(&rows.concat());
    let daemon = serve(&file, &[]);
    for leave in ["AUTH wb wb-pw", "RESET"] {
        let mut listener = login(&daemon, "wa");
        listener.run("HELLO 3");
        let number = listener.run("CLIENT ID").shown();
        let mut reader = login(&daemon, "wa");
        reader.run("HELLO 3");
        let on = format!(
            "CLIENT TRACKING ON BCAST REDIRECT {}",
            number.trim_start_matches(':')
        );
        assert_eq!(reader.run(&on), ok());
        let mut writer = login(&daemon, "wa");
        writer.check("SET secret 1 => +OK");
        let told = listener.read().shown();
        assert!(told.contains("secret"), "{told}");
        listener.run(leave);
        writer.check("SET secret 2 => +OK");
        let broken = reader.read().shown();
        assert!(broken.contains("tracking-redir-broken"), "{broken}");
        listener.run("AUTH wb wb-pw");
        listener.check("PING => +PONG");
    }
}

/// Streams on each of which a login came that takes long, as its user is none.
fn guessers(daemon: &Daemon, count: usize) -> Vec<TcpStream> {
    let guess = |number: usize| {
        let mut stream = daemon.connect();
        stream
            .write_all(&daemon::set("a", format!("nobody{number} x").as_bytes()))
            .unwrap();
        stream
    };
    (0..count).map(guess).collect()
}

#[test]
fn passwords_of_connections_that_are_gone_are_not_compared() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file, &["--threads", "1"]);
    assert_eq!(login(&daemon, "root").run("PING").shown(), "+PONG");
    let before = metric(&daemon, "cellar_password_hashes_total");
    for stream in guessers(&daemon, 50) {
        // Bytes that nobody takes turn the end into a reset.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    }
    let open = "cellar_open_connections{protocol=\"memcached\"}";
    wait_until("their ends are seen", || metric(&daemon, open) == 0);
    let compared = metric(&daemon, "cellar_password_hashes_total") - before;
    assert!(compared < 25, "{compared}");
}

#[test]
fn a_script_takes_nothing_from_what_its_client_tracks() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    client.check(
        "CLIENT TRACKING ON BCAST PREFIX a: => +OK
         EVAL return(1) 0 => :1
         CLIENT TRACKINGINFO => [flags, [on, bcast], redirect, :0, prefixes, [a:]]
         CLIENT TRACKING OFF => +OK",
    );
}

#[test]
fn a_hangup_ends_no_server_that_has_nothing_to_read_anew() {
    let daemon = Daemon::spawn(&[]);
    daemon.signal(Signal::HUP);
    let told = daemon.log_until("SIGHUP").pop().unwrap();
    assert!(
        told.contains("no settings file, certificates or users file"),
        "{told}"
    );
    Client::connect(&daemon).check("PING => +PONG");
}

#[test]
fn what_a_browser_is_made_to_send_to_another_port_is_not_run() {
    let file = UsersFile::of_roles();
    let daemons = [Daemon::spawn(&[]), serve(&file, &[])];
    for (daemon, verb) in daemons
        .iter()
        .flat_map(|daemon| ["GET", "POST", "PUT", "OPTIONS"].map(|verb| (daemon, verb)))
    {
        let head = format!("{verb} / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let login = "set any 0 0 12\r\nroot root-pw\r\n";
        let request = format!("{head}{login}set smuggled 0 0 1\r\nx\r\n");
        let mut stream = daemon.connect();
        stream.write_all(request.as_bytes()).unwrap();
        assert!(!rest_of(&mut stream).contains("STORED"), "{verb}");
        let mut stream = daemon.connect_resp();
        let request = format!("{head}AUTH root root-pw\r\nSET smuggled x\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        assert!(!rest_of(&mut stream).contains("+OK"), "{verb}");
    }
}
