//! Permission: what each command of each protocol needs, and whether a user may run it.
//!
//! Each command is in exactly one row; with none, or two, it does not compile. On a server without
//! users no permission is checked.
//!
//! Why: docs/decisions/0042. Tests: server/tests/users.rs, with every command.

use cellar_protocol::http::Method;
use cellar_protocol::memcached::binary::{Asks, Packet};
use cellar_protocol::memcached::{self, Meta, Stats};
use cellar_protocol::resp::{Command, Request, Verb};
use cellar_shared::auth::users::{Role, User};
use cellar_shared::clients::pause::Effect;

/// The permission that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any user: the command concerns the connection, or returns only counts.
    Anybody,
    /// To read keys of the database.
    Read,
    /// To change keys of the database.
    Write,
    /// Subscribing to channels, with any role.
    Hear,
    /// Publishing to channels, and the right to write.
    Send,
    /// An admin; keys are checked as for others, and only its own clients are shown.
    Admin,
    /// An admin who may use all keys and databases: it affects the whole server, with data and
    /// clients of other users.
    Everything,
}

/// Why a command may not be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied<'k> {
    /// The role is not enough.
    Command,
    /// A key is beyond the prefixes.
    Key(&'k [u8]),
    /// A channel, or a pattern of some, is beyond the prefixes.
    Channel(&'k [u8]),
    /// The database is not among the user's.
    Database,
}

/// Makes [`of_verb`] of rows of commands and what they need.
macro_rules! needs {
    ($($need:ident: $($verb:ident)+;)+) => {
        /// The need of a Redis command.
        #[deny(unreachable_patterns)]
        #[must_use]
        pub const fn of_verb(verb: Verb) -> Need {
            match verb {
                $($(Verb::$verb)|+ => Need::$need,)+
            }
        }
    };
}

needs! {
    Anybody: Hello Auth Quit Reset Ping Echo Select Multi Exec Discard Unwatch
        ClientId ClientInfo ClientSetname ClientGetname ClientSetinfo ClientReply ClientNoTouch
        ClientCapa ClientTracking ClientCaching ClientGetredir ClientTrackinginfo
        Unsubscribe Punsubscribe Sunsubscribe PubsubChannels PubsubShardchannels PubsubNumpat
        AclWhoami AclCat Info Time Lastsave Role Wait Waitaof Lolwut
        ClusterInfo ClusterKeyslot ClusterMyid ClusterMyshardid ClusterNodes ClusterShards
        ClusterSlots ClusterLinks Readonly Readwrite Asking
        Command CommandCount CommandDocs CommandGetkeys CommandGetkeysandflags CommandInfo
        CommandList
        MemoryDoctor MemoryStats
        Object Pubsub Script Function Client Acl Cluster Config Latency Memory Slowlog Module
        Commandlog Hotkeys Bless
        ObjectHelp PubsubHelp ScriptHelp FunctionHelp ClientHelp AclHelp ClusterHelp CommandHelp
        ConfigHelp LatencyHelp MemoryHelp SlowlogHelp ModuleHelp CommandlogHelp
        HotkeysHelp;
    Read: Get Mget Strlen Getrange Substr Lcs Digest Getbit Bitcount Bitpos BitfieldRo Pfcount
        Exists Touch Ttl Pttl Expiretime Pexpiretime Type Randomkey Keys Scan Clusterscan Dbsize
        Watch SortRo Dump
        ObjectEncoding ObjectFreq ObjectIdletime ObjectRefcount MemoryUsage BlessGet BlessScan
        Hget Hmget Hgetall Hkeys Hvals Hexists Hlen Hstrlen Hrandfield Hscan
        Httl Hpttl Hexpiretime Hpexpiretime
        Smembers Sismember Smismember Scard Srandmember Sscan Sunion Sinter Sdiff Sintercard
        Sunioncard Sdiffcard Sttl Spttl Sexpiretime Spexpiretime
        Llen Lindex Lrange Lpos
        Zscore Zmscore Zcard Zcount Zrank Zrevrank Zrange Zrevrange Zrangebyscore
        Zrevrangebyscore Zrangebylex Zrevrangebylex Zlexcount Zrandmember Zscan
        Zunion Zinter Zdiff Zintercard
        Geopos Geodist Geohash Geosearch GeoradiusRo GeoradiusbymemberRo;
    Write: Set Mset Msetnx Msetex Setex Psetex Setnx Getset Getdel Getex Append Setrange
        Incr Decr Incrby Decrby Incrbyfloat Increx Delifeq Delex Getlease Setbit Bitop Bitfield
        Pfadd Pfmerge
        Del Unlink Expire Pexpire Expireat Pexpireat Persist Invalidate Rename Renamenx Copy Move
        Sort Restore BlessSet BlessClear
        Hset Hmset Hsetnx Hdel Hincrby Hincrbyfloat Hexpire Hpexpire Hexpireat Hpexpireat
        Hpersist Hgetex Hsetex Hgetdel
        Lpush Rpush Lpushx Rpushx Lpop Rpop Ltrim Lset Linsert Lrem Lmove Lmovem Rpoplpush Lmpop
        Blpop Brpop Blmove Blmovem Brpoplpush Blmpop Bzpopmin Bzpopmax Bzmpop Bzmove
        Sadd Srem Spop Smove Sunionstore Sinterstore Sdiffstore
        Sexpire Spexpire Sexpireat Spexpireat Spersist Saddex
        Zadd Zrem Zincrby Zremrangebyscore Zremrangebyrank Zremrangebylex Zpopmin Zpopmax
        Zmpop Zmove Zmovemember Zrangestore Zunionstore Zinterstore Zdiffstore
        Geoadd Geosearchstore Georadius Georadiusbymember;
    Hear: Subscribe Psubscribe Ssubscribe PubsubNumsub PubsubShardnumsub;
    Send: Publish Spublish;
    Everything: ClusterCountkeysinslot ClusterGetkeysinslot;
    Admin: Eval Evalsha EvalRo EvalshaRo ScriptLoad ScriptExists Fcall FcallRo FunctionList
        FunctionStats ClientList
        AclList AclUsers AclGetuser AclDryrun ConfigGet
        LatencyDoctor LatencyGraph LatencyHistogram LatencyHistory LatencyLatest SlowlogLen
        CommandlogLen ModuleList;
    Everything: Flushall Flushdb Swapdb Debug Monitor ConfigSet ConfigResetstat ConfigRewrite
        Shutdown ScriptFlush ScriptKill FunctionLoad FunctionDelete FunctionRestore FunctionFlush
        FunctionDump FunctionKill AclLog ClientKill ClientNoEvict ClientPause ClientUnpause
        ClientUnblock MemoryPurge SlowlogGet SlowlogReset LatencyReset
        CommandlogGet CommandlogReset HotkeysStart HotkeysStop HotkeysGet HotkeysReset
        ScriptShow Replicaof Slaveof Failover;
}

/// The need of a memcached request.
#[must_use]
pub fn of_memcached(request: &memcached::Request<'_>) -> Need {
    use memcached::Request;
    match request {
        Request::Get(get) if get.touch.is_none() => Need::Read,
        // With these it changes a deadline, or wins a lease.
        Request::MetaGet(meta) if !b"NRTE".iter().any(|flag| meta.has(*flag)) => Need::Read,
        Request::MetaDebug(_) => Need::Read,
        Request::Get(_)
        | Request::MetaGet(_)
        | Request::Store(_)
        | Request::Delete { .. }
        | Request::Count { .. }
        | Request::Touch { .. }
        | Request::MetaSet { .. }
        | Request::MetaDelete(_)
        | Request::MetaArithmetic { .. } => Need::Write,
        Request::FlushAll { .. } | Request::MemoryLimit { .. } | Request::Stats(Stats::Reset) => {
            Need::Everything
        }
        Request::List { .. }
        | Request::Stats(Stats::HotKeys | Stats::Compression | Stats::CacheDump { .. }) => {
            Need::Read
        }
        Request::MetaNoop
        | Request::Cluster
        | Request::Version
        | Request::Stats(_)
        | Request::Okay { .. }
        | Request::Quit => Need::Anybody,
    }
}

/// The need of a packet of memcached's binary protocol.
#[must_use]
pub fn of_packet(asks: Asks) -> Need {
    match asks {
        Asks::Get { touch: None, .. } => Need::Read,
        Asks::Get { .. }
        | Asks::Touch { .. }
        | Asks::Store { .. }
        | Asks::Delete
        | Asks::Count { .. } => Need::Write,
        Asks::Flush { .. } => Need::Everything,
        Asks::Stat(Some(group)) => of_memcached(&memcached::Request::Stats(group)),
        Asks::Stat(None)
        | Asks::Okay
        | Asks::Version
        | Asks::SaslList
        | Asks::SaslAuth
        | Asks::SaslStep
        | Asks::Quit => Need::Anybody,
    }
}

/// The need of an HTTP path, as in the tables of paths and of pages. Public ones are not checked.
#[must_use]
pub fn of_path(path: &str, method: Method) -> Need {
    let only_reads = matches!(method, Method::Get | Method::Head);
    match path {
        "/metrics" | "/v1/cluster" | "/v1/console/status" | "/v1/console/history" => Need::Anybody,
        "/v1/cache/batch/get" => Need::Read,
        _ if only_reads => Need::Read,
        _ => Need::Write,
    }
}

impl Need {
    /// How a request with this need counts for a pause, where nothing more specific applies.
    pub(super) fn effect(self) -> Effect {
        match self {
            Need::Anybody => Effect::None,
            Need::Read | Need::Hear => Effect::Reads,
            Need::Write | Need::Send | Need::Admin | Need::Everything => Effect::Writes,
        }
    }

    /// The lowest role with this permission.
    #[inline]
    const fn role(self) -> Role {
        match self {
            Need::Anybody | Need::Read | Need::Hear => Role::Read,
            Need::Write | Need::Send => Role::Write,
            Need::Admin | Need::Everything => Role::Admin,
        }
    }

    /// Whether it is about the connection's database.
    #[inline]
    const fn is_of_database(self) -> bool {
        matches!(self, Need::Read | Need::Write)
    }
}

/// Whether a user may do what needs this, in a database and to keys.
#[inline]
pub(super) fn check<'k>(
    user: &User,
    need: Need,
    database: u32,
    keys: impl IntoIterator<Item = &'k [u8]>,
) -> Result<(), Denied<'k>> {
    if user.role < need.role() || need == Need::Everything && user.is_limited() {
        return Err(Denied::Command);
    }
    if need.is_of_database() && !user.may_use_database(database) {
        return Err(Denied::Database);
    }
    if user.prefixes.is_empty() {
        return Ok(());
    }
    let beyond = keys.into_iter().find(|key| !user.may_use(key));
    beyond.map_or(Ok(()), |key| Err(Denied::Key(key)))
}

