//! Commands of operators: statistics, listings, flush, and commands without effect here.
//!
//! Words after the command may be cut short anywhere (`stats set`), as memcached compares them;
//! commands other than stats are found behind leading spaces, too.

use super::super::number;
use super::super::refusal::{BAD_EXPTIME, BAD_FORMAT, Refused, UNKNOWN};
use super::super::request::{Listing, Request, Stats};
use super::super::token::{TOKENS_MAX, Tokens};

/// Number of slab classes that memcached knows, zero included.
const CLASSES: u32 = 64;
/// The one class that this server shows.
const CLASS: u32 = 1;
/// Least memory in MiB that cache_memlimit takes.
const MEMLIMIT_MIB_MIN: u32 = 8;
/// Most memory in MiB that cache_memlimit accepts.
const MEMLIMIT_MIB_MAX: u32 = 1_000_000_000;

/// Whether `word` is the beginning of `name`.
fn begins(name: &str, word: &[u8]) -> bool {
    name.as_bytes().starts_with(word)
}

/// Parses the words after stats.
pub(super) fn stats(mut tokens: Tokens<'_>) -> Result<Request<'_>, Refused> {
    let Some(group) = tokens.next() else {
        return Ok(Request::Stats(Stats::General));
    };
    let stats = if begins("reset", group) {
        Stats::Reset
    } else if begins("detail", group) {
        return Err(Refused::line("CLIENT_ERROR stats detail not allowed"));
    } else if begins("settings", group) {
        Stats::Settings
    } else if begins("cachedump", group) {
        cachedump(tokens)?
    } else if begins("conns", group) {
        Stats::Connections
    } else if begins("extstore", group) {
        Stats::Empty
    } else {
        match group {
            b"items" => Stats::Items,
            b"slabs" => Stats::Slabs,
            b"sizes" => Stats::Sizes,
            b"expiry" => Stats::Expiry,
            b"mrc" => Stats::MissRatioCurve,
            b"misses" => Stats::Misses,
            b"hotkeys" => Stats::HotKeys,
            b"compression" => Stats::Compression,
            _ => return Err(Refused::line(UNKNOWN)),
        }
    };
    Ok(Request::Stats(stats))
}

fn cachedump(mut tokens: Tokens<'_>) -> Result<Stats, Refused> {
    let (Some(class), Some(limit)) = (tokens.next(), tokens.next()) else {
        return Err(Refused::line("CLIENT_ERROR bad command line"));
    };
    let (Some(class), Some(limit)) = (number::strict_u32(class), number::strict_u32(limit)) else {
        return Err(Refused::line(BAD_FORMAT));
    };
    if class >= CLASSES {
        return Err(Refused::line("CLIENT_ERROR Illegal slab id"));
    }
    Ok(Stats::CacheDump { class, limit })
}

/// The words of a command that is neither a read nor a write.
struct AdminWords<'a> {
    all: [&'a [u8]; TOKENS_MAX],
    count: usize,
    noreply: bool,
}

impl<'a> AdminWords<'a> {
    fn of(line: &'a [u8]) -> AdminWords<'a> {
        let mut words = AdminWords {
            all: [b""; TOKENS_MAX],
            count: 0,
            noreply: false,
        };
        for (word, token) in words.all.iter_mut().zip(Tokens::of(line)) {
            *word = token;
            words.count += 1;
        }
        words.noreply = words.last() == b"noreply";
        words
    }

    fn last(&self) -> &'a [u8] {
        self.all[self.count.saturating_sub(1)]
    }

    fn okay(&self) -> Request<'a> {
        Request::Okay {
            noreply: self.noreply,
        }
    }

    fn refused(&self, line: &'static str) -> Refused {
        Refused::line(line).unless(self.noreply)
    }

    /// The second word as a number.
    fn number(&self, at: usize) -> Option<u32> {
        if at < self.count {
            number::strict_u32(self.all[at])
        } else {
            None
        }
    }
}

