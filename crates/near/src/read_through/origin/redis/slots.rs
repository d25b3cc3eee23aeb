//! Slots: a node's view of the slot map.
//!
//! Source: redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec; CLUSTER SLOTS,
//! CLUSTER INFO.

use std::ops::RangeInclusive;

use redis::Value;

use crate::read_through::owners::SLOTS;

/// What CLUSTER INFO says of a node that cannot serve.
const NOT_WELL: &str = "cluster_state:fail";

/// Slots from `first` to `last` and the address of their node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) address: String,
}

/// Reads the reply to `CLUSTER SLOTS`: first and last slot, then nodes, the one that writes first.
pub(super) fn parse(value: &Value) -> Option<Vec<SlotRange>> {
    let Value::Array(rows) = value else {
        return None;
    };
    rows.iter().map(parse_range).collect()
}

fn parse_range(row: &Value) -> Option<SlotRange> {
    let Value::Array(row) = row else {
        return None;
    };
    let (first, last) = (number(row.first()?)?, number(row.get(1)?)?);
    let Value::Array(node) = row.get(2)? else {
        return None;
    };
    let host: String = redis::from_redis_value(node.first()?.clone()).ok()?;
    let port = number(node.get(1)?)?;
    Some(SlotRange {
        first,
        last,
        address: format!("{host}:{port}"),
    })
}

/// A number of sixteen bits.
fn number(value: &Value) -> Option<u16> {
    match value {
        Value::Int(number) => u16::try_from(*number).ok(),
        _ => None,
    }
}

/// Reads the slots that a node has lost: the first and the last of each run.
pub(super) fn runs(numbers: &[Value]) -> Option<Vec<RangeInclusive<u16>>> {
    let (pairs, []) = numbers.as_chunks::<2>() else {
        return None;
    };
    let run = |[first, last]: &[Value; 2]| {
        let run = number(first)?..=number(last)?;
        (!run.is_empty() && *run.end() < SLOTS).then_some(run)
    };
    pairs.iter().map(run).collect()
}

/// Whether a node says by `CLUSTER INFO` that it serves nothing: it may know an old map.
pub(super) fn is_not_well(info: &Value) -> bool {
    let text = match info {
        Value::BulkString(bytes) => str::from_utf8(bytes).unwrap_or_default(),
        Value::VerbatimString { text, .. } => text,
        _ => return false,
    };
    text.lines().any(|line| line == NOT_WELL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_read_and_nonsense_is_not() {
        let node = Value::Array(vec![
            Value::BulkString(b"127.0.0.1".to_vec()),
            Value::Int(7000),
        ]);
        let row = Value::Array(vec![Value::Int(0), Value::Int(5460), node]);
        let ranges = parse(&Value::Array(vec![row])).unwrap();
        assert_eq!(ranges[0].address, "127.0.0.1:7000");
        assert_eq!((ranges[0].first, ranges[0].last), (0, 5460));
        assert_eq!(parse(&Value::Array(vec![Value::Int(1)])), None);
        assert_eq!(parse(&Value::Nil), None);
    }

    #[test]
    fn lost_slots_are_read_and_nonsense_is_not() {
        let said = |numbers: &[i64]| {
            let numbers: Vec<Value> = numbers.iter().copied().map(Value::Int).collect();
            runs(&numbers)
        };
        assert_eq!(said(&[1, 5, 9, 9]), Some(vec![1..=5, 9..=9]));
        assert_eq!(said(&[]), Some(vec![]));
        for nonsense in [&[1][..], &[5, 1], &[0, 16_384], &[-1, 3]] {
            assert_eq!(said(nonsense), None, "{nonsense:?}");
        }
        assert_eq!(runs(&[Value::Nil, Value::Int(1)]), None);
    }

    #[test]
    fn a_node_that_serves_nothing_says_so() {
        let said = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        assert!(is_not_well(&said(
            "cluster_state:fail\r\ncluster_size:3\r\n"
        )));
        assert!(!is_not_well(&said(
            "cluster_state:ok\r\ncluster_size:3\r\n"
        )));
        assert!(!is_not_well(&Value::Nil), "it does not say");
    }
}
