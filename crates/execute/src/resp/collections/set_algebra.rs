//! Set algebra: what several sets have together, in common, or not.
//!
//! The sets are taken in one step, while no other event loop executes, and stay as they are then;
//! what has many members is combined and answered in further turns. A result that one turn makes is
//! stored in that same step; a later one replaces what was stored meanwhile.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use cellar_config::limits::RESULT_BYTES_MAX;
use cellar_engine::{Handle, Instant};
use cellar_protocol::resp::number::parse_integer;
use cellar_protocol::resp::{Reply, Verb};
use cellar_shared::keyspace::kind;

use crate::resp::append_failure;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, TRACKED_STEP_ITEMS};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::copied::{Copied, Extent};
use crate::resp::collections::gathered::{Added, Gathered, Place};
use crate::resp::collections::{Made, too_long};
use crate::resp::failure::Failure;
use cellar_values::{Lookups, Set, SetBuilder};

/// Look-ups of members in one step.
const LOOKUPS_MAX: usize = STEP_ITEMS;

/// Sets of a union whose members are counted by looking each one up in the sets before its own. To
/// do so for more would take longer than to gather the members.
const LOOKED_UP_SETS_MAX: usize = 16;

/// SUNION, SINTER, SDIFF.
pub(in crate::resp) fn answer(call: &mut Call<'_>) -> Outcome {
    let (verb, keys, proto) = (call.command.verb, 1..call.args.len(), call.session.proto);
    let mut result = call.as_step(|call| Combining::of(call, verb, keys))?;
    let mut place = None;
    // To enter very many keys for a client that tracks them was a step.
    let mut rests = call.session.tracked.is_on && call.args.len() > TRACKED_STEP_ITEMS;
    call.in_steps(move |context, output| {
        if std::mem::take(&mut rests) {
            return Progress::More;
        }
        let Some(at) = place else {
            if result.step() == Progress::Last {
                if result.gathered.bytes() > RESULT_BYTES_MAX {
                    let failure = Failure::text("ERR the reply would be longer than 64 MiB");
                    append_failure(&failure, proto, context, output);
                    return Progress::Last;
                }
                Reply::new(output.bytes(), proto).set(result.count);
                place = Some(Place::default());
            }
            return if result.count == 0 && place.is_some() {
                Progress::Last
            } else {
                Progress::More
            };
        };
        place = result.answer(at, &mut Reply::new(output.bytes(), proto));
        if place.is_some() {
            Progress::More
        } else {
            Progress::Last
        }
    })
}

/// SUNIONSTORE, SINTERSTORE, SDIFFSTORE.
pub(in crate::resp) fn store(call: &mut Call<'_>) -> Outcome {
    let verb = match call.command.verb {
        Verb::Sunionstore => Verb::Sunion,
        Verb::Sinterstore => Verb::Sinter,
        _ => Verb::Sdiff,
    };
    let keys = 2..call.args.len();
    let begun = call.as_step(|call| {
        let mut result = Combining::of(call, verb, keys)?;
        result.makes_set = true;
        result.bytes_max = call.cache().collection_bytes_max();
        result.copy_if_similar();
        if result.step() == Progress::More {
            return Ok(Some(result));
        }
        if result.is_too_long() {
            return Err(too_long());
        }
        store_result(call, &(result.verb, result.made()))?;
        Ok::<_, Failure>(None)
    })?;
    let Some(result) = begun else {
        return DONE;
    };
    let mut making = Some(result);
    let mut made = None;
    let mut session = call.session.for_steps(call.context.state);
    let (command, key) = (call.command, call.args[1].to_vec());
    call.in_steps(move |context, output| {
        if session.preparation.make(context.cache()) {
            return Progress::More;
        }
        if let Some(mut result) = making.take() {
            if result.step() == Progress::More {
                making = Some(result);
            } else if result.is_too_long() {
                append_failure(&too_long(), session.proto, context, output);
                return Progress::Last;
            } else {
                // To order many members takes about as long as to store them: a step of its own.
                made = Some((result.verb, result.made()));
            }
            return Progress::More;
        }
        let proto = session.proto;
        let mut call = Call {
            command,
            args: &[b"", &key],
            key: None,
            session: &mut session,
            context,
            output,
        };
        let stored = made.as_ref().map(|made| store_result(&mut call, made));
        match stored {
            Some(Err(Failure::NoRoomYet)) => return Progress::More,
            Some(Err(failure)) => append_failure(&failure, proto, context, output),
            _ => {}
        }
        Progress::Last
    })
}

