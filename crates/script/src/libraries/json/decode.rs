//! Decode: values of JSON. Nested values are on a list of their own, not on the thread's stack.

use std::borrow::Cow;

use mlua::{IntoLua, Result, Table, Value};

use crate::choices::{Choices, NESTING_MAX};
use crate::given::Given;

/// Bytes of a string that are read between two looks at the clock.
const PIECE_BYTES: usize = 4_096;

/// One token, as errors name it.
enum Token<'a> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Cow<'a, [u8]>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token<'_> {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Wrong(text) => text,
        }
    }
}

/// A value that is read. A text is in Lua only where it is put: so it takes no place outside of it.
enum Read<'a> {
    Text(Cow<'a, [u8]>),
    Value(Value),
}

/// An array or object that is not whole; an object has the key of its next value.
struct OpenValue<'a> {
    table: Table,
    place: i64,
    key: Option<Cow<'a, [u8]>>,
}

/// `cjson.decode(text)`
pub(crate) fn decode(given: &Given<'_>, choices: Choices) -> Result<Value> {
    if given.values.len() != 1 {
        return given.wrong(1, "expected 1 argument");
    }
    let text = given.text(1)?;
    let text = text.as_bytes();
    if text.len() >= 2 && text[..2].contains(&0) {
        return given.fail("JSON parser does not support UTF-16 or UTF-32");
    }
    let mut decoder = Decoder {
        given,
        choices,
        text: &text,
        at: 0,
        token_at: 0,
        levels: Vec::new(),
    };
    let value = decoder.whole()?;
    match decoder.token()? {
        Token::End => Ok(value),
        token => decoder.expected("the end", &token),
    }
}

struct Decoder<'a> {
    given: &'a Given<'a>,
    choices: Choices,
    text: &'a [u8],
    at: usize,
    /// Where the last token begins.
    token_at: usize,
    levels: Vec<OpenValue<'a>>,
}

impl<'a> Decoder<'a> {
    /// The byte at this distance; zero behind the end.
    fn ahead(&self, places: usize) -> u8 {
        self.text.get(self.at + places).copied().unwrap_or(0)
    }

    fn expected<R>(&self, what: &str, token: &Token<'_>) -> Result<R> {
        let (found, place) = (token.name(), self.token_at + 1);
        let text = format!("Expected {what} but found {found} at character {place}");
        self.given.fail(text)
    }

    /// One complete value.
    fn whole(&mut self) -> Result<Value> {
        let mut token = self.token()?;
        loop {
            let mut value = match token {
                Token::ObjectBegin => {
                    self.descend()?;
                    match self.token()? {
                        Token::ObjectEnd => self.ascend(),
                        first => {
                            token = self.key(first)?;
                            continue;
                        }
                    }
                }
                Token::ArrayBegin => {
                    self.descend()?;
                    match self.token()? {
                        Token::ArrayEnd => self.ascend(),
                        first => {
                            token = first;
                            continue;
                        }
                    }
                }
                Token::Text(bytes) => Read::Text(bytes),
                Token::Number(number) => Read::Value(Value::Number(number)),
                Token::Boolean(yes) => Read::Value(Value::Boolean(yes)),
                Token::Null => Read::Value(Value::NULL),
                other => return self.expected("value", &other),
            };
            // The value may be the last of its container, and that container the last of its own.
            token = loop {
                match self.put(value)? {
                    Placed::Top(Read::Value(value)) => return Ok(value),
                    Placed::Top(Read::Text(bytes)) => {
                        return Ok(Value::String(self.given.string(bytes)?));
                    }
                    Placed::Next(token) => break token,
                    Placed::Closed(table) => value = table,
                }
            };
        }
    }

    fn descend(&mut self) -> Result<()> {
        self.given.tick()?;
        let depth = self.levels.len() + 1;
        let most = self.choices.decode_depth_max.min(NESTING_MAX);
        if depth > usize::try_from(most).unwrap_or(0) {
            let text = format!("Found too many nested data structures ({depth})");
            return self.given.fail(text);
        }
        self.levels.push(OpenValue {
            table: self.given.lua.create_table()?,
            place: 1,
            key: None,
        });
        Ok(())
    }

