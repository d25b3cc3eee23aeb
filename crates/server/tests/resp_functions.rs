//! Functions over a socket: libraries and what they register, calls, dumps, who sees what, and what
//! a library can do to the server.

use crate::support::{daemon, resident, resp};

use std::sync::atomic::{AtomicBool, Ordering};

use daemon::Daemon;
use resident::occupied_bytes;
use resp::{Client, Value, bulk, bulks, ok};

/// A library with one function.
fn library(name: &str, function: &str, body: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{function}', function(keys, args) {body} end)"
    )
}

fn load(client: &mut Client, source: &str) -> Value {
    client.call(&[b"FUNCTION", b"LOAD", source.as_bytes()])
}

fn replace(client: &mut Client, source: &str) -> Value {
    client.call(&[b"FUNCTION", b"LOAD", b"REPLACE", source.as_bytes()])
}

/// Loads a library that says so much, by the name `lib`.
fn load_lib(client: &mut Client, program: &str) -> String {
    replace(client, &format!("#!lua name=lib\n{program}")).shown()
}

fn client_of(daemon: &Daemon) -> Client {
    Client::connect(daemon)
}

#[test]
fn a_library_is_loaded_listed_called_replaced_and_deleted() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    let first = "#!lua name=shop\n\
        local function price(keys, args) return redis.call('hget', keys[1], args[1]) end\n\
        redis.register_function('put', function(keys, args)\n\
            return redis.call('hset', keys[1], args[1], args[2]) end)\n\
        redis.register_function{function_name='price', callback=price, description='What it \
        costs',\n\
            flags={'no-writes', 'allow-oom'}}";
    assert_eq!(load(&mut client, first), bulk("shop"));
    client.check(
        "FCALL put 1 goods tea 3 => :1
         FCALL PRICE 1 goods tea => 3
         FCALL_RO price 1 goods tea => 3
         FCALL_RO put 1 goods tea 3 => -ERR Can not execute a script with write flag using *_ro \
         command.
         FCALL cost 0 => -ERR Function not found
         FCALL put x => -ERR Bad number of keys provided
         FCALL put -1 => -ERR Number of keys can't be negative
         FCALL put 1 => -ERR Number of keys can't be greater than number of args
         FUNCTION LIST => [[library_name, shop, engine, LUA, functions, [[name, put, \
         description, nil, flags, []], [name, price, description, What it costs, flags, \
         [+no-writes, +allow-oom]]]]]
         FUNCTION LIST LIBRARYNAME S?OP => [[library_name, shop, engine, LUA, functions, [[name, \
         put, description, nil, flags, []], [name, price, description, What it costs, flags, \
         [+no-writes, +allow-oom]]]]]
         FUNCTION LIST LIBRARYNAME x* WITHCODE => []
         FUNCTION LIST LIBRARYNAME => -ERR library name argument was not given
         FUNCTION LIST WITHCODE WITHCODE => -ERR Unknown argument WITHCODE
         FUNCTION STATS => [running_script, nil, engines, [LUA, [libraries_count, :1, \
         functions_count, :2]]]
         SCRIPT FLUSH => +OK
         FCALL price 1 goods tea => 3",
    );
    let code = client.run("FUNCTION LIST WITHCODE").shown();
    assert!(code.contains(&format!("library_code, {first}")), "{code}");
    let again = load(&mut client, first).shown();
    assert_eq!(again, "-ERR Library 'shop' already exists");
    let other = load(&mut client, &library("other", "PUT", "return 1")).shown();
    assert_eq!(other, "-ERR Function PUT already exists");
    let second = library("shop", "put", "return 'second'");
    assert_eq!(replace(&mut client, &second), bulk("shop"));
    client.check(
        "FCALL put 0 => second
         FCALL price 0 => -ERR Function not found
         FUNCTION DELETE nosuch => -ERR Library not found
         FUNCTION DELETE shop => +OK
         FCALL put 0 => -ERR Function not found
         FUNCTION LIST => []
         FUNCTION FLUSH ASYNC => +OK
         FUNCTION FLUSH SYNC x => -ERR unknown subcommand or wrong number of arguments for \
         'FLUSH'. Try FUNCTION HELP.
         FUNCTION FLUSH x => -ERR FUNCTION FLUSH only supports SYNC|ASYNC option
         FUNCTION KILL => -NOTBUSY No scripts in execution right now.",
    );
}

