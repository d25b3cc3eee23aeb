//! The table of commands: its types, and the look-up of a name.
//!
//! Each command has one row in command/table.rs; [`Verb`] and a section of docs/commands.md are
//! generated from the rows. A name is found by a hash table that is filled at compile time; GET and
//! SET are compared first.
//!
//! Why `since` is the version of Redis (of Valkey for DELIFEQ): clients read it in COMMAND DOCS to
//! learn what a server can do. Commands of our own carry the version of this server.

#[macro_use]
mod rows; // how a row of the table is written
mod table; // which commands of Redis there are, their arity, flags and keys

pub use table::{TABLE, Verb};

/// One command, or one subcommand of a command.
#[derive(Debug)]
pub struct Command {
    /// Its variant, for a `match`.
    pub verb: Verb,
    /// Its name in lower case; of a subcommand the second word only.
    pub name: &'static str,
    /// The number of its arguments with the name, of a subcommand with both words; negative if it
    /// may have more.
    pub arity: i8,
    /// Its effect on keys and where it is allowed.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: Keys,
    /// Its group.
    pub group: Group,
    /// The first version that has it.
    pub since: &'static str,
    /// One line of documentation.
    pub summary: &'static str,
    /// The time complexity of a call, in terms of the sizes that it names.
    pub complexity: &'static str,
    /// The rows of its subcommands; empty for nearly all.
    pub subcommands: &'static [Command],
}

/// Rows are the same if their verbs are.
impl PartialEq for Command {
    fn eq(&self, other: &Command) -> bool {
        self.verb == other.verb
    }
}

impl Eq for Command {}

impl Command {
    /// Whether this many arguments, the name included, are allowed.
    #[inline]
    #[must_use]
    pub fn takes(&self, args: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 {
            args >= arity
        } else {
            args == arity
        }
    }

    /// The subcommand called `name`, in any case.
    #[must_use]
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        let mut rows = self.subcommands.iter();
        rows.find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Its ACL categories, without the at sign.
    pub fn categories(&self) -> impl Iterator<Item = &'static str> {
        let flags = self.flags;
        let scripting = self.group == Group::Scripting;
        let for_admins =
            flags.has(Flags::ADMIN) || matches!(self.verb, Verb::Role | Verb::Lastsave);
        let dangerous = flags.has(Flags::ADMIN) || flags.has(Flags::DANGEROUS);
        [
            (flags.has(Flags::WRITE), "write"),
            (flags.has(Flags::READONLY) && !scripting, "read"),
            (for_admins, "admin"),
            (dangerous, "dangerous"),
            (flags.has(Flags::FAST), "fast"),
            (!flags.has(Flags::FAST), "slow"),
            (flags.has(Flags::BLOCKING), "blocking"),
        ]
        .into_iter()
        .filter_map(|(applies, category)| applies.then_some(category))
        .chain(self.subjects().iter().copied())
    }

    /// The ACL categories of its subject.
    fn subjects(&self) -> &'static [&'static str] {
        match self.verb {
            Verb::Dbsize | Verb::Flushall | Verb::Flushdb | Verb::Swapdb | Verb::Clusterscan => {
                &["keyspace"]
            }
            Verb::Sort | Verb::SortRo => &["set", "sortedset", "list"],
            Verb::Wait | Verb::Waitaof | Verb::Command | Verb::CommandCount => &["connection"],
            Verb::CommandDocs | Verb::CommandGetkeys | Verb::CommandGetkeysandflags => {
                &["connection"]
            }
            Verb::Readonly | Verb::Readwrite | Verb::Asking => &["connection"],
            Verb::CommandInfo | Verb::CommandList | Verb::CommandHelp => &["connection"],
            // A container's subcommands have them.
            Verb::PubsubHelp => &[],
            _ if !self.subcommands.is_empty() => &[],
            _ => self.group.categories(),
        }
    }
}

