//! Geo search: the members of a sorted set that lie in a circle, a box or a polygon.
//!
//! The region is covered by at most nine cells of the map, and where one has many members by
//! quarters of it; only members in these are looked at, some in each step. What a step finds is put
//! in order by itself, and the lowest of all comes next.
//!
//! Supply: redis.io/docs/latest/commands/geosearch and its neighbours.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use cellar_engine::Handle;
use cellar_net::output::Output;
use cellar_protocol::resp::{Proto, Reply, Verb};

use crate::context::Context;
use crate::resp::call::steps::{Progress, STEP_BYTES, STEP_ITEMS, Work};
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::collections::geo::text_of_distance;
use crate::resp::collections::geo_request::{Sequence, Wants, read};
use crate::resp::collections::sorted_store::{self, Supply};
use cellar_values::geo::{Cell, Position, Region};
use cellar_values::{Run, SortedSet, SortedSetBuilder};

/// Members that one step looks at: each takes a few sines.
const LOOKS_MAX: usize = STEP_ITEMS;
/// A cell with more members than these is divided. To find those of a quarter takes as long as to
/// look at some ten.
const CELL_MEMBERS_MAX: usize = 24;
/// How many times a cell is divided.
const DIVISIONS_MAX: u32 = 3;

/// GEOSEARCH, GEORADIUS and their like.
pub(in crate::resp) fn search(call: &mut Call<'_>) -> Outcome {
    // Its arguments are read once, in the step that takes the set.
    if call.command.verb == Verb::Geosearchstore {
        return store(call, call.args[1]);
    }
    let (asked, found) = read(call)?;
    if let Some(key) = asked.destination {
        return store(call, key);
    }
    let Some((value, region)) = found else {
        call.reply().array(0);
        return DONE;
    };
    let proto = call.session.proto;
    call.work_in_steps(Answering {
        search: Search::of(value, region, asked.wants, false),
        proto,
        left: None,
    })
}

/// The same with a key for the result.
fn store(call: &mut Call<'_>, key: &[u8]) -> Outcome {
    let event = match call.command.verb {
        Verb::Geosearchstore => "geosearchstore",
        _ => "georadiusstore",
    };
    sorted_store::store(call, key, event, |call| {
        let (asked, found) = read(call)?;
        let turn = if asked.stores_distances {
            Sequence::Distance
        } else {
            Sequence::Score
        };
        Ok(Selection {
            turned: Turned::to(turn, asked.wants),
            search: found.map(|(value, region)| {
                Search::of(value, region, asked.wants, turn == Sequence::Score)
            }),
            left: asked.wants.most,
        })
    })
}

/// A member that was found, and metres from the middle.
#[derive(Clone, Copy, Debug)]
struct Spot {
    metres: f64,
    /// Its rank, if members come in the order of their scores.
    rank: u32,
    /// Its position in the set, as in [`SortedSet::member_at`].
    position: usize,
}

/// The member of a spot, and its score.
fn member_of<'s>(set: &'s SortedSet<'_>, spot: Spot) -> (Cow<'s, [u8]>, f64) {
    let found = set.member_at(spot.position);
    let (member, score, _) = found.expect("a set stays as it is during a search");
    (member, score)
}

/// The next spot of a run, by what it comes in turn.
#[derive(Debug, PartialEq)]
struct Upcoming {
    key: f64,
    member: Box<[u8]>,
    number: usize,
    run: usize,
    at: usize,
}

impl Eq for Upcoming {}

impl PartialOrd for Upcoming {
    fn partial_cmp(&self, other: &Upcoming) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Upcoming {
    fn cmp(&self, other: &Upcoming) -> Ordering {
        let keys = self.key.total_cmp(&other.key);
        keys.then_with(|| self.member.cmp(&other.member))
            .then_with(|| self.number.cmp(&other.number))
    }
}

/// Spots in runs, each of which is in order, and then one after the other.
struct Turned {
    turn: Sequence,
    most: usize,
    metres: f64,
    runs: Vec<Vec<Spot>>,
    upcoming: BinaryHeap<Reverse<Upcoming>>,
    count: usize,
}

impl Turned {
    fn to(turn: Sequence, wants: Wants) -> Turned {
        Turned {
            turn,
            most: wants.most,
            metres: wants.metres,
            runs: Vec::new(),
            upcoming: BinaryHeap::new(),
            count: 0,
        }
    }