#[test]
fn what_is_no_library_is_refused_in_redis_words() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    const NAMES: &str = "Library names can only contain letters, numbers, or underscores(_) and \
        must be at least one character long";
    for (source, text) in [
        ("return 1", "Missing library metadata"),
        ("#!lua name=a", "Invalid library metadata"),
        ("#!lua\nreturn 1", "Library name was not given"),
        ("#!lua name=a-b\nreturn 1", NAMES),
        ("#!lua name=a x=1\n", "Invalid metadata value given: x=1"),
        ("#!js name=a\nreturn 1", "Engine 'js' not found"),
        ("#!lua name=a\nreturn 1", "No functions registered"),
        (
            "#!lua name=a\nfoo bar",
            "Error compiling function: user_function:2: '=' expected near 'bar'",
        ),
        (
            "#!lua name=a\n\nlocal a = 1 + {}",
            "Error registering functions: ERR user_function:3: attempt to perform arithmetic on a \
             table value",
        ),
    ] {
        assert_eq!(load(&mut client, source).shown(), format!("-ERR {text}"));
    }
    client.check(
        "FUNCTION LOAD FOO x => -ERR Unknown option given: FOO
         FUNCTION LOAD => -ERR wrong number of arguments for 'function|load' command
         FUNCTION LIST => []",
    );
}

#[test]
fn a_library_sees_nothing_but_the_means_to_register() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    let missing = |name: &str| {
        format!(
            "-ERR Error registering functions: ERR user_function:2: Script attempted to access \
             nonexistent global variable '{name}'"
        )
    };
    for (program, name) in [
        ("redis.call('get', 'x')", "call"),
        ("redis.pcall('get', 'x')", "pcall"),
        ("redis.setresp(3)", "setresp"),
        ("redis.sha1hex('')", "sha1hex"),
        ("return KEYS[1]", "KEYS"),
        ("error('x')", "error"),
        ("return math.random()", "math"),
        ("return os.clock()", "os"),
        ("return loadstring('return 1')", "loadstring"),
        ("setmetatable({}, {})", "setmetatable"),
        ("rawset(_G, 'x', 1)", "rawset"),
    ] {
        assert_eq!(load_lib(&mut client, program), missing(name), "{program}");
    }
    for program in ["x = 1", "redis.x = 1", "function f() end"] {
        assert_eq!(
            load_lib(&mut client, program),
            "-ERR Error registering functions: ERR user_function:2: Attempt to modify a readonly \
             table"
        );
    }
    // What a library has taken from there is of no use later.
    let kept = load_lib(
        &mut client,
        "local kept, register = redis, redis.register_function\n\
         redis.register_function('call', function() return kept.call('ping') end)\n\
         redis.register_function('register', function() register('x', function() end) end)\n\
         redis.register_function('say', function() return redis.LOG_NOTICE end)\n\
         redis.log(redis.LOG_NOTICE, redis.REDIS_VERSION, 'loaded')",
    );
    assert_eq!(kept, "lib");
    client.check(
        "FCALL call 0 => -ERR user_function:3: Script attempted to access nonexistent global \
        variable 'call' script: call, on @user_function:3.
         FCALL register 0 => -ERR redis.register_function can only be called on FUNCTION LOAD \
         command script: register, on @user_function:4.
         FCALL say 0 => :2",
    );
}

/// Arguments of `redis.register_function`, which is FUNCTION here, and why they are refused.
const REFUSED: &[(&str, &str)] = &[
    ("", "wrong number of arguments to FUNCTION"),
    (
        "'f', function() end, nil",
        "wrong number of arguments to FUNCTION",
    ),
    (
        "'f'",
        "calling FUNCTION with a single argument is only applicable to Lua table (representing \
         named arguments).",
    ),
    ("'f', 1", "second argument to FUNCTION must be a function"),
    ("{}, 1", "first argument to FUNCTION must be a string"),
    (
        "{callback=function() end}",
        "FUNCTION must get a function name argument",
    ),
    (
        "{function_name='f'}",
        "FUNCTION must get a callback argument",
    ),
    (
        "{function_name={}}",
        "function_name argument given to FUNCTION must be a string",
    ),
    (
        "{callback=1}",
        "callback argument given to FUNCTION must be a function",
    ),
    (
        "{description={}}",
        "description argument given to FUNCTION must be a string",
    ),
    ("{x=1}", "unknown argument given to FUNCTION"),
    (
        "{[true]=1}",
        "named argument key given to FUNCTION is not a string",
    ),
    (
        "{flags=1}",
        "flags argument to FUNCTION must be a table representing function flags",
    ),
    ("{flags={'x'}}", "unknown flag given"),
    (
        "'f-g', function() end",
        "Library names can only contain letters, numbers, or underscores(_) and must be at least \
         one character long",
    ),
];