/// Facts of a command that are true or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// None of them.
    pub const NONE: Flags = Flags(0);
    /// Changes keys.
    pub const WRITE: Flags = Flags(1);
    /// Reads keys.
    pub const READONLY: Flags = Flags(1 << 1);
    /// May take memory.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// For operators.
    pub const ADMIN: Flags = Flags(1 << 3);
    /// About channels.
    pub const PUBSUB: Flags = Flags(1 << 4);
    /// Not allowed in scripts.
    pub const NOSCRIPT: Flags = Flags(1 << 5);
    /// Allowed while a dataset is loaded.
    pub const LOADING: Flags = Flags(1 << 6);
    /// Allowed on a replica that lost its master.
    pub const STALE: Flags = Flags(1 << 7);
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: Flags = Flags(1 << 8);
    /// Not in the log of slow requests.
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 9);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(1 << 10);
    /// Allowed before authentication.
    pub const NO_AUTH: Flags = Flags(1 << 11);
    /// Not allowed in transactions.
    pub const NO_MULTI: Flags = Flags(1 << 12);
    /// The positions of its keys depend on its arguments.
    pub const MOVABLEKEYS: Flags = Flags(1 << 13);
    /// May have no keys at all.
    pub const NO_MANDATORY_KEYS: Flags = Flags(1 << 14);
    /// Allowed while a script runs for long.
    pub const ALLOW_BUSY: Flags = Flags(1 << 15);
    /// May wait for a value.
    pub const BLOCKING: Flags = Flags(1 << 17);
    /// In the category of dangerous commands without being [`Flags::ADMIN`]; not reported.
    pub const DANGEROUS: Flags = Flags(1 << 16);
    /// Counts as a write although it changes no key, because other clients see its effect; not
    /// reported.
    pub const MAY_REPLICATE: Flags = Flags(1 << 18);

    /// The flags that COMMAND reports, with their names.
    const REPORTED: [(Flags, &str); 17] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::PUBSUB, "pubsub"),
        (Flags::NOSCRIPT, "noscript"),
        (Flags::BLOCKING, "blocking"),
        (Flags::LOADING, "loading"),
        (Flags::STALE, "stale"),
        (Flags::SKIP_MONITOR, "skip_monitor"),
        (Flags::SKIP_SLOWLOG, "skip_slowlog"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::MOVABLEKEYS, "movablekeys"),
        (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Flags::ALLOW_BUSY, "allow_busy"),
    ];

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names that COMMAND reports.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let reported = Flags::REPORTED.into_iter();
        reported.filter_map(move |(flag, name)| self.has(flag).then_some(name))
    }
}

/// The group of a command, as in the documentation of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Strings.
    String,
    /// Bits of strings.
    Bitmap,
    /// Strings that count different elements.
    Hyperloglog,
    /// Keys of any type.
    Generic,
    /// Hashes.
    Hash,
    /// Lists.
    List,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Places on the earth, in sorted sets.
    Geo,
    /// Channels.
    Pubsub,
    /// Transactions.
    Transactions,
    /// Scripts.
    Scripting,
    /// The connection.
    Connection,
    /// The server.
    Server,
    /// Several servers as one.
    Cluster,
}

impl Group {
    /// Its name in COMMAND DOCS.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Group::String => "string",
            Group::Bitmap => "bitmap",
            Group::Hyperloglog => "hyperloglog",
            Group::Generic => "generic",
            Group::Hash => "hash",
            Group::List => "list",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Geo => "geo",
            Group::Pubsub => "pubsub",
            Group::Transactions => "transactions",
            Group::Scripting => "scripting",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Cluster => "cluster",
        }
    }

    /// The ACL category that its commands have, if there is one.
    const fn categories(self) -> &'static [&'static str] {
        match self {
            Group::String => &["string"],
            Group::Bitmap => &["bitmap"],
            Group::Hyperloglog => &["hyperloglog"],
            Group::Generic => &["keyspace"],
            Group::Hash => &["hash"],
            Group::List => &["list"],
            Group::Set => &["set"],
            Group::SortedSet => &["sortedset"],
            Group::Geo => &["geo"],
            Group::Pubsub => &["pubsub"],
            Group::Transactions => &["transaction"],
            Group::Scripting => &["scripting"],
            Group::Connection => &["connection"],
            Group::Server | Group::Cluster => &[],
        }
    }
}

