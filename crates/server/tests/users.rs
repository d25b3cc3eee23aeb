//! Users over all protocols: who may log in, and what each may do and see then.

use crate::support::wait::wait_until;
use crate::support::{daemon, http, resp, users};

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use cellar_protocol::memcached::command::COMMANDS;
use cellar_protocol::resp::command::{Command, Flags, TABLE};
use cellar_shared::auth::users::Role;

use daemon::Daemon;
use http::Http;
use resp::{Client, Value, check, error, ok};
use users::{UsersFile, hash, user};

/// A server with these users, and one event loop: what it answers tells that it has looked at all
/// that came before.
fn serve(file: &UsersFile) -> Daemon {
    let [users, path] = file.flags();
    Daemon::start(&["--threads", "1", &users, &path])
}

/// The same in a process of its own, which has a log.
fn spawn(file: &UsersFile) -> Daemon {
    let flags = file.flags();
    Daemon::spawn(&flags.each_ref().map(String::as_str))
}

/// A client who has logged in.
fn login(daemon: &Daemon, name: &str) -> Client {
    let mut client = Client::connect(daemon);
    assert_eq!(
        client.run(&format!("AUTH {name} {name}-pw")),
        ok(),
        "{name}"
    );
    client
}

/// A figure of `/metrics`, as an admin sees it.
fn metric(daemon: &Daemon, name: &str) -> u64 {
    let secret = BASE64_STANDARD.encode("root:root-pw");
    let field = format!("Authorization: Basic {secret}");
    let page = Http::to(daemon).ask("GET /metrics", &[&field], b"");
    let mut lines = page.text().lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found
        .unwrap_or_else(|| panic!("{name}: {}", page.text()))
        .parse()
        .unwrap()
}

#[test]
fn nobody_does_anything_before_a_login() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut client = Client::connect(&daemon);
    const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
    let no_auth = || error("NOAUTH Authentication required.");
    check(
        &mut client,
        &[
            ("GET a", no_auth()),
            ("SET a b", no_auth()),
            ("PING", no_auth()),
            ("ACL WHOAMI", no_auth()),
            ("AUTH reader writer-pw", error(WRONG)),
            ("AUTH reader-pw", error(WRONG)),
            ("GET a", no_auth()),
            ("AUTH reader reader-pw", ok()),
            ("ACL WHOAMI", resp::bulk("reader")),
            ("GET a", Value::Null),
            ("RESET", Value::Simple("RESET".to_owned())),
            ("GET a", no_auth()),
            ("HELLO 3 AUTH writer writer-pwx", error(WRONG)),
        ],
    );
    // A fourth guess in so short a time would be late.
    daemon.advance(Duration::from_secs(3));
    assert!(matches!(
        client.run("HELLO 3 AUTH writer writer-pw"),
        Value::Map(_)
    ));
    assert_eq!(client.run("SET a b"), ok());
    // A login that fails takes nothing away.
    assert_eq!(client.run("AUTH root x"), error(WRONG));
    assert_eq!(client.run("SET a b"), ok());
}

#[test]
fn what_comes_behind_a_login_waits_for_it() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut client = Client::connect(&daemon);
    let requests = "AUTH writer writer-pw\r\nSET k v\r\nGET k\r\nAUTH writer no\r\nGET k\r\n";
    client.send_raw(requests.as_bytes());
    let replies: Vec<String> = (0..5).map(|_| client.read().shown()).collect();
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(replies, ["+OK", "+OK", "v", wrong, "v"]);
}

/// The words of a command as it is called at least.
fn words(container: Option<&Command>, row: &Command) -> Vec<String> {
    let mut words: Vec<String> = container
        .map(|row| row.name.to_owned())
        .into_iter()
        .collect();
    words.push(row.name.to_owned());
    while words.len() < usize::from(row.arity.unsigned_abs()) {
        words.push("1".to_owned());
    }
    words
}

/// Every command and subcommand, as it is called at least.
fn all_commands() -> Vec<(&'static Command, Vec<String>)> {
    let mut all = Vec::new();
    for row in TABLE {
        all.push((row, words(None, row)));
        let subs = row.subcommands.iter();
        all.extend(subs.map(|sub| (sub, words(Some(row), sub))));
    }
    all
}

/// What a command needs at least, by what the table of commands says of it, and what it does not.
fn least(row: &Command, name: &str) -> Role {
    let container = name.split('|').next().unwrap_or_default();
    let is_script =
        matches!(
            container,
            "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro"
        ) || matches!(container, "script" | "function") && row.name != "help" && name.contains('|');
    let is_admin = row.flags.has(Flags::ADMIN)
        || is_script
        || matches!(
            name,
            "flushall" | "flushdb" | "swapdb" | "memory|purge" // All keys, whosever they are.
                | "cluster|countkeysinslot" | "cluster|getkeysinslot"
        );
    if is_admin {
        Role::Admin
    } else if row.flags.has(Flags::WRITE) || matches!(name, "publish" | "spublish") {
        Role::Write
    } else {
        Role::Read
    }
}

