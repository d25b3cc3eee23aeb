//! Answers: the replies of stores, in each form of memcached's protocol.

use cellar_engine::{Error, Key, Stored};
use cellar_net::output::Output;
use cellar_protocol::memcached::binary::{self as packets, PacketHead, PacketStatus};
use cellar_protocol::memcached::reply::{self, Code};
use cellar_protocol::memcached::{Meta, OwnedMeta, Verb};

use crate::context::Context;
use crate::upload::LineEnd;

/// How the store is answered.
#[derive(Debug)]
pub(super) enum AnswerForm {
    Classic { noreply: bool },
    Meta(OwnedMeta),
    Packet(PacketHead),
}

impl AnswerForm {
    /// What follows the value.
    pub(super) fn line_end(&self) -> LineEnd {
        match self {
            AnswerForm::Classic { .. } | AnswerForm::Meta(_) => LineEnd::CRLF,
            AnswerForm::Packet(_) => LineEnd::NONE,
        }
    }

    /// Answers a store whose value had `value_bytes`.
    pub(super) fn answer(
        &self,
        result: &Result<Stored, Error>,
        (key, verb, value_bytes): (Key<'_>, Verb, usize),
        context: Context<'_>,
        output: &mut Output,
    ) {
        match self {
            AnswerForm::Classic { noreply } => answer_classic(result, *noreply, output),
            AnswerForm::Meta(meta) => {
                let stored = (key, verb, value_bytes);
                answer_meta(result, &meta.borrow(), stored, context, output);
            }
            AnswerForm::Packet(head) => answer_packet(result, verb, *head, output),
        }
    }
}

/// The line for a store that failed.
pub(super) fn failure(error: &Error) -> &'static [u8] {
    failure_or(error, reply::line::NO_MEMORY)
}

/// The same, with the line for what finds no memory.
pub(super) fn failure_or(error: &Error, no_memory: &'static [u8]) -> &'static [u8] {
    match error {
        Error::TooLarge { .. } => reply::line::TOO_LARGE,
        Error::StateFull => reply::line::STATE_FULL,
        _ => no_memory,
    }
}

/// Answers a classic store.
#[inline]
pub(super) fn answer_classic(result: &Result<Stored, Error>, noreply: bool, output: &mut Output) {
    let line = match result {
        Ok(Stored::Done { .. }) => reply::line::STORED,
        Ok(Stored::NotStored) => reply::line::NOT_STORED,
        Ok(Stored::Exists) => reply::line::EXISTS,
        Ok(Stored::NotFound) => reply::line::NOT_FOUND,
        Err(error) => failure(error),
    };
    super::answer(line, noreply, output);
}

/// Answers ms, whose value had `value_bytes`.
pub(super) fn answer_meta(
    result: &Result<Stored, Error>,
    meta: &Meta<'_>,
    (key, verb, value_bytes): (Key<'_>, Verb, usize),
    context: Context<'_>,
    output: &mut Output,
) {
    let (code, version) = match result {
        Ok(Stored::Done { .. }) if meta.has(b'q') => return,
        Ok(Stored::Done { version }) => (Code::Done, *version),
        Ok(Stored::NotStored) => (Code::NotStored, 0),
        Ok(Stored::Exists) => (Code::Exists, 0),
        Ok(Stored::NotFound) => (Code::NotFound, 0),
        Err(error) => return output.bytes().extend_from_slice(failure(error)),
    };
    let out = output.bytes();
    out.extend_from_slice(code.text());
    for token in meta.flags() {
        match token[0] {
            b'c' => reply::meta_number(out, b'c', version),
            b's' => {
                let extended = code == Code::Done && matches!(verb, Verb::Append | Verb::Prepend);
                let bytes = if extended {
                    context.cache().facts(key, |facts| facts.value_bytes)
                } else {
                    None
                };
                reply::meta_number(out, b's', bytes.unwrap_or(value_bytes) as u64);
            }
            _ => reply::meta_repeat(out, meta, token),
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The status of a store that failed.
pub(super) fn packet_failure(error: &Error) -> PacketStatus {
    match error {
        Error::TooLarge { .. } => PacketStatus::TooLarge,
        Error::StateFull => PacketStatus::StateFull,
        _ => PacketStatus::NoMemory,
    }
}

/// Answers a store of the binary protocol.
#[inline]
pub(super) fn answer_packet(
    result: &Result<Stored, Error>,
    verb: Verb,
    head: PacketHead,
    output: &mut Output,
) {
    let status = match result {
        Ok(Stored::Done { version }) => return packet_done(head, *version, output),
        Ok(Stored::NotStored) => match verb {
            Verb::Add => PacketStatus::Exists,
            Verb::Replace => PacketStatus::NotFound,
            _ => PacketStatus::NotStored,
        },
        Ok(Stored::Exists) => PacketStatus::Exists,
        Ok(Stored::NotFound) => PacketStatus::NotFound,
        Err(error) => packet_failure(error),
    };
    packets::reply::failed(output.bytes(), head, status);
}

/// Answers that all went well, unless that is left out.
#[inline]
pub(super) fn packet_done(head: PacketHead, version: u64, output: &mut Output) {
    if !head.quiet {
        packets::reply::done(output.bytes(), head, version, b"");
    }
}
