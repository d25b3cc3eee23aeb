//! Scripts over a socket: what frameworks send, conversions, errors, limits, the sandbox.

use crate::support::{daemon, resident, resp, scripts};

use std::io::{BufRead, BufReader, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, integers, ok};
use scripts::{check_answers, error, eval};

#[test]
fn a_lock_is_released_by_its_holder_only() {
    const RELEASE: &str = "if redis.call(\"get\",KEYS[1]) == ARGV[1] then
        return redis.call(\"del\",KEYS[1]) else return 0 end";
    const EXTEND: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then
        return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.run("SET lock mine NX PX 30000"), ok());
    assert_eq!(
        eval(&mut client, EXTEND, &["lock"], &["theirs", "60000"]),
        Value::Integer(0)
    );
    assert_eq!(
        eval(&mut client, EXTEND, &["lock"], &["mine", "60000"]),
        Value::Integer(1)
    );
    assert_eq!(
        eval(&mut client, RELEASE, &["lock"], &["theirs"]),
        Value::Integer(0)
    );
    assert_eq!(client.run("GET lock"), bulk("mine"));
    assert_eq!(
        eval(&mut client, RELEASE, &["lock"], &["mine"]),
        Value::Integer(1)
    );
    assert_eq!(client.run("GET lock"), Value::Null);
}

#[test]
fn laravel_adds_what_is_not_there() {
    const ADD: &str =
        "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(eval(&mut client, ADD, &["key"], &["one", "60"]), ok());
    assert_eq!(
        eval(&mut client, ADD, &["key"], &["two", "60"]),
        Value::Null
    );
    assert_eq!(client.run("GET key"), bulk("one"));
}

#[test]
fn a_limiter_counts_within_its_window() {
    const LIMIT: &str = "local count = redis.call('INCR', KEYS[1])
        if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
        return {count, redis.call('PTTL', KEYS[1]) > 0}";
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let digest = client.call(&[b"SCRIPT", b"LOAD", LIMIT.as_bytes()]);
    let Value::Bulk(digest) = digest else {
        panic!("{digest:?}");
    };
    for count in 1..4 {
        let reply = client.call(&[b"EVALSHA", &digest, b"1", b"limit", b"60000"]);
        assert_eq!(
            reply,
            Value::Array(vec![Value::Integer(count), Value::Integer(1)])
        );
    }
}

#[test]
fn dot_net_stores_a_hash_with_a_deadline() {
    const SET: &str = "redis.call('HSET', KEYS[1], 'absexp', ARGV[1], 'sldexp', ARGV[2], 'data', \
                       ARGV[4])
        if ARGV[3] ~= '-1' then redis.call('EXPIRE', KEYS[1], ARGV[3]) end
        return 1";
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let reply = eval(&mut client, SET, &["session"], &["-1", "-1", "60", "data"]);
    assert_eq!(reply, Value::Integer(1));
    let stored = client.run("HMGET session absexp sldexp data");
    assert_eq!(stored, bulks(&["-1", "-1", "data"]));
    assert!(matches!(client.run("TTL session"), Value::Integer(1..=60)));
}

#[test]
fn symfony_removes_what_has_a_tag() {
    const INVALIDATE: &str = "local cursor = '0'
        local id = KEYS[1]
        repeat
            local result = redis.call('SSCAN', id, cursor, 'COUNT', 5000)
            cursor = result[1]
            local rems = {}
            for _, v in ipairs(result[2]) do
                if 0 ~= redis.call('DEL', ARGV[1]..v) then table.insert(rems, v) end
            end
            if 0 < #rems then redis.call('SREM', id, unpack(rems)) end
        until '0' == cursor
        return redis.call('SCARD', id)";
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for number in 0..300 {
        client.run(&format!("SET item:{number} v"));
        client.run(&format!("SADD tag {number}"));
    }
    client.run("SADD tag gone");
    let left = eval(&mut client, INVALIDATE, &["tag"], &["item:"]);
    assert_eq!(left, Value::Integer(1));
    assert_eq!(
        client.run("EXISTS item:0 item:150 item:299"),
        Value::Integer(0)
    );
}

