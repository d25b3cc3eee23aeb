//! Table: for every command the worst that a client can ask of it, and what keeps it short.
//!
//! A probe is a command as words, or several with `;` between them; `{keys}` and the like stand for
//! many ([`super::probe`]).

/// What commands have in common that cost the same.
pub(crate) struct Row {
    /// Their names, a subcommand's behind a bar.
    pub(crate) names: &'static str,
    /// What one costs; empty for commands of Redis, whose own table has it.
    pub(crate) cost: &'static str,
    /// The worst input by design.
    pub(crate) worst: &'static str,
    /// How it is bounded.
    pub(crate) bound: &'static str,
    /// Worst inputs that are run and timed.
    pub(crate) probes: &'static [&'static str],
}

impl Row {
    /// Whether what it does is one step by its promise.
    pub(crate) fn is_one_step(&self) -> bool {
        self.bound.starts_with("no steps")
    }
}

macro_rules! rows {
    ($($names:literal: $cost:literal, $worst:literal, $bound:literal, $probes:expr;)*) => {
        &[$(Row {
            names: $names,
            cost: $cost,
            worst: $worst,
            bound: $bound,
            probes: &$probes,
        },)*]
    };
}

macro_rules! resp_rows {
    ($($names:literal: $worst:literal, $bound:literal, $probes:expr;)*) => {
        rows! { $($names: "", $worst, $bound, $probes;)* }
    };
}

/// What stores a long value, run where the cache is full of short ones.
pub(crate) const STORES: &[&str] = &[
    "SETEX made 100 {value}",
    "SETNX made {value}",
    "MSET made {value} other x",
    "MSET {manyvalues}",
    "DELIFEQ source {value}",
    "MULTI ; SETEX made 100 {value} ; DISCARD",
    "COPY source made REPLACE",
    "RENAME source made",
    "RESTORE made 0 {dump:source} REPLACE",
    "RESTORE made 0 {dump:set} REPLACE",
    "BITOP NOT made source",
    "SETRANGE long 0 x",
    "APPEND long x",
    "SETBIT long 5 1",
    "BITFIELD long SET u8 9 7",
    "SADD set one",
    "SREM set {members}",
    "SPOP set {half}",
    "ZADD sorted 7 one",
    "ZPOPMIN sorted {half}",
    "ZREMRANGEBYRANK sorted 0 {half}",
    "LSET list 5 another",
    "LINSERT list BEFORE nothing x",
    "LMOVE list made LEFT RIGHT",
    "SUNIONSTORE made set",
    "ZUNIONSTORE made 1 sorted",
    "SORT list ALPHA STORE made",
];

