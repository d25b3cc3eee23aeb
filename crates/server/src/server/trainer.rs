//! Trainer: who finds the values that are worth compressing, on a thread that serves nobody.
//!
//! The engine looks at a few items in each step, and trains a dictionary now and then. Between two
//! steps the thread rests for several times as long as a step took, so that requests have the
//! processors.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use cellar_config::settings::compressed_databases::CompressedDatabases;
use cellar_engine::Space;
use cellar_shared::state::State;
use cellar_system::clock::Stopwatch;
use cellar_system::ticker::Ticker;

/// Pause between two steps when nothing is to do, and the least while there is.
const PAUSE: Duration = Duration::from_secs(1);
const SHORT_PAUSE: Duration = Duration::from_millis(5);
/// Of a processor the thread takes at most one part in so many and one.
const REST_TIMES: u32 = 9;

/// Starts the thread.
///
/// # Errors
/// The system's, when it is out of threads.
pub(crate) fn start(state: Arc<State>) -> io::Result<Ticker> {
    let mut users_seen = None;
    Ticker::start("cellar-trainer", PAUSE, move || {
        let stopwatch = Stopwatch::start();
        if let Some(users) = &state.access.users
            && let generation = users.generation()
            && users_seen != Some(generation)
        {
            users_seen = Some(generation);
            let all = users.all();
            let prefixes = all.iter().flat_map(|user| user.prefixes.iter().cloned());
            state.cache.set_private_prefixes(prefixes);
        }
        let compressed = state.parameters.value("compress");
        // The parameter has checked the text.
        let compressed = CompressedDatabases::parse(&compressed).unwrap_or_default();
        let goes_on = match compressed {
            CompressedDatabases::Some(numbers) => {
                let spaces = numbers.iter().map(|&number| state.databases.space(number));
                let spaces: HashSet<Space> = spaces.collect();
                state.cache.train_in(|space| spaces.contains(&space))
            }
            CompressedDatabases::Auto | CompressedDatabases::Off => state.cache.train(),
        };
        if !goes_on {
            return PAUSE;
        }
        let took = Duration::from_nanos(stopwatch.ns());
        (REST_TIMES * took).clamp(SHORT_PAUSE, PAUSE)
    })
}
