//! Collections against the standard library's: many random changes, each followed by a look at
//! everything that can be read.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cellar_engine::{Change, Deadline, Instant};
use cellar_values::{
    Collection, Family, Hash, Hashes, Lookups, Member, Set, Sets, SortedSet, SortedSets, is_paged,
    set,
};
use fastrand::Rng;

/// Names of different lengths; the larger `names` is, the larger the collection becomes.
fn name(rng: &mut Rng, names: u32) -> Vec<u8> {
    let number = rng.u32(..names);
    let long = "x".repeat(if number.is_multiple_of(97) {
        300
    } else {
        (number % 7) as usize
    });
    format!("{number}{long}").into_bytes()
}

/// A value, and when its item goes.
type Value = Option<(Vec<u8>, Deadline)>;

/// Changes a value as a command and the cache do.
fn change<F: Family>(value: &mut Value, now: Instant, decide: impl FnOnce(&mut F::Of<'_>)) {
    let mut scratch = Vec::new();
    let change = {
        let mut collection = match value {
            Some((bytes, deadline)) => F::Of::open(bytes, *deadline, now),
            None => F::Of::empty(Deadline::NEVER, now),
        };
        decide(&mut collection);
        if collection.is_empty() {
            Change::Remove
        } else if collection.is_changed() {
            collection.finish(&mut scratch)
        } else {
            Change::Keep
        }
    };
    match change {
        Change::Remove => *value = None,
        Change::Store { deadline, .. } => *value = Some((scratch, deadline)),
        Change::Edit {
            more,
            deadline,
            apply,
        } => {
            let (bytes, its) = value.as_mut().unwrap();
            let before = bytes.len();
            apply.0(bytes, &scratch);
            assert!(bytes.len() <= before + more, "more than was foreseen");
            *its = deadline;
        }
        _ => {}
    }
}

#[test]
fn a_hash_is_a_map_whose_fields_expire() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let names = [5, 40, 300, 2_000][seed as usize % 4];
        let timed = seed % 3;
        let mut model: HashMap<Vec<u8>, (Vec<u8>, Deadline)> = HashMap::new();
        let mut value = None;
        let mut now = Instant(1_000);
        for step in 0..4_000 {
            now.0 += rng.u64(..4);
            if value
                .as_ref()
                .is_some_and(|(_, deadline): &(_, Deadline)| deadline.has_passed(now))
            {
                value = None;
            }
            model.retain(|_, (_, deadline)| !deadline.has_passed(now));
            let changes = if rng.u32(..20) == 0 { 50 } else { 1 };
            change::<Hashes>(&mut value, now, |hash| {
                for _ in 0..changes {
                    change_field(&mut rng, names, timed, now, hash, &mut model);
                }
            });
            let latest = model.values().map(|(_, deadline)| *deadline).max();
            assert_eq!(
                value.as_ref().map(|(_, deadline)| *deadline),
                latest,
                "{step}"
            );
            check_hash(value.as_ref().map(|(bytes, _)| &bytes[..]), now, &model);
        }
        assert!(timed == 0 || model.len() < names as usize);
    }
}

#[test]
fn removals_and_puts_of_one_change_have_their_room() {
    // With these seeds a node is merged with a neighbour and then split twice.
    for seed in [5_027, 7_302, 7_835, 16_086] {
        fastrand::seed(seed);
        let (mut rng, now) = (Rng::with_seed(seed), Instant(1_000));
        let (mut value, mut model) = (None, HashMap::new());
        for _ in 0..6 {
            change::<Hashes>(&mut value, now, |hash| {
                for _ in 0..50 {
                    change_field(&mut rng, 40, 1, now, hash, &mut model);
                }
            });
        }
    }
}

