//! The limits of scripts: of time, held against every function at its worst, and of depth.
//!
//! The bound on the clock's time is far above what a script takes that is ended, and far below
//! what it would take if something it does looked at no clock.

use crate::support::{daemon, resp, scripts};

use std::time::{Duration, Instant};

use daemon::Daemon;
use resp::{Client, Value};
use scripts::eval;

const LIMIT: &str = "100ms";
/// Longest time for one script.
const TIME_MAX: Duration = Duration::from_secs(3);

/// What stands before each script: a long string, lists of numbers, texts and small tables.
const BEFORE: &str = "local s = ('1'):rep(1e7)
    local function list(count, make)
        local t = {} for i = 1, count do t[i] = make(i) end return t
    end
    local function scattered(i) return (i * 7919) % 1000003 end ";

/// Texts that fall into one chain of Lua's table of strings: what differs is not in their hash.
fn colliding(count: usize) -> Vec<String> {
    let text = |number: usize| {
        let digits: String = format!("{number:06}")
            .chars()
            .map(|digit| format!("a{digit}a"))
            .collect();
        format!("{}{digits}a", "aaa".repeat(15))
    };
    (0..count).map(text).collect()
}

/// Library by library.
const TABLES: &[&str] = &[
    "table.insert({}, -2000000000, 1)",
    "table.insert({1}, 2^31, 1)",
    "table.insert({1}, 2^32 - 2^31 + 5, 1)",
    "table.insert({1}, 1/0, 1) table.insert({1}, -1/0, 1)",
    "table.remove({1}, 2^31) table.remove({1}, 2^32 + 1) table.remove({1}, 0/0)",
    "local t = list(1e5, scattered) while true do table.insert(t, 1, 0) end",
    "local t = list(2e5, scattered) while true do table.remove(t, 1) end",
    "for _ = 1, 40 do table.sort(list(1e6, scattered)) end",
    "local t = list(2e4, scattered)
     while true do table.sort(t, function(a, b) return a > b end) end",
    "local t = list(3000, function(i) return s .. i % 3 end) while true do table.sort(t) end",
    "local t = list(40, function(i) return s .. i % 3 end) while true do table.sort(t) end",
    "local t = list(5e4, tostring) while true do table.concat(t, ',') end",
    "local t = list(50, function() return s end) while true do pcall(table.concat, t, s) end",
    "local t = list(5e4, scattered) while true do table.maxn(t) end",
    "table.foreach(list(1e5, function() return 1e5 end), string.rep)",
    "table.foreachi(list(1e5, function() return s end), function(_, v) v:upper() end)",
    "local t = {} for i = 1, 5e4 do t['k' .. i] = i end for k in pairs(t) do t[k] = nil end
     while true do next(t) end",
    "while true do unpack({}, 1, 7000) end",
    "local t = list(1e5, scattered) while true do local n = #t end",
    "local t = {} for i = 1, 1e9 do t[i + .5] = i end",
];

const STRINGS: &[&str] = &[
    "while true do local a = s .. 'x' end",
    "local t = s .. 'x' while true do local a = s < t end",
    "while true do local a = s + 1 end",
    "while true do local a = tonumber(s) end",
    "while true do local a = tonumber(s, 2) end",
    "while true do local a = s:rep(2) end",
    "while true do local a = s:upper() end",
    "while true do local a = s:lower() end",
    "while true do local a = s:reverse() end",
    "while true do local a = s:sub(2) end",
    "while true do local a = s:byte(1, 7000) end",
    "while true do local a = string.char(unpack(list(5000, function() return 65 end))) end",
    "while true do local a = ('%q'):format(s) end",
    "local f = ('%%'):rep(5e6) while true do local a = f:format() end",
    "while true do pcall(string.format, '%99.99f', 1e308) end",
    "while true do pcall(string.rep, s, 1e9) end",
    "while true do pcall(string.find, s, '1*2') end",
    "while true do s:find('2') end",
    "local t = s:sub(1, 3e3) while true do t:match('.-2') end",
    "local t = s:sub(1, 1e6) while true do t:gsub('1', '2') end",
    "while true do pcall(string.gsub, ('x'):rep(1e6), 'x', ('y'):rep(60)) end",
    "(('x'):rep(1e6)):gsub('x', redis.sha1hex)",
    "(('x'):rep(1e6)):gsub('x', setmetatable({}, {__index = cjson.encode}))",
    "for _ in (('x'):rep(1e6)):gmatch('.') do end",
    "local f = loadstring('return \"' .. s .. '\"') while true do string.dump(f) end",
    "local function f(t, k) return s:rep(k) end local t = setmetatable({}, {__index = string.rep})
     while true do pcall(function() return t[1e9] end) f(nil, 2) end",
];