#[test]
fn register_function_checks_its_arguments() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    for (args, text) in REFUSED {
        let text = text.replace("FUNCTION", "redis.register_function");
        assert_eq!(
            load_lib(&mut client, &format!("redis.register_function({args})")),
            format!("-ERR Error registering functions: ERR {text}"),
            "{args}"
        );
    }
    let (one, other) = ["f", "F"]
        .map(|name| format!("redis.register_function('{name}', function() end)"))
        .into();
    assert_eq!(
        load_lib(&mut client, &format!("{one} {other}")),
        "-ERR Error registering functions: ERR Function already exists in the library"
    );
    assert_eq!(client.run("FUNCTION LIST"), Value::Array(Vec::new()));
}

#[test]
fn a_function_does_what_a_script_does() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    let mut run = |body: &str, flags: &str| {
        let program = format!(
            "redis.register_function{{function_name='f', callback=function(keys, args) {body} end, \
             flags={{{flags}}}}}"
        );
        assert_eq!(load_lib(&mut client, &program), "lib");
        client.run("FCALL f 2 a b c").shown()
    };
    let on = "script: f, on @user_function:2.";
    for (body, answer) in [
        ("return {keys, args}", "[[a, b], [c]]".to_owned()),
        (
            "return redis.call('set', keys[1], args[1])",
            "+OK".to_owned(),
        ),
        ("return redis.pcall('get', keys[1])", "c".to_owned()),
        (
            "return redis.error_reply('MY error')",
            "-MY error".to_owned(),
        ),
        (
            "return loadstring('return redis.call(\"get\", \"a\")')()",
            "c".to_owned(),
        ),
        (
            "redis.setresp(3) return redis.call('exists', 'a')",
            ":1".to_owned(),
        ),
        ("error('x')", format!("-ERR user_function:2: x {on}")),
        ("error({err='MY x'})", format!("-MY x {on}")),
        (
            "return KEYS",
            format!(
                "-ERR user_function:2: Script attempted to access nonexistent global variable \
                 'KEYS' {on}"
            ),
        ),
        (
            "x = 1",
            format!("-ERR user_function:2: Attempt to modify a readonly table {on}"),
        ),
        (
            "return redis.call('nosuch')",
            format!("-ERR Unknown Redis command called from script: 'nosuch' {on}"),
        ),
        (
            "return redis.call('lpush', 'a', 'x')",
            format!("-WRONGTYPE Operation against a key holding the wrong kind of value {on}"),
        ),
    ] {
        assert_eq!(run(body, ""), answer, "{body}");
    }
}

#[test]
fn a_function_may_not_do_what_a_script_may_not() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    let mut run = |body: &str, flags: &str| {
        let program = format!(
            "redis.register_function{{function_name='f', callback=function() {body} end, \
             flags={{{flags}}}}}"
        );
        assert_eq!(load_lib(&mut client, &program), "lib");
        client.run("FCALL f 0").shown()
    };
    let on = "script: f, on @user_function:2.";
    for command in [
        "'eval', 'return 1', '0'",
        "'fcall', 'f', '0'",
        "'function', 'list'",
    ] {
        assert_eq!(
            run(&format!("return redis.call({command})"), ""),
            format!("-ERR This Redis command is not allowed from script {on}")
        );
    }
    assert_eq!(
        run("return redis.pcall('set', 'a', 'b')", "'no-writes'"),
        "-ERR Write commands are not allowed from read-only scripts."
    );
    client.check(
        "EVAL return{redis.register_function==nil} 0 => [:1]
         COMMAND GETKEYS FCALL f 2 a b c => [a, b]
         COMMAND GETKEYSANDFLAGS FCALL_RO f 1 a => [[a, [+RO, +access]]]",
    );
}

