//! Deadlines of a set's members over RESP.

use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::resp::{Client, Value, bulks, check_alone};

/// `MEMBERS`, how many, and them.
fn members(numbers: impl Iterator<Item = u32> + Clone) -> String {
    let names: Vec<String> = numbers.clone().map(|number| format!("m{number}")).collect();
    format!("MEMBERS {} {}", names.len(), names.join(" "))
}

#[test]
fn members_have_deadlines_as_fields_of_hashes() {
    check_alone(
        "SADD s a b c => :3
         SEXPIRE s 300 MEMBERS 2 a no => [:1, :-2]
         STTL s MEMBERS 3 a b no => [:300, :-1, :-2]
         STTL no MEMBERS 1 a => [:-2]
         SEXPIRE no 300 MEMBERS 2 a b => [:-2, :-2]
         SEXPIRE s 400 NX MEMBERS 2 a b => [:0, :1]
         SEXPIRE s 350 GT MEMBERS 3 a b c => [:1, :0, :0]
         SEXPIRE s 340 MEMBERS 3 a b c LT => [:1, :1, :1]
         SPERSIST s MEMBERS 3 c c no => [:1, :-1, :-2]
         SEXPIRE s 100 XX MEMBERS 2 a c => [:1, :0]
         SEXPIREAT s 32503680000 MEMBERS 1 a => [:1]
         SEXPIRETIME s MEMBERS 2 a c => [:32503680000, :-1]
         SPEXPIREAT s 32503680000001 MEMBERS 1 a => [:1]
         SPEXPIRETIME s MEMBERS 1 a => [:32503680000001]
         SADD s a => :0
         SEXPIRETIME s MEMBERS 1 a => [:32503680001]
         SPEXPIRE s 0 MEMBERS 2 b no => [:2, :-2]
         SCARD s => :2
         SEXPIREAT s 1 MEMBERS 2 a c => [:2, :2]
         EXISTS s => :0",
    );
}

#[test]
fn saddex_adds_members_with_a_deadline_under_a_condition() {
    check_alone(
        "SADDEX s EX 300 MEMBERS 2 a b => :1
         STTL s MEMBERS 2 a b => [:300, :300]
         SADDEX s MNX EX 9 MEMBERS 2 b c => :0
         SADDEX s MXX EX 9 MEMBERS 2 b c => :0
         SADDEX s MXX PX 100000 MEMBERS 1 b => :1
         STTL s MEMBERS 2 a b => [:300, :100]
         SADDEX s KEEPTTL MEMBERS 2 a c => :1
         STTL s MEMBERS 3 a b c => [:300, :100, :-1]
         SADDEX s MEMBERS 1 a => :1
         STTL s MEMBERS 1 a => [:-1]
         SADDEX s EXAT 1 MEMBERS 2 a no => :1
         SMISMEMBER s a b no => [:0, :1, :0]
         SADDEX no MXX EX 5 MEMBERS 1 a => :0
         SADDEX no PXAT 1 MEMBERS 1 a => :1
         EXISTS no => :0",
    );
}

#[test]
fn errors_name_members_instead_of_fields() {
    check_alone(
        "SADD s a => :1
         SET string x => +OK
         SEXPIRE string 5 MEMBERS 1 a => -WRONGTYPE Operation against a key holding the wrong kind \
          of value
         SEXPIRE s x MEMBERS 1 a => -ERR value is not an integer or out of range
         SEXPIRE s -1 MEMBERS 1 a => -ERR invalid expire time, must be >= 0
         SPEXPIRE s 9223372036854775807 MEMBERS 1 a => \
          -ERR invalid expire time in 'spexpire' command
         SEXPIRE s 5 MEMBERS 0 a => -ERR Parameter `numMembers` should be greater than 0
         SEXPIRE s 5 MEMBERS 2 a => -ERR wrong number of arguments
         SEXPIRE s 5 NX GT MEMBERS 1 a => -ERR Multiple condition flags specified
         SEXPIRE s 5 FIELDS 1 a => -ERR unknown argument: FIELDS
         SEXPIRE s 5 NX NX NX => -ERR missing MEMBERS argument
         SEXPIRE s 5 MEMBERS 1 a MEMBERS 1 a => -ERR MEMBERS keyword specified multiple times
         STTL s 1 MEMBERS a => \
          -ERR Mandatory argument MEMBERS is missing or not at the right position
         STTL s MEMBERS 0 a => -ERR Number of members must be a positive integer
         SPERSIST s MEMBERS 2 a => \
          -ERR The `nummembers` parameter must match the number of arguments
         SADDEX s MNX MXX MEMBERS 1 a => -ERR Only one of MXX or MNX arguments can be specified
         SADDEX s FNX MEMBERS 1 a => -ERR unknown argument: FNX
         SADDEX s EX 5 KEEPTTL MEMBERS 1 a => \
          -ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified
         SADDEX s MEMBERS 0 a => -ERR invalid number of members
         SADDEX s MNX EX 5 => -ERR missing MEMBERS argument",
    );
}