/// Commands of Redis's protocol.
pub(crate) const RESP: &[Row] = resp_rows! {
    "get getex getdel getlease getset setnx setex psetex set":
        "a value of 512 MiB, to a quick reader",
        "sent from the cache's memory, 2 MiB per iteration; received as it comes, or copied 2 MiB \
         per iteration",
        ["GET big", "GETEX big PERSIST"];
    "strlen getbit getrange substr":
        "a part of a value of 512 MiB",
        "long parts are sent from the cache's memory, 2 MiB per iteration",
        ["GETRANGE big 1 -2", "GETBIT big 9", "STRLEN big"];
    "incr decr incrby decrby incrbyfloat increx":
        "none", "numbers are short", ["INCR number"];
    "append setrange setbit":
        "a value of 512 MiB that is being sent, or has grown",
        "one copy; its room is made in steps before",
        ["APPEND long x", "SETRANGE long 0 x", "SETBIT long 5 1", "SETRANGE long 9000000 x"];
    "bitcount bitpos": "a value of 512 MiB", "4 MiB per step",
        ["BITCOUNT big", "BITCOUNT big 1 -2 BIT", "BITPOS big 0", "BITPOS big 1 3"];
    "bitop": "16,381 times a value of 512 MiB",
        "2 MiB of the values per step", ["BITOP OR made big big", "BITOP NOT made big"];
    "bitfield bitfield_ro": "5,400 fields in a value of 512 MiB",
        "at most 16,384 arguments; one copy, its room is made in steps before",
        ["BITFIELD long INCRBY u8 #5 1", "BITFIELD_RO big GET u8 #500"];
    "pfadd": "262,142 elements of a HyperLogLog of 3,000 bytes",
        "4,096 elements per step, 8 MiB of them hashed; of many a register is raised once",
        ["PFADD sketch {members}", "PFADD long:sketch {huge}"];
    "pfcount": "16,383 HyperLogLogs", "128 HyperLogLogs per step",
        ["PFADD sketch {members} ; PFCOUNT sketch", "PFCOUNT {sketches}"];
    "pfmerge": "16,382 HyperLogLogs", "128 HyperLogLogs per step",
        ["PFMERGE merged {sketches}"];
    "delifeq delex":
        "a value as long as the longest command",
        "--client-memory of command", ["DELIFEQ big x"];
    "digest": "a value of 512 MiB", "8 MiB per step", ["DIGEST big"];
    "lcs": "two strings of 4 KiB",
        "the lengths' product is at most 16 Mi, each at most 1 MiB",
        ["LCS one two", "LCS one two LEN", "LCS one two IDX WITHMATCHLEN"];
    "mget": "1,048,575 keys", "4,096 keys or 64 KiB of reply per step",
        ["MGET {keys}", "MGET {missing}", "HELLO 3 ; CLIENT TRACKING on ; MGET {keys}"];
    "mset": "524,287 pairs",
        "8,192 pairs per step, fewer if many track them; up to so many are one step, before which \
         their room is made in steps",
        ["MSET {pairs}"];
    "msetnx msetex": "8,191 pairs",
        "at most 16,384 arguments; their room is made in steps before",
        ["MSETNX {fewpairs}"];
    "del unlink": "1,048,575 keys",
        "16,384 keys per step, fewer if many track them; up to so many are one step",
        ["UNLINK {missing}", "DEL {missing}"];
    "exists touch": "1,048,575 keys",
        "4,096 keys per step, fewer if many track them",
        ["EXISTS {keys}", "TOUCH {keys}"];
    "expire pexpire expireat pexpireat ttl pttl expiretime pexpiretime persist invalidate type":
        "a hash whose fields have deadlines", "its pages are not looked at",
        ["EXPIRE hash 1000", "TYPE hash"];
    "object object|encoding object|freq object|idletime object|refcount object|help":
        "a set of 128 members", "one pass over at most 512 members",
        ["OBJECT ENCODING set"];
    "bless bless|set bless|clear bless|get bless|scan": "BLESS SCAN with COUNT 1000000000",
        "16,384 keys a call", ["BLESS SCAN 0 NO-EVICT COUNT 1000000000"];
    "rename renamenx copy move": "a value of 24 MiB",
        "longer values are refused; copied 2 MiB per iteration before, then one step",
        ["COPY long copy REPLACE", "RENAME copy copied"];
    "sort sort_ro": "all elements of a large list, by other keys",
        "4,096 elements per step, 1,024 with other keys; 64 KiB of reply; STORE ends with one copy",
        ["SORT set ALPHA", "SORT list BY key:* GET # GET key:*", "SORT sorted BY nosort DESC",
         "SORT list ALPHA DESC STORE ordered"];
    "dump": "a value of 512 MiB",
        "4 MiB of a string summed, 256 KiB of a collection written per step; sent from the cache's \
         memory, or 64 KiB per iteration",
        ["DUMP big", "DUMP set", "DUMP sorted", "DUMP hash", "DUMP list"];
    "restore": "a collection of half the memory, compressed",
        "1 MiB of work or 2,048 entries per step; its order; one copy",
        ["RESTORE restored 0 {dump:set} REPLACE", "RESTORE restored 0 {dump:sorted} REPLACE",
         "RESTORE restored 0 {dump:hash} REPLACE", "RESTORE restored 0 {dump:list} REPLACE"];
    "randomkey": "a database with one of a million keys",
        "one pass over a shard's slots", ["SELECT 3 ; SET one 1 ; RANDOMKEY"];
    "keys": "a million keys, all wanted",
        "4,096 keys, 64 KiB or 4,096 buckets of the index per step",
        ["KEYS *", "KEYS nothing*x"];
    "scan clusterscan": "COUNT 1000000000",
        "16,384 keys or 1 MiB of them a call, 8,192 buckets of the index",
        ["SCAN 0 COUNT 1000000000", "SCAN 0 MATCH nothing*x COUNT 1000000000"];
    "wait waitaof": "none", "replies at once", ["WAIT 0 1000", "WAITAOF 0 0 1000"];
    "hget hexists hstrlen hlen httl hpttl hexpiretime hpexpiretime \
     sttl spttl sexpiretime spexpiretime":
        "16,380 fields", "at most 16,384 arguments",
        ["HLEN hash", "HGET hash m1"];
    "hmget smismember zmscore": "262,142 members",
        "4,096 members per step",
        ["HMGET hash {members}", "SMISMEMBER set {members}", "ZMSCORE sorted {members}"];
    "hgetall hkeys hvals smembers": "a collection of half the memory",
        "64 KiB of reply per step", ["HGETALL hash", "HKEYS hash", "HVALS hash", "SMEMBERS set"];
    "hset hmset hdel sadd srem zadd zrem": "262,142 members",
        "4,096 members per step; one copy of the collection if somebody reads all of it meanwhile",
        ["SADD new {huge}", "SREM set {huge}", "HSET new {huge} x", "ZADD new 1 {huge}",
         "SADD copy:set new", "SADD copy:set {members}", "SREM copy:set {members}",
         "HSET copy:hash m1 x", "HDEL copy:hash {members}", "ZADD copy:sorted 3 m1",
         "COPY earth scored REPLACE ; ZADD scored {scored4k}",
         "ZREM copy:sorted {members}"];
    "hsetnx hincrby hincrbyfloat zincrby smove":
        "a collection that somebody reads whole meanwhile", "one copy of the collection",
        ["HINCRBY hash n 1", "ZINCRBY sorted 1 m1", "SMOVE set set m1"];
    "hexpire hpexpire hexpireat hpexpireat hpersist hgetex hsetex hgetdel":
        "16,380 fields",
        "at most 16,384 arguments",
        ["HEXPIRE hash 1000 FIELDS 2 m1 m2",
         "COPY hash timed REPLACE ; HPEXPIRE timed 1000000 FIELDS 16000 {fields16k}",
         "COPY hash timed REPLACE ; HSETEX timed EX 1000 FIELDS 8000 {fields8k}",
         "COPY hash timed REPLACE ; HGETDEL timed FIELDS 16000 {fields16k}"];
    "sexpire spexpire sexpireat spexpireat spersist saddex":
        "16,380 members", "at most 16,384 arguments",
        ["COPY set timed REPLACE ; SEXPIRE timed 1000 MEMBERS 2 m1 m2"];
    "hrandfield srandmember zrandmember": "a count of -1,048,576",
        "more are refused; 4,096 members per step",
        ["SRANDMEMBER set -1000000", "HRANDFIELD hash -100000 WITHVALUES",
         "ZRANDMEMBER sorted -100000"];
    "sismember scard": "none", "replies at once", ["SISMEMBER set m1"];
    "spop zpopmin zpopmax zmpop zremrangebyscore zremrangebyrank zremrangebylex":
        "half of a large collection",
        "the members go at once; 64 KiB of reply per step",
        ["COPY set popped REPLACE ; SPOP popped {half}",
         "COPY set popped REPLACE ; SPOP popped {tenth}",
         "COPY earth zpopped REPLACE ; ZREMRANGEBYRANK zpopped 0 {tenth}",
         "COPY earth zpopped REPLACE ; ZPOPMIN zpopped {half}",
         "COPY sorted zpopped REPLACE ; ZPOPMIN zpopped {half}",
         "COPY sorted zpopped REPLACE ; ZMPOP 1 zpopped MAX COUNT {half}",
         "COPY sorted zpopped REPLACE ; ZREMRANGEBYRANK zpopped 0 {half}"];
    "hscan sscan zscan": "COUNT 1000000000",
        "16,384 members a call", ["SSCAN set 0 COUNT 1000000000", "HSCAN hash 0 COUNT 1000000000",
         "ZSCAN sorted 0 COUNT 1000000000"];
    "sunion sinter sdiff sintercard sunioncard sdiffcard":
        "16,383 large sets", "4,096 look-ups per step, and the last member's",
        ["SUNION set other", "SINTER set other", "SDIFF set other", "SINTERCARD 2 set other",
         "SUNION {missing16k}"];
    "sunionstore sinterstore sdiffstore":
        "a large result", "4,096 look-ups per step, and the last member's; its order; one copy",
        ["SUNIONSTORE stored set other", "SINTERSTORE stored set other",
         "SDIFFSTORE stored set other"];
    "zunion zinter zdiff zintercard":
        "16,382 large sets", "4,096 look-ups, members sorted or answered per step",
        ["ZUNION 2 sorted set", "ZINTER 2 sorted set WITHSCORES", "ZDIFF 2 sorted other",
         "ZINTERCARD 2 sorted set"];
    "zunionstore zinterstore zdiffstore zrangestore":
        "a large result", "4,096 look-ups, members sorted or added per step; its order; one copy",
        ["ZUNIONSTORE stored 2 sorted other", "ZINTERSTORE stored 2 sorted sorted",
         "ZDIFFSTORE stored 2 sorted other",
         "ZRANGESTORE stored sorted 0 -1"];
    "zscore zcard zcount zrank zrevrank zlexcount": "none",
        "replies at once", ["ZCOUNT sorted -inf +inf", "ZRANK sorted m1"];
    "zrange zrevrange zrangebyscore zrevrangebyscore zrangebylex zrevrangebylex":
        "all members of a large set", "64 KiB of reply per step",
        ["ZRANGE sorted 0 -1 WITHSCORES", "ZREVRANGEBYSCORE sorted +inf -inf"];
    "geoadd": "87,380 members", "1,365 places per step",
        ["GEOADD copy:earth 13.3 38.1 new"];
    "geopos geohash": "262,142 members", "4,096 members per step",
        ["GEOPOS earth {members}", "GEOHASH earth {members}"];
    "geodist": "none", "replies at once", ["GEODIST earth m1 m2 km"];
    "geosearch georadius georadius_ro georadiusbymember georadiusbymember_ro":
        "all members of a large set, the nearest first",
        "4,096 members looked at or answered per step",
        ["GEOSEARCH earth FROMLONLAT 0 0 BYRADIUS 30000 km ASC WITHDIST WITHCOORD",
         "GEOSEARCH earth FROMMEMBER m1 BYBOX 40000 40000 km",
         "GEORADIUS earth 0 0 30000 km COUNT 100000 DESC",
         "GEORADIUSBYMEMBER earth m1 30000 km COUNT 100000 ANY STORE near"];
    "geosearchstore": "a large result",
        "4,096 members looked at, chosen or added per step; its order; one copy",
        ["GEOSEARCHSTORE near earth FROMLONLAT 0 0 BYRADIUS 30000 km",
         "GEOSEARCHSTORE near earth FROMLONLAT 0 0 BYRADIUS 30000 km STOREDIST"];
    "lpush rpush lpushx rpushx": "a list that somebody reads whole meanwhile",
        "one copy of the list; 4,096 elements per step",
        ["RPUSH new {huge}", "RPUSH copy:list new", "LPUSH copy:list {members}",
         "LPUSHX copy:list new"];
    "lpop rpop ltrim": "half of a large list",
        "the elements go at once; 64 KiB of reply per step",
        ["COPY list popped REPLACE ; LPOP popped {half}",
         "COPY list popped REPLACE ; LTRIM popped {half} -2"];
    "lindex": "the middle of a large list",
        "replies at once", ["LINDEX list {half}"];
    "llen": "none", "replies at once", ["LLEN list"];
    "lrange": "all elements of a large list",
        "64 KiB of reply per step", ["LRANGE list 0 -1"];
    "lset linsert lrem": "an element that is not in a large list",
        "the pass is made at once",
        ["LSET copy:list {half} changed", "LINSERT copy:list AFTER none x",
         "LREM copy:list 0 none", "COPY list removed REPLACE ; LREM removed 0 m1"];
    "lpos": "an element that is not there",
        "the pass is made at once; 64 KiB of reply per step", ["LPOS list none COUNT 0"];
    "lmove lmovem rpoplpush": "two lists that somebody reads whole meanwhile",
        "one copy of each; one step", ["LMOVE copy:list moved LEFT RIGHT",
         "COPY list popped REPLACE ; LMOVEM popped moved LEFT RIGHT COUNT {half} BULK"];
    "lmpop": "16,380 keys that are not there",
        "at most 16,384 arguments", ["COPY list popped REPLACE ; LMPOP 1 popped LEFT COUNT {half}"];
    "blpop brpop blmpop bzpopmin bzpopmax bzmpop":
        "names that are not there until they are too many",
        "2 MiB a client, 512 bytes and its name for each; as LMPOP and ZMPOP; \
         who stores something serves who waits for 2 ms of per iteration",
        ["BLPOP {missing16k} 0.01", "BLPOP {waited} 0.01", "BZPOPMIN {waited} 0.01",
         "COPY list popped REPLACE ; BLMPOP 0 1 popped LEFT COUNT {half}"];
    "blmove blmovem brpoplpush": "two lists that somebody reads whole meanwhile",
        "one copy of each; one step",
        ["BLMOVE copy:list moved LEFT RIGHT 0"];
    "zmove zmovemember bzmove": "1,024 members of a large sorted set",
        "more are refused; 64 KiB of reply per step",
        ["COPY sorted zfrom REPLACE ; ZMOVE zfrom zto MIN COUNT 1024",
         "COPY sorted zfrom REPLACE ; ZMOVE zfrom copy:sorted MAX COUNT 1024",
         "ZMOVE copy:sorted zto BYSCORE -inf +inf", "BZMOVE copy:sorted zto MIN 0.001 COUNT 1024",
         "COPY sorted zfrom REPLACE ; ZMOVEMEMBER zfrom zto MEMBERS 1024 {members1k}"];
    "subscribe unsubscribe psubscribe punsubscribe ssubscribe sunsubscribe":
        "names until they are too many",
        "4 MiB a client, 512 bytes, its name and what a pattern becomes for each; 4,095 patterns \
         a command",
        ["SUBSCRIBE {names}", "PSUBSCRIBE {patterns}", "SUBSCRIBE {names} ; UNSUBSCRIBE",
         "PSUBSCRIBE {patterns} ; PUNSUBSCRIBE"];
    "publish spublish":
        "10,000 listeners, a million patterns", "2,048 listeners or patterns per step",
        ["PUBLISH news hello"];
    "pubsub pubsub|channels pubsub|numsub pubsub|numpat pubsub|shardchannels pubsub|shardnumsub \
     pubsub|help":
        "8,000 channels of each client",
        "4,096 names looked at, 64 KiB of reply per step; 4 MiB of names a client; at most 16,384 \
         arguments", ["PUBSUB CHANNELS *"];
    "multi discard unwatch watch": "keys until they are too many",
        "2 MiB a client, 512 bytes and its name for each; at most 16,384 arguments",
        ["WATCH {missing16k}", "WATCH {waited} ; UNWATCH"];
    "exec": "a queue of the longest commands",
        "one step for all by its promise: at most 12,000 keys, four arguments beyond a command's \
         eighth counted as one; 32 MiB of queue and of reply",
        ["MULTI ; {queue} ; EXEC", "MULTI ; {stores} ; EXEC", "MULTI ; MGET {keys9k} ; EXEC",
         "MULTI ; DEL {missing9k} ; EXEC", "MULTI ; MSET {pairs15k} ; EXEC",
         "WATCH {waited} ; MULTI ; EXEC"];
    "eval evalsha eval_ro evalsha_ro": "a script that never ends",
        "no steps: --script-time-limit; 64 KiB of script, 16,384 arguments of 4 MiB",
        ["EVAL return{} 0 {missing16k}", "EVAL return{} 0 {argument}", "EVAL return{} 0 {huge}",
         "EVAL {program} 0"];
    "script script|load script|show script|exists script|flush script|kill script|help":
        "262,142 digests; 64 KiB of script",
        "4,096 digests per step; longer scripts are refused",
        ["SCRIPT EXISTS {keys}", "SCRIPT LOAD {program}", "SCRIPT LOAD {strings}"];
    "fcall fcall_ro": "a function that never ends",
        "no steps: --script-time-limit; 16,384 arguments of 4 MiB",
        ["FCALL nosuch 0 {missing16k}"];
    "function|load function|restore": "a program that never ends",
        "64 KiB and 1,000 functions a library, 500 ms and --script-time-limit; RESTORE runs a \
         library per step", ["FUNCTION LOAD REPLACE {library}", "FUNCTION RESTORE x"];
    "function function|delete function|dump function|flush function|kill function|list \
     function|stats function|help": "1,000 libraries of 8 MiB",
        "8 MiB of all libraries, 10,000 functions", ["FUNCTION LIST", "FUNCTION DUMP"];
    "ping echo": "a message as long as a command may be",
        "its bytes go back where they came in, 1 MiB per iteration",
        ["PING", "PING {huge}", "ECHO {huge}"];
    "hello auth select quit reset": "a name of 32 MiB", "32 MiB of command",
        ["SELECT 0"];
    "client client|caching client|capa client|getname client|getredir client|id client|info \
     client|no-evict client|no-touch client|pause client|reply client|setinfo client|setname \
     client|trackinginfo client|unblock client|unpause client|help": "none",
        "replies at once",
        ["CLIENT INFO"];
    "client|tracking": "prefixes until they are too many",
        "1 MiB a client; maintenance frees what who stops had read",
        ["CLIENT TRACKING on BCAST {prefixes} ; CLIENT TRACKING off"];
    "client|kill client|list": "10,000 clients",
        "512 lines per step; 256 connections are ended per iteration",
        ["CLIENT LIST", "CLIENT LIST ID {ids}"];
    "acl acl|cat acl|whoami acl|help": "none",
        "replies at once", ["ACL CAT"];
    "acl|log": "128 entries", "replies at once",
        ["ACL LOG 128"];
    "acl|dryrun acl|getuser acl|list acl|users": "10,000 users",
        "replies at once", ["ACL LIST"];
    "cluster cluster|info cluster|keyslot cluster|myid cluster|myshardid cluster|links \
     cluster|help readonly readwrite asking": "none", "replies at once",
        ["CLUSTER INFO"];
    "cluster|nodes cluster|shards cluster|slots":
        "1,000 nodes", "replies at once", ["CLUSTER SLOTS"];
    "cluster|countkeysinslot cluster|getkeysinslot": "a million keys",
        "2,048 buckets per step; at most 10,000 keys are listed",
        ["CLUSTER COUNTKEYSINSLOT 1", "CLUSTER GETKEYSINSLOT 1 10"];
    "command command|count command|getkeys command|getkeysandflags command|info command|list \
     command|help command|docs": "16,382 names",
        "at most 16,384 arguments; COMMAND INFO has 4,096 per step",
        ["COMMAND", "COMMAND DOCS", "COMMAND INFO {gets}"];
    "config config|get config|set config|resetstat config|rewrite config|help":
        "256 patterns", "more are refused",
        ["CONFIG GET *", "CONFIG GET {stars}"];
    "info": "the lengths of a million keys", "4,096 keys per step; other sections at once",
        ["INFO everything", "INFO keysizes"];
    "dbsize time lastsave role lolwut module module|list module|help replicaof slaveof \
     failover": "all databases",
        "a constant number of sums", ["DBSIZE", "TIME"];
    "latency latency|doctor latency|graph latency|histogram latency|history latency|latest \
     latency|reset latency|help slowlog slowlog|get slowlog|len slowlog|reset slowlog|help \
     commandlog commandlog|get commandlog|len commandlog|reset commandlog|help":
        "10,000 slow commands", "so many are kept, 128 bytes of 32 arguments each",
        ["SLOWLOG GET -1", "COMMANDLOG GET -1 slow", "LATENCY HISTOGRAM",
         "LATENCY HISTORY command", "LATENCY LATEST"];
    "hotkeys hotkeys|start hotkeys|stop hotkeys|get hotkeys|reset hotkeys|help":
        "64 keys", "replies at once",
        ["HOTKEYS START METRICS 2 CPU NET COUNT 64", "HOTKEYS GET", "HOTKEYS STOP"];
    "memory memory|doctor memory|purge memory|stats memory|usage memory|help":
        "none", "replies at once", ["MEMORY STATS", "MEMORY USAGE set"];
    "debug shutdown monitor": "DEBUG SLEEP 60",
        "an operator's: --enable-debug-commands", ["PING"];
    "flushall flushdb swapdb": "a million keys",
        "what was stored is swept up beside requests",
        ["FLUSHDB", "SWAPDB 0 1", "FLUSHALL", "SET one 1 ; RANDOMKEY", "KEYS *",
         "SCAN 0 COUNT 1000000000"];
};