/// The answer to a command; one that waits for a second has it pass.
fn answered(daemon: &Daemon, client: &mut Client, args: &[&[u8]]) -> String {
    client.send(args);
    // What is not answered when another connection is, waits.
    Client::connect(daemon).run("PING");
    let mut answer = None;
    daemon.advance_until("a command is answered", Duration::from_secs(1), || {
        answer = client.try_read();
        answer.is_some()
    });
    answer.unwrap().shown()
}

#[test]
fn every_command_is_refused_to_whom_it_is_not_for() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    for (name, role) in [("reader", Role::Read), ("writer", Role::Write)] {
        let mut refused = 0;
        for (row, words) in all_commands() {
            let container = TABLE.iter().any(|one| std::ptr::eq(one, row));
            let full = if container {
                words[0].clone()
            } else {
                words[..2].join("|")
            };
            let mut client = login(&daemon, name);
            let args: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            if matches!(row.name, "reply") {
                continue;
            }
            let answer = answered(&daemon, &mut client, &args);
            let refusal =
                format!("-NOPERM User {name} has no permissions to run the '{full}' command");
            let is_refused = least(row, &full) > role;
            assert_eq!(answer == refusal, is_refused, "{full}: {answer}");
            assert!(
                is_refused || !answer.starts_with("-NOPERM"),
                "{full}: {answer}"
            );
            refused += usize::from(is_refused);
        }
        assert!(refused > 30, "{refused}");
    }
    let mut root = login(&daemon, "root");
    check(
        &mut root,
        &[
            ("SET a b", ok()),
            ("FLUSHALL", ok()),
            ("DBSIZE", Value::Integer(0)),
        ],
    );
}

#[test]
fn a_user_of_some_keys_uses_no_others() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut root = login(&daemon, "root");
    root.run("SET other x");
    let mut app = login(&daemon, "app");
    const KEY: &str = "-NOPERM No permissions to access a key";
    const DATABASE: &str = "-NOPERM No permissions to access a database";
    app.check(&format!(
        "SET app:a 1 => +OK
         GET app:a => 1
         GET other => {KEY}
         SET other y => {KEY}
         DEL app:a other => {KEY}
         MGET app:a other => {KEY}
         RENAME app:a other => {KEY}
         RENAME other app:a => {KEY}
         COPY app:a other => {KEY}
         SUNIONSTORE app:s other => {KEY}
         SINTERCARD 1 other => {KEY}
         BITOP OR app:b app:a other => {KEY}
         BITOP NOT other app:a => {KEY}
         BITFIELD other GET u8 0 => {KEY}
         PFADD other a => {KEY}
         SORT app:l STORE other => {KEY}
         SORT_RO other => {KEY}
         DUMP other => {KEY}
         RESTORE other 0 x => {KEY}
         SORT app:l BY w_* => -ERR BY option of SORT denied due to insufficient ACL permissions.
         SORT app:l GET w_* => -ERR GET option of SORT denied due to insufficient ACL permissions.
         SORT app:l BY nosort => []
         PFCOUNT app:a other => {KEY}
         PFMERGE app:a other => {KEY}
         ZUNION 2 app:z other => {KEY}
         ZUNIONSTORE other 1 app:z => {KEY}
         ZINTERSTORE app:z 2 app:y other => {KEY}
         ZRANGESTORE app:z other 0 -1 => {KEY}
         ZMPOP 2 app:z other MIN => {KEY}
         ZMOVE app:z other MIN => {KEY}
         ZMOVEMEMBER other app:z MEMBERS 1 a => {KEY}
         GEORADIUS app:g 1 1 1 m STORE other => {KEY}
         GEORADIUSBYMEMBER app:g m 1 m COUNT 1 StoreDist other => {KEY}
         GEOSEARCHSTORE other app:g FROMLONLAT 1 1 BYRADIUS 1 m => {KEY}
         WATCH other => {KEY}
         OBJECT FREQ other => {KEY}
         MEMORY USAGE other => {KEY}
         SELECT 1 => {DATABASE}
         SELECT 2 => +OK
         COPY app:a app:b DB 3 => {DATABASE}
         MOVE app:a 3 => {DATABASE}
         SELECT 0 => +OK
         COPY app:a app:b DB 2 => :1
         MULTI => +OK
         SET other y => {KEY}
         EXEC => -EXECABORT Transaction discarded because of previous errors."
    ));
    for part in [20_000, 2_000_000] {
        let value = vec![b'x'; part];
        assert_eq!(app.call(&[b"SET", b"app:large", &value]), ok());
        assert_eq!(app.call(&[b"SET", b"other", &value]).shown(), KEY);
        assert_eq!(
            app.call(&[b"SET", b"other", &value, b"EX", b"9"]).shown(),
            KEY
        );
    }
    assert_eq!(root.run("GET other"), resp::bulk("x"));
}