#[test]
fn scripts_are_kept_by_their_digest_until_they_are_flushed() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let unknown = Value::Error("NOSCRIPT No matching script. Please use EVAL.".to_owned());
    assert_eq!(client.run(&format!("EVALSHA {digest} 0")), unknown);
    assert_eq!(
        client.call(&[b"SCRIPT", b"LOAD", b"return 1"]),
        bulk(digest)
    );
    // Another connection may live on another event loop.
    for client in &mut [Client::connect(&daemon), Client::connect(&daemon)] {
        assert_eq!(
            client.run(&format!("EVALSHA {digest} 0")),
            Value::Integer(1)
        );
        assert_eq!(
            client.run(&format!("EVALSHA_RO {digest} 0")),
            Value::Integer(1)
        );
    }
    let known = Value::Array(vec![Value::Integer(1), Value::Integer(0)]);
    assert_eq!(client.run(&format!("SCRIPT EXISTS {digest} 0")), known);
    assert_eq!(client.run("SCRIPT FLUSH SYNC"), ok());
    assert_eq!(client.run(&format!("EVALSHA {digest} 0")), unknown);
    assert_eq!(client.run("FUNCTION FLUSH"), ok());
    assert_eq!(client.run("FUNCTION LIST"), Value::Array(vec![]));
}

#[test]
fn answers_are_converted_by_the_rules_of_redis() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let answers = [
        ("return 3.99", Value::Integer(3)),
        ("return -3.99", Value::Integer(-3)),
        ("return 'text'", bulk("text")),
        ("return true", Value::Integer(1)),
        ("return false", Value::Null),
        ("return nil", Value::Null),
        ("return", Value::Null),
        (
            "return {1,2,nil,4}",
            Value::Array(vec![Value::Integer(1), Value::Integer(2)]),
        ),
        ("return {ok='fine'}", Value::Simple("fine".to_owned())),
        (
            "return {err='MY fault'}",
            Value::Error("MY fault".to_owned()),
        ),
        (
            "return redis.status_reply('fine')",
            Value::Simple("fine".to_owned()),
        ),
        (
            "return redis.error_reply('single')",
            Value::Error("ERR single".to_owned()),
        ),
        ("return {double=1.5}", bulk("1.5")),
        ("return {map={a='b'}}", bulks(&["a", "b"])),
    ];
    check_answers(&mut client, answers);
}

#[test]
fn replies_of_commands_and_libraries_are_converted_too() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let answers = [
        (
            "return redis.call('get','nothing') == false",
            Value::Integer(1),
        ),
        ("return redis.call('set','k','v').ok", bulk("OK")),
        (
            "redis.call('set','k',1.5) return redis.call('get','k')",
            bulk("1.5"),
        ),
        (
            "redis.call('set','k',3.0) return redis.call('get','k')",
            bulk("3"),
        ),
        (
            "redis.call('set','k',1e19) return redis.call('get','k')",
            bulk("1e+19"),
        ),
        (
            "return redis.call('mset','a',0.1,'b',1/3,'c',-0.0,'d',1e-7) and \
             redis.call('mget','a','b','c','d')",
            bulks(&["0.1", "0.3333333333333333", "0", "1e-7"]),
        ),
        (
            "redis.call('mset','a',1/0,'b',0/0,'c',123456.789,'d',5e-324) \
             return redis.call('mget','a','b','c','d')",
            bulks(&["inf", "-nan", "123456.789", "5e-324"]),
        ),
        (
            "redis.setresp(3) return type(redis.call('get','nothing'))",
            bulk("nil"),
        ),
        (
            "return {type(KEYS), #ARGV}",
            Value::Array(vec![bulk("table"), Value::Integer(0)]),
        ),
        (
            "return redis.sha1hex('')",
            bulk("da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ),
        (
            "return cjson.encode({1,'a/b',{}})",
            bulk("[1,\"a\\/b\",{}]"),
        ),
        (
            "return cjson.decode('{\"a\":[1,null,\"x\"]}').a[3]",
            bulk("x"),
        ),
        (
            "return cjson.decode('[null]')[1] == cjson.null",
            Value::Integer(1),
        ),
        ("return bit.tohex(bit.band(0xff, 0x0f), 2)", bulk("0f")),
    ];
    check_answers(&mut client, answers);
}

#[test]
fn resp3_has_more_forms_of_answers() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    let answers = [
        ("return true", Value::Integer(1)),
        ("redis.setresp(3) return true", Value::Boolean(true)),
        ("redis.setresp(3) return false", Value::Boolean(false)),
        ("return {double=1.5}", Value::Double("1.5".to_owned())),
        (
            "return {map={a='b'}}",
            Value::Map(vec![(bulk("a"), bulk("b"))]),
        ),
        ("return {set={a=true}}", Value::Set(vec![bulk("a")])),
        (
            "return {verbatim_string={format='txt',string='x'}}",
            Value::Verbatim("x".to_owned()),
        ),
    ];
    check_answers(&mut client, answers);
}

