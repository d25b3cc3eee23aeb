//! SORT and SORT_RO: the elements of a list or set in order, or values of other keys for them.
//!
//! The value is taken in one step as it is then. Elements are weighed in steps; those of each step
//! are sorted as a run, and the runs are merged. Other keys are read when their element is output,
//! so changes meanwhile are seen, except in a transaction.
//!
//! Source: redis.io/docs/latest/commands/sort.

mod request; // what SORT's options mean
mod elements; // the elements of a value, by their places

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use cellar_config::limits::RESULT_BYTES_MAX;
use cellar_engine::{Change, Deadline, Handle, Instant, Space};
use cellar_net::output::{Output, PINNED_VALUE_BYTES_MIN};
use cellar_protocol::resp::{Proto, Reply};

use self::elements::Elements;
use self::request::{Asking, Reference, SortBy};
use crate::context::Context;
use crate::resp::append_failure;
use crate::resp::arguments::Arguments;
use crate::resp::call::notify::Class;
use crate::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, Work};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::append_value;
use cellar_values::LIST;
use cellar_values::list::{Edit, List, Side};

/// Elements that one step weighs or answers if other keys are read for them.
const LOOKUPS_MAX: usize = STEP_ITEMS / 4;

/// The sort key of an element.
#[derive(Clone, Debug)]
enum Weight {
    /// Its position in the value.
    Place,
    Number(f64),
    /// Its own bytes.
    Itself,
    /// The value of another key; a missing one sorts first.
    Text(Option<Box<[u8]>>),
}

/// An element that was weighed.
#[derive(Clone, Debug)]
struct Weighed {
    weight: Weight,
    /// Its place among the elements' bytes, and which one it is.
    at: usize,
    number: u32,
}

/// The first remaining element of its run.
struct Coming {
    weighed: Weighed,
    /// Its bytes, if elements are compared by them.
    element: Box<[u8]>,
    is_descending: bool,
    run: usize,
    next: usize,
}

/// The order of two elements of the same kind of weight.
fn compare(
    (one, element): (&Weighed, &[u8]),
    (two, other): (&Weighed, &[u8]),
    is_descending: bool,
) -> Ordering {
    let order = match (&one.weight, &two.weight) {
        (Weight::Number(one), Weight::Number(two)) => {
            let numbers = one.partial_cmp(two).unwrap_or(Ordering::Equal);
            numbers.then_with(|| element.cmp(other))
        }
        (Weight::Text(one), Weight::Text(two)) => one.cmp(two),
        (Weight::Itself, Weight::Itself) => element.cmp(other),
        _ => one.number.cmp(&two.number),
    };
    let order = if is_descending {
        order.reverse()
    } else {
        order
    };
    order.then(one.number.cmp(&two.number))
}