    /// What a spot goes by: a number, then its member, then when it was found or where it stands.
    fn key(&self, spot: Spot) -> f64 {
        match self.turn {
            Sequence::Found | Sequence::Score => 0.0,
            Sequence::Nearest => spot.metres,
            Sequence::Farthest => -spot.metres,
            Sequence::Distance => spot.metres / self.metres,
        }
    }

    /// Adds some spots, not more than a step finds.
    fn add(&mut self, mut run: Vec<Spot>, set: &SortedSet<'_>) {
        match self.turn {
            Sequence::Found => {}
            Sequence::Score => run.sort_by_key(|spot| spot.rank),
            Sequence::Nearest | Sequence::Farthest => {
                run.sort_by(|&one, &other| self.key(one).total_cmp(&self.key(other)));
            }
            Sequence::Distance => run.sort_by(|&one, &other| {
                let member = |spot: Spot| member_of(set, spot).0;
                let keys = self.key(one).total_cmp(&self.key(other));
                keys.then_with(|| member(one).cmp(&member(other)))
            }),
        }
        run.truncate(self.most);
        if !run.is_empty() {
            self.count += run.len();
            run.shrink_to_fit();
            self.runs.push(run);
            self.offer(self.runs.len() - 1, 0, set);
        }
    }

    /// Has a spot of a run come in its turn.
    fn offer(&mut self, run: usize, at: usize, set: &SortedSet<'_>) {
        let Some(&spot) = self.runs[run].get(at) else {
            self.runs[run] = Vec::new();
            return;
        };
        let member: Box<[u8]> = match self.turn {
            Sequence::Distance => member_of(set, spot).0.into(),
            _ => Box::default(),
        };
        let number = match self.turn {
            Sequence::Score => spot.rank as usize,
            _ => run,
        };
        self.upcoming.push(Reverse(Upcoming {
            key: self.key(spot),
            member,
            number,
            run,
            at,
        }));
    }

    /// The next spot.
    fn next(&mut self, set: &SortedSet<'_>) -> Option<Spot> {
        let Reverse(Upcoming { run, at, .. }) = self.upcoming.pop()?;
        let spot = self.runs[run][at];
        self.offer(run, at + 1, set);
        Some(spot)
    }
}

/// A search that takes several steps.
struct Search {
    value: Handle,
    region: Region,
    wants: Wants,
    /// The members that are to be looked at, the last ones first, with the rank of the first if it
    /// counts.
    runs: Vec<(Run, usize)>,
    found: Turned,
}

impl Search {
    /// `is_ranked` says whether the ranks of what it finds count.
    fn of(value: Handle, region: Region, wants: Wants, is_ranked: bool) -> Search {
        let (set, mut runs) = (SortedSet::view(&value), Vec::new());
        for cell in region.cells() {
            add_members(&set, &region, (cell, DIVISIONS_MAX), &mut runs);
        }
        let rank_of = |run| if is_ranked { set.ranks(run).start } else { 0 };
        let runs = runs.into_iter().rev().map(|run| (run, rank_of(run)));
        Search {
            runs: runs.collect(),
            region,
            wants,
            found: Turned::to(wants.turn, wants),
            value,
        }
    }

    /// Looks at some members more.
    fn step(&mut self) -> Progress {
        let set = SortedSet::view(&self.value);
        let most = (LOOKS_MAX / self.region.outline.cost()).max(1);
        let (mut found, mut left) = (Vec::new(), most);
        while left > 0
            && let Some((run, rank)) = self.runs.last_mut()
        {
            let Some((_, score, next)) = set.member_at(run.position).filter(|_| run.len > 0) else {
                self.runs.pop();
                continue;
            };
            left -= 1;
            let position = Position::of_score(score);
            if let Some(metres) = self.region.distance_m(position) {
                found.push(Spot {
                    metres,
                    // A value is shorter than 4 GiB.
                    rank: *rank as u32,
                    position: run.position,
                });
                if self.wants.takes_any && self.found.count + found.len() >= self.wants.most {
                    self.runs = Vec::new();
                    break;
                }
            }
            *run = Run {
                position: next,
                len: run.len - 1,
            };
            *rank += 1;
        }
        self.found.add(found, &set);
        if self.runs.is_empty() {
            Progress::Last
        } else {
            Progress::More
        }
    }