/// Commands of memcached's protocol.
pub(crate) const MEMCACHED: &[Row] = rows! {
    "get gets gat gats": "one lookup per key", "a line of 1 MiB of keys",
        "4,096 keys or 64 KiB of reply per step", ["get {lines}", "gets {nolines}"];
    "set add replace cas ms": "one store", "a value of 512 MiB", "received as it comes",
        ["mg key:1 v"];
    "append prepend": "APPEND, and a copy of the value", "a value of 1 MiB",
        "a value of this protocol has at most 1 MiB, or --max-value", ["mg key:1 v"];
    "incr decr touch delete mg md ma me mn": "one lookup", "none", "replies at once",
        ["mg key:1 v", "me key:1"];
    "cache_memlimit": "as CONFIG SET maxmemory", "none", "replies at once",
        ["cache_memlimit 64"];
    "flush_all": "a new epoch", "a million keys",
        "what was stored is swept up beside requests", ["flush_all 100000"];
    "stats": "sums over the shards", "none", "a constant number of sums",
        ["stats", "stats items", "stats sizes", "stats expiry"];
    "stats mrc": "the curve", "none", "a constant number of points", ["stats mrc"];
    "stats misses": "the counts", "none", "a constant number of counts", ["stats misses"];
    "stats hotkeys": "its keys", "none", "a constant number of keys", ["stats hotkeys"];
    "stats compression": "its prefixes", "none", "a constant number of prefixes",
        ["stats compression"];
    "stats cachedump": "one pass over all keys", "a million keys",
        "16 KiB of reply or 4,096 buckets per step", ["stats cachedump 1 0"];
    "lru_crawler metadump": "one pass over all keys", "a million keys",
        "16 KiB of reply or 4,096 buckets per step",
        ["lru_crawler metadump all"];
    "lru_crawler mgdump": "one pass over all keys", "a million keys",
        "16 KiB of reply or 4,096 buckets per step",
        ["lru_crawler mgdump all"];
    "verbosity version quit": "nothing", "none", "replies at once", ["version"];
    "config get cluster": "a copy of what was written with the map", "1,000 nodes",
        "replies at once", ["config get cluster"];
};

