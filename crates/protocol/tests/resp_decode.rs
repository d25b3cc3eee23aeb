//! What the RESP decoder makes of the beginning of a stream.

use cellar_protocol::resp::{
    Decoded, Limits, Plain, Request, Scan, Tail, Verb, decode, decode_plain, decode_tail,
};

fn decoded(input: &[u8]) -> Decoded<'_> {
    decode(input, Scan::default(), &Limits::default())
}

fn request(input: &[u8]) -> (Request<'_>, usize) {
    match decoded(input) {
        Decoded::Request { request, used } => (request, used),
        other => panic!("{other:?} from {}", input.escape_ascii()),
    }
}

/// The words of a line, with or without quotes.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let owned = |request: Request<'_>| request.args.iter().map(|arg| arg.to_vec()).collect();
    match decoded(line) {
        Decoded::Request { request, used } if used == line.len() => owned(request),
        Decoded::Quoted { frame, used } if used == line.len() => owned(Decoded::unquoted(&frame)),
        other => panic!("{other:?} from {}", line.escape_ascii()),
    }
}

#[test]
fn an_array_of_bulk_strings_is_a_request() {
    let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n";
    let (request, used) = request(input);
    assert_eq!(used, input.len() - 4);
    assert_eq!(request.command.unwrap().verb, Verb::Get);
    assert_eq!(request.args.as_slice(), [b"GET".as_slice(), b"k"]);
    assert!(
        input.as_ptr_range().contains(&request.args[1].as_ptr()) && !request.args.spilled(),
        "nothing is copied or allocated"
    );
}

#[test]
fn a_request_may_have_many_long_and_empty_arguments() {
    let long = vec![b'v'; 70_000];
    let args: Vec<&[u8]> = [
        b"MSET".as_slice(),
        b"",
        b"\r\n",
        &long[..999],
        &long[..1_000],
        &long,
    ]
    .into_iter()
    .chain((0..100).map(|_| b"x".as_slice()))
    .collect();
    let mut input = Vec::new();
    let sent = Request::of(args.iter().copied().collect());
    sent.write(&mut input);
    let (received, used) = request(&input);
    assert_eq!((used, &received), (input.len(), &sent));
    assert_eq!(received.args.as_slice(), args);
    assert_eq!(received.command.unwrap().verb, Verb::Mset);
}

#[test]
fn an_unknown_name_is_a_request_without_a_row() {
    let (unknown, _) = request(b"*2\r\n$4\r\nXADD\r\n$1\r\nk\r\n");
    assert!(unknown.command.is_none());
    assert_eq!(unknown.args[0], b"XADD");
}

#[test]
fn a_line_of_words_is_a_request_too() {
    let (get, used) = request(b" \tget   key\r\nping\r\n");
    assert_eq!((get.command.unwrap().verb, used), (Verb::Get, 13));
    assert_eq!(words(b"SET k v\n"), [b"SET".as_slice(), b"k", b"v"]);
    assert_eq!(
        words(b"\x0b\x0cECHO a\x0bb\r\n"),
        [b"ECHO".as_slice(), b"a\x0bb"]
    );
    assert!(request(b"POST / HTTP/1.1\r\n").0.is_http());
    assert!(request(b"Host: here\r\n").0.is_http());
    assert!(!request(b"GET /\r\n").0.is_http());
}

