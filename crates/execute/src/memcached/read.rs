//! Classic reads: get, gets, gat, gats.

use cellar_engine::{
    Deadline, Found, Handle, IndexHint, Intent, Item, Key, Kind, Lookup, Snapshot,
};
use cellar_net::output::{Output, PINNED_VALUE_BYTES_MIN};
use cellar_protocol::memcached::token::Words;
use cellar_protocol::memcached::{Get, reply};
use smallvec::SmallVec;

use crate::context::{Context, Flow, Moment, Unfinished};
use crate::section::Wish;

/// Keys that are read together.
const KEYS_TOGETHER_MAX: usize = 32;
/// Most keys of a read that are hashed only once for all its steps.
const KEYS_HASHED_MAX: usize = 128;
/// Answer bytes, pinned values included, after which a read with many keys pauses.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The least that a key counts for, as bytes of a reply: misses take time, too.
const KEY_BYTES_MIN: usize = 16;

/// How items are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) with_version: bool,
    pub(super) touch: Option<Deadline>,
}

/// The keys of a read that are not answered yet.
#[derive(Debug)]
struct ReadRest {
    keys: Box<[u8]>,
    how: How,
}

impl Unfinished for ReadRest {
    fn resume(self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        resume(&self.keys, self.how, (context, None), output)
    }

    fn waiting_bytes(&self) -> usize {
        self.keys.len()
    }
}

/// get, gets, gat, gats; `first` is the first key.
#[inline]
pub(super) fn get(
    get: &Get<'_>,
    first: Key<'_>,
    context: Context<'_>,
    output: &mut Output,
) -> Flow {
    if !get.is_single() {
        let how = How {
            with_version: get.with_version,
            touch: get.touch.map(|exptime| context.deadline(exptime)),
        };
        return as_step(get.keys, how, context, output);
    }
    if get.touch.is_none() && !get.with_version {
        plain(first, context, output);
    } else {
        let touch = get.touch.map(|exptime| context.deadline(exptime));
        special(
            first,
            How {
                with_version: get.with_version,
                touch,
            },
            context,
            output,
        );
    }
    output.bytes().extend_from_slice(reply::line::END);
    Flow::Continue
}

/// Reads several keys: what one call answers of them, they hold at one moment.
fn as_step(keys: &[u8], how: How, context: Context<'_>, output: &mut Output) -> Flow {
    let (cache, start) = (context.cache(), output.bytes().len());
    if context.is_in_step() || !cache.has_claims() {
        return resume(keys, how, (context, None), output);
    }
    let changes = how.touch.is_some() || how.with_version;
    if !changes {
        let before = context.counters.reads();
        if let Some(flow) = undisturbed(keys, how, context, output) {
            return flow;
        }
        context.counters.take_back_reads(before);
        output.truncate(start);
    }
    let mut wish = Wish::of(if changes { Intent::Write } else { Intent::Read });
    let hashed = Words::of(keys).map(|word| context.key(word));
    hashed.for_each(|key| cache.want(&mut wish.shards, key));
    context.on_keys((&wish, Moment::Iteration), |context| {
        resume(keys, how, (context, None), output)
    })
}

/// Reads keys, unless another loop changes one of their shards meanwhile.
fn undisturbed(keys: &[u8], how: How, context: Context<'_>, output: &mut Output) -> Option<Flow> {
    let cache = context.cache();
    let mut words = Words::of(keys);
    let mut hashed = Vec::with_capacity(KEYS_HASHED_MAX);
    while hashed.len() < KEYS_HASHED_MAX
        && let Some(word) = words.next()
    {
        hashed.push(context.key(word));
    }
    let rest = words.map(|word| context.key(word));
    let mut snapshot = cache.snapshot(hashed.iter().copied().chain(rest))?;
    let within = (context, Some(&mut snapshot));
    let flow = match words.rest().is_empty() {
        true => read_hashed(keys, &hashed, how, within, output),
        false => resume(keys, how, within, output),
    };
    snapshot.is_still().then_some(flow)
}

