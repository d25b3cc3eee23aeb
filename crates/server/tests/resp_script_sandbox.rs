//! The sandbox of scripts: ways out of it that are known of Lua 5.1, addresses, the server's log.

use crate::support::{daemon, resp, scripts};

use daemon::Daemon;
use resp::{Client, Value, bulk, bulks, integers};
use scripts::{check_answers, error, eval};

/// Scripts that have to end with an error that holds this text, and must not harm the server.
fn check_errors(client: &mut Client, errors: &[(&str, &str)]) {
    for (script, text) in errors {
        let found = error(client, script);
        assert!(found.contains(text), "{script}: {found}");
        assert_eq!(eval(client, "return 1", &[], &[]), Value::Integer(1));
    }
}

/// CVE-2025-46817.
#[test]
fn unpack_counts_its_results() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let many = "ERR user_script:1: too many results to unpack";
    check_errors(
        &mut client,
        &[
            (
                "return unpack({'a'}, -1, 2147483647)",
                "ERR too many results to unpack",
            ),
            ("local a = unpack({'a'}, -1, 2147483647)", many),
            ("local a = unpack({'a'}, -2147483648, 2147483647)", many),
            ("local a = unpack({'a'}, 0, 2147483647)", many),
            ("local a = unpack({}, 1, 1e7)", many),
            ("local a = unpack({}, -1e300, 1e300)", many),
            ("local a = unpack({}, 0/0, 1)", many),
            (
                "local t = {} for i = 1, 8000 do t[i] = i end return unpack(t)",
                "too many results to unpack",
            ),
            ("local a = unpack({}, 1, 1/0)", many),
            (
                "local a = unpack('x')",
                "ERR user_script:1: bad argument #1 to 'unpack' (table expected, got string)",
            ),
            (
                "return unpack({}, 'x')",
                "bad argument #2 to 'unpack' (number expected, got string)",
            ),
        ],
    );
    check_answers(
        &mut client,
        [
            ("return {unpack({1, 2, 3})}", integers(&[1, 2, 3])),
            ("return {unpack({1, 2, 3}, 2)}", integers(&[2, 3])),
            ("return {unpack({1, 2, 3}, 2.9, '2')}", integers(&[2])),
            ("return {unpack({[-1] = 7}, -1, -1)}", integers(&[7])),
            ("return {unpack({1}, 2147483647, 1)}", integers(&[])),
            ("return select('#', unpack({}, 1, 3))", Value::Integer(3)),
            (
                "return select('#', unpack({}, 1, 7900))",
                Value::Integer(7_900),
            ),
            (
                "local t = {} for i = 1, 7999 do t[i] = i end return select('#', unpack(t))",
                Value::Integer(7_999),
            ),
            (
                "local t = {} for i = 1, 7900 do t[i] = 'k' .. i end
                 return redis.call('exists', unpack(t))",
                Value::Integer(0),
            ),
        ],
    );
}

