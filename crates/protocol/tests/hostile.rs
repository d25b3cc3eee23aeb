//! Hostile bytes to the RESP decoder: nothing panics, and cutting changes no request.
//!
//! The property is that of fuzz/properties/resp.rs; here it runs on the corpus that is kept in
//! fuzz/corpus, and on random inputs, so many for each of `CELLAR_FUZZ_SECONDS` seconds, 2 if not
//! set.

#[path = "../../../fuzz/properties/resp.rs"]
mod resp;

/// Inputs for each second that is asked for; this crate has no clock.
const INPUTS_PER_SECOND: u64 = 10_000;
/// Most pieces of which an input is made.
const PIECES_MAX: usize = 12;

/// Whole requests and parts of them.
const PIECES: &[&[u8]] = &[
    b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nhello\r\n",
    b"*5\r\n$3\r\nset\r\n$1\r\nk\r\n$21\r\n123456789012345678901\r\n$2\r\nEX\r\n$1\r\n9\r\n",
    b"*4\r\n$4\r\nMSET\r\n$1\r\nk\r\n$22\r\n1234567890123456789012\r\n$1\r\nx\r\n",
    b"*4\r\n$4\r\nEVAL\r\n$1\r\ns\r\n$1\r\n1\r\n$1\r\nk\r\n",
    b"*3\r\n",
    b"*40\r\n",
    b"*41\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"$3\r\nSET\r\n",
    b"$1\r\nk\r\n",
    b"$0\r\n\r\n",
    b"$1499\r\n",
    b"$1501\r\n",
    b"$100\r\n",
    b"$",
    b"*",
    b"\r\n",
    b"\r",
    b"\n",
    b"PING\r\n",
    b"SET k \"a \\x41\" 'b'\r\n",
    b"MSETEX 1 a b\r\n",
    b"\"",
    b"'",
    b"\\",
    b" ",
    b"-1",
    b"00",
    b"\0",
    b"\xff",
    b"0123456789012345678901234567890123456789012345678901234567890123456789",
];

/// A small generator of random numbers (xorshift), so that a seed tells the whole run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn input(&mut self) -> Vec<u8> {
        let mut input = Vec::new();
        for _ in 0..=self.below(PIECES_MAX) {
            input.extend_from_slice(PIECES[self.below(PIECES.len())]);
            let at = self.below(input.len());
            match self.below(8) {
                0 => input[at] = self.below(256) as u8,
                1 => input.truncate(at),
                2 => drop(input.remove(at)),
                _ => {}
            }
        }
        input
    }
}

#[test]
fn any_bytes_are_the_same_requests_however_they_arrive() {
    let seconds: u64 = std::env::var("CELLAR_FUZZ_SECONDS").map_or(2, |text| {
        text.parse().expect("CELLAR_FUZZ_SECONDS is a number")
    });
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..seconds * INPUTS_PER_SECOND {
        let input = random.input();
        let checked = std::panic::catch_unwind(|| resp::check(&input));
        if let Err(panic) = checked {
            eprintln!("input: {}", input.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn what_was_found_before_is_found_no_more() {
    let home = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/resp");
    let files = std::fs::read_dir(home).expect("the corpus is there");
    for entry in files {
        let path = entry.expect("a file").path();
        let input = std::fs::read(&path).expect("it is read");
        let checked = std::panic::catch_unwind(|| resp::check(&input));
        assert!(checked.is_ok(), "{}", path.display());
    }
}