    /// How many members are answered, when all were looked at.
    fn count(&self) -> usize {
        self.found.count.min(self.wants.most)
    }
}

/// Adds the members of a cell, or of the quarters that the region reaches, if they are many and the
/// cell may be divided so many times.
fn add_members(
    set: &SortedSet<'_>,
    region: &Region,
    (cell, divisions): (Cell, u32),
    runs: &mut Vec<Run>,
) {
    let (low, high) = cell.scores();
    let run = set.run_of_scores(|score| score < low, |score| score < high);
    if run.len == 0 {
        return;
    }
    if divisions == 0 || run.len <= CELL_MEMBERS_MAX || !cell.is_divisible() {
        return runs.push(run);
    }
    for quarter in region.quarters(cell) {
        add_members(set, region, (quarter, divisions - 1), runs);
    }
}

/// Answers a member.
fn append(wants: Wants, reply: &mut Reply<'_>, set: &SortedSet<'_>, spot: Spot) {
    let (member, score) = member_of(set, spot);
    let options = [wants.with_distance, wants.with_score, wants.with_position];
    let options = options.iter().filter(|option| **option).count();
    if options > 0 {
        reply.array(options + 1);
    }
    reply.bulk(member);
    if wants.with_distance {
        reply.bulk(text_of_distance(spot.metres / wants.metres));
    }
    if wants.with_score {
        reply.integer(score as i64);
    }
    if wants.with_position {
        let position = Position::of_score(score);
        reply.array(2);
        reply.coordinate(position.longitude);
        reply.coordinate(position.latitude);
    }
}

/// A search whose result is answered.
struct Answering {
    search: Search,
    proto: Proto,
    /// Members to be answered, when all were looked at.
    left: Option<usize>,
}

impl Work for Answering {
    fn step(&mut self, _context: Context<'_>, output: &mut Output) -> Progress {
        let mut reply = Reply::new(output.bytes(), self.proto);
        let Some(left) = &mut self.left else {
            if self.search.step() == Progress::Last {
                reply.array(self.search.count());
                self.left = Some(self.search.count());
                if self.search.count() == 0 {
                    return Progress::Last;
                }
            }
            return Progress::More;
        };
        let full = reply.out.len() + STEP_BYTES;
        let Search {
            value,
            wants,
            found,
            ..
        } = &mut self.search;
        let set = SortedSet::view(value);
        for _ in 0..STEP_ITEMS.min(*left) {
            if let Some(spot) = found.next(&set) {
                append(*wants, &mut reply, &set, spot);
            }
            *left -= 1;
            if reply.out.len() >= full {
                break;
            }
        }
        if *left == 0 {
            Progress::Last
        } else {
            Progress::More
        }
    }
}

/// A search whose result is stored: what it found comes once more in the order of its scores.
struct Selection {
    search: Option<Search>,
    turned: Turned,
    /// How many of those found are still to be chosen.
    left: usize,
}

impl Supply for Selection {
    fn prepare(&mut self) -> Progress {
        let Some(search) = &mut self.search else {
            return Progress::Last;
        };
        if !search.runs.is_empty() {
            if search.step() == Progress::More {
                return Progress::More;
            }
            // Few members are chosen in the same step, so that they are stored at once.
            if search.found.count > STEP_ITEMS {
                return Progress::More;
            }
        }
        let set = SortedSet::view(&search.value);
        let mut run = Vec::new();
        let most = STEP_ITEMS.min(self.left);
        while run.len() < most
            && let Some(spot) = search.found.next(&set)
        {
            run.push(spot);
        }
        self.left -= run.len();
        let is_last = self.left == 0 || search.found.upcoming.is_empty();
        self.turned.add(run, &set);
        if is_last {
            Progress::Last
        } else {
            Progress::More
        }
    }

    fn count(&self) -> usize {
        self.turned.count
    }

    fn next(&mut self, result: &mut SortedSetBuilder) -> bool {
        let (Some(search), turned) = (&self.search, &mut self.turned) else {
            return false;
        };
        let set = SortedSet::view(&search.value);
        let Some(spot) = turned.next(&set) else {
            return false;
        };
        let (member, score) = member_of(&set, spot);
        let score = match turned.turn {
            Sequence::Distance => turned.key(spot),
            _ => score,
        };
        result.push(&member, score);
        true
    }
}