#[test]
fn all_loops_call_a_function_as_soon_as_its_library_is_loaded() {
    let daemon = Daemon::start(&["--threads", "4"]);
    let mut clients: Vec<Client> = (0..8).map(|_| client_of(&daemon)).collect();
    for round in 0..20 {
        let source = library("lib", "f", &format!("return {round}"));
        assert_eq!(replace(&mut clients[round % 8], &source), bulk("lib"));
        for client in &mut clients {
            assert_eq!(client.run("FCALL f 0"), Value::Integer(round as i64));
        }
    }
    assert_eq!(clients[3].run("FUNCTION FLUSH"), ok());
    for client in &mut clients {
        let answer = client.run("FCALL f 0").shown();
        assert_eq!(answer, "-ERR Function not found");
    }
}

#[test]
fn variables_of_a_library_live_in_their_loop_until_another_takes_its_place() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = client_of(&daemon);
    let count = "local n = 0 redis.register_function('f', function() n = n + 1 return n end)";
    load_lib(&mut client, count);
    client.check("FCALL f 0 => :1\nFCALL f 0 => :2");
    assert_eq!(
        load(&mut client, &library("other", "g", "return 1")),
        bulk("other")
    );
    client.check("FCALL f 0 => :3\nSCRIPT FLUSH => +OK\nFCALL f 0 => :4");
    load_lib(&mut client, count);
    client.check("FCALL f 0 => :1");
}

#[test]
fn a_dump_is_restored_by_each_policy() {
    let daemon = Daemon::start(&[]);
    let mut client = client_of(&daemon);
    load(&mut client, &library("one", "f", "return 1"));
    load(&mut client, &library("two", "g", "return 2"));
    let Value::Bulk(both) = client.run("FUNCTION DUMP") else {
        panic!("no dump");
    };
    client.run("FUNCTION DELETE two");
    let mut restore = |payload: &[u8], policy: &[&[u8]], after: &str| {
        let call = [&[&b"FUNCTION"[..], b"RESTORE", payload], policy].concat();
        let answer = client.call(&call).shown();
        assert_eq!(client.run("FCALL g 0").shown(), after);
        answer
    };
    let gone = "-ERR Function not found";
    assert_eq!(restore(&both, &[], gone), "-ERR Library one already exists");
    let append = restore(&both, &[b"APPEND"], gone);
    assert_eq!(append, "-ERR Library one already exists");
    assert_eq!(restore(&both, &[b"replace"], ":2"), "+OK");
    assert_eq!(restore(&both, &[b"FLUSH"], ":2"), "+OK");
    let wrong = "-ERR DUMP payload version or checksum are wrong";
    assert_eq!(restore(&both[1..], &[b"FLUSH"], ":2"), wrong);
    assert_eq!(restore(b"", &[b"FLUSH"], ":2"), wrong);
    assert_eq!(
        restore(&both, &[b"x"], ":2"),
        "-ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE."
    );
    client.run("SET key value");
    let Value::Bulk(string) = client.run("DUMP key") else {
        panic!("no dump");
    };
    let mut restore = |payload: &[u8]| client.call(&[b"FUNCTION", b"RESTORE", payload]).shown();
    assert_eq!(restore(&string), "-ERR given type is not a function");
    // As redis-server 7.0.15 has written it, compressed.
    let compressed = b"\xf5\xc3\x40\x52\x44\x2d\x1f#!lua name=l3\nredis.register_fun\tction(\"g\",\
        \xe0\x00\x0c\x12) return 1 end) --x\xe0\xff\x00\xe0\xff\x00\xe0\xff\x00\xe0\xc4\x00\x01xx\
        \n\x00~\xca\x14:\x89;\xfb\xe8";
    assert_eq!(restore(compressed), "-ERR Function g already exists");
    client.run("FUNCTION FLUSH");
    let mut restore = |payload: &[u8]| client.call(&[b"FUNCTION", b"RESTORE", payload]).shown();
    assert_eq!(restore(compressed), "+OK");
    client.check("FCALL g 0 => :1\nFUNCTION FLUSH => +OK");
    let none = client.run("FUNCTION DUMP");
    assert_eq!(none, Value::Bulk(b"\n\0]\x9b\\@\x0f\x7f\xa2\xda".to_vec()));
}