#[test]
fn expired_members_are_missing_for_each_command() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    client.check(
        "SADD s a b c => :3
        SADD other a b => :2
        EXPIRE s 1000 => :1
        SPEXPIRE s 100 MEMBERS 2 a b => [:1, :1]
        COPY s copy => :1
        OBJECT ENCODING s => listpack",
    );
    daemon.advance(Duration::from_millis(101));
    client.check(
        "SCARD s => :1
        SMEMBERS s => [c]
        SISMEMBER s a => :0
        SMISMEMBER s a c => [:0, :1]
        SINTER s other => []
        SINTERCARD 2 other s => :0
        SDIFF other s => [a, b]
        SUNIONSTORE all s copy => :1
        ZUNION 1 s => [c]
        SORT s ALPHA => [c]
        SRANDMEMBER s 5 => [c]
        SSCAN s 0 => [0, [c]]
        SMOVE s other a => :0
        SREM s a => :0
        SPOP copy 9 => [c]
        EXISTS copy => :0
        TTL s => :1000
        SADD s a => :1
        STTL s MEMBERS 1 a => [:-1]
        SPEXPIRE s 100 MEMBERS 2 a c => [:1, :1]
        PERSIST s => :1
        TTL s => :-1",
    );
    daemon.advance(Duration::from_millis(101));
    client.check("EXISTS s => :0\nSCARD s => :0\nTYPE s => +none");
}

#[test]
fn a_large_set_keeps_its_members_until_they_expire() {
    let daemon = Daemon::start(&[]);
    let mut client = Client::connect(&daemon);
    let names: Vec<String> = (0..2_000).map(|number| format!("m{number}")).collect();
    client.run(&format!("SADD s {}", names.join(" ")));
    client.run("EXPIRE s 1000");
    for first in [0, 500] {
        let even = (first..first + 500).step_by(2);
        let answer = client.run(&format!("SPEXPIRE s 100 {}", members(even.clone())));
        assert_eq!(answer, Value::Array(vec![Value::Integer(1); even.count()]));
    }
    client.check(
        "SCARD s => :2000
        TTL s => :1000
        RENAME s t => +OK
        SPTTL t MEMBERS 2 m0 m1 => [:100, :-1]",
    );
    daemon.advance(Duration::from_millis(101));
    client.check(
        "SCARD t => :1500
        SMISMEMBER t m0 m1 m998 m999 m1000 => [:0, :1, :0, :1, :1]
        SADD t m0 => :1
        SREM t m2 m3 => :1
        SCARD t => :1500
        SUNIONCARD 1 t => :1500
        PEXPIRE t 100 => :1",
    );
    let Value::Array(drawn) = client.run("SRANDMEMBER t 1500") else {
        panic!("no list");
    };
    assert_eq!(drawn.len(), 1_500);
    // A dump has no deadlines of members.
    client.check("SPEXPIRE t 50 MEMBERS 1 m0 => [:1]");
    let Value::Bulk(dump) = client.run("DUMP t") else {
        panic!("no dump");
    };
    client.send(&[b"RESTORE", b"restored", b"0", &dump]);
    client.read();
    daemon.advance(Duration::from_millis(101));
    client.check("EXISTS t => :0\nSCARD restored => :1500\nSTTL restored MEMBERS 1 m0 => [:-1]");
}

#[test]
fn members_that_expire_are_told_and_invalidated() {
    let daemon = Daemon::start(&["--notify-keyspace-events", "AE"]);
    let (mut listener, mut client) = (Client::connect(&daemon), Client::connect(&daemon));
    listener.run("PSUBSCRIBE __keyevent@0__:*");
    let mut told = |client: &mut Client, request: &str, events: &str| {
        client.run(request);
        daemon.advance(Duration::from_millis(100));
        for event in events.split_whitespace() {
            let channel = format!("__keyevent@0__:{event}");
            let expected = bulks(&["pmessage", "__keyevent@0__:*", &channel, "s"]);
            assert_eq!(listener.read(), expected, "{request}");
        }
    };
    told(&mut client, "SADD s a b c d", "sadd");
    told(
        &mut client,
        "SPEXPIRE s 100 MEMBERS 2 a b",
        "sexpire sexpired",
    );
    told(&mut client, "SEXPIRE s 100 MEMBERS 1 c", "sexpire");
    told(&mut client, "SPERSIST s MEMBERS 1 c", "spersist");
    told(&mut client, "SPEXPIRE s 0 MEMBERS 1 c", "srem");
    told(
        &mut client,
        "SADDEX s PX 100 MEMBERS 2 e f",
        "sadd sexpire sexpired",
    );
    told(
        &mut client,
        "SPEXPIRE s 100 MEMBERS 1 d",
        "sexpire sexpired del",
    );
    told(&mut client, "SADDEX s EX 100 MEMBERS 1 a", "sadd sexpire");
    told(&mut client, "SADDEX s EXAT 1 MEMBERS 2 a b", "srem del");
}