#[test]
fn scripts_are_for_admins_and_each_call_is_checked() {
    let text = user("root", "admin", "") + &user("half", "admin", "prefixes = [\"h:\"]");
    let file = UsersFile::new(&text);
    let daemon = serve(&file);
    let mut half = login(&daemon, "half");
    let mut run = |script: &str, key: &str| {
        half.call(&[b"EVAL", script.as_bytes(), b"1", key.as_bytes()])
            .shown()
    };
    assert_eq!(run("return redis.call('set', KEYS[1], 1)", "h:a"), "+OK");
    assert_eq!(
        run("return 1", "x"),
        "-NOPERM No permissions to access a key"
    );
    let hidden = run("return redis.call('get', 'x')", "h:a");
    assert!(
        hidden.starts_with("-NOPERM No permissions to access a key"),
        "{hidden}"
    );
    let flushed = run("return redis.call('flushall')", "h:a");
    assert!(
        flushed.starts_with("-NOPERM User half has no permissions"),
        "{flushed}"
    );
    let caught = run("return redis.pcall('keys', '*')", "h:a");
    assert_eq!(caught, "[h:a]");
    half.check(
        "FLUSHALL => -NOPERM User half has no permissions to run the 'flushall' command
         SLOWLOG GET => -NOPERM User half has no permissions to run the 'slowlog|get' command
         CONFIG SET a 1 => -NOPERM User half has no permissions to run the 'config|set' command",
    );
}

#[test]
fn libraries_are_for_admins_of_everything_and_calls_are_checked_as_scripts_are() {
    let text = user("root", "admin", "")
        + &user("half", "admin", "prefixes = [\"h:\"]")
        + &user("app", "write", "");
    let file = UsersFile::new(&text);
    let daemon = serve(&file);
    let mut root = login(&daemon, "root");
    let body = "return redis.call('set', args[1] or keys[1], 'v')";
    let source =
        format!("#!lua name=lib\nredis.register_function('put', function(keys, args) {body} end)");
    let loaded = root.call(&[b"FUNCTION", b"LOAD", source.as_bytes()]);
    assert_eq!(loaded, resp::bulk("lib"));
    let (mut half, mut app) = (login(&daemon, "half"), login(&daemon, "app"));
    half.check(
        "FCALL put 1 h:a => +OK
         FCALL put 1 x => -NOPERM No permissions to access a key
         FUNCTION LIST LIBRARYNAME x => []
         FUNCTION LIST LIBRARYNAME x withcode => -NOPERM User half has no permissions to run the \
         'function|list' command
         FUNCTION DUMP => -NOPERM User half has no permissions to run the 'function|dump' command
         FUNCTION DELETE lib => -NOPERM User half has no permissions to run the \
         'function|delete' command
         FUNCTION FLUSH => -NOPERM User half has no permissions to run the 'function|flush' command
         FUNCTION LOAD x => -NOPERM User half has no permissions to run the 'function|load' command
         FUNCTION RESTORE x => -NOPERM User half has no permissions to run the \
         'function|restore' command",
    );
    let hidden = half.run("FCALL put 1 h:a x").shown();
    assert!(
        hidden.starts_with("-NOPERM No permissions to access a key"),
        "{hidden}"
    );
    app.check(
        "FCALL put 1 h:a => -NOPERM User app has no permissions to run the 'fcall' command
         FCALL_RO put 1 h:a => -NOPERM User app has no permissions to run the 'fcall_ro' command
         FUNCTION LIST => -NOPERM User app has no permissions to run the 'function|list' command
         FUNCTION DUMP => -NOPERM User app has no permissions to run the 'function|dump' command
         FUNCTION STATS => -NOPERM User app has no permissions to run the 'function|stats' command",
    );
}

#[test]
fn users_are_told_as_redis_tells_them() {
    let text = user("root", "admin", "") + &user("app", "write", "prefixes = [\"app:\", \"b\"]");
    let file = UsersFile::new(&(text + &user("off", "read", "enabled = false")));
    let daemon = serve(&file);
    let mut root = login(&daemon, "root");
    const WRITER: &str = "-@all +@read +@write +@connection";
    let off = "user off off ~* &* -@all +@read +@connection";
    let (flags, channels) = (
        "flags, [on], passwords, []",
        "channels, &app:* &b*, databases, alldbs, selectors, []",
    );
    root.check(&format!(
        "ACL USERS => [app, off, root]
         ACL LIST => [user app on ~app:* ~b* &app:* &b* {WRITER}, {off}, user root on ~* &* +@all]
         ACL GETUSER app => [{flags}, commands, {WRITER}, keys, ~app:* ~b*, {channels}]
         ACL GETUSER nobody => nil
         ACL DRYRUN app SET app:k 1 => +OK
         ACL DRYRUN app GET k => User app has no permissions to access the 'k' key
         ACL DRYRUN app FLUSHALL => User app has no permissions to run the 'flushall' command
         ACL DRYRUN app CONFIG GET x => User app has no permissions to run the 'config|get' command
         ACL DRYRUN app PUBLISH news 1 => User app has no permissions to access the 'news' channel
         ACL DRYRUN nobody GET k => -ERR User 'nobody' not found
         ACL DRYRUN app nonsense => -ERR Command 'nonsense' not found
         AUTH off off-pw => -WRONGPASS invalid username-password pair or user is disabled.
         CLIENT KILL USER nobody => -ERR No such user 'nobody'
         CLIENT KILL USER app => :0"
    ));
    let list = root.run("CLIENT LIST").shown();
    assert!(list.contains(" user=root "), "{list}");
}