#[test]
fn calls_are_counted_shown_and_run_in_transactions() {
    let daemon = Daemon::start(&[]);
    let (mut client, mut watcher) = (client_of(&daemon), client_of(&daemon));
    let body = "if args[1] then error(args[1]) end return redis.call('set', keys[1], 'v')";
    load(&mut client, &library("lib", "put", body));
    client.check("CONFIG SET slowlog-log-slower-than 0 => +OK\nSLOWLOG RESET => +OK");
    assert_eq!(watcher.run("MONITOR"), ok());
    client.check(
        "FCALL put 1 key => +OK
         FCALL put 1 key oops => -ERR user_function:2: oops script: put, on @user_function:2.
         MULTI => +OK
         FCALL put 1 key => +QUEUED
         FUNCTION DELETE lib => +QUEUED
         FCALL put 1 key => +QUEUED
         EXEC => [+OK, +OK, -ERR Function not found]",
    );
    let shown: Vec<String> = (0..2).map(|_| watcher.read().shown()).collect();
    assert!(
        shown[0].ends_with("\"FCALL\" \"put\" \"1\" \"key\""),
        "{shown:?}"
    );
    assert!(shown[1].contains("lua] \"set\" \"key\" \"v\""), "{shown:?}");
    let Value::Bulk(stats) = client.run("INFO commandstats") else {
        panic!("no INFO");
    };
    let stats = String::from_utf8(stats).unwrap();
    let line = stats
        .lines()
        .find(|line| line.starts_with("cmdstat_fcall:"));
    let line = line.unwrap();
    assert!(
        line.contains("calls=4,") && line.contains("failed_calls=2"),
        "{line}"
    );
    let slow = client.run("SLOWLOG GET 100").shown();
    assert!(slow.contains("[FCALL, put, 1, key]"), "{slow}");
}

#[test]
fn a_library_whose_load_does_not_end_is_ended() {
    let daemon = Daemon::start(&["--threads", "2", "--script-time-limit", "100ms"]);
    let mut client = client_of(&daemon);
    let timeout = "-ERR Error registering functions: ERR FUNCTION LOAD timeout";
    for program in [
        "while true do end",
        "local s = 'x' while true do s = ('x'):rep(1000) end",
        "local t = {} while true do t[1] = {t} end",
        "local n = 0 while true do redis.register_function('f' .. n % 9, function() end) end",
    ] {
        let answer = load_lib(&mut client, program);
        assert!(
            answer == timeout || answer.contains("already exists in the library"),
            "{program}: {answer}"
        );
        client.check("FUNCTION LIST => []\nPING => +PONG");
    }
    // It is the function's time, too.
    load_lib(
        &mut client,
        "redis.register_function('f', function() while true do end end)",
    );
    client.check(
        "FCALL f 0 => -ERR the script ran longer than 100 ms and was ended script: f.
         FCALL f 0 => -ERR the script ran longer than 100 ms and was ended script: f.
         PING => +PONG",
    );
    assert_eq!(
        load_lib(&mut client, "redis.register_function('f', redis.log)"),
        "lib"
    );
}