/// Scripts and the errors they end with; the braces stand for the digest.
const ERRORS: &[(&str, &str)] = &[
    (
        "return foo",
        "ERR user_script:1: Script attempted to access nonexistent global variable \
          'foo' script: {}, on @user_script:1.",
    ),
    (
        "\nfoo = 1",
        "ERR user_script:2: Attempt to modify a readonly table script: {}, \
          on @user_script:2.",
    ),
    (
        "return redis.call('nope')",
        "ERR Unknown Redis command called from script: 'nope' script: {}, \
          on @user_script:1.",
    ),
    (
        "return redis.call('get')",
        "ERR Wrong number of args calling Redis command from script \
          script: {}, on @user_script:1.",
    ),
    (
        "redis.call('eval','x',0)",
        "ERR This Redis command is not allowed from script \
          script: {}, on @user_script:1.",
    ),
    (
        "redis.call('set','a',{})",
        "ERR Lua redis lib command arguments must be strings or \
          integers script: {}, on @user_script:1.",
    ),
    (
        "error('x')",
        "ERR user_script:1: x script: {}, on @user_script:1.",
    ),
    ("error({err='MY x'})", "MY x script: {}, on @user_script:1."),
    (
        "x x",
        "ERR Error compiling script (new function): user_script:1: '=' expected near 'x'",
    ),
    (
        "#!lua flags=no-writes\nreturn redis.call('set','a','b')",
        "ERR Write commands are not \
          allowed from read-only scripts. script: {}, on @user_script:2.",
    ),
    (
        "#!js\nreturn 1",
        "ERR Unexpected engine in script shebang: #!js",
    ),
    (
        "return cjson.encode(1/0)",
        "ERR user_script:1: Cannot serialise number: must not be NaN \
          or Inf script: {}, on @user_script:1.",
    ),
];

#[test]
fn server_is_another_name_of_redis() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let script = "server.call('SET', KEYS[1], ARGV[1])
        return {server.call('GET', KEYS[1]), redis == server, server.SERVER_NAME,
            server.SERVER_VERSION == redis.REDIS_VERSION, server.pcall('GET').err ~= nil}";
    assert_eq!(
        eval(&mut client, script, &["k"], &["v"]),
        Value::Array(vec![
            bulk("v"),
            Value::Integer(1),
            bulk("cellar"),
            Value::Integer(1),
            Value::Integer(1),
        ])
    );
    let library = "#!lua name=l\n\
        server.register_function('f', function(keys) return server.call('GET', keys[1]) end)";
    let load = client.call(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
    assert_eq!(load, bulk("l"));
    assert_eq!(client.run("FCALL f 1 k"), bulk("v"));
}

#[test]
fn scripts_may_wait_for_replicas_that_are_not_there() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check_answers(
        &mut client,
        [
            ("return redis.call('WAIT', 1, 0)", Value::Integer(0)),
            ("return redis.call('WAITAOF', 0, 1, 0)", integers(&[0, 0])),
        ],
    );
}

#[test]
fn what_others_are_told_is_no_reading() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for command in [
        "'PUBLISH', 'c', 'm'",
        "'SPUBLISH', 'c', 'm'",
        "'PFCOUNT', 'k'",
    ] {
        let script = format!("return redis.call({command})");
        assert_eq!(eval(&mut client, &script, &[], &[]), Value::Integer(0));
        let answer = client.call(&[b"EVAL_RO", script.as_bytes(), b"0"]);
        let Value::Error(text) = answer else {
            panic!("{command}: {answer:?}");
        };
        assert!(
            text.starts_with("ERR Write commands are not allowed from read-only scripts."),
            "{text}"
        );
    }
}