fn change_field(
    rng: &mut Rng,
    names: u32,
    timed: u64,
    now: Instant,
    hash: &mut Hash<'_>,
    model: &mut HashMap<Vec<u8>, (Vec<u8>, Deadline)>,
) {
    let field = name(rng, names);
    let is_timed = timed == 2 || timed == 1 && rng.bool();
    let deadline = if is_timed {
        now.plus_ms(rng.u64(1..2_000))
    } else {
        Deadline::NEVER
    };
    match rng.u32(..10) {
        0..5 => {
            // Some lie in pages of their own, some are as long as just not to.
            let len = match rng.u32(..8) {
                0 => rng.usize(1_600..2_300),
                1 => rng.usize(..5_000),
                _ => rng.usize(..30),
            };
            let text = "v".repeat(len).into_bytes();
            let is_new = model
                .insert(field.clone(), (text.clone(), deadline))
                .is_none();
            assert_eq!(hash.set(&field, &text, deadline), is_new);
        }
        5 => {
            hash.retime(&field, deadline);
            if let Some((_, old)) = model.get_mut(&field) {
                *old = deadline;
            }
        }
        _ => assert_eq!(hash.remove(&field), model.remove(&field).is_some()),
    }
}

fn check_hash(value: Option<&[u8]>, now: Instant, model: &HashMap<Vec<u8>, (Vec<u8>, Deadline)>) {
    let Some(value) = value else {
        assert!(model.is_empty());
        return;
    };
    let hash = Hash::view(value, now);
    assert_eq!(hash.len(), model.len());
    let mut shown = 0;
    for field in hash.iter() {
        let (text, deadline) = &model[&*field.name];
        assert_eq!((&*field.value, field.deadline), (&text[..], *deadline));
        assert_eq!(hash.get(&field.name), Some(field.clone()));
        shown += 1;
    }
    assert_eq!(shown, model.len());
    assert!(hash.get(b"nobody").is_none());
    assert!(model.contains_key(&*hash.random().unwrap().name));
}

#[test]
fn a_set_is_a_set_whose_members_expire() {
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let names = [5, 140, 300, 3_000][seed as usize];
        let mut model: HashMap<Vec<u8>, Deadline> = HashMap::new();
        let (mut value, mut now) = (None, Instant(1_000));
        for step in 0..3_000 {
            let is_timed = step / 500 % 2 == 1;
            let deadline = if is_timed {
                now.plus_ms(rng.u64(1..2_000))
            } else {
                Deadline::NEVER
            };
            let adds = if step / 1_000 % 2 == 0 { 8 } else { 3 };
            let member = name(&mut rng, names);
            change::<Sets>(&mut value, now, |set| match rng.u32(..12) {
                draw if draw < adds && is_timed => {
                    set.put(&member, deadline);
                    model.insert(member, deadline);
                }
                draw if draw < adds => {
                    assert_eq!(set.add(&member), !model.contains_key(&member));
                    model.entry(member).or_insert(Deadline::NEVER);
                }
                9.. => {
                    set.retime(&member, deadline);
                    model.entry(member).and_modify(|its| *its = deadline);
                }
                _ => assert_eq!(set.remove(&member), model.remove(&member).is_some()),
            });
            now = Instant(now.0 + rng.u64(..20));
            model.retain(|_, deadline| !deadline.has_passed(now));
            let Some((bytes, deadline)) = &value else {
                assert!(model.is_empty());
                continue;
            };
            // It goes with the last of its members.
            let last = model.values().max().copied();
            assert!(last.is_none_or(|last| last == *deadline), "{last:?}");
            let set = Set::view(bytes, now);
            assert_eq!(set.len(), model.len());
            assert!(
                model
                    .iter()
                    .all(|(member, its)| set.deadline(member) == Some(*its))
            );
            let shown: HashSet<_> = set.iter().map(Member::into_owned).collect();
            assert_eq!(shown, model.keys().cloned().collect());
            let mut scanned = HashSet::new();
            set.scan(0, usize::MAX, |member| _ = scanned.insert(member.to_vec()));
            assert_eq!(scanned, shown);
            let lookups = Lookups::of(bytes, now);
            let asked = name(&mut rng, names);
            assert_eq!(lookups.has(&asked), shown.contains(&asked));
            if let Some(drawn) = set.random() {
                assert!(shown.contains(&*drawn));
            }
            if is_timed && model.values().all(|its| *its == Deadline::NEVER) && model.len() < 20 {
                let name = model.keys().next().cloned().unwrap_or_default();
                change::<Sets>(&mut value, now, |set| _ = set.remove(&name));
                model.remove(&name);
                if let Some((bytes, _)) = &value {
                    assert!(
                        is_paged(bytes) || !set::is_timed(bytes),
                        "it is plain again"
                    );
                }
            }
        }
    }
}

