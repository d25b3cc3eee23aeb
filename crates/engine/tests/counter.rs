//! Counters through the public API.

use cellar_engine::{Counted, Deadline, Increment};

use crate::support::cache::Timed;

fn count(timed: &Timed, increment: &Increment) -> Counted {
    timed
        .cache
        .increment(timed.cache.key(b"key").unwrap(), increment)
        .unwrap()
}

fn number(counted: Counted) -> u64 {
    let Counted::Number { number, .. } = counted else {
        panic!("{counted:?}")
    };
    number
}

#[test]
fn adding_wraps_and_subtracting_stops_at_zero() {
    let timed = Timed::new(2 << 20);
    timed.set("key", b"18446744073709551615", None).unwrap();
    assert_eq!(number(count(&timed, &Increment::by(2))), 1);
    let subtract = Increment {
        subtract: true,
        ..Increment::by(5)
    };
    assert_eq!(number(count(&timed, &subtract)), 0);
}

#[test]
fn a_number_that_gets_shorter_keeps_its_width_if_asked() {
    let timed = Timed::new(2 << 20);
    timed.set("key", b"100", None).unwrap();
    let subtract = Increment {
        subtract: true,
        keep_width: true,
        ..Increment::by(1)
    };
    assert_eq!(number(count(&timed, &subtract)), 99);
    assert_eq!(timed.get("key"), Some(b"99 ".to_vec()));
    let subtract = Increment {
        keep_width: false,
        ..subtract
    };
    assert_eq!(number(count(&timed, &subtract)), 98);
    assert_eq!(timed.get("key"), Some(b"98".to_vec()));
}

#[test]
fn a_missing_counter_is_created_only_if_asked() {
    let timed = Timed::new(2 << 20);
    assert_eq!(count(&timed, &Increment::by(1)), Counted::NotFound);
    let create = Increment {
        initial: Some((7, Deadline::NEVER)),
        ..Increment::by(1)
    };
    assert!(matches!(
        count(&timed, &create),
        Counted::Number {
            number: 7,
            created: true,
            ..
        }
    ));
    assert!(matches!(
        count(&timed, &create),
        Counted::Number {
            number: 8,
            created: false,
            ..
        }
    ));
}

#[test]
fn counting_keeps_the_deadline() {
    let timed = Timed::new(2 << 20);
    timed.set("key", b"9", Some(1_000)).unwrap();
    count(&timed, &Increment::by(1));
    timed.clock.advance_ms(999);
    assert_eq!(timed.get("key"), Some(b"10".to_vec()));
    timed.clock.advance_ms(1);
    assert_eq!(timed.get("key"), None);
}

#[test]
fn what_is_no_number_is_left_alone() {
    let timed = Timed::new(2 << 20);
    timed.set("key", b"ten", None).unwrap();
    assert_eq!(count(&timed, &Increment::by(1)), Counted::NotANumber);
    assert_eq!(timed.get("key"), Some(b"ten".to_vec()));
}