#[test]
fn errors_have_the_texts_of_redis() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (script, text) in ERRORS {
        let found = error(&mut client, script);
        let digest = client.call(&[
            b"EVAL",
            b"return redis.sha1hex(ARGV[1])",
            b"0",
            script.as_bytes(),
        ]);
        let Value::Bulk(digest) = digest else {
            panic!("{digest:?}");
        };
        assert_eq!(
            found,
            text.replace("{}", std::str::from_utf8(&digest).unwrap())
        );
    }
    for (words, text) in [
        ("EVAL return -1", "ERR Number of keys can't be negative"),
        (
            "EVAL return 2 a",
            "ERR Number of keys can't be greater than number of args",
        ),
        (
            "EVAL return x",
            "ERR value is not an integer or out of range",
        ),
        (
            "SCRIPT FLUSH NOW",
            "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
        ),
        ("SCRIPT KILL", "NOTBUSY No scripts in execution right now."),
    ] {
        assert_eq!(client.run(words), Value::Error(text.to_owned()));
    }
    let read_only = client.call(&[b"EVAL_RO", b"return redis.call('set','a','b')", b"0"]);
    assert!(matches!(read_only, Value::Error(text) if text.starts_with("ERR Write commands are")));
}

#[test]
fn protected_calls_see_what_went_wrong() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (script, text) in [
        (
            "return redis.pcall('nope').err",
            "ERR Unknown Redis command called from script: 'nope'",
        ),
        (
            "return redis.pcall('config', 'no\\npe', 'x').err",
            "ERR Unknown Redis command called from script: 'config|no pe'",
        ),
        (
            "return tostring(redis.pcall(string.rep('x', 1000)).err:len())",
            "176",
        ),
        (
            "local _, e = pcall(redis.call, 'nope') return e",
            "ERR Unknown Redis command called from script: 'nope'",
        ),
        (
            "local _, e = pcall(function() error('x') end) return e",
            "user_script:1: x",
        ),
        (
            "local _, e = xpcall(function() redis.call('nope') end, function(e) return e.err end)
          return e",
            "ERR Unknown Redis command called from script: 'nope'",
        ),
        (
            "local _, e = pcall(cjson.decode, '{') return type(e)",
            "string",
        ),
    ] {
        assert_eq!(eval(&mut client, script, &[], &[]), bulk(text), "{script}");
    }
}

#[test]
fn a_script_uses_the_callers_database_and_changes_its_own_only() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("SELECT 3");
    let script = "redis.call('set','k','in3') redis.call('select',5) redis.call('set','k','in5')";
    assert_eq!(eval(&mut client, script, &[], &[]), Value::Null);
    assert_eq!(client.run("GET k"), bulk("in3"));
    client.run("SELECT 5");
    assert_eq!(client.run("GET k"), bulk("in5"));
}

#[test]
fn what_a_script_reads_is_tracked_for_its_client() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("HELLO 3");
    assert_eq!(client.run("CLIENT TRACKING ON"), ok());
    let script = "return redis.call('get', KEYS[1])";
    assert_eq!(eval(&mut client, script, &["k"], &[]), Value::Null);
    assert_eq!(Client::connect(&daemon).run("SET k v"), ok());
    let invalidation = Value::Push(vec![bulk("invalidate"), bulks(&["k"])]);
    assert_eq!(client.read(), invalidation);
    assert_eq!(eval(&mut client, script, &["k"], &[]), bulk("v"));
}

#[test]
fn scripts_run_inside_a_transaction() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.run("MULTI");
    let queued = eval(&mut client, "return redis.call('set','k','v')", &[], &[]);
    assert_eq!(queued, Value::Simple("QUEUED".to_owned()));
    eval(&mut client, "return foo", &[], &[]);
    client.run("GET k");
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no replies");
    };
    assert_eq!(replies[0], ok());
    assert!(matches!(replies[1], Value::Error(_)));
    assert_eq!(replies[2], bulk("v"));
}