/// Stores a result under the key that is the first argument, and answers how many members it has.
fn store_result(call: &mut Call<'_>, (verb, made): &(Verb, Made)) -> Result<(), Failure> {
    let event = match verb {
        Verb::Sunion => "sunionstore",
        Verb::Sinter => "sinterstore",
        _ => "sdiffstore",
    };
    let key = call.key_at(1)?;
    let replaced = call.store(key, made)?;
    if made.count() > 0 {
        call.context.notify_replaced(replaced, made.kind(), key);
        call.notify(Class::Set, event, call.args[1]);
    } else if replaced.is_some() {
        call.notify(Class::Generic, "del", call.args[1]);
    }
    call.reply().integer(made.count() as i64);
    Ok(())
}

/// SINTERCARD, SUNIONCARD, SDIFFCARD.
pub(in crate::resp) fn count(call: &mut Call<'_>) -> Outcome {
    let verb = match call.command.verb {
        Verb::Sunioncard => Verb::Sunion,
        Verb::Sdiffcard => Verb::Sdiff,
        _ => Verb::Sinter,
    };
    let bad = Failure::text("ERR numkeys should be greater than 0");
    let keys = parse_integer(call.args[1]).filter(|&keys| keys > 0);
    let keys = usize::try_from(keys.ok_or(bad)?).unwrap_or(usize::MAX);
    if keys > call.args.len() - 2 {
        return Err(Failure::text(
            "ERR Number of keys can't be greater than number of args",
        ));
    }
    let limit = limit_of(&call.args[2 + keys..], verb == Verb::Sunion)?;
    let most = if limit == 0 { usize::MAX } else { limit };
    let mut result = call.as_step(|call| Combining::of(call, verb, 2..2 + keys))?;
    result.only_count(most);
    let proto = call.session.proto;
    let mut rests = call.session.tracked.is_on && call.args.len() > TRACKED_STEP_ITEMS;
    call.in_steps(move |context, output| {
        if std::mem::take(&mut rests) {
            return Progress::More;
        }
        let step = result.step();
        if step == Progress::Last && result.is_too_long() {
            let failure = Failure::text("ERR so many sets have more than 64 MiB of members");
            append_failure(&failure, proto, context, output);
        } else if step == Progress::Last {
            Reply::new(output.bytes(), proto).integer(result.count as i64);
        }
        step
    })
}

/// The number behind LIMIT; the last one counts. APPROX allows an estimate, in whose place the
/// exact number is as good.
fn limit_of(args: &[&[u8]], takes_approx: bool) -> Result<usize, Failure> {
    let bad = || Failure::text("ERR LIMIT can't be negative");
    let mut limit = 0;
    let mut args = args.iter();
    while let Some(name) = args.next() {
        if takes_approx && name.eq_ignore_ascii_case(b"APPROX") {
            continue;
        }
        if !name.eq_ignore_ascii_case(b"LIMIT") {
            return Err(Failure::Syntax);
        }
        let number = parse_integer(args.next().ok_or(Failure::Syntax)?);
        let number = number.and_then(|number| usize::try_from(number).ok());
        limit = number.ok_or_else(bad)?;
    }
    Ok(limit)
}

/// The values of the keys that are these arguments: the first one's, then each other key's once.
fn sets(call: &Call<'_>, keys: Range<usize>) -> Result<Vec<Option<Handle>>, Failure> {
    let (mut known, first) = (HashSet::new(), keys.start);
    let mut values = Vec::new();
    for index in keys {
        if index == first || known.insert(call.args[index]) {
            values.push(call.value(call.key_at(index)?, kind::SET)?);
        }
    }
    Ok(values)
}