/// Whether a user may run a command of Redis's in a database; `args` are as many as it takes.
pub(super) fn check_resp<'k>(
    user: &User,
    command: &'static Command,
    args: &[&'k [u8]],
    database: u32,
) -> Result<(), Denied<'k>> {
    let need = match command.verb {
        Verb::FunctionList if shows_sources(args) => Need::Everything,
        verb => of_verb(verb),
    };
    match need {
        Need::Hear | Need::Send => {
            check(user, need, database, [])?;
            return check_channels(user, command.verb, args);
        }
        _ if user.prefixes.is_empty() => return check(user, need, database, []),
        _ => {}
    }
    let request = Request {
        command: Some(command),
        args: args.iter().copied().collect(),
    };
    check(user, need, database, request.keys())
}

/// Whether FUNCTION LIST is asked for the programs themselves, in which there may be what its
/// callers are not to know.
fn shows_sources(args: &[&[u8]]) -> bool {
    let mut options = args.iter().skip(2);
    options.any(|word| word.eq_ignore_ascii_case(b"WITHCODE"))
}

fn check_channels<'k>(user: &User, verb: Verb, args: &[&'k [u8]]) -> Result<(), Denied<'k>> {
    let names = match verb {
        Verb::Publish | Verb::Spublish => args.get(1..2),
        Verb::PubsubNumsub | Verb::PubsubShardnumsub => args.get(2..),
        _ => args.get(1..),
    };
    let may = |name: &[u8]| match verb {
        Verb::Psubscribe => user.may_hear_pattern(name),
        Verb::Subscribe | Verb::Ssubscribe => user.may_subscribe(name),
        _ => user.may_hear(name),
    };
    let beyond = names.unwrap_or_default().iter().find(|name| !may(name));
    beyond.map_or(Ok(()), |name| Err(Denied::Channel(name)))
}