impl PartialEq for Coming {
    fn eq(&self, other: &Coming) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Coming {}

impl PartialOrd for Coming {
    fn partial_cmp(&self, other: &Coming) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Coming {
    fn cmp(&self, other: &Coming) -> Ordering {
        let [one, two] = [self, other].map(|coming| (&coming.weighed, &*coming.element));
        compare(one, two, self.is_descending)
    }
}

/// Elements on their way into an order, and out of it.
struct Sorting {
    value: Option<Handle>,
    asking: Asking,
    space: Space,
    /// When the value was taken.
    now: Instant,
    /// Where the elements begin that are not weighed, and how many are.
    at: Option<usize>,
    count: usize,
    runs: Vec<Vec<Weighed>>,
    coming: BinaryHeap<Reverse<Coming>>,
    /// Bytes of the weights.
    bytes: usize,
    has_odd_number: bool,
    /// Elements to skip, and then to output.
    skipped: usize,
    left: usize,
}

/// Reads another key for an element: calls `read` with it if it is a string, or a field of a hash.
fn refer<R>(
    context: Context<'_>,
    space: Space,
    reference: &Reference,
    element: &[u8],
    read: impl FnOnce(request::Said<'_>) -> R,
) -> Option<R> {
    let key = reference.key(element)?;
    let cache = context.cache();
    let key = cache.key_in(space, &key).ok()?;
    let now = cache.now();
    cache.get(key, |item| reference.read(item, now, read))?
}

impl Sorting {
    fn of(call: &Call<'_>, asking: Asking, value: Option<Handle>) -> Sorting {
        let now = call.now();
        let count = value
            .as_ref()
            .map_or(0, |value| Elements::of(value, now).len());
        let start = usize::try_from(asking.limit.0).unwrap_or(0).min(count);
        let most = usize::try_from(asking.limit.1).unwrap_or(usize::MAX);
        Sorting {
            at: (count > 0).then_some(0),
            value,
            asking,
            space: call.space(),
            now,
            count: 0,
            runs: Vec::new(),
            coming: BinaryHeap::new(),
            bytes: 0,
            has_odd_number: false,
            skipped: start,
            left: most.min(count - start),
        }
    }

    /// The weight of an element.
    fn weigh(&mut self, context: Context<'_>, element: &[u8]) -> Weight {
        let is_alpha = self.asking.is_alpha;
        let (weight, is_odd) = match &self.asking.by {
            SortBy::Place => (Weight::Place, false),
            SortBy::Element if is_alpha => (Weight::Itself, false),
            SortBy::Element => number_of(element),
            SortBy::Other(reference) if is_alpha => {
                let text: Option<Box<[u8]>> =
                    refer(context, self.space, reference, element, |said| {
                        said.bytes().into()
                    });
                self.bytes += text.as_ref().map_or(0, |text| text.len());
                (Weight::Text(text), false)
            }
            SortBy::Other(reference) => {
                let number = refer(context, self.space, reference, element, |said| {
                    number_of(said.bytes())
                });
                number.unwrap_or((Weight::Number(0.0), false))
            }
        };
        self.has_odd_number |= is_odd;
        weight
    }

    /// Weighs some elements more.
    ///
    /// # Errors
    /// If the weights are too long, or are not numbers.
    fn gather(&mut self, context: Context<'_>) -> Result<Progress, Failure> {
        let Some(value) = self.value.take() else {
            return Ok(Progress::Last);
        };
        let elements = Elements::of(&value, self.now);
        let most = match self.asking.by {
            SortBy::Other(_) => LOOKUPS_MAX,
            _ => STEP_ITEMS,
        };
        let mut run = Vec::new();
        while let Some(at) = self.at.filter(|_| run.len() < most) {
            let Some((element, next)) = elements.at(at) else {
                self.at = None;
                break;
            };
            let weight = self.weigh(context, &element);
            // A value is shorter than 4 GiB.
            let number = self.count as u32;
            run.push((Weighed { weight, at, number }, element));
            self.count += 1;
            self.at = Some(next);
            if self.bytes > RESULT_BYTES_MAX {
                return Err(Failure::text(
                    "ERR the values to sort by are longer than 64 MiB",
                ));
            }
        }
        let is_descending = self.asking.is_descending;
        run.sort_by(|(one, mine), (two, other)| compare((one, mine), (two, other), is_descending));
        self.runs
            .push(run.into_iter().map(|(weighed, _)| weighed).collect());
        self.offer(&elements, self.runs.len() - 1, 0);
        self.value = Some(value);
        if self.at.is_some() {
            return Ok(Progress::More);
        }
        if self.has_odd_number {
            return Err(Failure::text(
                "ERR One or more scores can't be converted into double",
            ));
        }
        Ok(Progress::Last)
    }

    /// Offers the next element of a run for the merge.
    fn offer(&mut self, elements: &Elements<'_>, run: usize, place: usize) {
        let Some(weighed) = self.runs[run].get_mut(place) else {
            self.runs[run] = Vec::new();
            return;
        };
        let weight = std::mem::replace(&mut weighed.weight, Weight::Place);
        let weighed = Weighed { weight, ..*weighed };
        let element = elements.at(weighed.at);
        let element = element.map(|(element, _)| element).unwrap_or_default();
        let element = match weighed.weight {
            Weight::Number(_) | Weight::Itself => element.into_owned().into(),
            _ => Box::default(),
        };
        self.coming.push(Reverse(Coming {
            weighed,
            element,
            is_descending: self.asking.is_descending,
            run,
            next: place + 1,
        }));
    }

    /// The place of the next element.
    fn next(&mut self, elements: &Elements<'_>) -> Option<usize> {
        let Reverse(coming) = self.coming.pop()?;
        self.offer(elements, coming.run, coming.next);
        Some(coming.weighed.at)
    }

    /// Outputs some more elements.
    fn show(&mut self, mut show: impl FnMut(&Sorting, &[u8]) -> bool) -> Progress {
        let Some(value) = self.value.take() else {
            return Progress::Last;
        };
        let elements = Elements::of(&value, self.now);
        let most = match self.asking.gets.len() {
            0 => STEP_ITEMS,
            gets => (LOOKUPS_MAX / gets).max(1),
        };
        for _ in 0..most {
            if self.left == 0 {
                break;
            }
            let Some(at) = self.next(&elements) else {
                self.left = 0;
                break;
            };
            if self.skipped > 0 {
                self.skipped -= 1;
                continue;
            }
            self.left -= 1;
            let goes_on = elements
                .at(at)
                .is_none_or(|(element, _)| show(self, &element));
            if !goes_on {
                break;
            }
        }
        self.value = Some(value);
        if self.left == 0 {
            Progress::Last
        } else {
            Progress::More
        }
    }

    /// Number of values to output.
    fn values(&self) -> usize {
        self.left * self.asking.gets.len().max(1)
    }
}

/// The number that a text consists of, as C parses it, and whether it is invalid.
fn number_of(text: &[u8]) -> (Weight, bool) {
    let end = memchr::memchr(0, text).unwrap_or(text.len());
    let text = &text[..end];
    if text.is_empty() {
        return (Weight::Number(0.0), false);
    }
    let number = cellar_protocol::resp::number::parse_float(text.trim_ascii_start());
    (Weight::Number(number.unwrap_or(0.0)), number.is_none())
}

/// A sorted value that is answered.
struct Telling {
    sorting: Sorting,
    proto: Proto,
    has_head: bool,
}

impl Work for Telling {
    fn step(&mut self, context: Context<'_>, output: &mut Output) -> Progress {
        let proto = self.proto;
        if !self.has_head {
            match self.sorting.gather(context) {
                Ok(Progress::More) => return Progress::More,
                Ok(Progress::Last) => {}
                Err(failure) => {
                    append_failure(&failure, proto, context, output);
                    return Progress::Last;
                }
            }
            Reply::new(output.bytes(), proto).array(self.sorting.values());
            self.has_head = true;
        }
        let full = output.bytes().len() + STEP_BYTES;
        let mut pinned = 0;
        self.sorting.show(|sorting, element| {
            if sorting.asking.gets.is_empty() {
                Reply::new(output.bytes(), proto).bulk(element);
            }
            for reference in &sorting.asking.gets {
                pinned += answer(context, sorting.space, reference, element, proto, output);
            }
            output.bytes().len() + pinned < full
        })
    }
}

/// Answers the value of a key for an element; returns how many bytes of it are sent from the
/// cache's memory.
fn answer(
    context: Context<'_>,
    space: Space,
    reference: &Reference,
    element: &[u8],
    proto: Proto,
    output: &mut Output,
) -> usize {
    let mut reply = Reply::new(output.bytes(), proto);
    if reference.is_element() {
        reply.bulk(element);
        return 0;
    }
    let said = refer(context, space, reference, element, |said| match said {
        request::Said::Text(item) => append_value(&mut reply, item),
        request::Said::Field(bytes) => {
            reply.bulk(bytes);
            None
        }
    });
    let Some(pinned) = said else {
        reply.null();
        return 0;
    };
    let bytes = pinned.as_ref().map_or(0, |value| value.len());
    output.push_line(pinned);
    bytes
}

/// SORT and SORT_RO.
pub(in crate::resp) fn sort(call: &mut Call<'_>) -> Outcome {
    let (asking, destination) = Asking::parse(call)?;
    let proto = call.session.proto;
    let Some(destination) = destination else {
        // The keys that few elements refer to are read atomically.
        return call.as_step(|call| {
            let sorting = begin(call, asking, false)?;
            call.work_in_steps(Telling {
                sorting,
                proto,
                has_head: false,
            })
        });
    };
    let mut sorting = call.as_step(|call| begin(call, asking, true))?;
    // The result of few elements is stored atomically.
    let mut list = Arguments::default();
    let begun = call.as_step(|call| {
        let bytes_max = call.cache().collection_bytes_max();
        if sorting.gather(call.context)? == Progress::More
            || fill(&mut sorting, &mut list, bytes_max, call.context)? == Progress::More
        {
            return Ok(Progress::More);
        }
        store(call, destination, &list)?;
        Ok::<_, Failure>(Progress::Last)
    })?;
    if begun == Progress::Last {
        return DONE;
    }
    store_in_steps(call, destination, sorting, list)
}

/// Takes the value of the first key, to be stored sorted or returned.
fn begin(call: &mut Call<'_>, mut asking: Asking, is_stored: bool) -> Result<Sorting, Failure> {
    let found = call.cache().get(call.first_key()?, |item| {
        elements::has_elements(item.kind).then(|| item.pin())
    });
    let value = match found {
        Some(None) => return Err(Failure::WrongType),
        found => found.flatten(),
    };
    // A set has no order of its own that could be kept.
    let is_set = value
        .as_ref()
        .is_some_and(|value| elements::is_set(value.kind()));
    let must_be_ordered = is_stored || call.session.is_script;
    if is_set && must_be_ordered && matches!(asking.by, SortBy::Place) {
        (asking.by, asking.is_alpha) = (SortBy::Element, true);
    }
    if is_set && matches!(asking.by, SortBy::Place) {
        asking.is_descending = false;
    }
    Ok(Sorting::of(call, asking, value))
}

/// Adds the output of some elements; fails if it is longer than a value may be.
fn fill(
    sorting: &mut Sorting,
    list: &mut Arguments,
    bytes_max: usize,
    context: Context<'_>,
) -> Result<Progress, Failure> {
    let full = list.bytes() + 8 * STEP_BYTES;
    let progress = sorting.show(|sorting, element| {
        if sorting.asking.gets.is_empty() {
            list.extend(&[element]);
        }
        for reference in &sorting.asking.gets {
            if reference.is_element() {
                list.extend(&[element]);
                continue;
            }
            let said = refer(context, sorting.space, reference, element, |said| {
                // A longer one is refused as it is.
                let bytes = said.bytes();
                list.extend(&[&bytes[..bytes.len().min(bytes_max)]]);
            });
            if said.is_none() {
                list.extend(&[&b""[..]]);
            }
        }
        list.bytes() < full
    });
    if list.bytes() > bytes_max.saturating_mul(2).max(PINNED_VALUE_BYTES_MIN) {
        return Err(too_long());
    }
    Ok(progress)
}

fn too_long() -> Failure {
    Failure::text("ERR collection exceeds maximum allowed size (max-value)")
}

/// Continues if one step was not enough.
fn store_in_steps(
    call: &mut Call<'_>,
    destination: &[u8],
    mut sorting: Sorting,
    mut list: Arguments,
) -> Outcome {
    let mut session = call.session.for_steps(call.context.state);
    let (command, key) = (call.command, destination.to_vec());
    call.in_steps(move |context, output| {
        let proto = session.proto;
        let bytes_max = context.cache().collection_bytes_max();
        if session.preparation.make(context.cache()) {
            return Progress::More;
        }
        let step = if sorting.at.is_some() {
            sorting.gather(context).map(|_| Progress::More)
        } else {
            fill(&mut sorting, &mut list, bytes_max, context)
        };
        let stored = match step {
            Ok(Progress::More) => return Progress::More,
            Ok(Progress::Last) => {
                let mut call = Call {
                    command,
                    args: &[],
                    key: None,
                    session: &mut session,
                    context,
                    output,
                };
                store(&mut call, &key, &list)
            }
            Err(failure) => Err(failure),
        };
        if let Err(Failure::NoRoomYet) = stored {
            return Progress::More;
        }
        if let Err(failure) = stored {
            append_failure(&failure, proto, context, output);
        }
        Progress::Last
    })
}

/// Stores a list, and answers how many elements it has.
fn store(call: &mut Call<'_>, destination: &[u8], list: &Arguments) -> Result<(), Failure> {
    let key = call.cache().key_in(call.space(), destination)?;
    let deadline: Deadline = call.default_deadline();
    let elements: Vec<&[u8]> = list.iter().collect();
    let replaced = call.change(key, |old, scratch| {
        let change = if elements.is_empty() {
            Change::Remove
        } else {
            let edit = List::empty().push(Side::Right, &elements, scratch);
            debug_assert!(matches!(edit, Edit::Store));
            Change::Store {
                kind: LIST,
                deadline,
                flags: 0,
            }
        };
        (old.map(|item| item.kind), change)
    });
    let replaced = replaced.map_err(|error| match error {
        cellar_engine::Error::TooLarge { .. } => too_long(),
        error => error.into(),
    })?;
    if !elements.is_empty() {
        call.context.notify_replaced(replaced, LIST, key);
        call.notify(Class::List, "sortstore", destination);
    } else if replaced.is_some() {
        call.notify(Class::Generic, "del", destination);
    }
    call.reply().integer(elements.len() as i64);
    Ok(())
}
