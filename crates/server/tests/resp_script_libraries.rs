//! The libraries of scripts: struct, cmsgpack, bit and cjson answer as Redis's.
//!
//! foreign-clients/libraries.py makes programs at random and compares with redis-server.

use crate::support::{daemon, resp, scripts};

use daemon::Daemon;
use resp::{Client, bulk};
use scripts::{check_answers, eval};

/// Scripts and what they answer, a text each.
fn check(rows: &[(&'static str, &str)]) {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    let rows = rows.iter().map(|(script, text)| (*script, bulk(text)));
    check_answers(&mut client, rows);
}

/// Scripts that fail, and what their errors contain.
fn check_errors(rows: &[(&str, &str)]) {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for (script, text) in rows {
        let error = scripts::error(&mut client, script);
        assert!(error.contains(text), "{script}: {error}");
    }
}

/// Bytes as hexadecimal digits, in Lua.
const HEX: &str = "local function hex(s)
    return (s:gsub('.', function(c) return bit.tohex(c:byte(), 2) end))
end ";

fn check_hex(rows: &[(&str, &str)]) {
    let daemon = Daemon::start(&["--threads", "1"]);
    let mut client = Client::connect(&daemon);
    for (expression, digits) in rows {
        let script = format!("{HEX} return hex({expression})");
        let answer = eval(&mut client, &script, &[], &[]);
        assert_eq!(answer, bulk(digits), "{expression}");
    }
}

#[test]
fn structs_are_packed_in_every_form() {
    check_hex(&[
        ("struct.pack('>I2I4', 1, 2)", "000100000002"),
        ("struct.pack('<I2>I2', 1, 1)", "01000001"),
        ("struct.pack('!4bi', 1, -2)", "01000000feffffff"),
        ("struct.pack('>l', -1)", "ffffffffffffffff"),
        ("struct.pack('>d', 1.5)", "3ff8000000000000"),
        ("struct.pack('f', 0.5)", "0000003f"),
        ("struct.pack('s', 'ab')", "616200"),
        ("struct.pack('c1c0x', 'abc', 'de')", "61646500"),
        ("struct.pack('i16', -1)", "ffffffffffffffff0000000000000000"),
    ]);
    check(&[
        (
            "return table.concat({struct.unpack('>I2c0', '\\0\\3abcd')}, ' ')",
            "abc 6",
        ),
        (
            "return table.concat({struct.unpack('<hBs', '\\255\\255\\200ab\\0')}, ' ')",
            "-1 200 ab 7",
        ),
        ("return tostring(struct.size('!8bdi3'))", "21"),
        ("return tostring(struct.unpack('b', '\\1\\2\\3', 3))", "3"),
    ]);
    check_errors(&[
        (
            "struct.pack('z')",
            "bad argument #1 to 'pack' (invalid format option 'z')",
        ),
        (
            "struct.pack('i33', 1)",
            "integral size 33 is larger than limit of 32",
        ),
        ("struct.pack('c99999999999', 'x')", "integral size overflow"),
        ("struct.pack('c2147483647', 'x')", "(string too short)"),
        ("struct.pack('!3b', 1)", "alignment 3 is not a power of 2"),
        ("struct.unpack('I4', 'abc')", "(data string too short)"),
        ("struct.unpack('I4', 'abcd', -5)", "(data string too short)"),
        (
            "struct.unpack('I4', 'abcd', 0)",
            "(offset must be 1 or greater)",
        ),
        (
            "struct.unpack('c0', 'abcd')",
            "format 'c0' needs a previous size",
        ),
        ("struct.unpack('s', 'abcd')", "unfinished string in data"),
        (
            "struct.unpack(('b'):rep(9000), ('x'):rep(9000))",
            "too many results",
        ),
        ("struct.size('s')", "(option 's' has no fixed size)"),
    ]);
}

#[test]
fn message_packs_are_the_shortest() {
    check_hex(&[
        (
            "cmsgpack.pack(1, -1, 128, 256, 65536, 2^32)",
            "01ffcc80cd0100ce00010000cf0000000100000000",
        ),
        (
            "cmsgpack.pack(-33, -129, -32769, -2^31-1)",
            "d0dfd1ff7fd2ffff7fffd3ffffffff7fffffff",
        ),
        ("cmsgpack.pack(0.5, 0.1)", "ca3f000000cb3fb999999999999a"),
        ("cmsgpack.pack(nil, true, false, 'ab')", "c0c3c2a26162"),
        (
            "cmsgpack.pack({1, 2}, {}, {a = 1}, {[2] = 1})",
            "9201029081a16101810201",
        ),
    ]);
}

#[test]
fn message_packs_are_read_whole_or_one_by_one() {
    check(&[
        (
            "local t = cmsgpack.unpack(cmsgpack.pack({a = {1, 'x', false}}))
             return tostring(t.a[1]) .. t.a[2] .. tostring(t.a[3])",
            "1xfalse",
        ),
        (
            "local next, value = cmsgpack.unpack_one(cmsgpack.pack(7, 8), 1)
             return next .. ' ' .. value",
            "-1 8",
        ),
        (
            "local next, one, two = cmsgpack.unpack_limit(cmsgpack.pack(7, 8, 9), 2)
             return next .. ' ' .. one .. ' ' .. two",
            "2 7 8",
        ),
        (
            "local t = {} for i = 1, 20 do t = {t} end
             for i = 1, 20 do t = cmsgpack.unpack(cmsgpack.pack(t))[1] or 'end' end return t",
            "end",
        ),
    ]);
    check_errors(&[
        (
            "cmsgpack.pack()",
            "bad argument #0 to 'pack' (MessagePack pack needs input.)",
        ),
        ("cmsgpack.unpack('\\146\\1')", "Missing bytes in input."),
        ("cmsgpack.unpack('\\193')", "Bad data format in input."),
        ("cmsgpack.unpack('\\129\\192\\1')", "table index is nil"),
        (
            "cmsgpack.unpack_one('abc', 4)",
            "Start offset 4 greater than input length 3.",
        ),
        (
            "cmsgpack.unpack_one('abc', -1)",
            "Invalid request to unpack with offset of -1",
        ),
        ("cmsgpack.unpack(('\\145'):rep(1e6))", "stack overflow"),
        ("cmsgpack.unpack(('\\129\\1'):rep(1e6))", "stack overflow"),
        (
            "cmsgpack.unpack(('\\1'):rep(1e6))",
            "use unpack_one or unpack_limit instead",
        ),
    ]);
}

#[test]
fn json_writes_numbers_as_c_formats_them() {
    check(&[(
        "local function try(number)
            for digits = 1, 14 do
                cjson.encode_number_precision(digits)
                local written = cjson.encode(number)
                local expected = string.format('%.' .. digits .. 'g', number)
                if written ~= expected then return written .. ' for ' .. expected end
            end
        end
        local some = {0, 0.5, 1.5, 2.5, 0.125, 9.5, 99.5, 999999.5, 0.0001, 0.00001, 1e-310,
            2^-1074, 1.7976931348623157e308, 1e21, 123456789.125, 0.1, 1/3, 2/3, 1e100, 5e-5,
            99999999999999.5, 9.99999999999995, 100, 1000000, 3.0517578125e-05}
        for i = 1, 2000 do
            some[#some + 1] = (math.random() - 0.5) * 2 ^ math.random(-80, 80)
            some[#some + 1] = math.random(1, 4096) / 2 ^ math.random(0, 30)
        end
        for _, number in ipairs(some) do
            local wrong = try(number) or try(-number)
            if wrong then return wrong end
        end
        return 'same'",
        "same",
    )]);
}

#[test]
fn json_of_tables_of_any_size_and_depth_is_read_as_it_was_written() {
    check(&[
        (
            "return cjson.encode({-0, -0.0, 1e13, 99999999999999, 1e14, 123456789012345, -7, 0.5})",
            "[-0,-0,10000000000000,99999999999999,1e+14,1.2345678901234e+14,-7,0.5]",
        ),
        (
            "cjson.encode_number_precision(3) return cjson.encode({999, 12345})",
            "[999,1.23e+04]",
        ),
        (
            "return cjson.encode({[1] = 'a', [2] = 'b', [4] = 'd'}) .. cjson.encode({}) ..
             cjson.encode({{}, {[1] = {}}})",
            "[\"a\",\"b\",null,\"d\"]{}[{},[{}]]",
        ),
        (
            "for _, count in ipairs({1, 63, 64, 65, 300}) do
                local array, object = {}, {}
                for i = 1, count do array[i] = 'x' .. i object['k' .. i] = array[i] end
                local read = cjson.decode(cjson.encode({array, object}))
                for i = 1, count do
                    if read[1][i] ~= 'x' .. i or read[2]['k' .. i] ~= 'x' .. i then
                        return 'of ' .. count .. ' not ' .. i
                    end
                end
                if #read[1] ~= count then return 'too many of ' .. count end
            end
            return 'all'",
            "all",
        ),
        (
            "local wide, depth = 60, 100
            local top = {'leaf'}
            for level = 1, depth do
                local next = {top}
                for i = 2, wide do next[i] = 'v' .. level .. '.' .. i end
                top = level % 2 == 0 and next or {inner = next, ['other' .. level] = level}
            end
            local read = cjson.decode(cjson.encode(top))
            for level = depth, 1, -1 do
                if level % 2 == 1 then
                    if read['other' .. level] ~= level then return 'object ' .. level end
                    read = read.inner
                end
                for i = 2, wide do
                    if read[i] ~= 'v' .. level .. '.' .. i then return level .. ' ' .. i end
                end
                read = read[1]
            end
            return read[1]",
            "leaf",
        ),
        (
            "local long = ('x'):rep(10000) .. '\\n' .. ('y'):rep(5000)
             return cjson.decode(cjson.encode({long}))[1] == long and 'same' or 'other'",
            "same",
        ),
    ]);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each choice")]
fn json_has_the_choices_of_redis_and_they_end_with_the_script() {
    check(&[
        (
            "cjson.encode_number_precision(3) cjson.encode_sparse_array(true, 1, 1)
             return cjson.encode({1/3, {[5] = 1}})",
            "[0.333,{\"5\":1}]",
        ),
        ("return cjson.encode({1/3})", "[0.33333333333333]"),
        (
            "cjson.encode_invalid_numbers(true) return cjson.encode({1/0, -1/0, 0/0})",
            "[inf,-inf,nan]",
        ),
        (
            "cjson.encode_invalid_numbers('null') return cjson.encode({1/0, 0/0})",
            "[null,null]",
        ),
        (
            "return cjson.encode(cjson.decode('[0x10,-Inf,01]')[1])",
            "16",
        ),
        (
            "local own = cjson.new() own.encode_number_precision(2)
             return own.encode(1/3) .. cjson.encode(1/3)",
            "0.330.33333333333333",
        ),
        (
            "local t = 1 for i = 1, 1000 do t = {t} end
             local d = cjson.decode(cjson.encode(t)) return type(d)",
            "table",
        ),
        ("return cjson._NAME .. cjson._VERSION", "cjson2.1.0"),
    ]);
    check_errors(&[
        (
            "cjson.decode('{')",
            "Expected object key string but found T_END at character 2",
        ),
        (
            "cjson.decode('[1,]')",
            "Expected value but found T_ARR_END at character 4",
        ),
        (
            "cjson.decode('[1 2]')",
            "Expected comma or array end but found T_NUMBER",
        ),
        (
            "cjson.decode('{\"a\" 1}')",
            "Expected colon but found T_NUMBER at character 6",
        ),
        (
            "cjson.decode('tru')",
            "Expected value but found invalid token at character 1",
        ),
        (
            "cjson.decode('1 2')",
            "Expected the end but found T_NUMBER at character 3",
        ),
        (
            "cjson.decode('\"a')",
            "unexpected end of string at character 3",
        ),
        (
            "cjson.decode('\"\\\\q\"')",
            "invalid escape code at character 2",
        ),
        (
            "cjson.decode(('['):rep(1001))",
            "Found too many nested data structures (1001)",
        ),
        (
            "cjson.decode_invalid_numbers(false) cjson.decode('0x1')",
            "Expected value but found invalid number at character 1",
        ),
        (
            "cjson.encode()",
            "bad argument #1 to 'encode' (expected 1 argument)",
        ),
        (
            "cjson.encode_max_depth(0)",
            "expected integer between 1 and 2147483647",
        ),
        ("cjson.encode_keep_buffer('x')", "invalid option 'x'"),
        (
            "cjson.encode({[true] = 1})",
            "Cannot serialise boolean: table key must be",
        ),
        (
            "cjson.encode({[100] = 1})",
            "Cannot serialise table: excessively sparse array",
        ),
    ]);
}

#[test]
fn bits_are_those_of_the_number_rounded_to_a_whole_one() {
    check(&[
        ("return bit.tohex(-1)", "ffffffff"),
        ("return bit.tohex(255, -4)", "00FF"),
        ("return tostring(bit.band(2^32 + 5.5, 0xff))", "6"),
        ("return tostring(bit.arshift(-256, 4))", "-16"),
        ("return bit.tohex(bit.bswap(0x12345678))", "78563412"),
        ("return tostring(bit.rol(0x80000001, 1))", "3"),
    ]);
    check_errors(&[
        (
            "bit.band(1, {}, {})",
            "bad argument #3 to 'band' (number expected, got table)",
        ),
        (
            "bit.band()",
            "bad argument #1 to 'band' (number expected, got no value)",
        ),
        (
            "bit.lshift(1)",
            "bad argument #2 to 'lshift' (number expected, got no value)",
        ),
        (
            "bit.bor(1, 'x')",
            "bad argument #2 to 'bor' (number expected, got string)",
        ),
    ]);
}
