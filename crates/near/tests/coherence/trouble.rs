//! Trouble: what happens to servers and connections while the checker reads.

use std::sync::Arc;
use std::time::Duration;

use crate::checker::{BELIEF, Setting, Stage, address};
use crate::servers::{Kind, Server};
use crate::writer::{Failed, Writer};

/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(120);
/// Most of them in a row.
const PAUSES_MAX: u32 = 12;
/// How long a packet takes over a slow network.
const SLOW_MS: u64 = 25;
/// After so many reads of keys that nobody writes, caches hold them.
const READS_TO_HOLD: u64 = 1_000;

/// One kind of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// The server ends all connections (CLIENT KILL).
    Killed,
    /// Everything is removed (FLUSHALL, flush_all).
    Flushed,
    /// The connections of all caches are closed on the way.
    Cut,
    /// They stay open, and nothing comes through any more.
    Frozen,
    /// The server's process is stopped for longer than it is believed (SIGSTOP), then goes on.
    Stopped,
    /// The server's process is killed (kill -9) and another one started, which is empty.
    Crashed,
    /// Each packet takes long, for a while.
    Slow,
}

/// All of them.
pub(crate) const TROUBLES: [Trouble; 7] = [
    Trouble::Killed,
    Trouble::Flushed,
    Trouble::Cut,
    Trouble::Slow,
    Trouble::Crashed,
    Trouble::Frozen,
    Trouble::Stopped,
];

impl Trouble {
    /// Whether a server of this kind can have it.
    pub(crate) fn befalls(self, kind: Kind) -> bool {
        self != Trouble::Killed || kind != Kind::Memcached
    }
}

/// Makes trouble until the end.
pub(crate) async fn make(stage: Arc<Stage>, setting: Setting) {
    let troubles = setting.troubles.iter();
    let troubles = troubles.filter(|trouble| trouble.befalls(setting.kind));
    for (&trouble, round) in troubles.cycle().zip(0..) {
        // A broken cache shows that it is only if it gets to keep something before: on a busy
        // machine that takes longer.
        let pauses = if setting.ends_early() {
            1 + round % PAUSES_MAX
        } else {
            1
        };
        // paced: the schedule of the faults.
        tokio::time::sleep(PAUSE * pauses).await;
        if stage.has_ended() {
            return;
        }
        match befall(&stage, &setting, trouble).await {
            Ok(()) => {
                let mut report = stage.report.lock().unwrap();
                *report.troubles.entry(trouble).or_default() += 1;
            }
            Err(Failed::Silent) => stage.complain(format!("{trouble:?}: no answer and no end")),
            Err(Failed::Ended) => {}
        }
    }
}

/// Lets it happen; an error if the server did not take part.
async fn befall(stage: &Stage, setting: &Setting, trouble: Trouble) -> Result<(), Failed> {
    match trouble {
        Trouble::Killed => writer(stage).await?.kill_others().await?,
        Trouble::Flushed => {
            let _nobody_writes = stage.flushing.write().await;
            let begun_at = stage.begin_flush();
            // Until it is known to have happened.
            while flush(stage).await.is_err() {}
            stage.note_flush(begun_at);
        }
        Trouble::Cut => stage.proxies.iter().for_each(|proxy| proxy.cut()),
        Trouble::Frozen => freeze(stage, setting).await,
        Trouble::Stopped => {
            stage.server.read().await.freeze();
            // paced: the server's process is stopped for longer than caches believe it.
            tokio::time::sleep(BELIEF * 3 / 2).await;
            stage.server.read().await.thaw();
        }
        Trouble::Crashed => crash(stage, setting).await,
        Trouble::Slow => {
            stage
                .proxies
                .iter()
                .for_each(|proxy| proxy.slow_down(SLOW_MS));
            // paced: how long the network stays slow.
            tokio::time::sleep(PAUSE * 2).await;
            stage.proxies.iter().for_each(|proxy| proxy.slow_down(0));
        }
    }
    Ok(())
}

/// Lets nothing come through any more.
///
/// A cache that believes in the dead connection is told of nothing from here on and asks in vain
/// for what it does not hold, so what it holds now is all that can show it: writers rest before.
async fn freeze(stage: &Stage, setting: &Setting) {
    let _nobody_writes = if setting.ends_early() {
        let nobody_writes = stage.flushing.write().await;
        stage.wait_for_reads(READS_TO_HOLD).await;
        Some(nobody_writes)
    } else {
        None
    };
    stage.proxies.iter().for_each(|proxy| proxy.freeze());
}

async fn flush(stage: &Stage) -> Result<(), Failed> {
    writer(stage).await?.flush().await
}

async fn writer(stage: &Stage) -> Result<Writer, Failed> {
    Writer::open(&stage.server).await.ok_or(Failed::Ended)
}

/// Kills the server in the middle of all writes, and starts an empty one.
async fn crash(stage: &Stage, setting: &Setting) {
    let begun_at = stage.begin_flush();
    stage.server.write().await.crash();
    let _nobody_writes = stage.flushing.write().await;
    let mut server = stage.server.write().await;
    *server = Server::start(setting.kind).await;
    let target = address(&server, setting.meta);
    for proxy in &stage.proxies {
        proxy.lead_to(&target);
    }
    stage.note_flush(begun_at);
}