/// The positions of a command's keys among its arguments; the name is argument 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The first key; 0 if there is none, or if [`Keys::count`] covers all of them.
    pub first: i8,
    /// The last key; negative counts from the end.
    pub last: i8,
    /// From one key to the next.
    pub step: i8,
    /// The argument with the number of keys that follow it; 0 if none has.
    pub count: u8,
    /// The first argument that may be an option; among these a key may follow STORE. 0 if none
    /// does.
    pub options: u8,
}

impl Keys {
    /// No keys.
    pub const NONE: Keys = Keys::span(0, 0, 0);
    /// One key, the first argument.
    pub const ONE: Keys = Keys::span(1, 1, 1);
    /// Two keys.
    pub const TWO: Keys = Keys::span(1, 2, 1);
    /// One key, the second argument.
    pub const SECOND: Keys = Keys::span(2, 2, 1);
    /// All arguments from the second on.
    pub const FROM_SECOND: Keys = Keys::span(2, -1, 1);
    /// Every argument is a key.
    pub const ALL: Keys = Keys::span(1, -1, 1);
    /// All arguments but the last.
    pub const ALL_BUT_LAST: Keys = Keys::span(1, -2, 1);
    /// Keys and values take turns.
    pub const PAIRS: Keys = Keys::span(1, -1, 2);
    /// A number and that many keys.
    pub const COUNTED: Keys = Keys::counted(1, 1);
    /// A number and that many pairs of keys and values.
    pub const COUNTED_PAIRS: Keys = Keys::counted(1, 2);
    /// A key, a number and that many keys.
    pub const ONE_AND_COUNTED: Keys = Keys {
        count: 2,
        ..Keys::ONE
    };
    /// One key, and perhaps another among options that begin with the sixth argument.
    pub const ONE_AND_STORED: Keys = Keys {
        options: 6,
        ..Keys::ONE
    };
    /// The same from the second argument on.
    pub const ONE_AND_STORED_EARLY: Keys = Keys {
        options: 2,
        ..Keys::ONE
    };
    /// The same from the fifth argument on.
    pub const ONE_AND_STORED_EARLIER: Keys = Keys {
        options: 5,
        ..Keys::ONE
    };
    /// Some argument, a number and that many keys.
    pub const COUNTED_SECOND: Keys = Keys::counted(2, 1);

    const fn span(first: i8, last: i8, step: i8) -> Keys {
        Keys {
            first,
            last,
            step,
            count: 0,
            options: 0,
        }
    }

    const fn counted(count: u8, step: i8) -> Keys {
        Keys {
            first: 0,
            last: 0,
            step,
            count,
            options: 0,
        }
    }
}

/// The row of the request with these arguments: the subcommand's if it has one.
///
/// A command with subcommands and a second word that is none of them is answered with the row of
/// the command. `None` for an unknown name or no arguments.
#[inline]
#[must_use]
pub fn of(args: &[&[u8]]) -> Option<&'static Command> {
    let (name, rest) = args.split_first()?;
    let command = find(name)?;
    if command.subcommands.is_empty() {
        return Some(command);
    }
    let subcommand = rest.first().and_then(|name| command.subcommand(name));
    Some(subcommand.unwrap_or(command))
}

/// The row of the command called `name`, in any case.
#[inline]
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    if let [first, second, third] = *name {
        match u32::from_le_bytes([first, second, third, 0]) | CASE_BITS {
            WORD_GET => return Some(&TABLE[0]),
            WORD_SET => return Some(&TABLE[1]),
            _ => {}
        }
    }
    find_by_hash(name)
}

