//! What is made as a whole is what members that are added one by one make.

use cellar_values::{Hasher, SetBuilder, SortedSetBuilder};

/// Members of `count` lengths, some of them longer than a page, by their hashes.
fn members(count: usize, hasher: Hasher) -> Vec<(u64, Vec<u8>, f64)> {
    let member = |number: usize| {
        let length = if number % 97 == 96 {
            9_000
        } else {
            number % 23
        };
        let text = format!("{number}:{}", "x".repeat(length));
        (
            hasher.hash(text.as_bytes()),
            text.into_bytes(),
            (number / 3 % 50) as f64 - 20.0,
        )
    };
    let mut members: Vec<_> = (0..count).map(member).collect();
    members.sort_by_key(|&(hash, ..)| hash);
    members
}

#[test]
fn a_set_that_is_made_as_a_whole_has_its_members_and_can_be_changed() {
    for count in [0, 1, 90, 128, 129, 1_000, 20_000] {
        let hasher = Hasher::of(7);
        let members = members(count, hasher);
        let bytes = members.iter().map(|(_, member, _)| member.len()).sum();
        let mut builder = SetBuilder::new(hasher, count, bytes);
        for (hash, member, _) in &members {
            builder.push(member, *hash);
        }
        let mut set = builder.finish();
        assert_eq!(set.len(), count);
        assert!(
            members.iter().all(|(_, member, _)| set.has(member)),
            "{count}"
        );
        assert!(!set.has(b"none") && set.add(b"none") && !set.add(b"none"));
        for (_, member, _) in members.iter().step_by(2) {
            assert!(set.remove(member));
        }
        assert_eq!(set.len(), count / 2 + 1);
        let kept = members.iter().skip(1).step_by(2);
        assert!(
            kept.clone().all(|(_, member, _)| set.has(member)),
            "{count}"
        );
    }
}

#[test]
fn a_sorted_set_that_is_made_as_a_whole_is_in_order_and_can_be_changed() {
    for count in [0, 1, 90, 128, 129, 1_000, 20_000] {
        let hasher = Hasher::of(9);
        let members = members(count, hasher);
        let bytes = members.iter().map(|(_, member, _)| member.len()).sum();
        let mut ranked: Vec<_> = members
            .iter()
            .map(|(_, member, score)| (*score, member))
            .collect();
        ranked.sort_by(|one, other| one.0.total_cmp(&other.0).then_with(|| one.1.cmp(other.1)));
        for is_hashed in [true, false] {
            let mut builder = match is_hashed {
                true => SortedSetBuilder::hashed(hasher, count, bytes),
                false => SortedSetBuilder::default(),
            };
            if is_hashed {
                for (hash, member, score) in &members {
                    builder.push_hashed(member, *score, *hash);
                }
            }
            for (score, member) in &ranked {
                builder.push(member, *score);
            }
            let mut set = builder.finish();
            assert_eq!(set.len(), count);
            let shown: Vec<_> = set.iter_from(0).map(|(m, s)| (s, m.into_owned())).collect();
            let expected: Vec<_> = ranked.iter().map(|(s, m)| (*s, m.to_vec())).collect();
            assert!(shown == expected, "{count}, {is_hashed}");
            for (_, member, score) in &members {
                assert_eq!(set.score(member), Some(*score));
            }
            for (_, member, _) in members.iter().step_by(2) {
                assert!(set.remove(member));
            }
            assert_eq!(set.len(), count / 2);
            assert!(set.set(b"new", 1.5) && set.score(b"new") == Some(1.5));
        }
    }
}