/// CVE-2025-46818, CVE-2024-46981, CVE-2024-31449, CVE-2022-24834 and CVE-2025-46819.
#[test]
fn known_ways_out_are_closed() {
    // Under a sanitizer some of these take longer than a script may.
    let limit = ["--script-time-limit", "50s"];
    let daemon = Daemon::start(&[&["--threads", "1"][..], &limit].concat());
    let mut client = Client::connect(&daemon);
    check_errors(
        &mut client,
        &[
            ("getmetatable('').__index = nil", "readonly"),
            ("getmetatable('').__add = function() end", "readonly"),
            ("setmetatable(getmetatable(''), {})", "readonly"),
            ("rawset(getmetatable(''), '__index', 1)", "readonly"),
            ("setmetatable('', {})", "table expected"),
            ("setmetatable(nil, {})", "table expected"),
            ("setmetatable(1, {})", "table expected"),
            ("setmetatable(true, {})", "table expected"),
            ("setmetatable(print_nothing or tostring, {})", "nonexistent"),
            (
                "return cjson.encode(('x'):rep(6e7))",
                "ERR not enough memory",
            ),
            (
                "return cjson.encode({('\\1'):rep(1.2e7)})",
                "the text is too long",
            ),
            (
                "local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)",
                "excessive nesting",
            ),
            ("cmsgpack.pack = 1", "readonly"),
            ("struct.x = 1", "readonly"),
            ("cjson.null2 = 1", "readonly"),
            ("return ('='):rep(2^30)", "resulting string too large"),
            (
                "return load(function() return ('='):rep(6e7) end)",
                "not enough memory",
            ),
        ],
    );
    check_answers(
        &mut client,
        [
            (
                "return {getmetatable(1) == nil, getmetatable(nil) == nil,
                 getmetatable(true) == nil, getmetatable(tostring) == nil,
                 getmetatable(cjson.null) == nil}",
                integers(&[1, 1, 1, 1, 1]),
            ),
            ("return bit.tohex(65535, -2147483648)", bulk("0000FFFF")),
            ("return bit.tohex(65535, 2147483647)", bulk("0000ffff")),
            ("return bit.tohex(65535, 0/0)", bulk("")),
            (
                "for i = 1, 100 do setmetatable({}, {__gc = function() error('x') end}) end
                 collectgarbage() return collectgarbage('step')",
                Value::Integer(0),
            ),
            (
                "local level = ('='):rep(1e6)
                 return #loadstring('return [' .. level .. '[x]' .. level .. ']')()",
                Value::Integer(1),
            ),
            (
                "local f, e = loadstring('return [' .. ('='):rep(1e6))
                 return f == nil and #e > 1e6",
                Value::Integer(1),
            ),
        ],
    );
}

/// CVE-2025-49844: Lua's compiler keeps the name of what it compiles only from the first character
/// on, and a reader that runs the collector before could free it.
#[test]
fn the_name_of_what_is_compiled_is_not_collected() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for script in [
        // The name is garbage as soon as it is handed over.
        "for i = 1, 300 do
            local text = i % 3 == 0 and '' or ('x = '):rep(i) .. '('
            local f, e = loadstring(text, '=' .. ('n'):rep(40) .. i)
            if e and e:sub(1, 42 + #tostring(i)) ~= ('n'):rep(40) .. i .. ':1' then return e end
            local garbage = {} for j = 1, 50 do garbage[j] = ('g'):rep(50) .. i .. j end
         end
         return 'same'",
        // A reader that collects, and has nothing at first.
        "for i = 1, 50 do
            local calls = 0
            local f, e = load(function()
                calls = calls + 1
                collectgarbage()
                if calls < 3 then return ('(' ):rep(calls) end
            end, '=' .. ('n'):rep(40) .. i)
            if e:sub(1, 40) ~= ('n'):rep(40) then return e end
            local g = load(function() collectgarbage() return nil end, '=' .. ('m'):rep(40) .. i)
            if g() ~= nil then return 'no empty program' end
         end
         return 'same'",
        "local names = setmetatable({}, {__mode = 'k'})
         local name = ('='):rep(3e5)
         for i = 1, 100 do
            loadstring('return function() return ' .. ('{},'):rep(2000), name .. i)
         end
         return 'same'",
    ] {
        assert_eq!(
            eval(&mut client, script, &[], &[]),
            bulk("same"),
            "{script}"
        );
    }
}

