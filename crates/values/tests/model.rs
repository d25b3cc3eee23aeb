//! Values against plain maps: random changes of texts of any length, while values grow and shrink.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cellar_values::list::List;
use cellar_values::{Edit, Form, HEAD_BYTES, PAGE_BYTES, Plan, Spot, Tree, View, score_key};
use fastrand::Rng;

const HASH: [Form; 2] = [Form::FIELDS, Form::KEYED];
const SORTED: [Form; 2] = [Form::MEMBERS, Form::KEYED];
const LIST: [Form; 2] = [Form::ELEMENTS, Form::ELEMENTS];

/// A text: mostly short, sometimes as long as a leaf takes, or longer.
fn text(random: &mut Rng, number: usize) -> Vec<u8> {
    let len = match random.u8(..40) {
        0 => random.usize(1_990..2_010),
        1 => random.usize(..20_000),
        2..5 => random.usize(..1_500),
        _ => random.usize(..30),
    };
    let mut text = number.to_string().into_bytes();
    text.resize(text.len() + len, b'x');
    text
}

fn name(number: usize) -> Vec<u8> {
    let mut name = format!("field:{number}").into_bytes();
    // Some names are long, and their beginnings are the same.
    if number.is_multiple_of(97) {
        let mut long = vec![b'n'; 1_500 + number % 3 * 700];
        long.extend_from_slice(&name);
        name = long;
    }
    name
}

/// How the number of entries goes: up, down, or about as it is.
fn grows(random: &mut Rng, round: usize, rounds: usize) -> bool {
    let phase = round * 4 / rounds;
    random.u8(..10) < [8, 5, 1, 6][phase]
}

fn check(value: &[u8], forms: [Form; 2], round: usize) {
    if let Err(fault) = View::of(value, forms).check() {
        panic!("round {round}: {fault}");
    }
}

/// Applies one change and asserts that the plan foresaw its pages.
fn planned(value: &mut Vec<u8>, plan: Plan, forms: [Form; 2], change: impl FnOnce(&mut Vec<u8>)) {
    let (before, bytes) = (value.len(), plan.bytes(&View::of(value, forms)));
    change(value);
    assert!(
        value.len() <= before + bytes,
        "{} of {bytes}",
        value.len() - before
    );
}

