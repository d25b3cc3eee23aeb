//! The table of commands. tests/commands_page.rs makes docs/commands.md of it.

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The word a line begins with.
    pub name: &'static str,
    /// The arguments after the name.
    pub syntax: &'static str,
    /// One line of documentation.
    pub summary: &'static str,
    /// The first version of this server that has it.
    pub since: &'static str,
}

/// One flag of the meta commands.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The letter, with its argument.
    pub flag: &'static str,
    /// The commands that accept it.
    pub commands: &'static str,
    /// One line of documentation.
    pub summary: &'static str,
}

macro_rules! commands {
    ($($name:literal $syntax:literal $since:literal: $summary:literal;)*) => {
        &[$(Command { name: $name, syntax: $syntax, summary: $summary, since: $since },)*]
    };
}

macro_rules! flags {
    ($($flag:literal $commands:literal: $summary:literal;)*) => {
        &[$(Flag { flag: $flag, commands: $commands, summary: $summary },)*]
    };
}

/// Every command that is understood.
pub const COMMANDS: &[Command] = commands! {
    "get" "<key>*" "0.1": "Reads items.";
    "gets" "<key>*" "0.1": "Reads items with their versions.";
    "gat" "<exptime> <key>*" "0.1": "Reads items and sets their deadlines.";
    "gats" "<exptime> <key>*" "0.1":
        "Reads items with their versions and sets their deadlines.";
    "set" "<key> <flags> <exptime> <bytes> [noreply]" "0.1": "Stores a value.";
    "add" "<key> <flags> <exptime> <bytes> [noreply]" "0.1":
        "Stores a value if the key does not exist.";
    "replace" "<key> <flags> <exptime> <bytes> [noreply]" "0.1":
        "Stores a value if the key exists.";
    "append" "<key> <flags> <exptime> <bytes> [noreply]" "0.1":
        "Appends bytes to a value; flags and exptime are ignored.";
    "prepend" "<key> <flags> <exptime> <bytes> [noreply]" "0.1":
        "Prepends bytes to a value; flags and exptime are ignored.";
    "cas" "<key> <flags> <exptime> <bytes> <version> [noreply]" "0.1":
        "Stores a value if the item still has this version.";
    "incr" "<key> <number> [noreply]" "0.1": "Adds to a decimal number; wraps at 2^64.";
    "decr" "<key> <number> [noreply]" "0.1": "Subtracts from a decimal number; stops at zero.";
    "touch" "<key> <exptime> [noreply]" "0.1": "Sets an item's deadline.";
    "delete" "<key> [noreply]" "0.1": "Removes an item.";
    "mg" "<key> <flag>*" "0.1": "Meta get: reads an item and the fields in the flags.";
    "ms" "<key> <bytes> <flag>*" "0.1": "Meta set: stores a value.";
    "md" "<key> <flag>*" "0.1": "Meta delete: removes an item, or marks it stale.";
    "ma" "<key> <flag>*" "0.1": "Meta arithmetic: counts up or down.";
    "mn" "" "0.1":
        "Meta no-op: returns MN after all quiet requests before it are done.";
    "me" "<key> [b]" "0.1": "Meta debug: shows an item's metadata.";
    "flush_all" "[<delay>] [noreply]" "0.1":
        "Deletes all items, at once or after a delay.";
    "cache_memlimit" "<MiB> [noreply]" "0.1":
        "Changes the memory limit, up to --memory, as CONFIG SET maxmemory does.";
    "stats" "[settings|items|slabs|sizes|conns|expiry|reset]" "0.1":
        "Shows statistics, or resets them.";
    "stats mrc" "" "0.1": "Shows how many reads would miss with 1/4 to 4 times the memory.";
    "stats misses" "" "0.1": "Shows why reads missed: never stored, expired, evicted, deleted.";
    "stats hotkeys" "" "0.1": "Lists the most frequently read keys of about the last minute.";
    "stats compression" "" "0.1": "Shows what compression saves, by database and key prefix.";
    "stats cachedump" "<class> <limit>" "0.1":
        "Lists keys, with limit 0 all; one slab class, 1, is shown.";
    "lru_crawler metadump" "all|hash|<class>,..." "0.1": "Lists all keys with their metadata.";
    "lru_crawler mgdump" "all|hash|<class>,..." "0.1": "Lists all keys as mg commands.";
    "verbosity" "<level> [noreply]" "0.1"
        : "Accepted without effect; set the log level with --log-level.";
    "config get cluster" "" "0.1"
        : "Lists the nodes of the cluster as host|ip|port, for clients with auto-discovery.";
    "version" "" "0.1"
        : "Shows the compatible version of memcached, and the version of this server.";
    "quit" "" "0.1": "Closes the connection.";
};

/// Every flag of the meta commands.
pub const FLAGS: &[Flag] = flags! {
    "b" "mg ms md ma me": "The key is base64, in the reply too.";
    "c" "mg ms ma": "Returns the item's version.";
    "C<version>" "ms md ma": "Acts only if the item has this version.";
    "C<version>" "mg": "Omits the value if the item has this version.";
    "D<number>" "ma": "Amount, default 1.";
    "E<version>" "mg ms md ma": "The new version of the item.";
    "f" "mg": "Returns the client's flags.";
    "F<number>" "ms": "The client's flags, 32 bits.";
    "h" "mg": "Returns 1 if the item was read before, else 0.";
    "I" "ms": "With C: stores also if the version is older, but the item stays stale.";
    "I" "md": "Keeps the item and marks it stale.";
    "J<number>" "ma": "With N: the initial number, default 0.";
    "k" "mg ms md ma": "Returns the key.";
    "l" "mg": "Returns the seconds since the last access.";
    "L<text> P<text>" "mg ms md ma": "Ignored; for proxies.";
    "ME MA MP MR MS" "ms": "Mode: add, append, prepend, replace, set.";
    "MI M+ MD M-" "ma": "Mode: up or down.";
    "N<exptime>" "mg": "On a miss stores an empty item, and the caller wins its lease.";
    "N<exptime>" "ms": "With append and prepend: on a miss stores the value.";
    "N<exptime>" "ma": "On a miss stores the number of J.";
    "O<text>" "mg ms md ma": "Returned unchanged; at most 31 bytes.";
    "q" "mg ms md ma": "Omits the usual reply: EN of mg, HD of the others.";
    "R<seconds>" "mg": "Wins the lease if the remaining TTL is less.";
    "s" "mg ms": "Returns the value's length.";
    "t" "mg ma": "Returns the remaining TTL in seconds, -1 for none.";
    "T<exptime>" "mg ms md ma": "The item's deadline; md uses it only with I or x.";
    "u" "mg": "Does not count as an access.";
    "v" "mg ma": "Returns the value.";
    "x" "md": "Keeps the item but empties it.";
    "W" "replies of mg": "The caller has the lease and should store a new value.";
    "X" "replies of mg": "The value is stale.";
    "Z" "replies of mg": "Another caller has the lease.";
};