/// Scripts that answer a text in which Lua would show where something lies in memory.
const NAMED: &[&str] = &[
    "return tostring({})",
    "return tostring(function() end)",
    "return tostring(tostring)",
    "return tostring(string)",
    "return tostring(_G)",
    "return tostring(getmetatable('') or {})",
    "return tostring(setmetatable({}, {__metatable = {}}))",
    "return select(2, pcall(error, tostring({})))",
    "return select(2, loadstring({}))",
    "return select(2, loadstring('(', {}))",
    "return select(2, load(function() end, {}))",
    "return select(2, pcall(function() return _G[{}] end))",
    "return select(2, pcall(function() return {} .. 'x' end))",
    "return select(2, pcall(function() return {} < {} end))",
    "return select(2, pcall(function() return #nil end))",
    "return select(2, pcall(string.format, '%s', {}))",
    "return select(2, pcall(string.format, '%p', {}))",
    "return select(2, pcall(string.rep, {}, 1))",
    "return select(2, pcall(table.concat, {{}}))",
    "return select(2, pcall(cjson.encode, {[{}] = 1}))",
    "return select(2, pcall(cjson.encode, tostring))",
    "return select(2, xpcall(function() error('x') end, tostring))",
    "return redis.pcall('set', 'k', {}).err",
    "error(function() end)",
    "error(tostring)",
    "error({})",
    "error(cjson.null)",
    "local t = setmetatable({}, {__tostring = function(t) return 'mine' end}) error(t)",
    "return redis.error_reply(tostring({})).err",
    "return {err = tostring({})}",
    "return {ok = tostring({})}",
];

#[test]
fn no_script_learns_an_address() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for script in NAMED {
        let shown = eval(&mut client, script, &[], &[]).shown();
        for (at, _) in shown.match_indices("0x") {
            let digits = shown[at + 2..].bytes().take_while(u8::is_ascii_hexdigit);
            let digits: String = digits.map(char::from).collect();
            let number = u64::from_str_radix(&digits, 16).unwrap();
            assert!((1..10).contains(&number), "{script}: {shown}");
        }
    }
    check_answers(
        &mut client,
        [
            (
                "local a, b = {}, {} return {tostring(b), tostring(a), tostring(b)}",
                bulks(&[
                    "table: 0x00000001",
                    "table: 0x00000002",
                    "table: 0x00000001",
                ]),
            ),
            ("return tostring({})", bulk("table: 0x00000001")),
            (
                "return tostring(setmetatable({}, {__tostring = function() return 'mine' end}))",
                bulk("mine"),
            ),
            (
                "return {tostring(nil), tostring(true), tostring(1.5), tostring('x')}",
                bulks(&["nil", "true", "1.5", "x"]),
            ),
            ("return pcall(tostring) == false", Value::Integer(1)),
        ],
    );
}

#[test]
fn functions_of_tables_do_what_lua_says() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    check_answers(
        &mut client,
        [
            (
                "local t = {} for i = 1, 5000 do t[i] = i end
                 table.insert(t, 1, 0) table.insert(t, 2501, 'x') table.insert(t, 'y')
                 return {t[1], t[2], t[2500], t[2501], t[2502], t[5002], t[5003], #t}",
                Value::Array(vec![
                    Value::Integer(0),
                    Value::Integer(1),
                    Value::Integer(2_499),
                    bulk("x"),
                    Value::Integer(2_500),
                    Value::Integer(5_000),
                    bulk("y"),
                    Value::Integer(5_003),
                ]),
            ),
            (
                "local t = {} for i = 1, 5000 do t[i] = i end
                 return {table.remove(t, 1), table.remove(t), table.remove(t, 2000), t[1], t[1999],
                 t[2000], #t, #{table.remove({})}, #{table.remove(t, -5)}}",
                integers(&[1, 5_000, 2_001, 2, 2_000, 2_002, 4_997, 0, 0]),
            ),
            (
                "local t, last = {}, 0 for i = 1, 3000 do t[i] = (i * 7919) % 3001 end
                 table.sort(t) for i, v in ipairs(t) do if v <= last then return i end last = v end
                 return #t",
                Value::Integer(3_000),
            ),
            (
                "local t = {} for i = 1, 1000 do t[i] = {i % 10, i} end
                 table.sort(t, function(a, b) return a[1] > b[1] end)
                 for i = 2, 1000 do
                    if t[i - 1][1] < t[i][1] then return 'order' end
                    if t[i - 1][1] == t[i][1] and t[i - 1][2] > t[i][2] then return 'stable' end
                 end
                 return {t[1][1], t[1][2], t[1000][1], t[1000][2]}",
                integers(&[9, 9, 0, 1_000]),
            ),
            (
                "local t = {'b', 'a', 'c'} table.sort(t, function(a, b) return a > b end)
                 return {table.concat(t), table.concat(t, ', ', 2), table.concat(t, 1, 1, 2),
                 table.concat({}), table.concat({1, 2.5, 'x'}, '-'), table.concat(t, 'x', 3, 2)}",
                bulks(&["cba", "b, a", "c1b", "", "1-2.5-x", ""]),
            ),
            (
                "local sum = 0 table.foreach({1, 2, x = 3}, function(_, v) sum = sum + v end)
                 return {table.maxn({1, [10] = 1, [-1] = 1}), table.maxn({}), sum,
                 table.getn({1, 2}),
                 table.foreachi({5, 6}, function(i, v) if i == 2 then return v end end)}",
                integers(&[10, 0, 6, 2, 6]),
            ),
            (
                "return {('aBc'):upper(), ('aBc'):lower(), ('abc'):reverse(), string.upper(1e3)}",
                bulks(&["ABC", "abc", "cba", "1000"]),
            ),
            (
                "return {(('abc'):gsub('%w', {a = 1, b = false})), (('abc'):gsub('b', '[%0]', 1)),
                 (('abc'):gsub('(a)(b)', function(a, b) return b .. a end))}",
                bulks(&["1bc", "a[b]c", "bac"]),
            ),
        ],
    );
}