#[test]
fn a_set_is_a_set() {
    check_sets(name);
}

#[test]
fn a_set_of_integers_is_a_set() {
    check_sets(|rng, names| {
        let number = i64::from(rng.u32(..names));
        // Of one to eight bytes; some of the sets have a member that is no integer for a while.
        let number = match names {
            5 => number << (number * 12),
            140 => number - 70,
            _ => number * 40_000,
        };
        if names != 140 && rng.u32(..500) == 0 {
            return format!("0{number}").into_bytes();
        }
        number.to_string().into_bytes()
    });
}

#[test]
fn integers_that_were_stored_as_texts_are_members() {
    let texts = ["17", "-4", "300"];
    let entries = texts.iter().flat_map(|text| {
        let head = u8::try_from(text.len() * 2).unwrap();
        [&[head], text.as_bytes()].concat()
    });
    let bytes: Vec<u8> = [0, 3, 0, 0, 0].into_iter().chain(entries).collect();
    let mut value = Some((bytes, Deadline::NEVER));
    let set = Set::view(&value.as_ref().unwrap().0, Instant(0));
    assert!(set.is_of_integers() && texts.iter().all(|text| set.has(text.as_bytes())));
    change::<Sets>(&mut value, Instant(0), |set| {
        assert!(set.add(b"5") && !set.add(b"17") && set.remove(b"-4"));
    });
    let set = Set::view(&value.as_ref().unwrap().0, Instant(0));
    let shown: HashSet<_> = set.iter().map(Member::into_owned).collect();
    assert_eq!(shown, HashSet::from(["17", "300", "5"].map(Vec::from)));
}

#[test]
fn few_integers_take_the_bytes_of_the_widest_one() {
    let numbers: Vec<String> = (0..200)
        .map(|number| (number * 5_000).to_string())
        .collect();
    let bytes = set_of(numbers.iter().map(String::as_bytes));
    assert_eq!(bytes.len(), 2 + 200 * 3);
    let texts: Vec<&[u8]> = [&b"m"[..]]
        .into_iter()
        .chain(numbers.iter().map(String::as_bytes))
        .collect();
    assert!(set_of(texts).len() > 200 * 7);
}

/// Compares random sets of members from `draw`, which gets how many there are, with a model.
fn check_sets(draw: impl Fn(&mut Rng, u32) -> Vec<u8>) {
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let names = [5, 140, 300, 3_000][seed as usize];
        let mut model: HashSet<Vec<u8>> = HashSet::new();
        let mut value = None;
        for step in 0..4_000 {
            // Grows for a while, then shrinks.
            let adds = if step / 1_000 % 2 == 0 { 8 } else { 3 };
            let changes = if rng.u32(..20) == 0 { 50 } else { 1 };
            change::<Sets>(&mut value, Instant(0), |set| {
                for _ in 0..changes {
                    let member = draw(&mut rng, names);
                    if rng.u32(..10) < adds {
                        assert_eq!(set.add(&member), model.insert(member.clone()));
                    } else {
                        assert_eq!(set.remove(&member), model.remove(&member));
                    }
                }
            });
            if rng.u32(..40) == 0 {
                change::<Sets>(&mut value, Instant(0), |set| {
                    let count = rng.usize(..=set.len());
                    set.pop_some(count, |member| assert!(model.remove(member)));
                });
            }
            let Some((bytes, _)) = &value else {
                assert!(model.is_empty());
                continue;
            };
            let set = Set::view(bytes, Instant(0));
            assert_eq!(set.len(), model.len());
            assert!(model.iter().all(|member| set.has(member)));
            assert_eq!(
                set.iter()
                    .filter(|member| model.contains(&**member))
                    .count(),
                model.len()
            );
            assert!(!set.has(b"nobody"));
            assert!(model.contains(&*set.random().unwrap()));
            let mut shown = HashSet::new();
            set.scan(0, usize::MAX, |member| {
                assert!(shown.insert(member.to_vec()))
            });
            assert_eq!(shown, model);
        }
    }
}