#[test]
fn a_pool_of_logins_costs_one_hash() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    assert_eq!(
        metric(&daemon, "cellar_password_hashes_total"),
        1,
        "of this question"
    );
    let mut clients: Vec<Client> = (0..1_000).map(|_| Client::connect(&daemon)).collect();
    for client in &mut clients {
        client.send(&[b"AUTH", b"writer", b"writer-pw"]);
    }
    for client in &mut clients {
        assert_eq!(client.read(), ok());
    }
    assert_eq!(metric(&daemon, "cellar_password_hashes_total"), 2);
    let right = metric(&daemon, "cellar_logins_total{result=\"right\"}");
    assert!(right > 1_000, "{right}");
}

#[test]
fn who_is_wrong_again_and_again_is_answered_late_and_logged_without_the_password() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    metric(&daemon, "cellar_password_hashes_total");
    let (mut client, mut other) = (Client::connect(&daemon), Client::connect(&daemon));
    // The first three cost no time; the others, and a right one behind them, wait.
    for attempt in 0..3 {
        let wrong = client.run(&format!("AUTH reader s3cret{attempt}")).shown();
        assert!(wrong.starts_with("-WRONGPASS"), "{wrong}");
    }
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
    for (password, delay_ms, answer) in [
        ("s3cret3", 125, WRONG),
        ("s3cret4", 250, WRONG),
        ("s3cret5", 500, WRONG),
        ("reader-pw", 1_000, "+OK"),
    ] {
        client.send(&[b"AUTH", b"reader", password.as_bytes()]);
        // Others are served meanwhile.
        let unknown = "-NOAUTH Authentication required.";
        assert_eq!(other.run("PING").shown(), unknown);
        daemon.advance(Duration::from_millis(delay_ms - 1));
        assert_eq!(client.try_read(), None, "{password}");
        daemon.advance(Duration::from_millis(1));
        assert_eq!(client.read().shown(), answer, "{password}");
    }
    // Once nobody from there is slowed any more.
    daemon.advance(Duration::from_secs(6));
    assert_eq!(metric(&daemon, "cellar_logins_slowed_total"), 4);
    assert_eq!(metric(&daemon, "cellar_logins_total{result=\"wrong\"}"), 6);
    check_log(&file);
}

/// Checks what the log says of logins that failed.
fn check_log(file: &UsersFile) {
    let daemon = spawn(file);
    let mut client = Client::connect(&daemon);
    for attempt in 0..3 {
        let wrong = client.run(&format!("AUTH reader s3cret{attempt}")).shown();
        assert!(wrong.starts_with("-WRONGPASS"), "{wrong}");
    }
    let lines: Vec<String> = (0..3)
        .flat_map(|_| daemon.log_until("login failed"))
        .collect();
    let failed: Vec<&String> = lines
        .iter()
        .filter(|line| line.contains("login failed"))
        .collect();
    assert!(
        failed
            .iter()
            .all(|line| line.contains("reader") && line.contains("127.0.0.1:"))
    );
    assert!(!lines.iter().any(|line| line.contains("s3cret")));
}

#[test]
fn a_connection_that_guesses_on_ends() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(&daemon)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&[b"AUTH", b"root", number.to_string().as_bytes()]);
    }
    // All have come when this one is answered.
    Client::connect(&daemon).run("PING");
    let mut answers = Vec::new();
    let mut wait_for_answers = |count: usize| {
        wait_until(
            || format!("{count} are answered"),
            || {
                let come = clients.iter_mut().filter_map(Client::try_read);
                answers.extend(come.map(|answer| answer.shown()));
                answers.len() >= count
            },
        );
    };
    // Three cost no time, and the others wait four seconds at most.
    wait_for_answers(3);
    daemon.advance(Duration::from_secs(4));
    wait_for_answers(40);
    let wrong = answers
        .iter()
        .filter(|answer| answer.starts_with("-WRONGPASS"))
        .count();
    let refused = answers
        .iter()
        .filter(|answer| answer.contains("too many wrong"))
        .count();
    assert_eq!(wrong + refused, 40, "{answers:?}");
    assert!(
        // One more each second.
        (30..=36).contains(&wrong),
        "{wrong} of many at once were compared"
    );
}