/// A result that is being made.
struct Combining {
    verb: Verb,
    /// When the sets were taken.
    now: Instant,
    sets: Vec<Option<Handle>>,
    /// Those that are asked about each member: the shortest first where all have to have it, and
    /// the longest first where none may. For a union none; if it is only counted, those before
    /// the member's own.
    others: Vec<usize>,
    /// The sets whose members are looked at next and last, and the place in the first of them.
    sources: Range<usize>,
    at: usize,
    gathered: Gathered<()>,
    /// Members found.
    count: usize,
    most: usize,
    bytes_max: usize,
    /// Whether only the number of members is asked for.
    counts_only: bool,
    /// Whether they become a set, and that set.
    makes_set: bool,
    making: Option<(SetBuilder, Place)>,
    /// The copy of one of the sets that becomes the result, if one does.
    copied: Option<Copied<Set<'static>>>,
}

impl Combining {
    fn of(call: &mut Call<'_>, verb: Verb, keys: Range<usize>) -> Result<Combining, Failure> {
        let (sets, now) = (sets(call, keys)?, call.now());
        let length = |&index: &usize| {
            let set: Option<&Handle> = sets[index].as_ref();
            set.map_or(0, |value| Set::view(value, now).len())
        };
        let sources = match verb {
            Verb::Sunion => 0..sets.len(),
            Verb::Sinter => {
                let shortest = (0..sets.len()).min_by_key(length).unwrap_or(0);
                shortest..shortest + 1
            }
            _ => 0..1,
        };
        let mut others: Vec<usize> = match verb {
            Verb::Sunion => Vec::new(),
            _ => (0..sets.len())
                .filter(|index| !sources.contains(index))
                .collect(),
        };
        others.sort_by_key(length);
        if verb == Verb::Sdiff {
            others.reverse();
        }
        let most = sources.clone().map(|index| length(&index)).sum();
        Ok(Combining {
            verb,
            now,
            gathered: Gathered::new(most),
            sets,
            others,
            sources,
            at: 0,
            count: 0,
            most: usize::MAX,
            bytes_max: RESULT_BYTES_MAX,
            counts_only: false,
            makes_set: false,
            making: None,
            copied: None,
        })
    }

    /// Has members counted up to `most`, and none kept but those of a union of very many sets.
    fn only_count(&mut self, most: usize) {
        let is_union = self.verb == Verb::Sunion;
        self.most = most;
        self.counts_only = !is_union || self.sets.len() <= LOOKED_UP_SETS_MAX;
        if is_union && self.counts_only {
            let now = self.now;
            let length =
                |set: &Option<Handle>| set.as_ref().map_or(0, |value| Set::view(value, now).len());
            // The longest first: its members are looked up nowhere.
            self.sets.sort_by_key(|set| Reverse(length(set)));
            self.others = (0..self.sets.len()).collect();
        }
    }

    /// Makes the result of a copy of one of the sets, if the others have few members beside it:
    /// then only theirs are gathered.
    fn copy_if_similar(&mut self) {
        let extent = |set: &Option<Handle>| {
            let value = set.as_ref();
            value.map_or(Extent::default(), |value| Extent {
                members: Set::view(value, self.now).len(),
                bytes: value.len(),
            })
        };
        let copied = match self.verb {
            Verb::Sunion => {
                (0..self.sets.len()).max_by_key(|&index| extent(&self.sets[index]).members)
            }
            Verb::Sdiff => Some(0),
            _ => None,
        };
        let Some(copied) = copied else {
            return;
        };
        let all = Extent::sum(self.sets.iter().map(extent));
        let own = extent(&self.sets[copied]);
        if !own.should_be_copied(all) {
            return;
        }
        if let Some(value) = self.sets[copied].take_if(|value| Set::can_be_copied(value)) {
            self.copied = Some(Copied::of(value));
            self.sources = 0..self.sets.len();
            self.others = Vec::new();
            self.gathered = Gathered::new(all.members - own.members);
        }
    }

