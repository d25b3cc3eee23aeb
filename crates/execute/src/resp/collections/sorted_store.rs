//! Sorted store: a sorted set that a command makes of others, on its way into the cache.
//!
//! What it is made of is taken in one step, while no other event loop executes. A result that one
//! turn makes is stored in that same step; a later one replaces what was stored meanwhile.

use crate::resp::append_failure;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::{FIRST_TURN_US, Progress, STEP_ITEMS};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::Made;
use crate::resp::failure::Failure;
use cellar_system::clock::Stopwatch;
use cellar_values::SortedSetBuilder;

/// Where the members of a result come from.
pub(in crate::resp) trait Supply: Send + 'static {
    /// Does some work that comes before the first member; whether more has to be done.
    fn prepare(&mut self) -> Progress;

    /// How many members there are, once that is done.
    fn count(&self) -> usize;

    /// Whether the first event-loop iteration is to do one step alone.
    fn is_large(&self) -> bool {
        false
    }

    /// The set that its members are added to, once that is done.
    fn begin(&mut self) -> SortedSetBuilder {
        SortedSetBuilder::default()
    }

    /// Adds the next member, which belongs behind all others; whether there was one.
    fn next(&mut self, set: &mut SortedSetBuilder) -> bool;
}

/// A result on its way into the cache.
struct Storing<S> {
    source: S,
    /// None until the source is prepared.
    set: Option<SortedSetBuilder>,
}

impl<S: Supply> Storing<S> {
    /// Some work more.
    fn step(&mut self) -> Progress {
        if self.set.is_none() {
            if self.source.prepare() == Progress::More {
                return Progress::More;
            }
            self.set = Some(self.source.begin());
            if self.source.count() >= STEP_ITEMS {
                return Progress::More;
            }
        }
        self.fill()
    }

    /// What it has come to.
    fn made(self) -> Made {
        let set = self.set.unwrap_or_default().finish();
        let count = set.len();
        Made::of(set, count)
    }

    /// Adds some members more; whether these were the last.
    fn fill(&mut self) -> Progress {
        let set = self.set.get_or_insert_default();
        for _ in 0..STEP_ITEMS {
            if !self.source.next(set) {
                return Progress::Last;
            }
        }
        Progress::More
    }
}

/// Stores what `begin` finds under a key, tells of it as `event` and answers how many members that
/// are: at once if one step makes it, else in steps.
pub(in crate::resp) fn store<S: Supply>(
    call: &mut Call<'_>,
    key: &[u8],
    event: &'static str,
    begin: impl FnOnce(&Call<'_>) -> Result<S, Failure>,
) -> Outcome {
    let begun = call.as_step(|call| {
        let mut storing = Storing {
            source: begin(call)?,
            set: None,
        };
        let stopwatch = Stopwatch::start();
        while storing.step() == Progress::More {
            if stopwatch.us() >= FIRST_TURN_US || storing.source.is_large() {
                return Ok(Some(storing));
            }
        }
        store_result(call, key, event, &storing.made())?;
        Ok::<_, Failure>(None)
    })?;
    let Some(storing) = begun else {
        return DONE;
    };
    let (mut storing, mut made) = (Some(storing), None);
    let mut session = call.session.for_steps(call.context.state);
    let (command, key) = (call.command, key.to_vec());
    call.in_steps(move |context, output| {
        let step = storing.as_mut().map(Storing::step);
        if step == Some(Progress::More) || session.preparation.make(context.cache()) {
            return Progress::More;
        }
        if let Some(storing) = storing.take() {
            // To write it, and to free what it came from, takes about as long as to store it.
            made = Some(storing.made());
            return Progress::More;
        }
        let proto = session.proto;
        let mut call = Call {
            command,
            args: &[],
            key: None,
            session: &mut session,
            context,
            output,
        };
        let stored = made
            .as_ref()
            .map(|made| store_result(&mut call, &key, event, made));
        match stored {
            Some(Err(Failure::NoRoomYet)) => return Progress::More,
            Some(Err(failure)) => append_failure(&failure, proto, context, output),
            _ => {}
        }
        Progress::Last
    })
}

fn store_result(
    call: &mut Call<'_>,
    key: &[u8],
    event: &'static str,
    made: &Made,
) -> Result<(), Failure> {
    let count = made.count();
    let hashed = call.cache().key_in(call.space(), key)?;
    let replaced = call.store(hashed, made)?;
    if count > 0 {
        call.context.notify_replaced(replaced, made.kind(), hashed);
        call.notify(Class::SortedSet, event, key);
    } else if replaced.is_some() {
        call.notify(Class::Generic, "del", key);
    }
    call.reply().integer(count as i64);
    Ok(())
}