/// The bit by which small and capital letters differ, in three bytes.
const CASE_BITS: u32 = u32::from_le_bytes([0x20, 0x20, 0x20, 0]);
const WORD_GET: u32 = u32::from_le_bytes(*b"get\0");
const WORD_SET: u32 = u32::from_le_bytes(*b"set\0");
const _: () = assert!(matches!(TABLE[0].verb, Verb::Get) && matches!(TABLE[1].verb, Verb::Set));

/// Longest name of a command that is found by its hash; the few longer ones are looked for.
const NAME_BYTES_MAX: usize = 16;
/// Slots of the hash table, a power of two above twice the number of commands.
const SLOTS: usize = 1024;
const _: () = assert!(SLOTS > 2 * TABLE.len());
/// The content of an empty slot.
const EMPTY: u16 = u16::MAX;

/// A name in lower case, as a number.
type Word = u128;

/// The commands' names, and for each slot the place of its command in the table.
static WORDS: [Word; TABLE.len()] = words();
static PLACES: [u16; SLOTS] = places();

/// The places of the commands with longer names.
static LONG: [u16; long_count()] = long_places();

#[cold]
fn find_long(name: &[u8]) -> Option<&'static Command> {
    let mut rows = LONG.iter().map(|&place| &TABLE[usize::from(place)]);
    rows.find(|row| row.name.as_bytes().eq_ignore_ascii_case(name))
}

fn find_by_hash(name: &[u8]) -> Option<&'static Command> {
    if name.len() > NAME_BYTES_MAX {
        return find_long(name);
    }
    let word = word(name)?;
    let mut slot = slot_of(word);
    loop {
        let place = usize::from(PLACES[slot]);
        if *WORDS.get(place)? == word {
            // A word ends with zeros; a name that has them itself is no command's.
            return Some(&TABLE[place]).filter(|row| row.name.len() == name.len());
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The name as a number; `None` if it is empty or too long for one.
#[inline]
const fn word(name: &[u8]) -> Option<Word> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = [0; NAME_BYTES_MAX];
    let mut at = 0;
    while at < name.len() {
        bytes[at] = name[at].to_ascii_lowercase();
        at += 1;
    }
    Some(Word::from_le_bytes(bytes))
}

/// Where the search for a word begins.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the hash folds both halves of the word and keeps its upper bits"
)]
const fn slot_of(word: Word) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let folded = (word as u64) ^ ((word >> 64) as u64).wrapping_mul(ODD);
    (folded.wrapping_mul(ODD) >> (64 - SLOTS.trailing_zeros())) as usize
}

const fn words() -> [Word; TABLE.len()] {
    let mut words = [0; TABLE.len()];
    let mut place = 0;
    while place < TABLE.len() {
        words[place] = match word(TABLE[place].name.as_bytes()) {
            Some(word) => word,
            None => 0,
        };
        place += 1;
    }
    words
}