#[test]
fn no_script_reaches_another() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for attack in [
        "string.format = nil",
        "string.x = 1",
        "getmetatable('').__index = {}",
        "getmetatable(_G).__index = {}",
        "setmetatable(_G, {})",
        "setmetatable(string, {})",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "redis.call = function() end",
        "KEYS = {}",
        "_G.x = 1",
        "math.random = 1",
        "for _, content in pairs({string, table, redis}) do content.x = 1 end",
        "cjson.null.x = 1",
        "table.insert(_G, 'x')",
        "table.insert(redis, 1, 'x')",
        "table.remove(string, 1)",
        "table.sort(_G)",
    ] {
        error(&mut client, attack);
    }
    for absent in [
        "io",
        "require",
        "dofile",
        "loadfile",
        "print",
        "debug",
        "package",
        "module",
        "setfenv",
        "getfenv",
        "newproxy",
        "coroutine",
    ] {
        let script = format!("return {absent}");
        assert!(
            error(&mut client, &script).contains("nonexistent global variable"),
            "{absent}"
        );
    }
    let script = "for name, value in pairs(string) do string_was = name end";
    error(&mut client, script);
    for (script, text) in [
        (
            "return ('x'):rep(3)..string.format('%d', 5)..tostring(string.x)",
            "xxx5nil",
        ),
        (
            "return tostring(os.execute)..tostring(os.exit)..type(os.clock())",
            "nilnilnumber",
        ),
        (
            "local _, e = loadstring(string.dump(function() end)) return e",
            "attempt to load a binary chunk",
        ),
        ("return tostring(rawget(_G, 'x'))", "nil"),
    ] {
        assert_eq!(eval(&mut client, script, &[], &[]), bulk(text), "{script}");
    }
}

#[test]
fn a_seed_is_for_one_script() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut other = Client::connect(&daemon);
    let random = "return tostring(math.random())";
    assert_eq!(eval(&mut other, random, &[], &[]), bulk("0.39646477363839"));
    let second = eval(&mut other, random, &[], &[]);
    assert_eq!(
        eval(&mut client, random, &[], &[]),
        bulk("0.39646477363839")
    );
    eval(
        &mut client,
        "math.randomseed(7) return math.random()",
        &[],
        &[],
    );
    assert_eq!(eval(&mut client, random, &[], &[]), second);
}

#[test]
fn a_script_that_loops_is_ended_and_nobody_is_harmed() {
    let daemon = Daemon::start(&["--script-time-limit", "50ms", "--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "local function f() return pcall(f) end while true do f() end",
        "repeat redis.call('set', 'k', 'v') until false",
        "while true do redis.pcall('nope') end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do
         pcall(function() return t[1] end) end",
        "string.gsub('x', 'x', function() while true do end end)",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "local s = ('x'):rep(3e3) while true do pcall(string.find, s, 'x*y') end",
    ] {
        let text = error(&mut client, script);
        assert!(text.contains("ran longer than 50 ms"), "{script}: {text}");
        assert_eq!(eval(&mut client, "return 1", &[], &[]), Value::Integer(1));
    }
    assert_eq!(
        Client::connect(&daemon).run("PING"),
        Value::Simple("PONG".to_owned())
    );
}

#[test]
fn a_script_that_allocates_or_recurses_ends_with_an_error() {
    let daemon = Daemon::spawn(&["--threads", "1", "--script-time-limit", "1s"]);
    let mut client = Client::connect(&daemon);
    for script in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(1e10)",
        "return ('x'):rep(60e6) .. ('y'):rep(60e6)",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local function f() return 1 + f() end return f()",
        "local t = {} t[1] = t return t",
        "local t = {} for i = 1, 1e6 do t = {t} end return t",
        "local t = {} t.x = t return cjson.encode(t)",
        "return cjson.decode(('['):rep(100000))",
        "return loadstring(('('):rep(100000))()",
        "return string.find(('a'):rep(1e6), ('a?'):rep(1e6))",
        "return string.find(('a'):rep(28), ('a?'):rep(28) .. ('a'):rep(28))",
        "return ('a'):rep(1e6):find('a*b')",
        "return (('x'):rep(1e5)):gsub('(x-)(x-)y', '%1')",
        "for word in (('x'):rep(1e6)):gmatch('x*y') do end",
        "return ('1'):rep(1e6):match(1.5 .. '*x')",
        "return redis.call('set', unpack({}, 1, 1e7))",
        "local s = ('x'):rep(30e6) return redis.call('set', s, s, s, s)",
        "local t = {} for i = 1, 20 do t = {t, t} end local s = ('x'):rep(1e6)
         local u = {} for i = 1, 200 do u[i] = s end return {u, t}",
        "return redis.pcall('set', ('x'):rep(70000), 'y').err .. nil",
        "return string.format(('%s'):rep(10000), 1)",
        "error(setmetatable({}, {__tostring = function() error('x') end}))",
        "error()",
        "error(string)",
        "error({err = 1})",
    ] {
        error(&mut client, script);
        assert_eq!(
            eval(&mut client, "return 1", &[], &[]),
            Value::Integer(1),
            "{script}"
        );
    }
    let rounds = "local t = {} for i = 1, 1e9 do t[i] = {} end";
    error(&mut client, rounds);
    let before = resident::occupied_bytes(&daemon, "VmRSS");
    for _ in 0..6 {
        error(&mut client, rounds);
    }
    let after = resident::occupied_bytes(&daemon, "VmRSS");
    assert!(after < before + (32 << 20), "{before} {after}");
}

