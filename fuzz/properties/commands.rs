//! Commands with arguments of all sizes, made from the input's bytes, from two clients of one
//! server: whatever they are, the answers are whole frames and a PING is answered afterwards.
//!
//! Random bytes seldom are a command that does anything, and never one of megabytes. Here two bytes
//! choose a row of the table, one each argument: a key that others use too, a number at a border, a
//! word that some option has, or bytes of a length from nothing to some MiB.

use cellar_protocol::resp::Command;
use cellar_protocol::resp::command::TABLE;

use super::talk::Talk;
use super::talks::{kinds, state};

/// Most commands of one input, and most arguments of one command.
const COMMANDS_MAX: usize = 60;
const ARGS_MAX: u8 = 12;
/// Bytes of one input's requests; what would go above it is left out.
const SENT_BYTES_MAX: usize = 8 << 20;
/// Bytes of the two lines of bytes that a long request is cut into.
const PIECE_BYTES_MIN: usize = 1_000;

const KEYS: [&str; 8] = ["k", "a", "b", "hash", "set", "zset", "{k}1", ""];
const NUMBERS: [&str; 20] = [
    "0",
    "1",
    "-1",
    "2",
    "10",
    "100",
    "1000",
    "65536",
    "1048577",
    "536870912",
    "2147483647",
    "-2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "1.5",
    "-inf",
    "nan",
    "1e308",
];
const WORDS: [&str; 64] = [
    "EX",
    "PX",
    "EXAT",
    "PXAT",
    "NX",
    "XX",
    "GT",
    "LT",
    "KEEPTTL",
    "GET",
    "PERSIST",
    "FIELDS",
    "FNX",
    "FXX",
    "MATCH",
    "COUNT",
    "TYPE",
    "NOVALUES",
    "WITHSCORES",
    "WITHVALUES",
    "BYSCORE",
    "BYLEX",
    "REV",
    "LIMIT",
    "LEN",
    "IDX",
    "MINMATCHLEN",
    "WITHMATCHLEN",
    "DB",
    "REPLACE",
    "ON",
    "OFF",
    "SKIP",
    "BCAST",
    "PREFIX",
    "OPTIN",
    "OPTOUT",
    "NOLOOP",
    "REDIRECT",
    "YES",
    "NO",
    "ID",
    "ADDR",
    "USER",
    "SETNAME",
    "AUTH",
    "STEP",
    "INCR",
    "CH",
    "ASYNC",
    "SYNC",
    "FULL",
    "SAMPLES",
    "WEIGHTS",
    "AGGREGATE",
    "ENX",
    "UBOUND",
    "LBOUND",
    "OVERFLOW",
    "IFEQ",
    "IFNE",
    "[a",
    "(1",
    "*",
];
const TEXTS: [&str; 12] = [
    "return 1",
    "return redis.call('get', KEYS[1])",
    "return {1, 'a', {2, false}, nil}",
    "return redis.call(unpack(ARGV))",
    "return redis.pcall('set', KEYS[1], ARGV[1])",
    "redis.setresp(3) return redis.call('hgetall', 'hash')",
    "for i = 1, 300 do redis.call('sadd', 'set', i) end",
    "return cjson.encode({ARGV[1], 1.5, {}})",
    "h?[^a-c]*[a-\\]",
    "__keyspace@0__:*",
    "*a*a*a*a*b",
    "\u{ff}\0",
];

/// The input as choices; zeros when it is used up.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::from(self.byte()) % all.len()]
    }

    /// Nothing to some MiB; most are short.
    fn bytes(&mut self) -> Vec<u8> {
        let (class, fine, filler) = (self.byte(), usize::from(self.byte()), self.byte());
        let bytes = match class {
            0..120 => fine % 24,
            120..190 => fine,
            190..225 => fine * 70,
            225..250 => fine * 300,
            250..254 => fine * 4_200,
            _ => fine * 13_000,
        };
        (0..bytes)
            .map(|place| {
                if filler < 128 {
                    filler
                } else {
                    filler.wrapping_add(place as u8)
                }
            })
            .collect()
    }

    fn argument(&mut self) -> Vec<u8> {
        match self.byte() {
            0..90 => self.of(&KEYS).into(),
            90..150 => self.of(&NUMBERS).into(),
            150..210 => self.of(&WORDS).into(),
            210..225 => self.of(&TEXTS).into(),
            _ => self.bytes(),
        }
    }

    /// A command whose number of arguments is allowed, mostly.
    fn command(&mut self) -> Vec<Vec<u8>> {
        let row = &TABLE[usize::from(self.byte()) % TABLE.len()];
        let mut args: Vec<Vec<u8>> = vec![row.name.into()];
        let mut row: &Command = row;
        let which = usize::from(self.byte());
        if !row.subcommands.is_empty() {
            row = &row.subcommands[which % row.subcommands.len()];
            args.push(row.name.into());
        }
        let least = usize::from(row.arity.unsigned_abs());
        let more = match (row.arity, self.byte()) {
            (i8::MIN..0, more) => usize::from(more % ARGS_MAX),
            (_, 255) => 1,
            _ => 0,
        };
        while args.len() < least + more {
            let arg = self.argument();
            args.push(arg);
        }
        args
    }
}

/// Checks the property for one input.
pub(crate) fn check(data: &[u8]) {
    let state = state();
    let mut talks = [Talk::new(&state), Talk::new(&state)];
    let mut answers = [Vec::new(), Vec::new()];
    let mut choices = Choices(data.iter());
    let mut sent = 0;
    for _ in 0..COMMANDS_MAX {
        let how = choices.byte();
        if choices.0.len() == 0 {
            break;
        }
        let mut frame = Vec::new();
        let args = choices.command();
        frame.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in &args {
            frame.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            frame.extend_from_slice(arg);
            frame.extend_from_slice(b"\r\n");
        }
        sent += frame.len();
        if sent > SENT_BYTES_MAX {
            break;
        }
        let which = usize::from(how % 4 == 3);
        let cut = match how {
            0..128 => frame.len(),
            _ => (frame.len() * usize::from(how - 127) / 130).max(PIECE_BYTES_MIN),
        };
        for piece in frame.chunks(cut) {
            answers[which].extend(talks[which].feed(piece));
        }
    }
    for (talk, answers) in talks.iter_mut().zip(&mut answers) {
        kinds(answers);
        let before = answers.len();
        let pong = talk.feed(b"*1\r\n$5\r\nRESET\r\n*1\r\n$4\r\nPING\r\n");
        answers.extend_from_slice(&pong);
        assert!(
            talk.is_closed() || answers[before..].ends_with(b"+PONG\r\n"),
            "{}",
            pong.escape_ascii()
        );
    }
}
