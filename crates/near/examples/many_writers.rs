//! Many writers and many near caches over one server: how soon does everybody see a change?
//!
//! Each of the writers counts a key of its own up. Each near cache reads all keys in turn and
//! notes how old what it got was, compared with what had been acknowledged to the writer.
//!
//! `cargo run --package cellar-near --example many_writers -- redis://127.0.0.1:6379`

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cellar_near::clock::{Clock, SystemClock};
use cellar_near::codec::Json;
use cellar_near::origin::{Redis, Remote};
use cellar_near::{Error, Near};

const WRITERS: u64 = 8;
const CACHES: usize = 4;
const RUN: Duration = Duration::from_secs(5);
/// Pause of a writer between two changes.
const PAUSE: Duration = Duration::from_millis(2);

/// One key's last acknowledged number and when it was, in microseconds since the start.
#[derive(Default)]
struct Written {
    number: AtomicU64,
    at_us: AtomicU64,
}

/// What all tasks share.
struct Scene {
    server: String,
    clock: SystemClock,
    written: Vec<Written>,
    is_over: AtomicBool,
}

impl Scene {
    fn near(&self) -> Result<Near<u64, u64>, Error> {
        let origin = Remote::new(Redis::open(self.server.as_str())?, Json).prefix("number:");
        Ok(Near::builder(origin).entries_max(1_000).build())
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.clock.now().as_micros()).unwrap_or(u64::MAX)
    }

    fn is_over(&self) -> bool {
        // Relaxed: the flag orders nothing.
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Counts a key up until the end.
async fn write(scene: Arc<Scene>, key: u64) -> Result<u64, Error> {
    let near = scene.near()?;
    let written = &scene.written[key as usize];
    let mut number = 0;
    while !scene.is_over() {
        number += 1;
        near.set(&key, &number).await?;
        written.at_us.store(scene.now_us(), Ordering::Relaxed);
        // Release: who sees the number sees its time.
        written.number.store(number, Ordering::Release);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(number)
}

/// Reads all keys until the end; how many reads there were, and the longest time for which a
/// change was not seen.
async fn read(scene: Arc<Scene>) -> Result<(u64, Duration), Error> {
    let near = scene.near()?;
    let (mut reads, mut longest_us) = (0, 0);
    while !scene.is_over() {
        for (key, written) in (0_u64..).zip(&scene.written) {
            let newest = written.number.load(Ordering::Acquire);
            let at_us = written.at_us.load(Ordering::Relaxed);
            let seen = near.get(&key).await?.map_or(0, |number| *number);
            reads += 1;
            if seen < newest {
                longest_us = longest_us.max(scene.now_us().saturating_sub(at_us));
            }
        }
        tokio::task::yield_now().await;
    }
    Ok((reads, Duration::from_micros(longest_us)))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1);
    let scene = Arc::new(Scene {
        server: server.unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned()),
        clock: SystemClock::new(),
        written: (0..WRITERS).map(|_| Written::default()).collect(),
        is_over: AtomicBool::new(false),
    });
    let writers: Vec<_> = (0..WRITERS)
        .map(|key| tokio::spawn(write(scene.clone(), key)))
        .collect();
    let readers: Vec<_> = (0..CACHES)
        .map(|_| tokio::spawn(read(scene.clone())))
        .collect();
    tokio::time::sleep(RUN).await;
    scene.is_over.store(true, Ordering::Relaxed);
    let mut changes = 0;
    for writer in writers {
        changes += writer.await??;
    }
    for (number, reader) in readers.into_iter().enumerate() {
        let (reads, longest) = reader.await??;
        println!(
            "cache {number}: {reads} reads, a change was seen after {longest:?} at the latest"
        );
    }
    println!("{changes} changes");
    Ok(())
}