#[test]
fn a_sorted_set_is_in_order_and_knows_its_members() {
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let names = [5, 140, 300, 2_000][seed as usize];
        let mut model: BTreeMap<Vec<u8>, i64> = BTreeMap::new();
        let mut value = None;
        for step in 0..2_500 {
            let adds = if step / 700 % 2 == 0 { 8 } else { 3 };
            let changes = if rng.u32(..20) == 0 { 90 } else { 1 };
            let adds_only = changes > 1 && rng.bool();
            change::<SortedSets>(&mut value, Instant(0), |set| {
                for _ in 0..changes {
                    let (member, score) = (name(&mut rng, names), rng.i64(-20..20));
                    if adds_only || rng.u32(..10) < adds {
                        let is_new = model.insert(member.clone(), score).is_none();
                        assert_eq!(set.set(&member, score as f64), is_new);
                    } else {
                        assert_eq!(set.remove(&member), model.remove(&member).is_some());
                    }
                }
            });
            if rng.u32(..40) == 0 && !model.is_empty() {
                change::<SortedSets>(&mut value, Instant(0), |set| {
                    let from = rng.usize(..set.len());
                    let ranks = from..rng.usize(from..=set.len());
                    for rank in ranks.clone() {
                        model.remove(&*set.at(rank).0);
                    }
                    set.remove_run(set.run_of_ranks(ranks));
                });
            }
            let Some((bytes, _)) = &value else {
                assert!(model.is_empty());
                continue;
            };
            let set = SortedSet::view(bytes);
            let order: BTreeSet<(i64, &[u8])> = model
                .iter()
                .map(|(member, &score)| (score, &member[..]))
                .collect();
            assert_eq!(set.len(), order.len());
            for (rank, &(score, member)) in order.iter().enumerate() {
                assert_eq!(set.at(rank), (member.into(), score as f64));
                if rank % 7 == 0 {
                    assert_eq!(set.rank(member), Some((rank, score as f64)));
                }
            }
            assert_eq!(set.rank(b"nobody"), None);
            let mut shown = 0;
            set.scan(0, usize::MAX, |member, _| {
                shown += 1;
                assert!(model.contains_key(member));
            });
            assert_eq!(shown, model.len());
            let below = order.iter().filter(|(score, _)| *score < 3).count();
            let run = set.run_of_scores(|score| score < -2.0, |score| score < 3.0);
            let before = order.iter().filter(|(score, _)| *score < -2).count();
            let expected = if before == below { 0..0 } else { before..below };
            assert_eq!(set.ranks(run), expected);
            let mut at = run.position;
            for rank in set.ranks(run) {
                let (member, score, next) = set.member_at(at).unwrap();
                assert_eq!((member, score), set.at(rank));
                at = next;
            }
        }
    }
}

#[test]
fn a_small_sorted_set_stores_the_scores_of_counts_in_four_bytes() {
    let bytes_of = |scores: &[f64]| {
        let mut value = None;
        change::<SortedSets>(&mut value, Instant(0), |set| {
            for (number, score) in scores.iter().enumerate() {
                assert!(set.set(format!("member{number:04}").as_bytes(), *score));
            }
        });
        let (bytes, _) = value.unwrap();
        let set = SortedSet::view(&bytes);
        for (number, score) in scores.iter().enumerate() {
            let stored = set.score(format!("member{number:04}").as_bytes());
            assert_eq!(stored.map(f64::to_bits), Some(score.to_bits()));
        }
        bytes.len()
    };
    let counts: Vec<f64> = (0..30).map(|number| f64::from(number * 33_333)).collect();
    assert_eq!(bytes_of(&counts), 5 + 30 * (1 + 10 + 4));
    let fractions: Vec<f64> = counts.iter().map(|count| count + 0.1).collect();
    assert_eq!(bytes_of(&fractions), 5 + 30 * (1 + 10 + 8));
    let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
    let mixed = [
        -2_097_151.0,
        2_097_153.0,
        least,
        most,
        0.5,
        1e300,
        f64::MIN_POSITIVE,
    ];
    assert!(bytes_of(&mixed) < 5 + mixed.len() * (1 + 10 + 8));
}