#[test]
fn the_file_is_read_anew_when_it_changes_and_a_bad_one_changes_nothing() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut writer = login(&daemon, "writer");
    let mut reader = login(&daemon, "reader");
    assert_eq!(writer.run("SET a 1"), ok());
    file.write("[[user]]\nname = \"x\"\n");
    daemon.advance(Duration::from_secs(1));
    let refused = || metric(&daemon, "cellar_users_reloads_total{result=\"refused\"}");
    wait_until("a refusal", || refused() == 1);
    assert_eq!(writer.run("SET a 2"), ok());
    // The writer becomes a reader, the reader gets another password.
    let text = user("root", "admin", "") + &user("writer", "read", "");
    let rotated = hash("new");
    let reader_row =
        format!("[[user]]\nname = \"reader\"\nrole = \"read\"\npasswords = [\"{rotated}\"]");
    file.write(&(text + &reader_row));
    daemon.hang_up();
    let done = || metric(&daemon, "cellar_users_reloads_total{result=\"done\"}");
    wait_until("a reload", || done() >= 1);
    assert!(reader.is_closed(), "its password is no longer one");
    assert!(writer.is_closed(), "it may no longer what it could");
    let mut client = Client::connect(&daemon);
    assert!(
        client
            .run("AUTH reader reader-pw")
            .shown()
            .starts_with("-WRONGPASS")
    );
    assert_eq!(client.run("AUTH reader new"), ok());
    assert_eq!(client.run("AUTH writer writer-pw"), ok());
    assert!(client.run("SET a 3").shown().starts_with("-NOPERM"));
}

/// A client of memcached's protocol who has logged in.
fn member(daemon: &Daemon, name: &str) -> TcpStream {
    let mut stream = daemon.connect();
    let secrets = format!("{name} {name}-pw");
    daemon::check(
        &mut stream,
        &daemon::set("any", secrets.as_bytes()),
        b"STORED\r\n",
    );
    stream
}

#[test]
fn memcached_begins_with_a_set_of_name_and_password() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut stream = daemon.connect();
    let mut check = |request: &[u8], answer: &str| {
        daemon::check(&mut stream, request, format!("{answer}\r\n").as_bytes());
    };
    check(b"get a\r\n", "CLIENT_ERROR unauthenticated");
    check(b"version\r\n", "CLIENT_ERROR unauthenticated");
    check(b"mn\r\n", "CLIENT_ERROR unauthenticated");
    check(
        &daemon::set("a", &vec![b'x'; 1_000_000]),
        "CLIENT_ERROR unauthenticated",
    );
    check(
        b"add a 0 0 16\r\nwriter writer-pw\r\n",
        "CLIENT_ERROR unauthenticated",
    );
    check(
        &daemon::set("a", b"writer reader-pw"),
        "CLIENT_ERROR authentication failure",
    );
    check(
        &daemon::set("a", b"writer"),
        "CLIENT_ERROR authentication failure",
    );
    // What comes behind it waits for it.
    let all = [
        &*daemon::set("a", b"writer writer-pw"),
        &daemon::set("a", b"1"),
        b"get a\r\n",
    ];
    check(&all.concat(), "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND");
    check(b"flush_all\r\n", "CLIENT_ERROR not permitted");
    check(b"stats reset\r\n", "CLIENT_ERROR not permitted");
    check(&daemon::set("a", &vec![b'x'; 1_000_000]), "STORED");
    daemon::check(&mut member(&daemon, "root"), b"flush_all\r\n", b"OK\r\n");
}

/// Sends requests that want no answer, one at a time, and gives the answer to the last one.
fn answer_behind(daemon: &Daemon, requests: &[&str]) -> String {
    let mut stream = TcpStream::connect(&daemon.address).unwrap();
    for request in requests {
        stream.write_all(request.as_bytes()).unwrap();
    }
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn memcached_answers_nothing_to_a_login_that_wants_no_answer() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let right = "set login 0 0 16 noreply\r\nwriter writer-pw\r\n";
    let wrong = "set login 0 0 16 noreply\r\nwriter wr0ng--pw\r\n";
    let unauthenticated = "CLIENT_ERROR unauthenticated\r\n";
    for (requests, expected) in [
        (&[right, "get k\r\n"][..], "END\r\n"),
        (&[right, "set k 0 0 1\r\nv\r\n"], "STORED\r\n"),
        (&[wrong, "get k\r\n"], unauthenticated),
        (&["delete k noreply\r\n", "get k\r\n"], unauthenticated),
        (&["touch k 0 noreply\r\n", right, "get none\r\n"], "END\r\n"),
        (&["flush_all noreply\r\n", wrong, "mn\r\n"], unauthenticated),
    ] {
        assert_eq!(answer_behind(&daemon, requests), expected, "{requests:?}");
    }
    // A value that is too long for a login is skipped, and as silent.
    let long = format!(
        "set login 0 0 100000 noreply\r\n{}\r\n",
        "x".repeat(100_000)
    );
    assert_eq!(
        answer_behind(&daemon, &[&long, right, "get none\r\n"]),
        "END\r\n"
    );
}

#[test]
fn memcached_tells_whether_it_asks_who_comes() {
    let file = UsersFile::of_roles();
    let (asks, free) = (serve(&file), Daemon::start(&[]));
    for (mut stream, expected) in [(member(&asks, "reader"), "yes"), (free.connect(), "no")] {
        stream.write_all(b"stats settings\r\n").unwrap();
        let lines = BufReader::new(stream).lines().map(Result::unwrap);
        let mut lines = lines.take_while(|line| line != "END");
        let told = lines.find(|line| line.starts_with("STAT auth_enabled_sasl "));
        assert_eq!(told.unwrap(), format!("STAT auth_enabled_sasl {expected}"));
    }
}