    fn ascend(&mut self) -> Read<'a> {
        let level = self.levels.pop();
        Read::Value(level.map_or(Value::Nil, |level| Value::Table(level.table)))
    }

    /// Takes a key and its colon, and gives the token behind them.
    fn key(&mut self, token: Token<'a>) -> Result<Token<'a>> {
        let Token::Text(bytes) = token else {
            return self.expected("object key string", &token);
        };
        if let Some(level) = self.levels.last_mut() {
            level.key = Some(bytes);
        }
        match self.token()? {
            Token::Colon => self.token(),
            other => self.expected("colon", &other),
        }
    }

    /// Puts a value into its container, and reads the next token.
    fn put(&mut self, value: Read<'a>) -> Result<Placed<'a>> {
        self.given.tick()?;
        let Some(level) = self.levels.last_mut() else {
            return Ok(Placed::Top(value));
        };
        let is_object = level.key.is_some();
        match level.key.take() {
            Some(key) => match self.given.utf8(&key)? {
                Some(text) => set(self.given, &level.table, text, value)?,
                None => set(self.given, &level.table, self.given.string(key)?, value)?,
            },
            None => {
                set(self.given, &level.table, level.place, value)?;
                level.place += 1;
            }
        }
        match (self.token()?, is_object) {
            (Token::ObjectEnd, true) | (Token::ArrayEnd, false) => {
                Ok(Placed::Closed(self.ascend()))
            }
            (Token::Comma, true) => {
                let token = self.token()?;
                Ok(Placed::Next(self.key(token)?))
            }
            (Token::Comma, false) => Ok(Placed::Next(self.token()?)),
            (other, true) => self.expected("comma or object end", &other),
            (other, false) => self.expected("comma or array end", &other),
        }
    }

    /// The next token. There are a few at most between two calls of [`Decoder::put`] or
    /// [`Decoder::descend`], which look at the clock.
    fn token(&mut self) -> Result<Token<'a>> {
        while matches!(self.ahead(0), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
            if self.at.is_multiple_of(PIECE_BYTES) {
                self.given.shared.limit.check()?;
            }
        }
        self.token_at = self.at;
        let single = match self.ahead(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return Ok(Token::End),
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' if !self.choices.decodes_invalid && self.is_invalid() => {
                return Ok(Token::Wrong("invalid number"));
            }
            b'-' | b'0'..=b'9' => return Ok(self.number()),
            b'+' | b'f' | b'i' | b'I' | b'n' | b'N' | b't' => return Ok(self.word()),
            _ => return Ok(Token::Wrong("invalid token")),
        };
        self.at += 1;
        Ok(single)
    }

    fn word(&mut self) -> Token<'a> {
        let rest = &self.text[self.at..];
        for (word, token) in [
            (b"true".as_slice(), Token::Boolean(true)),
            (b"false", Token::Boolean(false)),
            (b"null", Token::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return token;
            }
        }
        if self.choices.decodes_invalid && self.is_invalid() {
            return self.number();
        }
        Token::Wrong("invalid token")
    }

    /// Whether the next token is a number that JSON does not have.
    fn is_invalid(&self) -> bool {
        let rest = &self.text[self.at..];
        if rest.first() == Some(&b'+') {
            return true;
        }
        match rest.strip_prefix(b"-").unwrap_or(rest) {
            [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
            [a, b, c, ..] => [b"inf", b"nan"]
                .iter()
                .any(|word| [*a, *b, *c].eq_ignore_ascii_case(*word)),
            _ => false,
        }
    }

    fn number(&mut self) -> Token<'a> {
        let Some((number, bytes)) = super::number::read(&self.text[self.at..]) else {
            return Token::Wrong("invalid number");
        };
        self.at += bytes;
        Token::Number(number)
    }

    fn string(&mut self) -> Result<Token<'a>> {
        self.at += 1;
        let text = self.text;
        let mut bytes = Cow::Borrowed(&text[self.at..self.at]);
        loop {
            let rest = &text[self.at..];
            let piece = &rest[..rest.len().min(PIECE_BYTES)];
            let plain = piece
                .iter()
                .position(|byte| matches!(byte, b'"' | b'\\' | 0));
            let plain = plain.unwrap_or(piece.len());
            self.at += plain;
            if bytes.is_empty() {
                bytes = Cow::Borrowed(&piece[..plain]);
            } else {
                bytes.to_mut().extend_from_slice(&piece[..plain]);
            }
            if plain == piece.len() && !piece.is_empty() {
                self.given.tick()?;
                continue;
            }
            match self.ahead(0) {
                b'"' => {
                    self.at += 1;
                    return Ok(Token::Text(bytes));
                }
                b'\\' => {
                    self.given.tick()?;
                    if let Some(problem) = self.escape(bytes.to_mut()) {
                        self.token_at = self.at;
                        return Ok(Token::Wrong(problem));
                    }
                }
                _ => {
                    self.token_at = self.at;
                    return Ok(Token::Wrong("unexpected end of string"));
                }
            }
        }
    }

    /// Parses the escape after a backslash; or returns why it is none.
    fn escape(&mut self, bytes: &mut Vec<u8>) -> Option<&'static str> {
        let byte = match self.ahead(1) {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'f' => 12,
            b'r' => b'\r',
            b'u' => return self.unicode(bytes),
            _ => return Some("invalid escape code"),
        };
        bytes.push(byte);
        self.at += 2;
        None
    }

    fn unicode(&mut self, bytes: &mut Vec<u8>) -> Option<&'static str> {
        const WRONG: Option<&str> = Some("invalid unicode escape code");
        let Some(first) = self.hexadecimal(2) else {
            return WRONG;
        };
        let (code, used) = match first {
            0xd800..0xdc00 => {
                let is_pair = self.ahead(6) == b'\\' && self.ahead(7) == b'u';
                let second = self.hexadecimal(8).filter(|_| is_pair);
                let Some(second @ 0xdc00..0xe000) = second else {
                    return WRONG;
                };
                (((first & 0x3ff) << 10 | second & 0x3ff) + 0x1_0000, 12)
            }
            other => (other, 6),
        };
        let Some(character) = char::from_u32(code) else {
            return WRONG;
        };
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.at += used;
        None
    }

    /// Four hexadecimal digits.
    fn hexadecimal(&self, from: usize) -> Option<u32> {
        (from..from + 4).try_fold(0, |code, place| {
            let digit = char::from(self.ahead(place)).to_digit(16)?;
            Some(code << 4 | digit)
        })
    }
}

/// Sets a value of a table.
fn set(given: &Given<'_>, table: &Table, key: impl IntoLua, value: Read<'_>) -> Result<()> {
    match value {
        Read::Text(bytes) => match given.utf8(&bytes)? {
            Some(text) => table.raw_set(key, text),
            None => table.raw_set(key, given.string(bytes)?),
        },
        Read::Value(value) => table.raw_set(key, value),
    }
}

/// Where a value went.
enum Placed<'a> {
    /// Nowhere: it is the whole.
    Top(Read<'a>),
    /// Into something of which this token is the next.
    Next(Token<'a>),
    /// Into something that is whole now.
    Closed(Read<'a>),
}