#[test]
fn a_scan_shows_what_is_there_all_the_time() {
    for seed in 0..8 {
        let mut rng = Rng::with_seed(seed);
        let mut value = None;
        let kept: HashSet<Vec<u8>> = (0..500).map(|n| format!("kept{n}").into_bytes()).collect();
        change::<Sets>(&mut value, Instant(0), |set| {
            kept.iter().for_each(|member| _ = set.add(member));
        });
        let mut shown: HashSet<Vec<u8>> = HashSet::new();
        let (mut cursor, mut steps) = (0, 0);
        loop {
            let (bytes, _) = value.as_ref().unwrap();
            let count = rng.usize(1..40);
            let mut seen = 0;
            cursor = Set::view(bytes, Instant(0)).scan(cursor, count, |member| {
                shown.insert(member.to_vec());
                seen += 1;
            });
            steps += 1;
            assert!(seen < 400, "{seen} in one step");
            if cursor == 0 {
                break;
            }
            // The table grows to many times its size and shrinks again.
            change::<Sets>(&mut value, Instant(0), |set| {
                for number in 0..400 {
                    let other = format!("other{}", steps * 400 + number);
                    if steps / 4 % 2 == 0 {
                        set.add(other.as_bytes());
                    } else {
                        set.remove(format!("other{}", (steps - 4) * 400 + number).as_bytes());
                    }
                }
            });
        }
        assert!(steps > 10);
        assert!(kept.is_subset(&shown));
    }
}

#[test]
fn a_scan_that_began_in_a_large_set_ends_in_a_small_one() {
    let mut value = None;
    change::<Sets>(&mut value, Instant(0), |set| {
        for number in 0..1_000 {
            set.add(format!("{number}").as_bytes());
        }
    });
    let mut shown = HashSet::new();
    let bytes = &value.as_ref().unwrap().0;
    let cursor =
        Set::view(bytes, Instant(0)).scan(0, 300, |member| _ = shown.insert(member.to_vec()));
    assert_ne!(cursor, 0);
    change::<Sets>(&mut value, Instant(0), |set| {
        for number in 20..1_000 {
            set.remove(format!("{number}").as_bytes());
        }
    });
    let bytes = &value.as_ref().unwrap().0;
    let mut cursor = cursor;
    while cursor != 0 {
        cursor = Set::view(bytes, Instant(0))
            .scan(cursor, 10, |member| _ = shown.insert(member.to_vec()));
    }
    for number in 0..20 {
        assert!(shown.contains(format!("{number}").as_bytes()));
    }
}

/// A set of these members, as SADD makes it.
fn set_of<'a>(members: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut value = None;
    change::<Sets>(&mut value, Instant(0), |set| {
        members.into_iter().for_each(|member| _ = set.add(member));
    });
    value.unwrap().0
}

/// The cursor at which a scan with COUNT 1 shows each member.
fn cursors(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let set = Set::view(bytes, Instant(0));
    let mut seen = Vec::new();
    let mut cursor = 0;
    loop {
        let next = set.scan(cursor, 1, |member| seen.push((cursor, member.to_vec())));
        if next == 0 {
            return seen;
        }
        cursor = next;
    }
}

/// Bytes of 1,500 members of six bytes, at most: so no page has hardly any.
const BYTES_MAX: usize = 1_500 * 60;

#[test]
fn members_chosen_by_their_cursors_do_not_collide_in_another_set() {
    let names: Vec<Vec<u8>> = (0..60_000).map(|n| format!("m{n}").into_bytes()).collect();
    let shown = cursors(&set_of(names.iter().map(Vec::as_slice)));
    for chosen in [0..1_500, 30_000..31_500, 58_500..60_000] {
        let chosen = set_of(shown[chosen].iter().map(|(_, member)| member.as_slice()));
        let set = Set::view(&chosen, Instant(0));
        assert_eq!(set.len(), 1_500);
        assert!(chosen.len() <= BYTES_MAX, "{}", chosen.len());
    }
}

#[test]
fn members_that_stay_of_a_set_by_their_cursors_do_not_collide_in_it() {
    let mut value = None;
    change::<Sets>(&mut value, Instant(0), |set| {
        for number in 0..60_000 {
            set.add(format!("m{number}").as_bytes());
        }
    });
    let shown = cursors(&value.as_ref().unwrap().0);
    change::<Sets>(&mut value, Instant(0), |set| {
        for (_, member) in &shown[1_500..] {
            set.remove(member);
        }
    });
    let bytes = &value.as_ref().unwrap().0;
    let set = Set::view(bytes, Instant(0));
    assert_eq!(set.len(), 1_500);
    assert!(bytes.len() <= BYTES_MAX, "{}", bytes.len());
    assert!(shown[..1_500].iter().all(|(_, member)| set.has(member)));
}

