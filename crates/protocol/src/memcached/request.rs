//! Requests of clients, borrowed from the received bytes.
//!
//! Invariant: a decoded request is well-formed; keys have 1 to
//! [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX) bytes, and numbers are in range.

use super::meta::Meta;
use super::token::Words;

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Stores it.
    Set,
    /// Stores it if the key holds nothing.
    Add,
    /// Stores it if the key holds something.
    Replace,
    /// Puts it behind the present value.
    Append,
    /// Puts it before the present value.
    Prepend,
    /// Stores it if the present value has a certain version.
    Cas,
}

/// A read: get, gets, gat, gats.
#[derive(Clone, Copy, Debug)]
pub struct Get<'a> {
    /// The first key.
    pub first: &'a [u8],
    /// All keys from the first on, with spaces between them.
    pub keys: &'a [u8],
    /// Whether versions are asked for: gets, gats.
    pub with_version: bool,
    /// The new exptime: gat, gats.
    pub touch: Option<i32>,
}

impl<'a> Get<'a> {
    /// Whether exactly one key is asked for.
    #[inline]
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.first.len() == self.keys.len()
    }

    /// The keys in request order.
    #[inline]
    #[must_use]
    pub fn keys(&self) -> Words<'a> {
        Words::of(self.keys)
    }
}

/// A classic storage command: set, add, replace, append, prepend, cas.
#[derive(Clone, Copy, Debug)]
pub struct Store<'a> {
    /// How to store the value.
    pub verb: Verb,
    /// The key.
    pub key: &'a [u8],
    /// The client's opaque flags.
    pub flags: u32,
    /// When the item expires, as sent.
    pub exptime: i32,
    /// The version that cas compares.
    pub version: u64,
    /// Whether the client wants no answer.
    pub noreply: bool,
    /// The value; empty while it is still to be received.
    pub value: &'a [u8],
}

/// The command line of a storage command, without the value that follows it.
#[derive(Clone, Copy, Debug)]
pub enum Storage<'a> {
    /// set, add, replace, append, prepend, cas; the value is empty.
    Classic(Store<'a>),
    /// ms
    Meta {
        /// Key and flags.
        meta: Meta<'a>,
        /// The mode: flag M, and C.
        verb: Verb,
    },
}

impl<'a> Storage<'a> {
    /// The request that it is with its value.
    #[inline]
    pub(super) fn with_value(self, value: &'a [u8]) -> Request<'a> {
        match self {
            Storage::Classic(store) => Request::Store(Store { value, ..store }),
            Storage::Meta { meta, verb } => Request::MetaSet { meta, verb, value },
        }
    }
}

/// Which statistics are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// stats
    General,
    /// stats settings
    Settings,
    /// stats items
    Items,
    /// stats slabs
    Slabs,
    /// stats sizes
    Sizes,
    /// stats expiry: memory of expired items, and how soon it is reclaimed
    Expiry,
    /// stats conns
    Connections,
    /// stats mrc
    MissRatioCurve,
    /// stats misses
    Misses,
    /// stats hotkeys
    HotKeys,
    /// stats compression
    Compression,
    /// stats reset
    Reset,
    /// stats cachedump
    CacheDump {
        /// The slab class.
        class: u32,
        /// Most keys wanted; zero for no limit.
        limit: u32,
    },
    /// A group that exists but has nothing to show.
    Empty,
}

/// In which form keys are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// lru_crawler metadump: facts about each item.
    Metadump,
    /// lru_crawler mgdump: a meta get for each item.
    Mgdump,
}

/// A well-formed request.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// get, gets, gat, gats
    Get(Get<'a>),
    /// set, add, replace, append, prepend, cas
    Store(Store<'a>),
    /// delete
    Delete {
        /// The key.
        key: &'a [u8],
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// incr, decr
    Count {
        /// The key.
        key: &'a [u8],
        /// The amount.
        delta: u64,
        /// Whether it is taken away.
        subtract: bool,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// touch
    Touch {
        /// The key.
        key: &'a [u8],
        /// When the item expires, as sent.
        exptime: i32,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// mg
    MetaGet(Meta<'a>),
    /// ms
    MetaSet {
        /// Key and flags.
        meta: Meta<'a>,
        /// The mode: flag M, and C.
        verb: Verb,
        /// The value.
        value: &'a [u8],
    },
    /// md
    MetaDelete(Meta<'a>),
    /// ma
    MetaArithmetic {
        /// Key and flags.
        meta: Meta<'a>,
        /// The mode: flag M.
        subtract: bool,
    },
    /// me
    MetaDebug(Meta<'a>),
    /// mn
    MetaNoop,
    /// flush_all
    FlushAll {
        /// When, as sent; zero or less for at once.
        delay: i32,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// cache_memlimit
    MemoryLimit {
        /// The new limit in MiB.
        mib: u32,
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// config get cluster
    Cluster,
    /// version
    Version,
    /// stats
    Stats(Stats),
    /// lru_crawler metadump, lru_crawler mgdump
    List {
        /// The form.
        form: Listing,
        /// Whether the class that holds all items is among those asked for.
        all: bool,
    },
    /// A command that is understood, but has nothing to change here: verbosity and the like.
    Okay {
        /// Whether the client wants no answer.
        noreply: bool,
    },
    /// quit
    Quit,
}

const _: () = assert!(
    size_of::<Request<'_>>() <= 96,
    "many requests are held at once"
);

impl<'a> Request<'a> {
    /// The first key to look up, as sent; `None` if there is none or it is base64.
    #[inline]
    #[must_use]
    pub fn plain_key(&self) -> Option<&'a [u8]> {
        match self {
            Request::Get(get) => Some(get.first),
            Request::Store(store) => Some(store.key),
            Request::Delete { key, .. }
            | Request::Count { key, .. }
            | Request::Touch { key, .. } => Some(key),
            Request::MetaGet(meta)
            | Request::MetaSet { meta, .. }
            | Request::MetaDelete(meta)
            | Request::MetaArithmetic { meta, .. }
            | Request::MetaDebug(meta) => (!meta.is_base64()).then_some(meta.key_text()),
            _ => None,
        }
    }
}
