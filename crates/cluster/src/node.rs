//! Node: a node's name, weight and addresses for clients.

use cellar_config::settings::announced::Announced;

/// Largest weight.
pub const WEIGHT_MAX: u32 = 10_000;

/// One node of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name, unique in the list.
    pub name: String,
    /// Its relative weight.
    pub weight: u32,
    /// The addresses for clients.
    pub announced: Announced,
}

impl Node {
    /// Its ID for Redis Cluster clients.
    #[must_use]
    pub fn id(&self) -> String {
        id_of(&self.name)
    }
}

/// Forty hexadecimal digits computed from a node's name alone, so that they survive a restart.
#[must_use]
pub fn id_of(name: &str) -> String {
    let parts = (0..3).map(|part| format!("{:016x}", seed(name, part)));
    let mut id: String = parts.collect();
    id.truncate(40);
    id
}

/// Checks a weight.
///
/// # Errors
/// The bounds.
pub fn check_weight(weight: u64) -> Result<u32, String> {
    match u32::try_from(weight) {
        Ok(weight @ 1..=WEIGHT_MAX) => Ok(weight),
        _ => Err(format!(
            "a weight is a number from 1 to {WEIGHT_MAX}, not {weight}"
        )),
    }
}

/// 64 bits computed from a name; different ones for each `part`.
pub(super) fn seed(name: &str, part: u64) -> u64 {
    name.bytes()
        .fold(mix(part ^ name.len() as u64), |state, byte| {
            mix(state ^ u64::from(byte))
        })
}

/// Mixes 64 bits so that each affects every bit of the result: SplitMix64's last step, and its
/// increment so that zero does not stay zero.
#[inline]
pub(super) fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_forty_digits_that_only_the_name_decides() {
        let node = |name: &str, weight| Node {
            name: name.to_owned(),
            weight,
            announced: Announced::default(),
        };
        let id = node("a", 1).id();
        assert_eq!(id.len(), 40);
        assert!(id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(id, node("a", 7).id());
        assert_ne!(id, node("b", 1).id());
    }
}