#[test]
fn a_cursor_out_of_nowhere_does_no_harm() {
    let names: Vec<Vec<u8>> = (0..1_000).map(|n| format!("m{n}").into_bytes()).collect();
    for count in [1, 100, 1_000] {
        let bytes = set_of(names[..count].iter().map(Vec::as_slice));
        let set = Set::view(&bytes, Instant(0));
        let mut rng = Rng::with_seed(3);
        let extremes = (0..64).flat_map(|bit| [1_u64 << bit, u64::MAX >> bit, !(1 << bit)]);
        let random = std::iter::repeat_with(|| rng.u64(..)).take(1_000);
        for cursor in extremes.chain(random) {
            for wanted in [1, 10, usize::MAX] {
                let mut shown = 0;
                let next = set.scan(cursor, wanted, |_| shown += 1);
                assert!(shown <= wanted.max(128) && (next == 0 || next > cursor));
            }
        }
    }
}

#[test]
fn a_scan_shows_each_member_of_a_set_that_rests_once() {
    let names: Vec<Vec<u8>> = (0..3_000).map(|n| format!("m{n}").into_bytes()).collect();
    let shown = cursors(&set_of(names.iter().map(Vec::as_slice)));
    let different: HashSet<&[u8]> = shown.iter().map(|(_, member)| &member[..]).collect();
    assert_eq!((shown.len(), different.len()), (3_000, 3_000));
}

#[test]
fn many_members_leave_a_sorted_set_in_one_change() {
    let mut value = None;
    change::<SortedSets>(&mut value, Instant(0), |set| {
        (0..40_000).for_each(|n| _ = set.set(format!("m{n}").as_bytes(), f64::from(n % 100)));
    });
    change::<SortedSets>(&mut value, Instant(0), |set| {
        for number in (0..40_000).filter(|number| number % 10 != 0) {
            assert!(set.remove(format!("m{number}").as_bytes()));
            assert!(!set.remove(format!("m{number}").as_bytes()));
        }
        // One that comes back, and one that has another score.
        assert!(set.set(b"m1", 1_000.0));
        assert!(!set.set(b"m0", -1.0));
    });
    let set = SortedSet::view(&value.as_ref().unwrap().0);
    assert_eq!(set.len(), 4_001);
    assert_eq!(
        (set.at(0), set.at(4_000)),
        ((b"m0"[..].into(), -1.0), (b"m1"[..].into(), 1_000.0))
    );
    assert!((1..set.len()).all(|rank| set.at(rank - 1).1 <= set.at(rank).1));
}

#[test]
fn deadlines_come_to_fields_of_any_length_in_full_pages() {
    for bytes in [10, 1_000, 1_900, 1_990, 2_100, 9_000] {
        let (mut value, now) = (None, Instant(1_000));
        let names: Vec<String> = (0..700).map(|number| format!("field{number}")).collect();
        change::<Hashes>(&mut value, now, |hash| {
            for name in &names {
                hash.set(name.as_bytes(), &vec![b'v'; bytes], Deadline::NEVER);
            }
        });
        for (name, ms) in names.iter().zip(1..) {
            // One by one: each change foresees its own pages.
            change::<Hashes>(&mut value, now, |hash| {
                hash.retime(name.as_bytes(), now.plus_ms(ms * 1_000));
            });
        }
        let hash = Hash::view(&value.as_ref().unwrap().0, now);
        for (name, ms) in names.iter().zip(1..) {
            let field = hash.get(name.as_bytes()).unwrap();
            assert_eq!(
                (field.value.len(), field.deadline),
                (bytes, now.plus_ms(ms * 1_000))
            );
        }
        // Without them again.
        for name in &names {
            change::<Hashes>(&mut value, now, |hash| {
                hash.retime(name.as_bytes(), Deadline::NEVER);
            });
        }
        assert_eq!(
            Hash::view(&value.as_ref().unwrap().0, now).next_deadline(),
            Deadline::NEVER
        );
    }
}
