//! Figures: what a server says about its items and memory, asked on a connection of its own.
//!
//! Cellar answers memcached's `stats`, Redis its `INFO`. Resident memory is the kernel's figure,
//! read from `statm`: a look at a counter, while a walk through the page tables would hold up the
//! server that is measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cellar_load::{Client, Error, Server, Wire, now_ns, usage};

const TIMEOUT: Duration = Duration::from_secs(20);

/// What a server says of itself at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Items, as the server counts them: Redis those too that are over and not reclaimed.
    pub(crate) items: u64,
    /// Bytes the server counts as used, without those of the dead where it says how many.
    pub(crate) used_bytes: u64,
    /// Bytes of items that are over and not reclaimed, where the server says so.
    pub(crate) dead_bytes: Option<u64>,
    /// Live items that left because memory was needed.
    pub(crate) evicted: u64,
    /// Resident memory of the process.
    pub(crate) rss_bytes: u64,
    /// Processor time of the process since its start.
    pub(crate) cpu_ns: u64,
}

impl Figures {
    /// The dead part of what is held, where the server says how much that is.
    pub(crate) fn dead_share(&self) -> Option<f64> {
        let dead = self.dead_bytes?;
        Some(dead as f64 / (self.used_bytes + dead).max(1) as f64)
    }
}

/// Figures and the moment at which they were asked for, on the monotonic clock.
pub(crate) type Look = (u64, Figures);

/// A connection on which a server is asked about itself.
pub(crate) struct Informant {
    wire: Wire,
    pid: u32,
    client: Client,
}

impl Informant {
    /// Connects.
    /// [`Error::System`] if that is not possible.
    pub(crate) fn connect(server: &Server) -> Result<Informant, Error> {
        let wire = server.wire();
        Ok(Informant {
            wire,
            pid: server.pid(),
            client: Client::connect(server.address(), wire, TIMEOUT)?,
        })
    }

    /// Asks for the figures.
    /// [`Error::System`] if the server does not answer, [`Error::Garbled`] if not with figures.
    pub(crate) fn ask(&mut self) -> Result<Figures, Error> {
        let text = self.client.figures()?;
        let found = match self.wire {
            Wire::Memcached => of_stats(&text),
            Wire::Resp => of_info(&text),
            Wire::Http => None,
        };
        let mut figures =
            found.ok_or_else(|| Error::Garbled(format!("no figures about items in {text:?}")))?;
        let failed = |error| Error::system(format!("reading the usage of {}", self.pid), error);
        figures.rss_bytes = usage::rss_counted_bytes(self.pid).map_err(failed)?;
        figures.cpu_ns = usage::cpu_ns(self.pid).map_err(failed)?;
        Ok(figures)
    }

    /// Asks again and again, after a pause each time, until it is over.
    /// As [`Informant::ask`].
    pub(crate) fn watch(
        &mut self,
        pause: Duration,
        is_over: &AtomicBool,
    ) -> Result<Vec<Look>, Error> {
        let mut looks = Vec::new();
        // Relaxed: nothing but the flag is passed on.
        while !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(pause);
            let figures = self.ask()?;
            // The moment of the answer, so that nothing is told as of before it was true.
            looks.push((now_ns(), figures));
        }
        Ok(looks)
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
        evicted: number("evictions")?,
        ..Figures::default()
    })
}

fn of_info(text: &str) -> Option<Figures> {
    let databases = text.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
        name.parse::<u32>().ok()?;
        Some(rest.split(',').next()?.parse::<u64>())
    });
    let items = databases.sum::<Result<u64, _>>().ok()?;
    let used_bytes = number(text, "used_memory:")?;
    let dead_bytes = number(text, "used_memory_reclaimable:");
    Some(Figures {
        items,
        used_bytes: used_bytes - dead_bytes.unwrap_or(0),
        dead_bytes,
        evicted: number(text, "evicted_keys:")?,
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_either_server() {
        let stats = "STAT bytes 100\r\nSTAT curr_items 7\r\nSTAT hash_bytes 20\r\n\
                     STAT evictions 1\r\nSTAT dead_bytes 50\r\nEND\r\n";
        let figures = of_stats(stats).unwrap();
        assert_eq!((figures.items, figures.used_bytes), (7, 120));
        assert_eq!(figures.evicted, 1);
        assert_eq!(figures.dead_bytes, Some(50));

        let info = "# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\n# Stats\r\n\
                    evicted_keys:0\r\n# Keyspace\r\n\
                    db0:keys=12,expires=5,avg_ttl=9\r\ndb3:keys=30,expires=30,avg_ttl=9\r\n";
        let figures = of_info(info).unwrap();
        assert_eq!((figures.items, figures.used_bytes), (42, 1000));
        assert_eq!((figures.dead_bytes, figures.evicted), (None, 0));
        let figures = of_info(&format!("used_memory_reclaimable:90\r\n{info}")).unwrap();
        assert_eq!((figures.dead_bytes, figures.used_bytes), (Some(90), 910));
        assert_eq!(
            of_info("used_memory:1\r\nevicted_keys:0\r\n")
                .unwrap()
                .items,
            0
        );
        assert_eq!(of_stats("ERROR\r\n"), None);
        assert_eq!(of_info("-ERR\r\n"), None);
    }
}