/// Every other command.
#[cold]
pub(super) fn other(line: &[u8]) -> Result<Request<'_>, Refused> {
    let words = AdminWords::of(line);
    match words.all[0] {
        b"flush_all" => flush_all(&words),
        b"lru_crawler" => lru_crawler(&words),
        b"verbosity" => match words.number(1) {
            Some(_) => Ok(words.okay()),
            None => Err(words.refused(BAD_FORMAT)),
        },
        b"shutdown" => Err(words.refused("SERVER_ERROR: shutdown not enabled")),
        b"cache_memlimit" => cache_memlimit(&words),
        b"slabs" => slabs(&words),
        b"lru" => Err(words.refused(UNKNOWN)),
        _ if words.count > 1 && words.last().starts_with(b"HTTP/") => Err(Refused::hang_up()),
        _ => Err(words.refused(UNKNOWN)),
    }
}

fn flush_all<'a>(words: &AdminWords<'a>) -> Result<Request<'a>, Refused> {
    let plain = if words.noreply { 2 } else { 1 };
    let delay = if words.count == plain {
        0
    } else {
        number::strict_i32(words.all[1]).ok_or(words.refused(BAD_EXPTIME))?
    };
    Ok(Request::FlushAll {
        delay,
        noreply: words.noreply,
    })
}

fn lru_crawler<'a>(words: &AdminWords<'a>) -> Result<Request<'a>, Refused> {
    const DISABLED: &str = "CLIENT_ERROR lru crawler disabled";
    let [_, verb, argument, ..] = words.all;
    match words.count {
        3 if begins("crawl", verb) => Err(words.refused(DISABLED)),
        3 if begins("metadump", verb) => list(words, argument, Listing::Metadump),
        3 if begins("mgdump", verb) => list(words, argument, Listing::Mgdump),
        3 if begins("tocrawl", verb) || begins("sleep", verb) => Err(words.refused(DISABLED)),
        2 if begins("enable", verb) => {
            Err(words.refused("ERROR failed to start lru crawler thread"))
        }
        2 if begins("disable", verb) => Ok(words.okay()),
        _ => Err(words.refused(UNKNOWN)),
    }
}

/// A listing of "all", "hash", or of classes by number with commas between them.
fn list<'a>(words: &AdminWords<'a>, which: &[u8], form: Listing) -> Result<Request<'a>, Refused> {
    if which == b"all" || which == b"hash" {
        return Ok(Request::List { form, all: true });
    }
    let mut all = false;
    for class in which
        .split(|byte| *byte == b',')
        .filter(|class| !class.is_empty())
    {
        match number::lenient_u32(class) {
            Some(class) if (1..CLASSES).contains(&class) => all |= class == CLASS,
            _ => return Err(words.refused("BADCLASS invalid class id")),
        }
    }
    Ok(Request::List { form, all })
}

fn cache_memlimit<'a>(words: &AdminWords<'a>) -> Result<Request<'a>, Refused> {
    let mib = words.number(1).ok_or(words.refused(UNKNOWN))?;
    if mib < MEMLIMIT_MIB_MIN {
        return Err(words.refused("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"));
    }
    if mib > MEMLIMIT_MIB_MAX {
        return Err(words.refused("MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes"));
    }
    Ok(Request::MemoryLimit {
        mib,
        noreply: words.noreply,
    })
}

/// There are no slabs to move: switching that off succeeds, all else does not.
fn slabs<'a>(words: &AdminWords<'a>) -> Result<Request<'a>, Refused> {
    let [_, verb, argument, ..] = words.all;
    if words.count == 4 && begins("reassign", verb) {
        return Err(words.refused("CLIENT_ERROR slab reassignment disabled"));
    }
    if words.count < 3 || !begins("automove", verb) {
        return Err(words.refused(UNKNOWN));
    }
    let known = ["ratio", "freeratio", "window"]
        .iter()
        .any(|name| begins(name, argument));
    match words.number(2) {
        _ if known => Err(words.refused(UNKNOWN)),
        Some(0) => Ok(words.okay()),
        Some(_) => Err(words.refused(UNKNOWN)),
        None => Err(words.refused(BAD_FORMAT)),
    }
}
