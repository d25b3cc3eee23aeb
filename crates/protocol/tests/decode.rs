//! What the decoder makes of the beginning of a stream.

use cellar_protocol::memcached::{
    Decoded, Get, Limits, Refused, Request, Storage, Store, Verb, decode,
};

fn request(input: &[u8]) -> (Request<'_>, usize) {
    match decode(input, &Limits::default()) {
        Decoded::Request { request, used } => (request, used),
        other => panic!("{other:?} from {}", input.escape_ascii()),
    }
}

fn refused(input: &[u8]) -> Refused {
    match decode(input, &Limits::default()) {
        Decoded::Refused(refused) => refused,
        other => panic!("{other:?} from {}", input.escape_ascii()),
    }
}

#[test]
fn a_get_is_its_keys() {
    let (Request::Get(get), used) = request(b"get  a bc  d \r\nget x") else {
        panic!()
    };
    assert_eq!(used, 15);
    assert_eq!(get.first, b"a");
    assert!(!get.is_single());
    assert_eq!(
        get.keys().collect::<Vec<_>>(),
        [b"a".as_slice(), b"bc", b"d"]
    );
    let (
        Request::Get(Get {
            touch,
            with_version,
            ..
        }),
        _,
    ) = request(b"gats -5 a\n")
    else {
        panic!()
    };
    assert_eq!((touch, with_version), (Some(-5), true));
}

#[test]
fn a_store_waits_for_its_value_and_takes_it_from_the_input() {
    let whole = b"set k 7 60 5 noreply\r\nhello\r\nrest";
    for end in 0..whole.len() - 4 {
        let decoded = decode(&whole[..end], &Limits::default());
        assert!(matches!(decoded, Decoded::Incomplete), "{end} bytes");
    }
    let (Request::Store(store), used) = request(whole) else {
        panic!()
    };
    assert_eq!(used, whole.len() - 4);
    let Store {
        verb,
        key,
        flags,
        exptime,
        noreply,
        value,
        ..
    } = store;
    assert_eq!(
        (verb, key, flags, exptime),
        (Verb::Set, b"k".as_slice(), 7, 60)
    );
    assert_eq!((noreply, value), (true, b"hello".as_slice()));
    assert!(
        whole.as_ptr_range().contains(&value.as_ptr()),
        "the value is not copied"
    );
}

#[test]
fn a_long_value_is_announced_as_soon_as_its_line_is_there() {
    let line = b"ms k 16385 T5\r\n";
    let decoded = decode(line, &Limits::default());
    let Decoded::Upload {
        storage,
        used,
        value_bytes,
    } = decoded
    else {
        panic!("{decoded:?}")
    };
    assert_eq!((used, value_bytes), (line.len(), 16_385));
    assert!(matches!(
        storage,
        Storage::Meta {
            verb: Verb::Set,
            ..
        }
    ));
}

#[test]
fn a_wrong_store_takes_its_value_with_it_if_the_length_is_known() {
    assert_eq!(refused(b"set k x 0 5\r\n").swallow, 7);
    assert_eq!(refused(b"set k 0 0 -5\r\n").swallow, 0);
    let bad = refused(b"set k 0 0 2\r\nabcd\r\n");
    assert_eq!((bad.line, bad.used), ("CLIENT_ERROR bad data chunk", 17));
    let silent = refused(b"set k x 0 5 noreply\r\n");
    assert_eq!((silent.line, silent.swallow), ("", 7));
}

#[test]
fn a_set_in_its_usual_form_is_read_as_in_any_other() {
    let numbers = [
        "0",
        "5",
        "007",
        "86400",
        "999999999",
        "1767225600",
        "2147483645",
        "2147483646",
        "2147483648",
        "4294967295",
        "4294967296",
        "9999999999",
        "00000000005",
        "12345678901",
        "-1",
        "+5",
        "5x",
        "x",
        "",
    ];
    let seen = |line: String| {
        let decoded = format!("{:?}", decode(line.as_bytes(), &Limits::default()));
        // How long it is: the forms differ by a space.
        let mut parts = decoded.split("used: ");
        let first = parts.next().unwrap_or_default().to_owned();
        let rests = parts.map(|it| it.trim_start_matches(|c: char| c.is_ascii_digit()));
        first + &rests.collect::<String>()
    };
    for key in [
        "k",
        "a_key:0123456789",
        &"k".repeat(250),
        &"k".repeat(251),
        "",
    ] {
        for flags in numbers {
            for exptime in numbers {
                for bytes in numbers {
                    let of = |space: &str| {
                        seen(format!(
                            "set {key} {flags} {exptime} {bytes}{space}\r\nhello\r\n"
                        ))
                    };
                    assert_eq!(of(""), of(" "), "{key} {flags} {exptime} {bytes}");
                }
            }
        }
    }
}

#[test]
fn reads_in_their_usual_form_are_read_as_in_any_other() {
    let seen = |line: &str| {
        let decoded = format!("{:?}", decode(line.as_bytes(), &Limits::default()));
        // How long it is: the forms differ by a space.
        let end = decoded.find("used: ").unwrap_or(decoded.len());
        decoded[..end].to_owned()
    };
    let rests = [
        "",
        " ",
        " v",
        " v q",
        " q v k t s f",
        " v v",
        " v q v",
        " vq",
        "  v",
        " v ",
        " O1 v",
        " v O1",
        " b",
        " v b",
        " T30 v",
        " N0 v",
        " Q",
        " 7",
        " ?",
        "\tv",
        " l h c u x",
        " second",
        " v\t",
    ];
    for command in ["get", "mg", "gets", "mn", "gat"] {
        for key in [
            "k",
            "a_key:0123456789",
            "k\tk",
            "k\u{7f}",
            "k\r",
            "\u{e9}\u{e9}",
            &"k".repeat(250),
            &"k".repeat(251),
            "",
        ] {
            for rest in rests {
                for end in ["\r\n", "\n", "\r\r\n"] {
                    let line = format!("{key}{rest}{end}");
                    let of = |space: &str| seen(&format!("{command}{space}{line}"));
                    assert_eq!(of(" "), of("  "), "{command} {line:?}");
                }
            }
        }
    }
    let whole = "mg key v q\r\n";
    for cut in 0..whole.len() {
        let decoded = decode(&whole.as_bytes()[..cut], &Limits::default());
        assert!(matches!(decoded, Decoded::Incomplete), "{cut}");
    }
}

#[test]
fn a_line_that_never_ends_is_given_up() {
    let limits = Limits {
        keys_line_bytes_max: 5_000,
        ..Limits::default()
    };
    assert!(matches!(
        decode(&[b'x'; 2_048], &limits),
        Decoded::Incomplete
    ));
    let Decoded::Refused(given_up) = decode(&[b'x'; 2_049], &limits) else {
        panic!()
    };
    assert!(given_up.close && given_up.line.is_empty());
    let keys = [b"get ".as_slice(), &b"k ".repeat(2_498)].concat();
    assert!(matches!(decode(&keys, &limits), Decoded::Incomplete));
    let Decoded::Refused(given_up) = decode(&[&keys, b"k".as_slice()].concat(), &limits) else {
        panic!("a read may be long, but not without end")
    };
    assert!(given_up.close && given_up.line.starts_with("SERVER_ERROR"));
}

#[test]
fn a_browser_and_a_binary_client_are_sent_away() {
    assert!(refused(b"GET / HTTP/1.1\r\n").close);
    assert!(refused(b"\x80").close);
    assert!(!refused(b"GET /\r\n").close);
}