    /// Whether the members found so far are more than there may be.
    fn is_too_long(&self) -> bool {
        self.gathered.bytes() > self.bytes_max
    }

    /// The set that it has come to.
    fn made(self) -> Made {
        if let Some(set) = self.copied.and_then(Copied::into_collection) {
            return Made::of(set, self.count);
        }
        let (builder, _) = self.making.unwrap_or_else(|| begin_set(&self.gathered));
        Made::of(builder.finish(), self.count)
    }

    /// Looks at some members more, or puts some into the set that they become.
    fn step(&mut self) -> Progress {
        if self.making.is_none() {
            if self.gather() == Progress::More {
                return Progress::More;
            }
            if !self.makes_set || self.is_too_long() {
                return Progress::Last;
            }
        }
        if self.copied.is_some() {
            return self.change();
        }
        let gathered = &mut self.gathered;
        let (builder, next) = self.making.get_or_insert_with(|| begin_set(gathered));
        if builder.is_packed() {
            let members = gathered.iter_from(*next);
            members.for_each(|(member, _)| builder.push(member, 0));
            return Progress::Last;
        }
        gathered.show_by_hash(next, STEP_ITEMS, |member, (), hash| {
            builder.push(member, hash)
        })
    }

    /// Does a step of the copy.
    fn change(&mut self) -> Progress {
        let Some(copied) = &mut self.copied else {
            return Progress::Last;
        };
        let adds = self.verb == Verb::Sunion;
        let step = copied.step(&self.gathered, Set::of_copy, |set, member, ()| {
            match adds {
                true => set.add(member),
                false => set.remove(member),
            };
        });
        self.count = copied.collection().map_or(0, Set::len);
        step
    }

    /// Looks at some members more.
    fn gather(&mut self) -> Progress {
        let others: Vec<Option<Lookups<'_>>> = (self.others.iter())
            .map(|&index| {
                self.sets[index]
                    .as_ref()
                    .map(|value| Lookups::of(value, self.now))
            })
            .collect();
        // However many sets there are, each step gets some members further.
        let mut lookups = 0;
        while let Some(source) = self.sources.clone().next() {
            let from = self.at;
            let view = self.sets[source]
                .as_ref()
                .map(|value| Set::view(value, self.now));
            let members = view.iter().flat_map(|set| set.iter_from(from));
            for (member, next) in members {
                if lookups >= LOOKUPS_MAX {
                    return Progress::More;
                }
                self.at = next;
                lookups += 1;
                let mut has = |set: &Option<Lookups<'_>>| {
                    lookups += 1;
                    set.as_ref().is_some_and(|set| set.has(&member))
                };
                let is_found = match self.verb {
                    Verb::Sunion if self.counts_only => !others[..source].iter().any(&mut has),
                    Verb::Sunion => true,
                    Verb::Sinter => others.iter().all(&mut has),
                    _ => !others.iter().any(&mut has),
                };
                let is_new = is_found
                    && (self.counts_only || matches!(self.gathered.add(&member, ()), Added::New));
                if is_new {
                    self.count += 1;
                    if self.count >= self.most || self.is_too_long() {
                        return Progress::Last;
                    }
                }
            }
            self.sources.start += 1;
            self.at = 0;
        }
        Progress::Last
    }

    /// Answers members from a place on; where to go on.
    fn answer(&self, from: Place, reply: &mut Reply<'_>) -> Option<Place> {
        let full = reply.out.len() + STEP_BYTES;
        for (member, next) in self.gathered.iter_from(from) {
            reply.bulk(member);
            if reply.out.len() >= full {
                return Some(next);
            }
        }
        None
    }
}

/// Begins to make a set of members.
fn begin_set(gathered: &Gathered<()>) -> (SetBuilder, Place) {
    let (count, bytes) = (gathered.count(), gathered.bytes());
    (
        SetBuilder::new(gathered.hasher(), count, bytes),
        Place::default(),
    )
}
