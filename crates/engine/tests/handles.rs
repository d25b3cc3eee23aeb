//! Values that are read or received outside the shard's lock.

use cellar_engine::{SetOptions, Stored};

use crate::support::cache::Timed;

#[test]
fn a_handle_keeps_its_bytes_whatever_happens_to_the_key() {
    let timed = Timed::new(2 << 20);
    timed.set("key", &[1; 300], None).unwrap();
    let handle = timed
        .cache
        .get_handle(timed.cache.key(b"key").unwrap())
        .unwrap();
    timed.set("key", &[2; 300], None).unwrap();
    timed
        .cache
        .delete(timed.cache.key(b"key").unwrap(), &Default::default())
        .unwrap();
    timed.cache.flush();
    let others = if cfg!(miri) { 300 } else { 30_000 };
    for number in 0..others {
        timed
            .set(&format!("key {number}"), &[3; 100], None)
            .unwrap();
    }
    assert_eq!(*handle, [1; 300]);
    assert_eq!(timed.get("key"), None);
    drop(handle);
}

#[test]
fn a_handle_outlives_the_cache() {
    let timed = Timed::new(2 << 20);
    timed.set("key", b"value", None).unwrap();
    let handle = timed
        .cache
        .get_handle(timed.cache.key(b"key").unwrap())
        .unwrap();
    drop(timed);
    assert_eq!(*handle, *b"value");
}

#[test]
fn a_draft_is_stored_when_it_is_committed_and_not_before() {
    let timed = Timed::new(4 << 20);
    let large = if cfg!(miri) { 40_000 } else { 500_000 };
    for bytes in [0, 10, 20_000, large] {
        let key = timed.cache.key(b"key").unwrap();
        let mut draft = timed.cache.draft(key, bytes).unwrap();
        draft.value_mut().fill(7);
        assert_eq!(timed.get("key"), None);
        let stored = timed.cache.commit(draft, &SetOptions::default()).unwrap();
        assert!(matches!(stored, Stored::Done { .. }));
        assert_eq!(timed.get("key"), Some(vec![7; bytes]));
        timed.cache.delete(key, &Default::default()).unwrap();
    }
}

#[test]
fn a_draft_takes_the_bytes_of_its_value_and_no_more() {
    let timed = Timed::new(2 << 20);
    let key = timed.cache.key(b"key").unwrap();
    let mut draft = timed.cache.draft(key, 6).unwrap();
    assert_eq!((draft.value_bytes(), draft.is_complete()), (6, false));
    assert_eq!(draft.fill_from(b"ab"), 2);
    draft.buffer()[..3].copy_from_slice(b"cde");
    draft.advance(3);
    assert_eq!((draft.received_bytes(), draft.is_complete()), (5, false));
    assert_eq!(draft.fill_from(b"fgh"), 1);
    assert!(draft.is_complete() && draft.buffer().is_empty());
    assert_eq!(draft.fill_from(b"gh"), 0);
    timed.cache.commit(draft, &SetOptions::default()).unwrap();
    assert_eq!(timed.get("key").as_deref(), Some(&b"abcdef"[..]));
}

#[test]
fn abandoned_drafts_give_their_memory_back() {
    let timed = Timed::new(4 << 20);
    let (drafts, draft, large) = if cfg!(miri) {
        (5, 30_000, 40_000)
    } else {
        (200, 300_000, 1_000_000)
    };
    for number in 0..drafts {
        let name = format!("key {number}");
        let key = timed.cache.key(name.as_bytes()).unwrap();
        drop(timed.cache.draft(key, draft).unwrap());
    }
    assert_eq!(timed.cache.stats().items, 0);
    assert!(timed.set("large", &vec![1; large], None).is_ok());
}

#[cfg(not(miri))]
#[test]
fn drafts_hold_at_most_half_of_the_memory_and_others_are_stored_beside_them() {
    let timed = Timed::new(4 << 20);
    timed.set("key", b"value", None).unwrap();
    let mut drafts = Vec::new();
    for number in 0..20 {
        let name = format!("draft {number}");
        let key = timed.cache.key(name.as_bytes()).unwrap();
        match timed.cache.draft(key, 1_000_000) {
            Ok(draft) => drafts.push(draft),
            Err(error) => assert_eq!(error, cellar_engine::Error::Busy),
        }
    }
    assert_eq!(drafts.len(), 2);
    for number in 0..20 {
        let name = format!("beside {number}");
        assert!(timed.set(&name, &[1; 1_000], None).is_ok());
    }
    for draft in drafts {
        assert!(timed.cache.commit(draft, &SetOptions::default()).is_ok());
    }
    assert!(timed.set("other", &[1; 1_000], None).is_ok());
}

#[test]
fn a_draft_that_was_begun_before_a_flush_is_stored_after_it() {
    let timed = Timed::new(4 << 20);
    for bytes in [100, if cfg!(miri) { 40_000 } else { 400_000 }] {
        timed.set("old", b"old", None).unwrap();
        let key = timed.cache.key(b"key").unwrap();
        let mut draft = timed.cache.draft(key, bytes).unwrap();
        timed.cache.flush();
        draft.value_mut().fill(5);
        timed.cache.commit(draft, &SetOptions::default()).unwrap();
        assert_eq!(timed.get("key"), Some(vec![5; bytes]));
        assert_eq!(timed.get("old"), None);
    }
}

#[test]
fn a_draft_gets_a_deadline_where_no_item_had_one() {
    let timed = Timed::new(1 << 20);
    timed.set("other", &[1; 100], None).unwrap();
    let key = timed.cache.key(b"key").unwrap();
    let mut draft = timed.cache.draft(key, 300).unwrap();
    draft.value_mut().fill(7);
    let options = SetOptions {
        deadline: timed.deadline(Some(1_000)),
        ..SetOptions::default()
    };
    let stored = timed.cache.commit(draft, &options).unwrap();
    assert!(matches!(stored, Stored::Done { .. }));
    timed.cache.audit().unwrap();
    timed.clock.advance_ms(999);
    assert_eq!(timed.get("key"), Some(vec![7; 300]));
    timed.clock.advance_ms(1);
    assert_eq!(timed.get("key"), None);
    assert_eq!(timed.get("other"), Some(vec![1; 100]));
    timed.cache.audit().unwrap();
}
