//! Figures: what a server says about its items and memory, asked on a connection of its own.
//!
//! Cellar answers memcached's `stats`, Redis its `INFO`. Resident memory is the kernel's figure,
//! read from `statm`: a look at a counter, while a walk through the page tables would hold up the
//! server that is measured.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::time::Duration;

use serde::Serialize;

use crate::address::{Address, Stream};
use crate::error::Error;
use crate::resp;
use crate::wire::Wire;

const TIMEOUT: Duration = Duration::from_secs(20);
const PAGE_BYTES: u64 = 4096;

/// What a server says of itself at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Figures {
    /// Items, those included that are over and not reclaimed.
    pub(super) items: u64,
    /// Bytes the server counts as used by items.
    pub(super) used_bytes: u64,
    /// Bytes of items that are over and not reclaimed, where the server says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dead_bytes: Option<u64>,
    /// Items whose memory was taken back since their time was over.
    pub(super) expired: u64,
    /// Live items that left because memory was needed.
    pub(super) evicted: u64,
    /// Resident memory of the process.
    pub(super) rss_bytes: u64,
}

/// A connection on which a server is asked about itself.
pub(super) struct Informant {
    wire: Wire,
    pid: u32,
    stream: BufReader<Stream>,
    text: String,
}

impl Informant {
    /// Connects.
    ///
    /// # Errors
    /// [`Error::System`] if that is not possible.
    pub(super) fn connect(wire: Wire, address: &Address, pid: u32) -> Result<Informant, Error> {
        let failed = |error| Error::system(format!("connecting to {address}"), error);
        let stream = address.connect().map_err(failed)?;
        stream.set_timeout(Some(TIMEOUT)).map_err(failed)?;
        Ok(Informant {
            wire,
            pid,
            stream: BufReader::new(stream),
            text: String::new(),
        })
    }

    /// Asks for the figures.
    ///
    /// # Errors
    /// [`Error::System`] if the server does not answer, [`Error::Garbled`] if not with figures.
    pub(super) fn ask(&mut self) -> Result<Figures, Error> {
        self.listen()?;
        let found = match self.wire {
            Wire::Memcached => of_stats(&self.text),
            Wire::Resp => of_info(&self.text),
        };
        let mut figures = found
            .ok_or_else(|| Error::Garbled(format!("no figures about items in {:?}", self.text)))?;
        figures.rss_bytes = resident_bytes(self.pid)?;
        Ok(figures)
    }

    /// The server's version.
    ///
    /// # Errors
    /// As [`Informant::ask`].
    pub(super) fn version(&mut self) -> Result<String, Error> {
        self.listen()?;
        let found = match self.wire {
            Wire::Memcached => field(&self.text, "STAT version "),
            Wire::Resp => field(&self.text, "redis_version:"),
        };
        found
            .map(str::to_owned)
            .ok_or_else(|| Error::Garbled("the server does not tell its version".to_owned()))
    }

    /// Has the server tell all it knows.
    fn listen(&mut self) -> Result<(), Error> {
        let failed = |error| Error::system("asking a server for its figures", error);
        let mut request = Vec::new();
        match self.wire {
            Wire::Memcached => request.extend_from_slice(b"stats\r\n"),
            Wire::Resp => resp::push_command(&mut request, &[b"INFO"]),
        }
        self.stream.get_mut().write_all(&request).map_err(failed)?;
        self.text.clear();
        match self.wire {
            Wire::Memcached => {
                while !self.text.ends_with("END\r\n") {
                    if self.stream.read_line(&mut self.text).map_err(failed)? == 0 {
                        return Err(Error::Closed { replies: 0 });
                    }
                }
            }
            Wire::Resp => {
                self.stream.read_line(&mut self.text).map_err(failed)?;
                let digits = self.text.trim_end().strip_prefix('$').unwrap_or_default();
                let bytes: usize = digits
                    .parse()
                    .map_err(|_| Error::Garbled(self.text.clone()))?;
                let mut body = vec![0; bytes + 2];
                self.stream.read_exact(&mut body).map_err(failed)?;
                self.text = String::from_utf8_lossy(&body).into_owned();
            }
        }
        Ok(())
    }
}

/// What stands behind `name` at the start of a line.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .find_map(|line| line.trim_end().strip_prefix(name))
}

fn number(text: &str, name: &str) -> Option<u64> {
    field(text, name)?.parse().ok()
}

fn of_stats(text: &str) -> Option<Figures> {
    let number = |name: &str| number(text, &format!("STAT {name} "));
    Some(Figures {
        items: number("curr_items")?,
        used_bytes: number("bytes")? + number("hash_bytes").unwrap_or(0),
        dead_bytes: number("dead_bytes"),
        expired: number("reclaimed")?,
        evicted: number("evictions")?,
        rss_bytes: 0,
    })
}

fn of_info(text: &str) -> Option<Figures> {
    let keyspace = field(text, "db0:keys=");
    let keys = keyspace.map_or(Some(0), |rest| rest.split(',').next()?.parse().ok());
    Some(Figures {
        items: keys?,
        used_bytes: number(text, "used_memory:")?,
        dead_bytes: None,
        expired: number(text, "expired_keys:")?,
        evicted: number(text, "evicted_keys:")?,
        rss_bytes: 0,
    })
}

fn resident_bytes(pid: u32) -> Result<u64, Error> {
    let failed = |error| Error::system(format!("reading the memory of process {pid}"), error);
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).map_err(failed)?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let pages: u64 = pages.ok_or_else(|| failed(std::io::Error::other("malformed statm")))?;
    Ok(pages * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_either_server() {
        let stats = "STAT bytes 100\r\nSTAT curr_items 7\r\nSTAT hash_bytes 20\r\n\
                     STAT evictions 1\r\nSTAT reclaimed 3\r\nSTAT dead_bytes 50\r\nEND\r\n";
        let figures = of_stats(stats).unwrap();
        assert_eq!((figures.items, figures.used_bytes), (7, 120));
        assert_eq!((figures.expired, figures.evicted), (3, 1));
        assert_eq!(figures.dead_bytes, Some(50));

        let info = "# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\n# Stats\r\n\
                    expired_keys:4\r\nevicted_keys:0\r\n# Keyspace\r\n\
                    db0:keys=12,expires=5,avg_ttl=9\r\n";
        let figures = of_info(info).unwrap();
        assert_eq!((figures.items, figures.used_bytes), (12, 1000));
        assert_eq!((figures.expired, figures.evicted), (4, 0));
        assert_eq!(
            of_info("used_memory:1\r\nexpired_keys:0\r\nevicted_keys:0\r\n")
                .unwrap()
                .items,
            0
        );
        assert_eq!(of_stats("ERROR\r\n"), None);
        assert_eq!(of_info("-ERR\r\n"), None);
    }

    #[test]
    fn resident_memory_is_that_of_a_process() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000);
        assert!(resident_bytes(u32::MAX).is_err());
    }
}