const REST: &[&str] = &[
    "while true do collectgarbage() end",
    "local t = list(1e5, function() return {} end) for _ = 1, 300 do collectgarbage() end",
    "local t = list(1e5, tostring) while true do collectgarbage('collect') end",
    "local t = {} for i = 1, 20 do t = {t, t} end while true do pcall(cjson.encode, t) end",
    "local t = list(1e5, scattered) while true do cjson.encode(t) end",
    "while true do pcall(cjson.encode, {s, s, s, s, s, s}) end",
    "local j = '[' .. ('1,'):rep(1e6) .. '1]' while true do cjson.decode(j) end",
    "local j = '[' .. ('[],'):rep(1e6) .. '1]' while true do cjson.decode(j) end",
    "local j = '\"' .. s .. '\"' while true do cjson.decode(j) end",
    "while true do pcall(cjson.decode, s) end",
    "while true do pcall(struct.pack, ('x'):rep(1e6)) end",
    "while true do pcall(struct.pack, ('!'):rep(1e7)) end",
    "while true do pcall(struct.size, (' '):rep(1e7)) end",
    "while true do pcall(struct.size, ('c2147483647'):rep(1e6)) end",
    "while true do pcall(struct.unpack, ('b'):rep(1e6), s) end",
    "while true do pcall(struct.pack, ('s'):rep(7), s, s, s, s, s, s, s) end",
    "local t = list(1e6, scattered) while true do cmsgpack.pack(t) end",
    "local t = {} for i = 1, 20 do t = {t, t} end while true do cmsgpack.pack(t, t, t, t) end",
    "while true do pcall(cmsgpack.pack, s, s, s, s, s, s, s) end",
    "local m = cmsgpack.pack(list(1e6, scattered)) while true do cmsgpack.unpack(m) end",
    "while true do pcall(cmsgpack.unpack, ('\\145'):rep(1e6)) end",
    "while true do pcall(cmsgpack.unpack, '\\221\\255\\255\\255\\255' .. s) end",
    "while true do pcall(cmsgpack.unpack, s) end",
    "cjson.encode_sparse_array(false, 0) while true do pcall(cjson.encode, {[2^31-1] = 1}) end",
    "local t = {} while true do t[#t + 1] = cjson.new() end",
    "while true do redis.sha1hex(s) end",
    "while true do redis.error_reply(s) end",
    "while true do redis.log(0, s) end",
    "load(function() return 'x=1 ' end)",
    "local p = 'local x ' .. ('x=1 '):rep(1e6) while true do loadstring(p) end",
    "local p = 'return ' .. ('x or '):rep(1e5) .. 'x' while true do loadstring(p) end",
    "local p = 'return {' .. ('{},'):rep(1e6) .. '}' while true do loadstring(p) end",
    "while true do loadstring(s) end",
    "while true do redis.pcall('set', 'k', s, s, s, s, s, s) end",
    "while true do redis.call('set', 'k', s) redis.call('get', 'k') end",
    "while true do redis.pcall('mget', unpack(list(5000, tostring))) end",
    "local t = {} for i = 1, 40 do t = {t, t} end return t",
    "local t = {} for i = 1, 40 do t = {map = {[1] = t, [2] = t}} end return t",
    "return list(2e6, function() return {} end)",
    "error(('\\200'):rep(2e7))",
    "return {err = s}",
    "local t = list(5000, tostring) while true do pcall(bit.band, 1, unpack(t)) end",
    "while true do math.max(unpack(list(5000, scattered))) end",
    "local function f() return xpcall(f, f) end while true do f() end",
    "while true do tostring({}) end",
];