/// Requests of memcached's binary protocol: what they ask for is probed above.
pub(crate) const MEMCACHED_BINARY: &[Row] = rows! {
    "get getk gat gatk touch": "one lookup", "a value of 512 MiB",
        "sent from the cache's memory, 2 MiB per iteration", [];
    "set add replace": "one store", "a value of 512 MiB", "received as it comes", [];
    "append prepend": "APPEND, and a copy of the value", "a value of 1 MiB",
        "a value of this protocol has at most 1 MiB, or --max-value", [];
    "delete increment decrement": "one lookup", "none", "replies at once", [];
    "flush": "a new epoch", "a million keys", "what was stored is swept up beside requests", [];
    "stat": "sums over the shards", "none", "a constant number of sums", [];
    "sasl_auth": "one hash", "a password of 16 KiB", "hashed by a thread of its own", [];
    "noop version verbosity sasl_list_mechs sasl_step quit": "nothing", "none",
        "replies at once", [];
};

/// Paths of HTTP.
pub(crate) const HTTP: &[Row] = rows! {
    "/v1/cache /v1/cache/{key}": "one lookup or store",
        "a value of 512 MiB; a message of 2 MiB of escapes",
        "sent from the cache's memory, 2 MiB per iteration; received as it comes; longer \
         messages are \
         refused", ["/v1/cache/key:1", "/v1/cache {escape}"];
    "/v1/cache/{key}/incr /v1/cache/{key}/invalidate": "one lookup", "none", "replies at once",
        ["/v1/cache/key:1/incr {}"];
    "/v1/cache/batch/get": "one lookup per key", "1,000 keys", "more are refused; pieces of the \
     answer", ["/v1/cache/batch/get {ids}"];
    "/v1/cache/batch/put": "one store per key", "1,000 messages of escapes, 2 MiB in all",
        "more are refused", ["/v1/cache/batch/put {messages}", "/v1/cache/batch/put {escapes}"];
    "/healthz /readyz": "nothing", "none", "replies at once", ["/healthz"];
    "/metrics": "sums over the shards", "none", "a constant number of sums", ["/metrics"];
    "/v1/cluster": "a copy of what was written with the map", "1,000 nodes",
        "replies at once", ["/v1/cluster"];
    "/v1/console/status /v1/console/key": "sums over the shards", "none",
        "a constant number of sums", ["/v1/console/status"];
    "/v1/console/history": "1,440 rows of 40 figures", "none", "a constant number of rows",
        ["/v1/console/history?step=1m"];
};
