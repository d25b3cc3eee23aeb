//! What the binary protocol's decoder makes of the beginning of a stream.

use cellar_protocol::memcached::binary::decode::BODY_BYTES_MAX;
use cellar_protocol::memcached::binary::operation::code;
use cellar_protocol::memcached::binary::{
    Asks, HEAD_BYTES, OPERATIONS, Packet, PacketDecoded, PacketRefused, PacketStatus, decode,
};
use cellar_protocol::memcached::{Stats, Verb};

const VALUE_BYTES_MAX: usize = 20;

/// A head that announces a body of so many bytes.
fn head(code: u8, key: usize, extras: u8, body: usize) -> Vec<u8> {
    let mut bytes = vec![0x80, code];
    bytes.extend_from_slice(&(key as u16).to_be_bytes());
    bytes.extend_from_slice(&[extras, 0, 0, 0]);
    bytes.extend_from_slice(&(body as u32).to_be_bytes());
    bytes.extend_from_slice(b"mark");
    bytes.extend_from_slice(&9_u64.to_be_bytes());
    bytes
}

fn whole(code: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = extras.len() + key.len() + value.len();
    let head = head(code, key.len(), extras.len() as u8, body);
    [&*head, extras, key, value].concat()
}

fn packet(input: &[u8]) -> (Packet<'_>, usize) {
    match decode(input, VALUE_BYTES_MAX) {
        PacketDecoded::Packet { packet, used } => (packet, used),
        other => panic!("{other:?} from {}", input.escape_ascii()),
    }
}

fn refused(input: &[u8]) -> PacketRefused {
    match decode(input, VALUE_BYTES_MAX) {
        PacketDecoded::Refused(refused) => refused,
        other => panic!("{other:?} from {}", input.escape_ascii()),
    }
}

#[test]
fn a_store_waits_for_its_value_and_takes_it_from_the_input() {
    let input = whole(code::SETQ, &[0, 0, 0, 7, 0, 0, 1, 0], b"key", b"value");
    for end in 0..input.len() {
        let decoded = decode(&input[..end], VALUE_BYTES_MAX);
        assert!(matches!(decoded, PacketDecoded::Incomplete), "{end} bytes");
    }
    let more = [&*input, b"rest"].concat();
    let (packet, used) = packet(&more);
    assert_eq!(used, input.len());
    assert_eq!((packet.key, packet.value), (&b"key"[..], &b"value"[..]));
    assert_eq!(packet.version, 9);
    assert_eq!((packet.head.code, packet.head.quiet), (code::SETQ, true));
    assert_eq!(packet.head.opaque, *b"mark");
    let store = Asks::Store {
        verb: Verb::Set,
        flags: 7,
        exptime: 256,
    };
    assert_eq!(packet.asks, store);
}

#[test]
fn a_long_value_is_an_upload_once_its_key_is_there() {
    let input = whole(code::ADD, &[0; 8], b"key", &[b'v'; VALUE_BYTES_MAX + 1]);
    let key_end = HEAD_BYTES + 8 + 3;
    for end in 0..key_end {
        let decoded = decode(&input[..end], VALUE_BYTES_MAX);
        assert!(matches!(decoded, PacketDecoded::Incomplete), "{end} bytes");
    }
    let PacketDecoded::Upload {
        packet,
        used,
        value_bytes,
    } = decode(&input[..key_end], VALUE_BYTES_MAX)
    else {
        panic!()
    };
    assert_eq!((used, value_bytes), (key_end, VALUE_BYTES_MAX + 1));
    assert_eq!((packet.key, packet.value), (&b"key"[..], &b""[..]));
}

#[test]
fn a_counter_is_created_unless_its_exptime_forbids_it() {
    let mut extras = [0; 20];
    (extras[7], extras[15], extras[19]) = (1, 2, 3);
    let input = whole(code::DECREMENT, &extras, b"n", b"");
    let created = Asks::Count {
        delta: 1,
        initial: Some((2, 3)),
        subtract: true,
    };
    assert_eq!(packet(&input).0.asks, created);
    extras[16..].fill(0xff);
    let input = whole(code::INCREMENTQ, &extras, b"n", b"");
    let not_created = Asks::Count {
        delta: 1,
        initial: None,
        subtract: false,
    };
    assert_eq!(packet(&input).0.asks, not_created);
}

#[test]
fn every_operation_takes_its_own_parts_and_no_others() {
    for operation in OPERATIONS {
        for code in std::iter::once(operation.code).chain(operation.quiet_code) {
            for (extras, key, value) in (0..=20).flat_map(|extras| {
                [
                    (extras, 0, 0),
                    (extras, 1, 0),
                    (extras, 0, 1),
                    (extras, 250, 20),
                ]
            }) {
                let input = whole(code, &vec![0; extras], &vec![b'k'; key], &vec![b'v'; value]);
                let fits = operation.takes(extras, key, value);
                match decode(&input, VALUE_BYTES_MAX) {
                    PacketDecoded::Packet { packet, used } => {
                        assert!(fits && used == input.len(), "{}", operation.name);
                        assert_eq!(packet.head.quiet, code != operation.code);
                    }
                    PacketDecoded::Refused(refused) => {
                        assert!(!fits && refused.close, "{}", operation.name);
                        let (_, status) = refused.answer.unwrap();
                        assert_eq!(status, PacketStatus::Invalid);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

#[test]
fn lengths_that_cannot_be_end_the_connection() {
    for (head, status) in [
        (head(code::GET, 5, 0, 4), PacketStatus::Unknown),
        (head(0x7f, 5, 4, 8), PacketStatus::Unknown),
        (head(code::GET, 251, 0, 251), PacketStatus::Invalid),
        (
            head(code::SET, 1, 8, BODY_BYTES_MAX + 1),
            PacketStatus::Invalid,
        ),
    ] {
        let refused = refused(&head);
        assert!(refused.close && refused.used == HEAD_BYTES);
        assert_eq!(refused.answer.map(|(_, status)| status), Some(status));
    }
    for input in [&b"get k\r\n"[..], b"\x81", &[0; HEAD_BYTES]] {
        let refused = refused(input);
        assert!(refused.close && refused.answer.is_none());
    }
}

#[test]
fn what_nobody_knows_is_skipped() {
    let refused = refused(&head(0x3f, 3, 2, 1000));
    assert_eq!((refused.used, refused.swallow), (HEAD_BYTES, 1000));
    assert!(!refused.close);
}

#[test]
fn a_login_is_never_an_upload() {
    let input = whole(code::SASL_AUTH, b"", b"PLAIN", &[b'p'; VALUE_BYTES_MAX + 1]);
    let refused = refused(&input);
    assert_eq!(refused.swallow, VALUE_BYTES_MAX + 1);
    assert_eq!(
        refused.answer.map(|(_, status)| status),
        Some(PacketStatus::Denied)
    );
}

#[test]
fn statistics_have_names() {
    for (name, stats) in [
        (&b""[..], Some(Stats::General)),
        (b"settings", Some(Stats::Settings)),
        (b"reset", Some(Stats::Reset)),
        (b"hotkeys", Some(Stats::HotKeys)),
        (b"compression", Some(Stats::Compression)),
        (b"cachedump", None),
    ] {
        let input = whole(code::STAT, b"", name, b"");
        assert_eq!(packet(&input).0.asks, Asks::Stat(stats));
    }
}