/// What memcached's commands need beyond reading, by their names: changes, and what is an admin's.
const CHANGES: [&str; 15] = [
    "gat", "gats", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr", "touch",
    "delete", "ms", "md", "ma",
];
const ADMINS: [&str; 1] = ["flush_all"];

#[test]
fn every_command_of_memcached_is_refused_to_whom_it_is_not_for() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    for (name, most) in [("reader", 0), ("writer", 1), ("root", 2)] {
        for command in COMMANDS.iter().filter(|command| command.name != "quit") {
            let words = command.syntax.split(' ').filter_map(|word| match word {
                "" | "<flag>*" => None,
                _ if word.starts_with('[') => None,
                "<class>" | "<bytes>" => Some("1"),
                _ if word.starts_with('<') => Some("1"),
                _ => Some(word.split('|').next().unwrap_or(word)),
            });
            let mut request = [command.name]
                .into_iter()
                .chain(words)
                .collect::<Vec<_>>()
                .join(" ");
            request.push_str("\r\n");
            if command.syntax.contains("<bytes>") {
                request.push_str("x\r\n");
            }
            let need = 2 * usize::from(ADMINS.contains(&command.name))
                + usize::from(CHANGES.contains(&command.name));
            let mut stream = BufReader::new(member(&daemon, name));
            stream.get_mut().write_all(request.as_bytes()).unwrap();
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            let is_refused = line == "CLIENT_ERROR not permitted\r\n";
            assert_eq!(is_refused, need > most, "{name}: {request}: {line}");
        }
    }
    // Flags with which a read changes something.
    let mut reader = member(&daemon, "reader");
    for flags in ["N30", "R30", "T30", "E7"] {
        let request = format!("mg a {flags}\r\n");
        daemon::check(
            &mut reader,
            request.as_bytes(),
            b"CLIENT_ERROR not permitted\r\n",
        );
    }
    daemon::check(&mut reader, b"delete a noreply\r\nmn\r\n", b"MN\r\n");
}

/// An Authorization field.
fn basic(name: &str, password: &str) -> String {
    let text = BASE64_STANDARD.encode(format!("{name}:{password}"));
    format!("Authorization: Basic {text}")
}

