//! Bits of strings over RESP: counting, searching, joining, fields of any width.

use crate::support::{daemon, resp};

use daemon::Daemon;
use resp::{Client, Value, check_alone, ok};

#[test]
fn bits_are_counted_in_bytes_and_in_bits() {
    check_alone(
        "SET s foobar => +OK
        BITCOUNT s => :26
        BITCOUNT s 0 0 => :4
        BITCOUNT s 1 1 BYTE => :6
        BITCOUNT s 5 30 BIT => :17
        BITCOUNT s -2 -1 => :7
        BITCOUNT s 3 1 => :0
        BITCOUNT s 0 => :26
        BITCOUNT s 4 => :7
        BITCOUNT s -1 => :4
        BITCOUNT s 0 1 WORD => -ERR syntax error
        BITCOUNT s 0 x => -ERR value is not an integer or out of range
        BITCOUNT nothing => :0
        BITCOUNT nothing 0 => :0
        BITCOUNT nothing 0 1 WORD => -ERR syntax error
        BITCOUNT nothing 0 1 BIT more => -ERR syntax error
        BITCOUNT nothing a b => -ERR value is not an integer or out of range
        SADD set a => :1
        BITCOUNT set => -WRONGTYPE Operation against a key holding the wrong kind of value",
    );
}

#[test]
fn the_first_bit_of_a_kind_is_found() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.call(&[b"SET", b"s", b"\xff\xf0\x00"]), ok());
    assert_eq!(client.call(&[b"SET", b"ones", b"\xff\xff\xff"]), ok());
    assert_eq!(client.call(&[b"SET", b"empty", b""]), ok());
    client.check(
        "BITPOS s 0 => :12
        BITPOS s 1 => :0
        BITPOS s 1 2 => :-1
        BITPOS s 0 2 => :16
        BITPOS s 1 7 15 BIT => :7
        BITPOS s 0 0 11 BIT => :-1
        BITPOS ones 0 => :24
        BITPOS ones 0 0 -1 => :-1
        BITPOS ones 0 9 => :-1
        BITPOS empty 0 => :-1
        BITPOS nothing 0 => :0
        BITPOS nothing 1 => :-1
        BITPOS nothing 0 1 2 BIT x => -ERR syntax error
        BITPOS nothing 0 1 2 x => -ERR syntax error
        BITPOS nothing 0 a => -ERR value is not an integer or out of range
        BITPOS s 2 => -ERR The bit argument must be 1 or 0.
        BITPOS s x => -ERR value is not an integer or out of range
        BITPOS s 1 0 -1 BYTE more => -ERR syntax error",
    );
}

#[test]
fn strings_are_joined_bit_by_bit() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    assert_eq!(client.call(&[b"SET", b"a", b"abc"]), ok());
    assert_eq!(client.call(&[b"SET", b"b", b"\x0f"]), ok());
    client.check(
        "BITOP AND to a b => :3
        BITCOUNT to => :1
        BITOP or to a b nothing => :3
        BITCOUNT to => :13
        BITOP NOT to a b => -ERR BITOP NOT must be called with a single source key.
        BITOP DIFF to a => -ERR BITOP DIFF must be called with at least two source keys.
        BITOP NOR to a => -ERR syntax error
        BITOP NOT to nothing => :0
        EXISTS to => :0
        BITOP ONE a a b => :3
        SADD set 1 => :1
        BITOP XOR to a set => -WRONGTYPE Operation against a key holding the wrong kind of value
        BITOP XOR set a => :3
        TYPE set => +string",
    );
}

#[test]
fn a_long_string_is_joined_counted_and_searched_in_steps() {
    let daemon = Daemon::start(&["--memory", "512MiB"]);
    let mut client = Client::connect(&daemon);
    let mut long = vec![0; 40 << 20];
    *long.last_mut().unwrap() = 3;
    assert_eq!(client.call(&[b"SET", b"long", &long]), ok());
    client.check(
        "BITCOUNT long => :2
        BITPOS long 1 => :335544318
        BITPOS long 0 -1 -1 BIT => :-1
        BITOP NOT inverse long => :41943040
        BITCOUNT inverse => :335544318
        BITOP AND none long inverse => :41943040
        BITCOUNT none => :0
        MULTI => +OK
        BITOP XOR none long inverse => +QUEUED
        BITCOUNT none => +QUEUED
        EXEC => [:41943040, :335544320]
        SETRANGE long 41943039 xx => :41943041",
    );
}

#[test]
fn parts_of_a_long_string_are_changed_where_they_lie() {
    check_alone(
        "SETBIT k 100000000 1 => :0
        STRLEN k => :12500001
        GETBIT k 100000000 => :1
        SETBIT k 100000000 0 => :1
        BITCOUNT k => :0
        BITFIELD k SET u8 0 255 SET u16 80000004 65535 GET u8 0 INCRBY u4 #0 -14 GET u8 90000000 \
         => [:0, :0, :255, :1, :0]
        BITFIELD_RO k GET u24 80000000 => [:1048560]
        BITCOUNT k => :21
        BITFIELD k SET u8 100000008 1 GET u8 200000000 => [:0, :0]
        STRLEN k => :12500002
        SETRANGE k 20000000 end => :20000003
        APPEND k more => :20000007
        GETRANGE k 20000000 -1 => endmore
        BITFIELD_RO k GET u8 159999992 => [:0]
        SETBIT far 4294967295 1 => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETBIT far 4294967296 1 => -ERR bit offset is not an integer or out of range
        EXISTS far => :0",
    );
}

#[test]
fn fields_are_read_set_and_raised() {
    check_alone(
        "BITFIELD f SET i8 0 -5 GET u8 0 GET i4 #1 => [:0, :251, :-5]
        BITFIELD f INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1 => [:1, :1]
        BITFIELD f INCRBY u2 100 3 OVERFLOW SAT INCRBY u2 102 3 => [:0, :3]
        BITFIELD f OVERFLOW FAIL INCRBY u2 102 1 => [nil]
        BITFIELD f OVERFLOW FAIL SET u8 800 300 => [nil]
        STRLEN f => :101
        BITFIELD_RO f GET u2 102 => [:3]
        BITFIELD_RO f SET u2 102 1 => -ERR BITFIELD_RO only supports the GET subcommand
        BITFIELD f => []
        BITFIELD nothing GET u8 5 => [:0]
        EXISTS nothing => :0
        BITFIELD f GET u8 => -ERR syntax error
        BITFIELD f OVERFLOW NO => -ERR Invalid OVERFLOW type specified
        BITFIELD f GET u8 -1 => -ERR bit offset is not an integer or out of range
        BITFIELD f SET u8 4294967295 1 => -ERR bit offset is not an integer or out of range
        BITFIELD f SET u8 0 x => -ERR value is not an integer or out of range
        SADD set a => :1
        BITFIELD f SET u8 0 1 SET u8 0 => -ERR syntax error",
    );
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let Value::Error(text) = client.run("BITFIELD f GET u64 0") else {
        panic!("there is no u64")
    };
    assert!(text.starts_with("ERR Invalid bitfield type."), "{text}");
}