#[test]
fn a_script_has_a_limit_of_bytes_and_of_arguments() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let body = "return #ARGV";
    let source = |bytes: usize| format!("{body}{}", " ".repeat(bytes - body.len()));
    let (longest, longer) = (source(64 << 10), source((64 << 10) + 1));
    let refused = "-ERR the script is longer than 64 KiB";
    assert_eq!(
        client.call(&[b"EVAL", longest.as_bytes(), b"0"]),
        Value::Integer(0)
    );
    assert_eq!(
        client
            .call(&[b"SCRIPT", b"LOAD", longest.as_bytes()])
            .shown()
            .len(),
        40
    );
    for words in [
        &[&b"EVAL"[..], longer.as_bytes(), b"0"],
        &[&b"SCRIPT"[..], b"LOAD", longer.as_bytes()],
    ] {
        assert_eq!(client.call(words).shown(), refused);
    }
    let many = vec![&b"x"[..]; 262_141];
    for (command, refused) in [("EVAL", ":262141"), ("EVAL_RO", ":262141")] {
        let most = [&[command.as_bytes(), body.as_bytes(), b"0"], &many[..]].concat();
        assert_eq!(client.call(&most).shown(), refused);
        let more = [&most[..], &[b"x"]].concat();
        let too_many = "-ERR too many arguments for one command";
        assert_eq!(client.call(&more).shown(), too_many);
    }
    let most = vec![b'x'; (4 << 20) - 1];
    for (argument, answer) in [
        (&b"y"[..], ":2"),
        (
            b"yz",
            "-ERR the arguments of a script or function are longer than 4 MiB",
        ),
    ] {
        let words = [&b"EVAL"[..], body.as_bytes(), b"0", &most, argument];
        assert_eq!(client.call(&words).shown(), answer);
        let calls = [&b"FCALL"[..], b"nobody", b"0", &most, argument];
        assert!(client.call(&calls).shown().starts_with("-ERR"));
    }
    // What was refused is not kept: the two that ran are.
    assert!(
        client
            .run("INFO memory")
            .shown()
            .contains("number_of_cached_scripts:2")
    );
}

#[test]
fn searches_find_what_they_find_in_lua() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    check_answers(
        &mut client,
        [
            ("return {('a:b:c'):find(':', 3, true)}", integers(&[4, 4])),
            ("return {('a.b'):find('.', -1, true)}", Value::Array(vec![])),
            ("return {string.find('a.b', '.')}", integers(&[1, 1])),
            ("return {string.find(121, 2)}", integers(&[2, 2])),
            (
                "return {('key=value'):match('^(%w+)=(%w+)$')}",
                bulks(&["key", "value"]),
            ),
            (
                "return {(' trim '):gsub('^%s*(.-)%s*$', '%1')}",
                Value::Array(vec![bulk("trim"), Value::Integer(1)]),
            ),
            (
                "local n = 0 for w in ('ab,'):rep(1e5):gmatch('[^,]+') do n = n + 1 end return n",
                Value::Integer(100_000),
            ),
            (
                "return #(('ab '):rep(1e5):gsub('%s+', ''))",
                Value::Integer(200_000),
            ),
            (
                "return {(('a'):rep(1e7) .. 'b'):find(('a'):rep(1e6) .. 'b')}",
                integers(&[9_000_001, 10_000_001]),
            ),
            (
                "return redis.error_reply('-ERR ' .. ('\\n'):rep(1e6) .. 'x').err:len()",
                Value::Integer(1_000_005),
            ),
        ],
    );
}