#[test]
fn a_hash_is_what_a_map_is() {
    const ROUNDS: usize = 30_000;
    let mut random = Rng::with_seed(11);
    let (mut value, mut map) = (Vec::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
    Edit::create(&mut value, HASH, 5);
    for round in 0..ROUNDS {
        let field = name(random.usize(..3_000));
        if grows(&mut random, round, ROUNDS) {
            let content = text(&mut random, round);
            let place = View::of(&value, HASH).find(&field);
            assert_eq!(place.found.is_some(), map.contains_key(&field));
            let mut plan = Plan::default();
            let view = View::of(&value, HASH);
            let at = (Tree::First, place.spot(), place.found.is_some());
            plan.add(&view, at, [&field, &content], false);
            planned(&mut value, plan, HASH, |value| {
                Edit::of(value, HASH)
                    .put(&place, [&field, &content], None)
                    .unwrap();
            });
            map.insert(field, content);
        } else if let Some(spot) = View::of(&value, HASH).find(&field).found {
            Edit::of(&mut value, HASH).take(Tree::First, spot);
            assert!(map.remove(&field).is_some());
        }
        if round % 500 == 0 || map.len() < 3 {
            check(&value, HASH, round);
        }
    }
    check(&value, HASH, ROUNDS);
    let view = View::of(&value, HASH);
    let all: BTreeMap<Vec<u8>, Vec<u8>> = view
        .iter(Tree::First)
        .map(|entry| {
            let field = view.bytes_of(entry.text()).into_owned();
            (field, view.bytes_of(entry.second()).into_owned())
        })
        .collect();
    assert_eq!(all, map);
    while let Some((field, _)) = map.pop_first() {
        let spot = View::of(&value, HASH).find(&field).found.unwrap();
        Edit::of(&mut value, HASH).take(Tree::First, spot);
    }
    assert_eq!(value.len(), HEAD_BYTES, "all pages are given back");
}

#[test]
fn a_sorted_set_is_in_order() {
    const ROUNDS: usize = 30_000;
    let mut random = Rng::with_seed(3);
    let mut value = Vec::new();
    let (mut scores, mut order) = (BTreeMap::<Vec<u8>, f64>::new(), BTreeSet::new());
    Edit::create(&mut value, SORTED, 6);
    for round in 0..ROUNDS {
        let member = name(random.usize(..4_000));
        let old = scores.get(&member).copied();
        let mut edit = Edit::of(&mut value, SORTED);
        if let Some(old) = old {
            edit.take_keyed(score_key(old), &member);
            order.remove(&(score_key(old), member.clone()));
        }
        let place = edit.view().find(&member);
        assert_eq!(place.found.is_some(), old.is_some());
        if grows(&mut random, round, ROUNDS) {
            let score = f64::from(random.i32(-50..50)) / 4.0;
            match place.found {
                Some(spot) => edit.set_tail(spot, score.to_bits()),
                None => edit
                    .put(&place, [&member, &[]], Some(score.to_bits()))
                    .unwrap(),
            }
            edit.add_keyed(score_key(score), &member);
            scores.insert(member.clone(), score);
            order.insert((score_key(score), member));
        } else if let Some(spot) = place.found {
            edit.take(Tree::First, spot);
            scores.remove(&member);
        }
        if round % 500 == 0 {
            check(&value, SORTED, round);
            let view = View::of(&value, SORTED);
            let entries = view.iter(Tree::Second).map(|entry| {
                let key: [u8; 8] = entry.lead().try_into().unwrap();
                (key, view.bytes_of(entry.text()).into_owned())
            });
            assert!(entries.eq(order.iter().cloned()));
            let bound = score_key(f64::from(random.i32(-50..50)) / 4.0);
            let spot = view.partition_point_by_key(|key| key < u64::from_be_bytes(bound));
            let before = order.iter().take_while(|(key, _)| *key < bound).count();
            assert_eq!(view.rank(spot), before);
        }
    }
}

#[test]
fn a_list_is_what_a_vector_is() {
    const ROUNDS: usize = 30_000;
    let mut random = Rng::with_seed(8);
    let (mut value, mut model) = (Vec::new(), Vec::<Vec<u8>>::new());
    Edit::create(&mut value, LIST, 0);
    for round in 0..ROUNDS {
        let element = match random.choice(&model) {
            Some(again) if random.u8(..4) == 0 => again.clone(),
            _ => text(&mut random, round),
        };
        let count = model.len();
        let index = match random.u8(..3) {
            0 => 0,
            1 => count,
            _ => random.usize(..=count),
        };
        let spot = View::of(&value, LIST).at(Tree::First, index);
        let mut edit = Edit::of(&mut value, LIST);
        if index < count && random.u8(..5) == 0 {
            edit.replace_element(spot, &element);
            model[index] = element;
        } else if grows(&mut random, round, ROUNDS) {
            edit.insert_element(spot, &element);
            model.insert(index, element);
        } else if index < count {
            edit.take(Tree::First, spot);
            model.remove(index);
        }
        if round % 1_000 == 0 {
            check(&value, LIST, round);
            let view = View::of(&value, LIST);
            let all = view.iter(Tree::First);
            let all = all.map(|entry| view.bytes_of(entry.text()).into_owned());
            assert!(all.eq(model.iter().cloned()));
            let back = view.iter_back(view.end(Tree::First));
            assert_eq!(back.count(), model.len());
            let absent = b"not there".to_vec();
            for one in model.iter().step_by(17).chain([&absent]) {
                let numbers = model.iter().enumerate().filter(|(_, other)| *other == one);
                let numbers = numbers.map(|(number, _)| number);
                assert!(List::view(&value).numbers_of(one).eq(numbers));
            }
        }
    }
}

#[test]
fn a_scan_shows_what_stays_once_while_others_come_and_go() {
    let mut random = Rng::with_seed(21);
    for count in [1, 10, 300] {
        let mut value = Vec::new();
        Edit::create(&mut value, SORTED, 77);
        let add = |value: &mut Vec<u8>, number: usize| {
            let member = format!("m{number}").into_bytes();
            let place = View::of(value, SORTED).find(&member);
            if place.found.is_none() {
                Edit::of(value, SORTED)
                    .put(&place, [&member, &[]], Some(0))
                    .unwrap();
            }
        };
        (0..5_000).for_each(|number| add(&mut value, number));
        let (mut shown, mut cursor, mut others) = (HashSet::new(), 0, 5_000..9_000);
        loop {
            let mut here = 0;
            cursor = View::of(&value, SORTED).scan(cursor, count, |entry| {
                here += 1;
                assert!(shown.insert(entry.text_bytes().to_vec()), "shown twice");
            });
            assert!(here <= count + 1);
            if cursor == 0 {
                break;
            }
            assert!(cursor < 1 << 53);
            // Others come, and half of those that are not to stay go.
            for _ in 0..20 {
                if let Some(other) = others.next() {
                    add(&mut value, other);
                }
                let going = format!("m{}", random.usize(2_500..5_000));
                if let Some(spot) = View::of(&value, SORTED).find(going.as_bytes()).found {
                    Edit::of(&mut value, SORTED).take(Tree::First, spot);
                }
            }
        }
        for number in 0..2_500 {
            assert!(shown.contains(format!("m{number}").as_bytes()), "{number}");
        }
    }
}

#[test]
fn elements_take_little_more_than_their_bytes() {
    let mut value = Vec::new();
    Edit::create(&mut value, SORTED, 1);
    for number in 0..100_000 {
        let member = format!("{number:010}").into_bytes();
        let place = View::of(&value, SORTED).find(&member);
        Edit::of(&mut value, SORTED)
            .put(&place, [&member, &[]], None)
            .unwrap();
    }
    let beside = value.len() / 100_000 - 10;
    assert!(beside < 14, "{beside} bytes beside each member");
    assert_eq!((value.len() - HEAD_BYTES) % PAGE_BYTES, 0);
    let spot = Spot::of_number(View::of(&value, SORTED).first(Tree::First).to_number());
    assert_eq!(spot, View::of(&value, SORTED).first(Tree::First));
}