/// Reads all keys of `keys`, which are `hashed`, until the answer is long enough for one call.
fn read_hashed(
    keys: &[u8],
    hashed: &[Key<'_>],
    how: How,
    (context, mut snapshot): (Context<'_>, Option<&mut Snapshot<'_>>),
    output: &mut Output,
) -> Flow {
    let (mut answered, mut read) = (0, 0);
    for group in hashed.chunks(KEYS_TOGETHER_MAX) {
        if answered >= ANSWER_BYTES_MAX {
            let mut words = Words::of(keys);
            words.by_ref().take(read).for_each(drop);
            let keys = words.rest().into();
            return Flow::Unfinished(Box::new(ReadRest { keys, how }));
        }
        answered += read_some(group, how, (context, snapshot.as_deref_mut()), output);
        read += group.len();
    }
    output.bytes().extend_from_slice(reply::line::END);
    Flow::Continue
}

/// Reads the keys of `keys` until the answer is long enough for one call.
fn resume(
    keys: &[u8],
    how: How,
    (context, mut snapshot): (Context<'_>, Option<&mut Snapshot<'_>>),
    output: &mut Output,
) -> Flow {
    let mut words = Words::of(keys);
    let mut answered = 0;
    loop {
        let group = words.by_ref().take(KEYS_TOGETHER_MAX);
        let group: SmallVec<[Key<'_>; KEYS_TOGETHER_MAX]> =
            group.map(|word| context.key(word)).collect();
        answered += read_some(&group, how, (context, snapshot.as_deref_mut()), output);
        let mut rest = words;
        if rest.next().is_none() {
            output.bytes().extend_from_slice(reply::line::END);
            return Flow::Continue;
        }
        if answered >= ANSWER_BYTES_MAX {
            let keys = words.rest().into();
            return Flow::Unfinished(Box::new(ReadRest { keys, how }));
        }
    }
}

/// Reads at most [`KEYS_TOGETHER_MAX`] keys; returns the bytes of the answer.
fn read_some(
    keys: &[Key<'_>],
    how: How,
    (context, snapshot): (Context<'_>, Option<&mut Snapshot<'_>>),
    output: &mut Output,
) -> usize {
    let cache = context.cache();
    let answered = keys.len() * KEY_BYTES_MIN;
    if how.touch.is_some() || how.with_version {
        let hints: SmallVec<[IndexHint; KEYS_TOGETHER_MAX]> =
            keys.iter().map(|key| cache.hint_read(*key)).collect();
        hints.into_iter().for_each(|hint| {
            cache.hint_item(hint);
        });
        let bytes = keys.iter().map(|key| special(*key, how, context, output));
        return answered + bytes.sum::<usize>();
    }
    // Keys that another node serves are misses.
    let served: SmallVec<[Key<'_>; KEYS_TOGETHER_MAX]>;
    let known = match &context.state.cluster {
        None => keys,
        Some(_) => {
            let is_served = |key: &Key<'_>| context.serves(key.bytes());
            served = keys.iter().copied().filter(is_served).collect();
            &served
        }
    };
    let (mut hits, mut bytes) = (0, 0);
    cache.get_many(known, snapshot, |position, item| {
        // Values that are not strings do not exist for this protocol.
        if let Some(item) = item.filter(|item| item.kind == Kind::STRING) {
            let (appended, pinned) = append(output.bytes(), known[position], item, None);
            output.push_line(pinned);
            hits += 1;
            bytes += appended;
        }
    });
    let counters = context.counters;
    counters.cmd_get.add(keys.len() as u64);
    counters.get_hits.add(hits);
    counters.get_misses.add(keys.len() as u64 - hits);
    answered + bytes
}

/// get of one key.
#[inline(always)]
fn plain(key: Key<'_>, context: Context<'_>, output: &mut Output) {
    let out = output.bytes();
    // Such an item is a string.
    let begin = |out: &mut Vec<u8>, bytes, flags| {
        reply::value_head(out, key.bytes(), flags, bytes, None);
    };
    if context.serves(key.bytes()) && context.cache().append_copied(key, out, begin) {
        context.counters.cmd_get.add(1);
        context.counters.get_hits.add(1);
        return out.extend_from_slice(b"\r\n");
    }
    plain_any(key, context, output);
}

/// The same of what is missing, long, or no string.
#[inline(never)]
fn plain_any(key: Key<'_>, context: Context<'_>, output: &mut Output) {
    let counters = context.counters;
    counters.cmd_get.add(1);
    let out = output.bytes();
    // Values that are not strings do not exist for this protocol.
    let read = |item: Item<'_>| (item.kind == Kind::STRING).then(|| append(out, key, item, None));
    let found = match context.serves(key.bytes()) {
        true => context.cache().get(key, read),
        false => None,
    };
    let Some((_, pinned)) = found.flatten() else {
        return counters.get_misses.add(1);
    };
    counters.get_hits.add(1);
    output.push_line(pinned);
}

/// One key of gets, gat or gats; returns the bytes of the answer.
fn special(key: Key<'_>, how: How, context: Context<'_>, output: &mut Output) -> usize {
    let out = output.bytes();
    let found = find(key, how, context, |found| {
        let version = how.with_version.then_some(found.version);
        append(out, key, found.item, version)
    });
    let Some((bytes, pinned)) = found else {
        return 0;
    };
    output.push_line(pinned);
    bytes
}

/// Passes an item to `read`, touched or with its version, and counts; `None` is a miss.
#[inline]
pub(super) fn find<R>(
    key: Key<'_>,
    how: How,
    context: Context<'_>,
    read: impl FnOnce(Found<'_>) -> R,
) -> Option<R> {
    let counters = context.counters;
    let lookup = Lookup {
        touch: how.touch,
        version: how.with_version,
        no_lease: true,
        ..Lookup::default()
    };
    let found = if context.serves(key.bytes()) {
        context.cache().lookup(key, &lookup, read)
    } else {
        Ok(None)
    };
    let (asked, hits, misses) = if how.touch.is_some() {
        (
            &counters.cmd_touch,
            &counters.touch_hits,
            &counters.touch_misses,
        )
    } else {
        (&counters.cmd_get, &counters.get_hits, &counters.get_misses)
    };
    asked.add(1);
    let Ok(Some(found)) = found else {
        misses.add(1);
        return None;
    };
    hits.add(1);
    if let Some(deadline) = how.touch {
        context.notify_deadline(deadline, key);
    }
    Some(found)
}

/// Appends the head of a value, and the value itself unless it is large enough to be pinned.
#[inline(always)]
fn append(
    out: &mut Vec<u8>,
    key: Key<'_>,
    item: Item<'_>,
    version: Option<u64>,
) -> (usize, Option<Handle>) {
    let bytes = key.bytes().len() + item.value.len();
    reply::value_head(out, key.bytes(), item.flags, item.value.len(), version);
    (bytes, copy_or_pin(out, item))
}

/// Appends the value with its line end, or returns a handle to be handed to [`Output::push_line`].
#[inline]
pub(super) fn copy_or_pin(out: &mut Vec<u8>, item: Item<'_>) -> Option<Handle> {
    if item.value.len() >= PINNED_VALUE_BYTES_MIN {
        return Some(item.pin());
    }
    out.reserve(item.value.len() + 2);
    out.extend_from_slice(item.value);
    out.extend_from_slice(b"\r\n");
    None
}