const fn long_count() -> usize {
    let (mut count, mut place) = (0, 0);
    while place < TABLE.len() {
        count += (TABLE[place].name.len() > NAME_BYTES_MAX) as usize;
        place += 1;
    }
    count
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "there are fewer commands than slots"
)]
const fn long_places() -> [u16; long_count()] {
    let mut places = [0; long_count()];
    let (mut count, mut place) = (0, 0);
    while place < TABLE.len() {
        if TABLE[place].name.len() > NAME_BYTES_MAX {
            places[count] = place as u16;
            count += 1;
        }
        place += 1;
    }
    places
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "there are fewer commands than slots"
)]
const fn places() -> [u16; SLOTS] {
    let words = words();
    let mut places = [EMPTY; SLOTS];
    let mut place = 0;
    while place < words.len() {
        if words[place] != 0 {
            let mut slot = slot_of(words[place]);
            while places[slot] != EMPTY {
                slot = (slot + 1) % SLOTS;
            }
            places[slot] = place as u16;
        }
        place += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::{Command, Flags, Group, Keys, TABLE, Verb, find, of};

    #[test]
    fn every_command_is_found_in_any_case_and_no_other_word_is() {
        for row in TABLE {
            let found = |name: &str| find(name.as_bytes()).map(|row| row.verb);
            assert_eq!(found(row.name), Some(row.verb));
            assert_eq!(found(&row.name.to_uppercase()), Some(row.verb));
            for more in ["x", "\0", "\0\0\0\0"] {
                assert_ne!(found(&format!("{}{more}", row.name)), Some(row.verb));
            }
            assert_eq!(found(&row.name[1..]).filter(|verb| *verb == row.verb), None);
        }
        for name in [b"".as_slice(), b"xadd", b"g\x05t", &[0; 3], &[b'g'; 17]] {
            assert!(find(name).is_none(), "{}", name.escape_ascii());
        }
    }

    #[test]
    fn a_subcommand_has_a_row_of_its_own() {
        let row = of(&[b"CLIENT", b"tracking", b"on"]).unwrap();
        assert_eq!((row.verb, row.name), (Verb::ClientTracking, "tracking"));
        assert_eq!(of(&[b"client", b"x"]).unwrap().verb, Verb::Client);
        assert_eq!(of(&[b"client"]).unwrap().verb, Verb::Client);
        assert!(of(&[]).is_none());
    }

    #[test]
    fn no_verb_and_no_name_stands_in_the_table_twice() {
        let with_subcommands = |row: &'static Command| {
            let names = row
                .subcommands
                .iter()
                .map(|sub| (sub.verb, format!("{} {}", row.name, sub.name)));
            names.chain([(row.verb, row.name.to_owned())])
        };
        let mut rows: Vec<_> = TABLE.iter().flat_map(with_subcommands).collect();
        let count = rows.len();
        assert_eq!(count, Verb::COUNT);
        rows.sort_unstable_by_key(|(verb, _)| *verb as usize);
        rows.dedup_by_key(|(verb, _)| *verb);
        rows.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        rows.dedup_by(|(_, one), (_, other)| one == other);
        assert_eq!(rows.len(), count);
    }

    #[test]
    fn rows_agree_with_themselves() {
        for row in TABLE {
            let Command { flags, keys, .. } = row;
            assert!(row.arity != 0 && row.since.split('.').count() == 3);
            assert!(row.summary.ends_with('.') && row.name.is_ascii());
            assert!(!(flags.has(Flags::WRITE) && flags.has(Flags::READONLY)));
            // Patterns of SORT_RO name keys that are unknown before it runs.
            let is_sort = row.verb == Verb::SortRo;
            assert_eq!(
                keys.count != 0 || keys.options != 0 || is_sort,
                flags.has(Flags::MOVABLEKEYS),
                "{}",
                row.name
            );
            if *keys != Keys::NONE {
                assert!(keys.step > 0 && row.group != Group::Connection);
            }
        }
    }

    #[test]
    fn arity_counts_the_name() {
        assert!(TABLE[0].takes(2) && !TABLE[0].takes(1) && !TABLE[0].takes(3));
        assert!(TABLE[1].takes(3) && TABLE[1].takes(9) && !TABLE[1].takes(2));
    }

    #[test]
    fn a_command_is_in_the_categories_of_its_flags_and_its_group() {
        let categories = |name: &str| {
            let row = find(name.as_bytes()).unwrap();
            row.categories().collect::<Vec<_>>()
        };
        assert_eq!(categories("get"), ["read", "fast", "string"]);
        assert_eq!(
            categories("keys"),
            ["read", "dangerous", "slow", "keyspace"]
        );
        assert_eq!(categories("config"), ["slow"]);
        assert_eq!(categories("eval_ro"), ["slow", "scripting"]);
        assert_eq!(categories("dbsize"), ["read", "fast", "keyspace"]);
        assert_eq!(categories("role"), ["admin", "dangerous", "fast"]);
        assert_eq!(categories("command"), ["slow", "connection"]);
        assert_eq!(categories("object"), ["slow"]);
        let sort = ["write", "dangerous", "slow", "set", "sortedset", "list"];
        assert_eq!(categories("sort"), sort);
    }
}