#[test]
fn a_script_is_one_step_for_other_loops_and_protocols() {
    let daemon = Daemon::start(&["--threads", "2"]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut stream, stop) = (daemon.connect(), &stop);
            scope.spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut number, mut line) = (0, String::new());
                while !stop.load(Ordering::Relaxed) {
                    number += 1;
                    let text = format!("set shared 0 0 8\r\n{number:08}\r\n");
                    stream.write_all(text.as_bytes()).unwrap();
                    line.clear();
                    reader.read_line(&mut line).unwrap();
                }
            });
        }
        let mut clients = [Client::connect(&daemon), Client::connect(&daemon)];
        let script = "local first = redis.call('get', KEYS[1])
            for i = 1, 200 do
                if redis.call('get', KEYS[1]) ~= first then return 0 end
            end
            return 1";
        for round in 0..400 {
            let reply = eval(&mut clients[round % 2], script, &["shared"], &[]);
            assert_eq!(reply, Value::Integer(1));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_script_asks_what_its_client_may_run() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    for (script, expected) in [
        ("return redis.acl_check_cmd('set','a','b')", ":1"),
        ("return redis.acl_check_cmd('set')", ":1"),
        ("return redis.acl_check_cmd('config','get','x')", ":1"),
        (
            "return redis.acl_check_cmd('nosuch')",
            "-ERR Invalid command passed to redis.acl_check_cmd() script",
        ),
        (
            "return redis.acl_check_cmd()",
            "-ERR Please specify at least one argument for this redis lib call script",
        ),
    ] {
        let shown = client.call(&[b"EVAL", script.as_bytes(), b"0"]).shown();
        assert!(shown.starts_with(expected), "{script}: {shown}");
    }
}

#[test]
fn long_replies_reach_a_script_as_they_are() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let mut names = Vec::new();
    for number in 0..300 {
        let name = format!("key:{number}");
        // Short ones, empty ones, some that are longer than what goes together, and gaps.
        let value = match number % 29 {
            0 => vec![b'l'; 1 + 50 * number],
            7 => Vec::new(),
            length => vec![b's'; length],
        };
        if number % 40 < 30 {
            assert_eq!(client.call(&[b"SET", name.as_bytes(), &value]), ok());
            client.call(&[b"RPUSH", b"list", &value]);
            client.call(&[b"ZADD", b"sorted", b"1", name.as_bytes()]);
        }
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mget = "MGET ".to_owned() + &names.join(" ");
    let smismember = "SMISMEMBER set ".to_owned() + &names.join(" ");
    client.run("SADD set key:1 key:2");
    for words in [
        mget.as_str(),
        smismember.as_str(),
        "LRANGE list 0 -1",
        "ZRANGE sorted 0 -1 WITHSCORES",
        "LRANGE list 0 31",
        "LRANGE list 0 30",
    ] {
        let script = "return redis.call(unpack(ARGV))";
        let args: Vec<&str> = words.split(' ').collect();
        let expected = client.run(words);
        assert!(eval(&mut client, script, &[], &args) == expected, "{words}");
    }
    let count =
        "local all = {} for _, key in ipairs(redis.call('KEYS', 'key:*')) do all[key] = 1 end
        local n = 0 for _ in pairs(all) do n = n + 1 end return n";
    assert_eq!(eval(&mut client, count, &[], &[]), Value::Integer(230));
    // RESP3 has sets, which are tables of their own form, and nils within a list.
    let third = "redis.setresp(3) local list = redis.call('MGET', unpack(KEYS))
        return {#list[302], list[1] == nil and 1 or 0, list[3] == nil and 1 or 0}";
    let keys: Vec<&str> = ["no"].into_iter().chain(names).chain(["key:28"]).collect();
    assert_eq!(
        eval(&mut client, third, &keys, &[]).shown(),
        "[:28, :1, :0]"
    );
}