/// Whether a user may run a request of memcached's, which sees database 0.
pub(super) fn check_memcached(
    user: &User,
    request: &memcached::Request<'_>,
) -> Result<(), Denied<'static>> {
    use memcached::Request;
    let need = of_memcached(request);
    let of_meta = |meta: &Meta<'_>| {
        let mut buffer = [0; memcached::KEY_BYTES_MAX];
        let key = meta.key_bytes(&mut buffer);
        check(user, need, 0, [key]).map_err(without_key)
    };
    match request {
        Request::Get(get) => check(user, need, 0, get.keys()).map_err(without_key),
        Request::MetaGet(meta)
        | Request::MetaSet { meta, .. }
        | Request::MetaDelete(meta)
        | Request::MetaArithmetic { meta, .. }
        | Request::MetaDebug(meta) => of_meta(meta),
        other => check(user, need, 0, other.plain_key()).map_err(without_key),
    }
}

/// The same of the binary protocol.
pub(super) fn check_packet(user: &User, packet: &Packet<'_>) -> Result<(), Denied<'static>> {
    check(user, of_packet(packet.asks), 0, packet.item_key()).map_err(without_key)
}

/// The same, for replies that do not name the key.
pub(super) fn without_key(denied: Denied<'_>) -> Denied<'static> {
    match denied {
        Denied::Command => Denied::Command,
        Denied::Database => Denied::Database,
        Denied::Key(_) | Denied::Channel(_) => Denied::Key(&[]),
    }
}

#[cfg(test)]
mod tests {
    use cellar_protocol::resp::command::{Flags, TABLE};

    use super::*;

    #[test]
    fn what_a_command_does_to_keys_says_what_it_needs_at_least() {
        let rows = TABLE
            .iter()
            .flat_map(|row| std::iter::once(row).chain(row.subcommands));
        for row in rows {
            let role = of_verb(row.verb).role();
            let least = match row.flags {
                flags if flags.has(Flags::ADMIN) => Role::Admin,
                flags if flags.has(Flags::WRITE) => Role::Write,
                _ => Role::Read,
            };
            assert!(role >= least, "{}", row.name);
        }
    }
}