#[test]
fn quotes_in_a_line_keep_blanks_and_escapes() {
    for (line, last) in [
        (br#"ECHO "a b""#.as_slice(), b"a b".as_slice()),
        (br#"ECHO """#, b""),
        (br#"ECHO "\n\r\t\b\a\"\\\q""#, b"\n\r\t\x08\x07\"\\q"),
        (br#"ECHO "\x41\xfF\xg1""#, b"A\xffxg1"),
        (br"ECHO 'a\'b\n'", br"a'b\n"),
        (br#"ECHO x"y z""#, b"xy z"),
        (br#"ECHO 'say "hi"'"#, br#"say "hi""#),
        (br"ECHO a\ 'b'", b"b"),
    ] {
        let words = words(&[line, b"\r\n"].concat());
        assert_eq!(words[0], b"ECHO");
        assert_eq!(words.last().unwrap(), last, "{}", line.escape_ascii());
    }
}

#[test]
fn empty_lines_and_empty_arrays_are_skipped() {
    for input in [
        b"\r\n".as_slice(),
        b"\n",
        b"  \r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*-12\r\n",
    ] {
        assert_eq!(decoded(input), Decoded::Nothing { used: input.len() });
    }
}

#[test]
fn each_error_has_its_text() {
    let digits = [b'1'; 65_540];
    let endless = |start: &[u8]| [start, digits.as_slice()].concat();
    let cases: [(Vec<u8>, &[u8]); 25] = [
        (b"*x\r\n".into(), b"invalid multibulk length"),
        (b"*\r\n".into(), b"invalid multibulk length"),
        (b"*+1\r\n".into(), b"invalid multibulk length"),
        (b"*01\r\n".into(), b"invalid multibulk length"),
        (b"* 1\r\n".into(), b"invalid multibulk length"),
        (b"*3000000000\r\n".into(), b"invalid multibulk length"),
        (
            b"*99999999999999999999\r\n".into(),
            b"invalid multibulk length",
        ),
        (b"*1\r\n$x\r\n".into(), b"invalid bulk length"),
        (b"*1\r\n$\r\n".into(), b"invalid bulk length"),
        (b"*1\r\n$-1\r\n".into(), b"invalid bulk length"),
        (b"*1\r\n$05\r\n".into(), b"invalid bulk length"),
        (b"*1\r\n$1a\r\n".into(), b"invalid bulk length"),
        (b"*1\r\n$12a\r\n".into(), b"invalid bulk length"),
        (b"*1\r\n$2000000000\r\n".into(), b"invalid bulk length"),
        (
            b"*2\r\n$3\r\nGET\r\n:1\r\n".into(),
            b"expected '$', got ':'",
        ),
        (b"*1\r\nGET\r\n".into(), b"expected '$', got 'G'"),
        (b"*1\r\n\r\n".into(), b"expected '$', got ' '"),
        (b"*1\r\n\n\r\n".into(), b"expected '$', got ' '"),
        (b"*1\r\n\xff\r\n".into(), b"expected '$', got '\xff'"),
        (endless(b"*"), b"too big mbulk count string"),
        (endless(b"*1\r\n$"), b"too big bulk count string"),
        (endless(b"SET k "), b"too big inline request"),
        (b"SET k \"v\r\n".into(), b"unbalanced quotes in request"),
        (b"SET k 'v'x\r\n".into(), b"unbalanced quotes in request"),
        (b"SET k \"v\"x\r\n".into(), b"unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        let message = [b"ERR Protocol error: ", text].concat();
        let used = input.len();
        assert_eq!(decoded(&input), Decoded::Refused { message, used });
    }
}

#[test]
fn a_peer_that_has_yet_to_authenticate_may_send_little() {
    let limits = Limits::default().unauthenticated();
    let refused = |input: &[u8]| match decode(input, Scan::default(), &limits) {
        Decoded::Refused { message, .. } => String::from_utf8(message).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(b"*11\r\n"),
        "ERR Protocol error: unauthenticated multibulk length"
    );
    assert_eq!(
        refused(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16385\r\n"),
        "ERR Protocol error: unauthenticated bulk length"
    );
    let allowed = decode(b"*10\r\n$4\r\nAUTH\r\n$16384\r\n", Scan::default(), &limits);
    assert_eq!(allowed, Decoded::Incomplete(Scan { at: 15, left: 9 }));
}

#[test]
fn a_limit_holds_for_short_lengths_too() {
    let limits = Limits {
        bulk_bytes_max: 9,
        args_max: 3,
        ..Limits::default()
    };
    for input in [b"*4\r\n".as_slice(), b"*1\r\n$10\r\n", b"*1\r\n$100\r\n"] {
        let decoded = decode(input, Scan::default(), &limits);
        assert!(matches!(decoded, Decoded::Refused { .. }), "{decoded:?}");
    }
}

#[test]
fn a_long_value_of_set_is_announced_before_it_is_there() {
    let head = b"*5\r\n$3\r\nsEt\r\n$3\r\nkey\r\n$16385\r\n";
    let whole = [
        head.as_slice(),
        &[b'v'; 16_385],
        b"\r\n$2\r\nEX\r\n$1\r\n9\r\n",
    ]
    .concat();
    let upload = Decoded::Upload {
        key: b"key",
        value_bytes: 16_385,
        used: head.len(),
        args_left: 2,
    };
    assert_eq!(decoded(head), upload);
    assert!(decoded(&whole) == upload, "it may be there as well");
    let tail = &whole[head.len() + 16_385 + 2..];
    let limits = Limits::default();
    for end in 0..tail.len() {
        assert_eq!(decode_tail(&tail[..end], 2, &limits), Tail::Incomplete);
    }
    let args = [b"EX".as_slice(), b"9"].into_iter().collect();
    let used = tail.len();
    assert_eq!(decode_tail(tail, 2, &limits), Tail::Args { args, used });
    let message = b"ERR Protocol error: expected '$', got 'x'".to_vec();
    assert_eq!(
        decode_tail(b"$2\r\nEX\r\nx\r\n", 2, &limits),
        Tail::Refused { message }
    );
}

#[test]
fn other_long_arguments_are_waited_for() {
    let waits = |input: &[u8], limits: &Limits| {
        matches!(
            decode(input, Scan::default(), limits),
            Decoded::Incomplete(_)
        )
    };
    let limits = Limits::default();
    assert!(waits(b"*3\r\n$3\r\nSET\r\n$16385\r\n", &limits));
    assert!(waits(b"*3\r\n$4\r\nMSET\r\n$1\r\nk\r\n$16385\r\n", &limits));
    assert!(waits(
        b"*3\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$16385\r\n",
        &limits
    ));
    assert!(!waits(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16385\r\n", &limits));
    let limits = Limits {
        uploads: false,
        ..limits
    };
    assert!(waits(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16385\r\n", &limits));
}

#[test]
fn what_was_looked_at_is_not_looked_at_again() {
    let mut input = b"*3\r\n$3\r\nDEL\r\n$1\r\na\r\n$5\r\nhel".to_vec();
    let Decoded::Incomplete(scan) = decoded(&input) else {
        panic!()
    };
    assert_eq!(scan, Scan { at: 20, left: 1 });
    // Only the last argument is looked at until it is whole.
    input[5] = b'?';
    let limits = Limits::default();
    assert_eq!(decode(&input, scan, &limits), Decoded::Incomplete(scan));
    input[5] = b'3';
    input.extend_from_slice(b"lo\r\n");
    let Decoded::Request { request, used } = decode(&input, scan, &limits) else {
        panic!()
    };
    assert_eq!(
        (request.args.len(), request.args[2]),
        (3, b"hello".as_slice())
    );
    assert_eq!(used, input.len());
}

#[test]
fn a_plain_request_is_what_any_decoding_says() {
    let limits = Limits::default();
    let long = "x".repeat(999);
    let cases = [
        "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".to_owned(),
        "*2\r\n$3\r\ngEt\r\n$0\r\n\r\nrest".to_owned(),
        format!("*2\r\n$3\r\nGET\r\n$999\r\n{long}\r\n"),
        "*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$10\r\n0123456789\r\nnext".to_owned(),
        format!("*3\r\n$3\r\nset\r\n$3\r\nkey\r\n$999\r\n{long}\r\n"),
    ];
    for case in &cases {
        let plain = decode_plain(case.as_bytes(), &limits).expect("it is plain");
        let Decoded::Request { request, used } = decode(case.as_bytes(), Scan::default(), &limits)
        else {
            panic!("{case:?} is no request");
        };
        let found: Vec<&[u8]> = match plain {
            Plain::Get { key, .. } => vec![key],
            Plain::Set { key, value, .. } => vec![key, value],
        };
        assert_eq!(found, request.args[1..]);
        let (Plain::Get {
            used: plain_used, ..
        }
        | Plain::Set {
            used: plain_used, ..
        }) = plain;
        assert_eq!(plain_used, used);
        for cut in 0..used {
            assert_eq!(
                decode_plain(&case.as_bytes()[..cut], &limits),
                None,
                "cut at {cut}"
            );
        }
    }
    for other in [
        "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n",
        "*4\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nNX\r\n",
        "*2\r\n$3\r\nGET\r\n$-1\r\na\r\n",
        "*2\r\n$3\r\nGET\r\n$01\r\na\r\n",
        "GET a\r\n",
    ] {
        assert_eq!(decode_plain(other.as_bytes(), &limits), None, "{other:?}");
    }
}