#[test]
fn huge_libraries_and_many_functions_are_refused() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut client = client_of(&daemon);
    let many = load_lib(
        &mut client,
        "for n = 1, 100000 do redis.register_function('f' .. n, function() end) end",
    );
    let timeout = "-ERR Error registering functions: ERR FUNCTION LOAD timeout";
    let full = "-ERR Error registering functions: ERR a library has at most 1000 functions";
    assert!(many == full || many == timeout, "{many}");
    let most = load_lib(
        &mut client,
        "for n = 1, 1000 do redis.register_function('f' .. n, function() return n end) end",
    );
    if most != timeout {
        assert_eq!(most, "lib");
        client.check("FCALL f1000 0 => :1000\nFUNCTION FLUSH => +OK");
    }
    let long = format!("#!lua name=lib\n{}", " ".repeat(64 << 10));
    assert_eq!(
        load(&mut client, &long).shown(),
        "-ERR the library is longer than 64 KiB"
    );
    let memory = load_lib(
        &mut client,
        "local s = ('x'):rep(2^20) local t = {} for n = 1, 100 do t[n] = s .. n end",
    );
    assert!(
        memory == timeout || memory.ends_with("not enough memory"),
        "{memory}"
    );
    let descriptions = load_lib(
        &mut client,
        "local s = ('x'):rep(2^20) for n = 1, 100 do redis.register_function{function_name='f' .. n,
         callback=function() end, description=s} end",
    );
    let long = "-ERR Error registering functions: ERR the libraries are too long";
    assert!(
        descriptions == long || descriptions == timeout,
        "{descriptions}"
    );
    client.check(
        "FUNCTION LIST => []\nFUNCTION STATS => [running_script, nil, engines, [LUA, \
    [libraries_count, :0, functions_count, :0]]]",
    );
    // As many as there may be take what they are said to.
    let before = occupied_bytes(&daemon, "VmRSS");
    for at in 0..1_100 {
        let body = format!("return '{}'", "x".repeat(7_000));
        let answer = load(
            &mut client,
            &library(&format!("l{at}"), &format!("f{at}"), &body),
        );
        if at < 1_000 {
            assert_eq!(answer, bulk(&format!("l{at}")));
        } else {
            assert_eq!(answer.shown(), "-ERR there are too many libraries");
        }
    }
    let taken = occupied_bytes(&daemon, "VmRSS") - before;
    assert!(taken < 80 << 20, "{taken}");
    assert_eq!(client.run("FCALL f7 0"), bulk(&"x".repeat(7_000)));
}

#[test]
fn functions_that_hold_much_are_loaded_anew() {
    let daemon = Daemon::spawn(&["--threads", "1"]);
    let mut client = client_of(&daemon);
    load_lib(
        &mut client,
        "local kept = {} redis.register_function('f', function() kept[#kept + 1] = ('x'):rep(2^20)
         .. #kept return #kept end)",
    );
    let before = occupied_bytes(&daemon, "VmRSS");
    for _ in 0..200 {
        let Value::Integer(held) = client.run("FCALL f 0") else {
            panic!("no number");
        };
        assert!(held <= 10, "{held}");
    }
    let taken = occupied_bytes(&daemon, "VmRSS").saturating_sub(before);
    assert!(taken < 64 << 20, "{taken}");
}

#[test]
fn loads_calls_and_flushes_of_many_clients_go_side_by_side() {
    let daemon = Daemon::start(&["--threads", "4"]);
    let is_over = AtomicBool::new(false);
    let callers = [(); 2].map(|()| client_of(&daemon));
    let loaders = ["one", "two"].map(|name| (name, client_of(&daemon)));
    std::thread::scope(|scope| {
        for mut client in callers {
            let is_over = &is_over;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = client.run("FCALL f 0").shown();
                    let known = ["one", "two", "-ERR Function not found"];
                    assert!(known.contains(&answer.as_str()), "{answer}");
                }
            });
        }
        let loaders = loaders.map(|(name, mut client)| {
            scope.spawn(move || {
                let source = library(name, "f", &format!("return '{name}'"));
                let mut loaded = 0;
                for _ in 0..300 {
                    let answer = load(&mut client, &source).shown();
                    let refused = "-ERR Function f already exists";
                    assert!(answer == name || answer == refused, "{answer}");
                    loaded += u32::from(answer == name);
                    assert_eq!(client.run("FUNCTION FLUSH"), ok());
                }
                loaded
            })
        });
        let loaded = loaders.map(|loader| loader.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        assert!(loaded.iter().all(|loaded| *loaded > 0), "{loaded:?}");
    });
    let mut client = client_of(&daemon);
    assert_eq!(client.run("FUNCTION LIST"), bulks(&[]));
}

#[test]
fn functions_that_were_called_leave_a_script_its_arguments() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let library = "#!lua name=many\nfor i = 1, 500 do
        redis.register_function('f' .. i, function() return i end)
    end";
    client.call(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    for number in 1..=500 {
        let reply = client.run(&format!("FCALL f{number} 0"));
        assert_eq!(reply, Value::Integer(number));
    }
    let script = "local t = {} for i = 1, 7800 do t[i] = i end
        return redis.call('RPUSH', KEYS[1], unpack(t))";
    let reply = client.call(&[b"EVAL", script.as_bytes(), b"1", b"list"]);
    assert_eq!(reply, Value::Integer(7_800));
}
