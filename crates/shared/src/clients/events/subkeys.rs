//! Subkeys: events that name the fields of a hash that they are about.
//!
//! | letter | channel | message |
//! |---|---|---|
//! | S | `__subkeyspace@db__:key` | `event`, a bar, the fields |
//! | T | `__subkeyevent@db__:event` | the length of the key, a colon, the key, a bar, the fields |
//! | I | `__subkeyspaceitem@db__:key`, a line feed, a field | `event` |
//! | V | `__subkeyspaceevent@db__:event`, a bar, the key | the fields |
//!
//! The fields are separated by commas, each behind its length and a colon. No event has a bar in
//! its name. A key with a line feed has no channels of the third kind, which would be ambiguous.
//!
//! Source: redis.io/docs/latest/develop/pubsub/subkeyspace-notifications.
//! Tests: at the end of this file; server/tests/resp_hashes.rs.

use std::sync::atomic::Ordering;

use super::Events;
use crate::clients::pubsub::PubSub;

const SUBKEYSPACE: u32 = 1 << 16;
const SUBKEYEVENT: u32 = 1 << 17;
const SUBKEYSPACEITEM: u32 = 1 << 18;
const SUBKEYSPACEEVENT: u32 = 1 << 19;
const _: () = assert!(
    super::SUBKEYS == SUBKEYSPACE | SUBKEYEVENT | SUBKEYSPACEITEM | SUBKEYSPACEEVENT,
    "each channel has a flag"
);

/// A text behind its length.
fn append(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(text.len()).as_bytes());
    out.push(b':');
    out.extend_from_slice(text);
}

fn list(fields: &[&[u8]]) -> Vec<u8> {
    let mut list = Vec::new();
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            list.push(b',');
        }
        append(field, &mut list);
    }
    list
}

impl Events {
    /// Publishes an event about these fields of a key; nothing if the list is empty.
    #[cold]
    pub fn publish_subkeys(
        &self,
        pubsub: &PubSub,
        (event, key): (&str, &[u8]),
        fields: &[&[u8]],
        database: u32,
    ) {
        // Relaxed: a change of the flags does not wait for their readers.
        let flags = self.flags.load(Ordering::Relaxed);
        if fields.is_empty() {
            return;
        }
        let list = list(fields);
        let channel = |kind: &str, name: &[u8]| {
            let mut channel = format!("__{kind}@{database}__:").into_bytes();
            channel.extend_from_slice(name);
            channel
        };
        if flags & SUBKEYSPACE != 0 {
            let message = [event.as_bytes(), b"|", &list].concat();
            self.tell(pubsub, &channel("subkeyspace", key), &message);
        }
        if flags & SUBKEYEVENT != 0 {
            let mut message = Vec::new();
            append(key, &mut message);
            message.push(b'|');
            message.extend_from_slice(&list);
            self.tell(pubsub, &channel("subkeyevent", event.as_bytes()), &message);
        }
        if flags & SUBKEYSPACEITEM != 0 && !key.contains(&b'\n') {
            for field in fields {
                let name = [key, b"\n", field].concat();
                self.tell(pubsub, &channel("subkeyspaceitem", &name), event.as_bytes());
            }
        }
        if flags & SUBKEYSPACEEVENT != 0 {
            let name = [event.as_bytes(), b"|", key].concat();
            self.tell(pubsub, &channel("subkeyspaceevent", &name), &list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::events::Class;

    #[test]
    fn each_field_stands_behind_its_length() {
        assert_eq!(list(&[b"one"]), b"3:one");
        assert_eq!(list(&[b"a,b", b"", b"2:x"]), b"3:a,b,0:,3:2:x");
    }

    #[test]
    fn fields_are_named_if_a_channel_and_the_class_are_chosen() {
        let events = Events::default();
        for (letters, expected) in [("S", false), ("Kh", false), ("hT", true), ("AV", true)] {
            events.set(letters).unwrap();
            assert_eq!(events.has_subkeys(Class::Hash), expected, "{letters}");
        }
        assert!(!events.has(Class::Hash));
    }
}