#[test]
fn http_asks_for_a_user_with_each_request() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut http = Http::to(&daemon);
    let refused = http.get("/v1/cache/a");
    assert_eq!((refused.status, &*refused.error()), (401, "unauthorized"));
    assert!(
        refused
            .field("www-authenticate")
            .starts_with("Basic realm=")
    );
    assert_eq!(http.get("/healthz").status, 200);
    assert_eq!(http.get("/metrics").status, 401);
    assert_eq!(http.get("/v1/console/status").status, 401);
    let (reader, writer) = (basic("reader", "reader-pw"), basic("writer", "writer-pw"));
    let mut ask = |line: &str, field: &str, body: &[u8]| {
        let response = http.ask(line, &[field, "Content-Type: application/json"], body);
        (response.status, response.body)
    };
    assert_eq!(ask("PUT /v1/cache/a", &writer, b"1").0, 204);
    assert_eq!(ask("GET /v1/cache/a", &reader, b""), (200, b"1".to_vec()));
    assert_eq!(
        ask("GET /v1/cache/a", &reader.replace("Basic", "Bearer"), b"").0,
        200
    );
    for (line, body) in [
        ("PUT /v1/cache/a", "2"),
        ("DELETE /v1/cache/a", ""),
        ("POST /v1/cache/a/incr", ""),
        ("POST /v1/cache/a/invalidate", ""),
        ("POST /v1/cache", r#"{"id":"a","content":1}"#),
        ("POST /v1/cache/batch/put", r#"{"items":[]}"#),
        ("DELETE /v1/console/key?key=a", ""),
    ] {
        assert_eq!(ask(line, &reader, body.as_bytes()).0, 403, "{line}");
        let allowed = ask(line, &writer, body.as_bytes()).0;
        assert!(
            allowed < 300 || line.contains("console"),
            "{line}: {allowed}"
        );
    }
    let large = vec![b'x'; 3_000_000];
    assert_eq!(ask("PUT /v1/cache/a", &writer, &large).0, 204);
    assert_eq!(
        ask("POST /v1/cache/batch/get", &reader, br#"{"ids":["a"]}"#).0,
        200
    );
    for line in [
        "GET /metrics",
        "GET /v1/console/history",
        "GET /v1/console/status",
        "GET /v1/console/key?key=a",
    ] {
        assert_eq!(ask(line, &reader, b"").0, 200, "{line}");
    }
    let mut guesser = Http::to(&daemon);
    let wrong = guesser.ask("GET /v1/cache/a", &[&basic("writer", "x")], b"");
    assert_eq!(wrong.status, 401);
    assert!(guesser.is_closed());
}

#[test]
fn http_keeps_a_user_to_its_keys() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    login(&daemon, "root").run("SET other x");
    let app = basic("app", "app-pw");
    let mut http = Http::to(&daemon);
    let mut ask = |line: &str, body: &[u8]| {
        let response = http.ask(line, &[&app, "Content-Type: application/json"], body);
        let code = if response.status == 403 {
            response.error()
        } else {
            String::new()
        };
        (response.status, code)
    };
    let refused = (403, "no_permission".to_owned());
    assert_eq!(ask("PUT /v1/cache/app:a", b"1").0, 204);
    for (line, body) in [
        ("GET /v1/cache/other", ""),
        ("GET /v1/cache/%6fther", ""),
        ("GET /v1/cache?id=other", ""),
        ("PUT /v1/cache/other", "1"),
        ("DELETE /v1/cache/other", ""),
        ("POST /v1/cache/other/incr", ""),
        ("POST /v1/cache", r#"{"id":"other","content":1}"#),
        ("POST /v1/cache/batch/get", r#"{"ids":["app:a","other"]}"#),
        (
            "POST /v1/cache/batch/put",
            r#"{"items":[{"id":"other","content":1}]}"#,
        ),
        ("GET /v1/console/key?key=other", ""),
        ("GET /v1/console/key?key=app:a&database=1", ""),
    ] {
        assert_eq!(ask(line, body.as_bytes()), refused, "{line}");
    }
    let large = vec![b'x'; 3_000_000];
    assert_eq!(ask("PUT /v1/cache/other", &large), refused);
}

#[test]
fn listings_show_a_user_its_own_keys() {
    let file = UsersFile::of_roles();
    let daemon = serve(&file);
    let mut root = login(&daemon, "root");
    for number in 0..300 {
        root.run(&format!("SET hidden:{number} x"));
    }
    root.run("SELECT 2");
    root.run("SET hidden:2 x");
    for _ in 0..200 {
        root.run("GET hidden:2");
    }
    let mut app = login(&daemon, "app");
    app.check(
        "SET app:a 1 => +OK
         KEYS * => [app:a]
         KEYS hidden:* => []
         SCAN 0 COUNT 1000 => [0, [app:a]]
         SCAN 0 COUNT 1000 MATCH hidden* => [0, []]
         DBSIZE => :301",
    );
    let drawn = app.run("RANDOMKEY");
    assert!(
        drawn == Value::Null || drawn == resp::bulk("app:a"),
        "{drawn:?}"
    );
    let mut text = String::new();
    for request in [
        "lru_crawler metadump all",
        "lru_crawler mgdump all",
        "stats cachedump 1 0",
        "stats hotkeys",
        "stats compression",
        "stats",
        "stats items",
        "stats settings",
    ] {
        let mut stream = BufReader::new(member(&daemon, "app"));
        stream
            .get_mut()
            .write_all(format!("{request}\r\nmn\r\n").as_bytes())
            .unwrap();
        let mut line = String::new();
        while line != "MN\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
            text.push_str(&line);
        }
    }
    let app_field = basic("app", "app-pw");
    for path in ["/metrics", "/v1/console/status"] {
        let response = Http::to(&daemon).ask(&format!("GET {path}"), &[&app_field], b"");
        assert_eq!(response.status, 200);
        text.push_str(response.text());
    }
    for command in [
        "INFO",
        "INFO everything",
        "COMMAND DOCS get",
        "MEMORY STATS",
        "CLIENT INFO",
    ] {
        text.push_str(&app.run(command).shown());
    }
    assert!(!text.contains("hidden"), "{text}");
    assert!(
        text.contains("mg app:a") && text.contains("key=app%3Aa"),
        "{text}"
    );
}

#[test]
fn messages_tell_a_user_of_its_own_keys() {
    let app = "prefixes = [\"app:\"]";
    let near = user("near", "write", app);
    let app = user("app", "write", &format!("{app}\ndatabases = [0, 2]"));
    let file = UsersFile::new(&[user("root", "admin", ""), app, near].concat());
    let daemon = serve(&file);
    let mut root = login(&daemon, "root");
    root.run("CONFIG SET notify-keyspace-events AKE");
    const CHANNEL: &str = "-NOPERM No permissions to access a channel";
    let mut app = login(&daemon, "app");
    app.check(&format!(
        "SUBSCRIBE news => {CHANNEL}
         SUBSCRIBE app:news news => {CHANNEL}
         SUBSCRIBE __keyevent@0__:set => {CHANNEL}
         SUBSCRIBE __keyspace@0__:other => {CHANNEL}
         SUBSCRIBE __keyspace@1__:app:a => {CHANNEL}
         PSUBSCRIBE * => {CHANNEL}
         PSUBSCRIBE __keyspace@0__:* => {CHANNEL}
         PUBLISH news x => {CHANNEL}
         PUBSUB NUMSUB news => {CHANNEL}
         PUBLISH app:news x => :0"
    ));
    let mut near = login(&daemon, "near");
    near.check(
        "CLIENT TRACKING ON REDIRECT 1 => -ERR The client ID you want redirect to does not exist
         CLIENT TRACKING ON BCAST PREFIX other => -NOPERM No permissions to access a key",
    );
    root.run("CLIENT NO-TOUCH on");
    let mut listener = login(&daemon, "root");
    assert!(matches!(
        listener.run("SUBSCRIBE secret-channel"),
        Value::Array(_)
    ));
    assert_eq!(app.run("PUBSUB CHANNELS").shown(), "[]");
    assert!(matches!(app.run("HELLO 3"), Value::Map(_)));
    assert!(matches!(near.run("HELLO 3"), Value::Map(_)));
    assert_eq!(near.run("CLIENT TRACKING ON BCAST"), ok());
    assert!(matches!(
        app.run("PSUBSCRIBE __keyspace@0__:app:*"),
        Value::Push(_)
    ));
    for key in ["other", "app:a"] {
        root.run(&format!("SET {key} 1"));
    }
    root.run("PUBLISH secret-channel hello");
    let event = "[pmessage, __keyspace@0__:app:*, __keyspace@0__:app:a, set]";
    assert_eq!(app.read().shown(), event);
    assert_eq!(near.read().shown(), "[invalidate, [app:a]]");
    // What is answered next was not preceded by anything else.
    assert_eq!(app.run("PING"), Value::Simple("PONG".to_owned()));
    assert_eq!(near.run("PING"), Value::Simple("PONG".to_owned()));
    assert_eq!(
        near.run("CLIENT TRACKINGINFO").shown(),
        "[flags, [on, bcast], redirect, :0, prefixes, [app:]]"
    );
}

#[test]
fn a_user_of_some_databases_hears_no_keys_of_others() {
    let one = user("one", "write", "databases = [1]");
    let file = UsersFile::new(&[user("root", "admin", ""), one].concat());
    let daemon = serve(&file);
    let mut one = login(&daemon, "one");
    assert!(matches!(one.run("HELLO 3"), Value::Map(_)));
    one.check("SELECT 1 => +OK");
    for options in ["", " BCAST", " BCAST PREFIX a"] {
        let reply = one.run(&format!("CLIENT TRACKING ON{options}")).shown();
        assert!(reply.starts_with("-NOPERM Tracking"), "{options}: {reply}");
        one.run("GET a");
        login(&daemon, "root").run("SET a secret");
        assert_eq!(one.run("PING"), Value::Simple("PONG".to_owned()));
    }
    one.check("CLIENT TRACKING OFF => +OK");
}

/// Has a connection of `wa` become one of `wb` between the end of `wa` and that of the connection;
/// none if it came too late.
fn outlive(file: &UsersFile, daemon: &Daemon, rest: &str, setup: &[&str]) -> Option<Client> {
    // A login before the reload would be a wrong one, and delay those of the next tries.
    let reloads = || metric(daemon, "cellar_users_reloads_total{result=\"done\"}");
    let before = reloads();
    file.write(&(user("wa", "write", "") + rest));
    daemon.hang_up();
    wait_until("a reload", || reloads() > before);
    let mut client = Client::connect(daemon);
    client.check("AUTH wa wa-pw => +OK");
    client.run("HELLO 3");
    setup.iter().for_each(|words| drop(client.run(words)));
    file.write(&(user("wa", "write", "enabled = false") + rest));
    daemon.hang_up();
    loop {
        client.send(&[b"GET", b"a"]);
        if client.is_closed() {
            return None;
        }
        if client.read().shown().starts_with("-NOAUTH") {
            break;
        }
    }
    client.send(&[b"AUTH", b"wb", b"wb-pw"]);
    (!client.is_closed() && client.read() == ok()).then_some(client)
}

/// How often a connection tries to come in between: on a busy machine it is late dozens of times.
const TRIES: usize = 150;

#[test]
fn what_a_user_has_set_up_ends_with_it() {
    let mut rest = user("root", "admin", "") + &user("wb", "write", "");
    // Who changes is looked for among many, which takes a while.
    let secret = hash("x");
    for number in 0..8_000 {
        let row = format!("name = \"u{number}\"\nrole = \"read\"\npasswords = [\"{secret}\"]");
        rest.push_str(&format!("[[user]]\n{row}\n"));
    }
    let file = UsersFile::new(&(user("wa", "write", "") + &rest));
    let daemon = spawn(&file);
    login(&daemon, "wb");
    let listens = ["SUBSCRIBE news", "CLIENT TRACKING ON BCAST"];
    let mut client = (0..TRIES)
        .find_map(|_| outlive(&file, &daemon, &rest, &listens))
        .unwrap();
    assert_eq!(
        client.run("CLIENT TRACKINGINFO").shown(),
        "[flags, [off], redirect, :-1, prefixes, []]"
    );
    let mut root = login(&daemon, "root");
    root.check("PUBLISH news x => :0");
    root.check("SET secret x => +OK");
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
    let mut client = (0..TRIES)
        .find_map(|_| outlive(&file, &daemon, &rest, &["WATCH b"]))
        .unwrap();
    let info = client.run("CLIENT INFO").shown();
    assert!(info.contains(" watch=0 "), "{info}");
}
