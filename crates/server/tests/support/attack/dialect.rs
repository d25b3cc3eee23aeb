//! Dialects: what a ping is in each protocol, and how answers are told apart.

use std::io::{BufRead, Error, ErrorKind, Read, Result};

/// What the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The answer to a ping.
    Ping,
    /// An error, behind which the server may end the connection.
    Refusal,
    /// Something else that is well formed.
    Other,
}

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Memcached,
    /// memcached's binary protocol.
    Binary,
    Resp,
    Http,
}

/// What RESP's pings say, so that their answers are known among others.
const MARK: &[u8] = b"still-there?";
/// The opcode of the binary protocol's ping.
const NOOP: u8 = 0x0a;
/// Frames of RESP within frames.
const DEPTH_MAX: usize = 32;

fn malformed(what: impl std::fmt::Debug) -> Error {
    Error::new(ErrorKind::InvalidData, format!("malformed: {what:.300?}"))
}

impl Dialect {
    /// A request that is answered at once in any state.
    pub(crate) fn ping(self) -> Vec<u8> {
        match self {
            Dialect::Memcached => b"mn\r\n".to_vec(),
            Dialect::Binary => {
                let mut noop = vec![0; 24];
                (noop[0], noop[1]) = (0x80, NOOP);
                noop
            }
            Dialect::Resp => crate::support::daemon::frame(&[b"PING", MARK]),
            Dialect::Http => b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        }
    }

    /// Reads one answer; none at the connection's end. One to HEAD has no body.
    pub(crate) fn read(self, stream: &mut impl BufRead, to_head: bool) -> Result<Option<Answer>> {
        if stream.fill_buf()?.is_empty() {
            return Ok(None);
        }
        match self {
            Dialect::Memcached => read_line(stream).and_then(|line| memcached(&line)),
            Dialect::Binary => binary(stream),
            Dialect::Resp => resp(stream, 0),
            Dialect::Http => http(stream, to_head),
        }
        .map(Some)
    }
}

/// A line without its end.
fn read_line(stream: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    // Lines of metadump end with a space and no carriage return, in memcached, too.
    let is_listed = line.starts_with(b"key=");
    let end: &[u8] = if is_listed { b" \n" } else { b"\r\n" };
    match line.strip_suffix(end) {
        Some(line) => Ok(line.to_vec()),
        None => Err(malformed(String::from_utf8_lossy(&line))),
    }
}

/// Values have no line ends in what attackers store, so each is a line like others.
fn memcached(line: &[u8]) -> Result<Answer> {
    let begins = |word: &str| line.starts_with(word.as_bytes());
    Ok(match line {
        b"MN" => Answer::Ping,
        _ if begins("ERROR") || begins("CLIENT_ERROR") || begins("SERVER_ERROR") => Answer::Refusal,
        _ => Answer::Other,
    })
}

/// One packet.
fn binary(stream: &mut impl BufRead) -> Result<Answer> {
    let mut head = [0; 24];
    stream.read_exact(&mut head)?;
    if head[0] != 0x81 {
        return Err(malformed(head));
    }
    let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    let copied = std::io::copy(&mut stream.take(u64::from(body)), &mut std::io::sink())?;
    if copied < u64::from(body) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(match (head[1], [head[6], head[7]]) {
        (NOOP, [0, 0]) => Answer::Ping,
        (_, [0, 0..=2]) => Answer::Other,
        _ => Answer::Refusal,
    })
}

fn resp(stream: &mut impl BufRead, depth: usize) -> Result<Answer> {
    let line = read_line(stream)?;
    let (kind, rest) = line.split_first().ok_or_else(|| malformed("no kind"))?;
    let text = std::str::from_utf8(rest).map_err(|_| malformed(&line));
    let count = || text.and_then(|text| text.parse::<i64>().map_err(|_| malformed(&line)));
    if depth > DEPTH_MAX {
        return Err(malformed("frames in frames without end"));
    }
    let mut parts = |count: i64| -> Result<Answer> {
        let mut found = Answer::Other;
        for _ in 0..count {
            if resp(stream, depth + 1)? == Answer::Ping {
                found = Answer::Ping;
            }
        }
        Ok(found)
    };
    match kind {
        b'+' | b'_' | b'#' | b',' | b'(' => Ok(Answer::Other),
        b':' => count().map(|_| Answer::Other),
        b'-' | b'!' => Ok(Answer::Refusal),
        b'*' | b'~' | b'>' => parts(count()?),
        b'%' => parts(2 * count()?),
        b'$' | b'=' => bulk(stream, count()?),
        _ => Err(malformed(String::from_utf8_lossy(&line))),
    }
}

fn bulk(stream: &mut impl BufRead, bytes: i64) -> Result<Answer> {
    let Ok(bytes) = usize::try_from(bytes) else {
        return Ok(Answer::Other);
    };
    let mut text = vec![0; bytes + 2];
    stream.read_exact(&mut text)?;
    match text.strip_suffix(b"\r\n") {
        Some(text) if text == MARK => Ok(Answer::Ping),
        Some(_) => Ok(Answer::Other),
        None => Err(malformed("no line end behind a bulk string")),
    }
}

fn http(stream: &mut impl BufRead, to_head: bool) -> Result<Answer> {
    let line = read_line(stream)?;
    let status: Option<u16> = line
        .strip_prefix(b"HTTP/1.1 ")
        .and_then(|rest| std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok());
    let status = status.ok_or_else(|| malformed(String::from_utf8_lossy(&line)))?;
    let (mut bytes, mut is_chunked, mut is_last) = (0, false, false);
    loop {
        let line = String::from_utf8_lossy(&read_line(stream)?).to_ascii_lowercase();
        if let Some(length) = line.strip_prefix("content-length: ") {
            bytes = length.parse().map_err(|_| malformed(&line))?;
        }
        is_chunked |= line == "transfer-encoding: chunked";
        is_last |= line == "connection: close";
        if line.is_empty() {
            break;
        }
    }
    if to_head && is_last {
        // What could not be read was not known to be HEAD; its error may have a body.
        std::io::copy(stream, &mut std::io::sink())?;
    }
    let has_body = !to_head && !matches!(status, 204 | 304);
    if is_chunked && has_body {
        chunks(stream)?;
        return Ok(Answer::Other);
    }
    let mut body = vec![0; if has_body { bytes } else { 0 }];
    stream.read_exact(&mut body)?;
    Ok(match status {
        200 if body == b"ok\n" => Answer::Ping,
        400.. => Answer::Refusal,
        _ => Answer::Other,
    })
}

fn chunks(stream: &mut impl BufRead) -> Result<()> {
    loop {
        let line = String::from_utf8_lossy(&read_line(stream)?).into_owned();
        let bytes = usize::from_str_radix(&line, 16).map_err(|_| malformed(&line))?;
        stream.read_exact(&mut vec![0; bytes + 2])?;
        if bytes == 0 {
            return Ok(());
        }
    }
}