/// Runs scripts one after the other and checks how long each takes.
fn check(scripts: &[&str]) {
    let daemon = Daemon::start(&["--script-time-limit", LIMIT, "--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for script in scripts {
        timed(script, || {
            eval(&mut client, &format!("{BEFORE}{script}"), &[], &[])
        });
        let answer = eval(&mut client, "return 1", &[], &[]);
        assert_eq!(answer, Value::Integer(1), "{script}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the time is what is tested")]
fn timed<R>(what: &str, run: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = run();
    let took = start.elapsed();
    if std::env::var_os("SHOW_TIMES").is_some() {
        println!("{:6} ms  {what}", took.as_millis());
    }
    assert!(took < TIME_MAX, "{what}: {took:?}");
    result
}

#[test]
fn functions_of_tables_end_in_time() {
    check(TABLES);
}

#[test]
fn functions_of_strings_end_in_time() {
    check(STRINGS);
}

#[test]
fn everything_else_ends_in_time() {
    check(REST);
}

#[test]
fn a_transaction_has_as_long_as_one_script() {
    let daemon = Daemon::start(&["--script-time-limit", LIMIT, "--threads", "1"]);
    let mut client = Client::connect(&daemon);
    client.check("MULTI => +OK");
    client.check("SET before 1 => +QUEUED");
    for _ in 0..3 {
        let endless = client.call(&[b"EVAL", b"while true do end", b"0"]);
        assert_eq!(endless, Value::Simple("QUEUED".to_owned()));
    }
    client.check("SET behind 1 => +QUEUED");
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no answers");
    };
    let shown: Vec<String> = replies.iter().map(Value::shown).collect();
    assert!(shown[1].contains("ran longer than"), "{shown:?}");
    let late = "-ERR the commands before took too long";
    assert_eq!((&*shown[0], &*shown[2], &*shown[3]), ("+OK", late, late));
    assert_eq!(shown[4], late);
    client.check("EXISTS before behind => :1");
}

#[test]
fn a_transaction_of_dear_reads_ends_like_a_script() {
    let daemon = Daemon::start(&["--script-time-limit", LIMIT, "--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let fields: Vec<Vec<u8>> = (0..60_000)
        .map(|n| format!("{n:06}").into_bytes())
        .collect();
    let words: Vec<&[u8]> = fields.iter().map(Vec::as_slice).collect();
    for part in words.chunks(10_000) {
        client.call(&[&[&b"RPUSH"[..], b"list"], part].concat());
    }
    client.check("MULTI => +OK");
    let queue: Vec<u8> = daemon::frame(&[b"LPOS", b"list", b"nowhere"]).repeat(11_000);
    client.send_raw(&queue);
    for _ in 0..11_000 {
        assert_eq!(client.read(), Value::Simple("QUEUED".to_owned()));
    }
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no answers");
    };
    let first = replies[0].shown();
    assert!(["(nil)", "nil", "$-1"].contains(&&*first), "{first}");
    assert!(replies[10_999].shown().contains("took too long"));
}

#[test]
fn what_stands_around_a_run_counts_too() {
    let daemon = Daemon::start(&["--script-time-limit", LIMIT, "--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let texts = colliding(20_000);
    let words: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    let ended = |reply: Value| match reply {
        Value::Error(text) => assert!(text.contains("ran longer than 100 ms"), "{text}"),
        other => panic!("{other:?}"),
    };
    // Arguments that share one chain.
    let eval = [&[&b"EVAL"[..], b"return 1", b"0"], &words[..16_000]].concat();
    ended(timed("arguments", || client.call(&eval)));
    // Constants that do.
    let source: Vec<String> = texts.iter().map(|text| format!("x='{text}'")).collect();
    let source = format!("local x {}", source.join(" "));
    let compile = &b"return loadstring(ARGV[1])"[..];
    ended(timed("loadstring", || {
        client.call(&[b"EVAL", compile, b"0", source.as_bytes()])
    }));
    // A reply that does.
    client.call(&[&[&b"SADD"[..], b"set"], &words[..]].concat());
    let members = &b"return #redis.call('smembers', 'set')"[..];
    ended(timed("reply", || client.call(&[b"EVAL", members, b"0"])));
    let json = format!("[\"{}\"]", texts.join("\",\""));
    let decode = &b"return cjson.decode(ARGV[1])"[..];
    ended(timed("JSON", || {
        client.call(&[b"EVAL", decode, b"0", json.as_bytes()])
    }));
    assert_eq!(client.run("PING"), Value::Simple("PONG".to_owned()));
}

/// Ways for one function to call the next deeper one, `f`.
const CALLS: &[&str] = &[
    "string.gsub('x', 'x', f)",
    "table.sort({3, 2, 1}, function() f() return false end)",
    "pcall(f)",
    "xpcall(f, tostring)",
    "tostring(setmetatable({}, {__tostring = function() f() return '' end}))",
    "return setmetatable({}, {__index = function() f() end}).x",
    "return setmetatable({}, {__concat = function() f() end}) .. 'x'",
];

/// What takes much of the stack itself.
const DEPTHS: &[&str] = &[
    "cmsgpack.unpack(('\\145'):rep(999) .. '\\1')",
    "cmsgpack.unpack(('\\129\\1'):rep(999) .. '\\1')",
    "cjson.encode(cjson.decode(('['):rep(999) .. (']'):rep(999)))",
    "loadstring('return ' .. ('('):rep(150) .. '1' .. (')'):rep(150))",
    "loadstring(('do '):rep(150) .. ('end '):rep(150))",
    "string.find(('a'):rep(500), ('a?'):rep(200))",
    "local t = {} for i = 1, 16 do t = {t} end cmsgpack.pack(t)",
    "redis.call('sort', 'list', 'by', '*', 'get', '#', 'store', 'other')",
    "redis.call('hset', 'h', unpack(list(600)))",
    "local s = string.format('%99.99f', 1e300) .. table.concat(list(1000), '-')",
];

#[test]
fn functions_call_each_other_as_deeply_as_lua_lets_them_on_the_stack_there_is() {
    let daemon = Daemon::start(&["--threads", "1", "--script-time-limit", "5m"]);
    let mut client = Client::connect(&daemon);
    // What is deep runs before each of the last calls, the last time where no further one is
    // possible.
    let mut levels_of = |call: &str, depth: &str, first: i64| {
        let script = format!(
            "redis.call('rpush', 'list', 3, 1, 2)
             local function list(count)
                 local t = {{}} for i = 1, count do t[i] = i end return t
             end
             local levels = 0
             local f
             f = function()
                 levels = levels + 1
                 pcall(function() if levels >= {first} then {depth} end end)
                 {call}
             end
             pcall(f)
             return levels"
        );
        match eval(&mut client, &script, &[], &[]) {
            Value::Integer(levels) => levels,
            other => panic!("{call}: {depth}: {other:?}"),
        }
    };
    for call in CALLS {
        let most = levels_of(call, "list(0)", i64::MAX);
        assert!(most >= 20, "{call}: {most}");
        for depth in DEPTHS {
            let levels = levels_of(call, depth, most - 10);
            assert!(levels >= 20 && levels >= most - 10, "{call}: {depth}");
        }
    }
}