#[test]
fn errors_of_functions_of_tables_name_the_script() {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    check_errors(
        &mut client,
        &[
            (
                "table.insert(nil, 1)",
                "ERR user_script:1: bad argument #1 to 'insert' (table expected, got nil)",
            ),
            (
                "table.insert({}, 'x', 1)",
                "ERR user_script:1: bad argument #2 to 'insert' (number expected, got string)",
            ),
            (
                "table.insert({})",
                "ERR user_script:1: wrong number of arguments to 'insert'",
            ),
            (
                "table.concat({1, {}, 3})",
                "ERR user_script:1: invalid value (table) at index 2 in table for 'concat'",
            ),
            (
                "table.sort({}, 1)",
                "ERR user_script:1: bad argument #2 to 'sort' (function expected, got number)",
            ),
            (
                "local t = {} for i = 1, 200 do t[i] = i % 2 == 0 and i or 'x' end table.sort(t)",
                "ERR user_script:1: attempt to compare",
            ),
            (
                "local t = {} for i = 1, 200 do t[i] = i end
                 table.sort(t, function() error({err = 'MY own'}) end)",
                "MY own",
            ),
            (
                "local a = ('x'):find({})",
                "ERR user_script:1: bad argument #2 to 'find' (string expected, got table)",
            ),
            (
                "\nlocal a = ('x'):find('[')",
                "ERR user_script:2: malformed pattern (missing ']')",
            ),
            (
                "local ok, e = pcall(string.find, 'x', '[') error(e, 0)",
                "ERR malformed pattern (missing ']')",
            ),
            (
                "string.upper({})",
                "ERR user_script:1: bad argument #1 to 'upper' (string expected, got table)",
            ),
        ],
    );
}

#[test]
fn a_script_logs_one_line_a_call() {
    for format in ["text", "json"] {
        let daemon = Daemon::spawn(&["--log-format", format, "--threads", "1"]);
        let mut client = Client::connect(&daemon);
        let script = "redis.log(redis.LOG_WARNING, 'first\\r\\nforged \\27[31mline\\n', 'a\\\\b')
            redis.log(redis.LOG_WARNING, 'last')";
        assert_eq!(eval(&mut client, script, &[], &[]), Value::Null);
        let lines = daemon.log_until("last");
        let [first, last] = &lines[..] else {
            panic!("{lines:?}");
        };
        let shown = r"script: first\r\nforged \u{1b}[31mline\n a\\b";
        let shown = match format {
            "json" => shown.replace('\\', r"\\"),
            _ => shown.to_owned(),
        };
        assert!(first.contains(&shown), "{first}");
        assert!(last.contains("script: last"), "{last}");
    }
}
