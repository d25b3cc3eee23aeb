//! Letters: event flags of keyspace notifications, as operators write them.
//!
//! Source: redis.io/docs/latest/develop/pubsub/keyspace-notifications, subkeyspace-notifications.

/// The letters of all classes and channels, in the order in which they are shown. The classes of
/// kinds that this server does not have are accepted and never published.
const LETTERS: &[u8] = b"g$lshzxetdKEmnocSTIV";
/// The letters that `A` stands for are the first ten.
const ALL: u32 = (1 << 10) - 1;

/// Parses event flags.
///
/// # Errors
/// Why the text is not valid.
pub fn parse(letters: &str) -> Result<u32, String> {
    let bit = |letter: u8| match LETTERS.iter().position(|&known| known == letter) {
        Some(place) => Ok(1 << place),
        None if letter == b'A' => Ok(ALL),
        None => Err(format!(
            "{letters:?} has an unknown event flag; write K or E and flags, for example KEA"
        )),
    };
    letters
        .bytes()
        .try_fold(0, |flags, letter| Ok(flags | bit(letter)?))
}

/// The event flags as text.
#[must_use]
pub fn show(flags: u32) -> String {
    let (head, flags) = if flags & ALL == ALL {
        ("A", flags & !ALL)
    } else {
        ("", flags)
    };
    let letters = LETTERS.iter().enumerate();
    let set = letters.filter(|(place, _)| flags >> place & 1 == 1);
    head.chars()
        .chain(set.map(|(_, &letter)| char::from(letter)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_shown_in_one_order_and_all_of_them_as_one() {
        for (given, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("gKE", "gKE"),
            ("KEnmA", "AKEmn"),
            ("coKE", "KEoc"),
            ("hVITSK", "hKSTIV"),
            ("$lshzxeKE", "$lshzxeKE"),
            ("g$lshzxetdE", "AE"),
        ] {
            assert_eq!(show(parse(given).unwrap()), shown);
        }
        assert!(parse("q").is_err() && parse("ké").is_err());
    }
}
