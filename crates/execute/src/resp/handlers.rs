//! Handlers: which function runs a command, for every row of the table of commands.

use cellar_protocol::resp::Verb;

use super::call::help;
use super::call::{Call, Outcome};
use super::client::{self, connection, echo, tracking};
use super::collections::{
    geo, geo_search, hash_expiry, hashes, list_moves, lists, set_algebra, set_expiry, sets,
    sorted_algebra, sorted_moves, sorted_ranges, sorted_sets,
};
use super::dumps::{self, restore};
use super::keys::{
    self, bless, cluster_scan, deadlines, flush, listing, object, rename, scan, sort,
};
use super::strings::{
    self, bit_counts, bit_fields, bit_operations, bits, digest, getex, hyperloglog, increx, lcs,
    leases, mset, numbers, ranges, setex,
};
use super::{admin, channels, pausing, scripts, transaction, waiting};

/// The function that runs one command.
pub(super) type Handler = fn(&mut Call<'_>) -> Outcome;

/// Makes [`of`] from rows of commands and the function that runs them. Each command is in exactly
/// one row; with none, or two, it does not compile.
macro_rules! handlers {
    ($($($verb:ident)+ => $handler:path;)+) => {
        /// The function that runs a command.
        #[deny(unreachable_patterns)]
        pub(super) fn of(verb: Verb) -> Handler {
            match verb {
                $($(Verb::$verb)|+ => $handler,)+
            }
        }
    };
}

handlers! {
    Get => strings::get;
    Set => strings::set;
    Setnx => setex::setnx;
    Setex => setex::setex;
    Psetex => setex::psetex;
    Getset => setex::getset;
    Getdel => getex::getdel;
    Getex => getex::getex;
    Delex => getex::delex;
    Delifeq => getex::delifeq;
    Digest => digest::digest;
    Mget => mset::mget;
    Mset => mset::mset;
    Msetnx => mset::msetnx;
    Msetex => mset::msetex;
    Append => ranges::append;
    Strlen => ranges::strlen;
    Getrange Substr => ranges::getrange;
    Setrange => ranges::setrange;
    Incr => numbers::incr;
    Decr => numbers::decr;
    Incrby => numbers::incrby;
    Decrby => numbers::decrby;
    Incrbyfloat => numbers::incrbyfloat;
    Increx => increx::increx;
    Lcs => lcs::lcs;
    Getlease => leases::getlease;
    Getbit => bits::getbit;
    Setbit => bits::setbit;
    Bitcount => bit_counts::bitcount;
    Bitpos => bit_counts::bitpos;
    Bitop => bit_operations::bitop;
    Bitfield BitfieldRo => bit_fields::bitfield;
    Pfadd => hyperloglog::pfadd;
    Pfcount => hyperloglog::pfcount;
    Pfmerge => hyperloglog::pfmerge;
    Del Unlink => keys::del;
    Exists => keys::exists;
    Touch => keys::touch;
    Type => keys::type_of;
    Wait => keys::wait;
    Waitaof => keys::wait_aof;
    Randomkey => scan::randomkey;
    Keys => listing::keys;
    Scan => scan::scan;
    Clusterscan => cluster_scan::scan;
    Expire => deadlines::expire;
    Pexpire => deadlines::pexpire;
    Expireat => deadlines::expireat;
    Pexpireat => deadlines::pexpireat;
    Ttl => deadlines::ttl;
    Pttl => deadlines::pttl;
    Expiretime => deadlines::expiretime;
    Pexpiretime => deadlines::pexpiretime;
    Persist => deadlines::persist;
    Rename => rename::rename;
    Renamenx => rename::renamenx;
    Copy => rename::copy;
    Move => rename::to_database;
    ObjectEncoding => object::encoding;
    ObjectFreq => object::freq;
    ObjectIdletime => object::idletime;
    ObjectRefcount => object::refcount;
    BlessSet => bless::set;
    BlessClear => bless::clear;
    BlessGet => bless::get;
    BlessScan => bless::scan;
    Dump => dumps::dump;
    Restore => restore::restore;
    Sort SortRo => sort::sort;
    Invalidate => leases::invalidate;
    Hset Hmset => hashes::hset;
    Hsetnx => hashes::hsetnx;
    Hget => hashes::hget;
    Hmget => hashes::hmget;
    Hgetall Hkeys Hvals => hashes::hgetall;
    Hdel => hashes::hdel;
    Hexists => hashes::hexists;
    Hlen => hashes::hlen;
    Hstrlen => hashes::hstrlen;
    Hincrby => hashes::hincrby;
    Hincrbyfloat => hashes::hincrbyfloat;
    Hrandfield => hashes::hrandfield;
    Hscan => hashes::hscan;
    Hexpire Hpexpire Hexpireat Hpexpireat => hash_expiry::hexpire;
    Httl Hpttl Hexpiretime Hpexpiretime => hash_expiry::httl;
    Hpersist => hash_expiry::hpersist;
    Hgetex => hash_expiry::hgetex;
    Hsetex => hash_expiry::hsetex;
    Hgetdel => hash_expiry::hgetdel;
    Sadd => sets::sadd;
    Srem => sets::srem;
    Smembers => sets::smembers;
    Sismember => sets::sismember;
    Smismember => sets::smismember;
    Scard => sets::scard;
    Spop => sets::spop;
    Srandmember => sets::srandmember;
    Smove => sets::smove;
    Sexpire Spexpire Sexpireat Spexpireat => set_expiry::sexpire;
    Sttl Spttl Sexpiretime Spexpiretime => set_expiry::sttl;
    Spersist => set_expiry::spersist;
    Saddex => set_expiry::saddex;
    Sscan => sets::sscan;
    Sunion Sinter Sdiff => set_algebra::answer;
    Sunionstore Sinterstore Sdiffstore => set_algebra::store;
    Sintercard Sunioncard Sdiffcard => set_algebra::count;
    Zadd => sorted_sets::zadd;
    Zincrby => sorted_sets::zincrby;
    Zrem => sorted_sets::zrem;
    Zscore => sorted_sets::zscore;
    Zmscore => sorted_sets::zmscore;
    Zcard => sorted_sets::zcard;
    Zrank Zrevrank => sorted_sets::zrank;
    Zrandmember => sorted_sets::zrandmember;
    Zscan => sorted_sets::zscan;
    Zunion Zinter Zdiff => sorted_algebra::answer;
    Zunionstore Zinterstore Zdiffstore => sorted_algebra::store;
    Zrangestore => sorted_algebra::zrangestore;
    Zintercard => sorted_algebra::zintercard;
    Zmpop => sorted_ranges::zmpop;
    Zmove => sorted_moves::zmove;
    Zmovemember => sorted_moves::zmovemember;
    Zpopmin Zpopmax => sorted_ranges::zpop;
    Zcount Zlexcount => sorted_ranges::zcount;
    Zrange Zrevrange Zrangebyscore Zrevrangebyscore Zrangebylex Zrevrangebylex
        => sorted_ranges::zrange;
    Zremrangebyrank Zremrangebyscore Zremrangebylex => sorted_ranges::zremrange;
    Geoadd => geo::geoadd;
    Geopos => geo::geopos;
    Geodist => geo::geodist;
    Geohash => geo::geohash;
    Geosearch Geosearchstore Georadius GeoradiusRo Georadiusbymember GeoradiusbymemberRo
        => geo_search::search;
    Lpush Rpush Lpushx Rpushx => lists::push;
    Lpop Rpop => lists::pop;
    Llen => lists::llen;
    Lindex => lists::lindex;
    Lrange => lists::lrange;
    Ltrim => lists::ltrim;
    Lset => lists::lset;
    Linsert => lists::linsert;
    Lrem => lists::lrem;
    Lpos => lists::lpos;
    Lmove Rpoplpush => list_moves::lmove;
    Lmovem => list_moves::lmovem;
    Lmpop => list_moves::lmpop;
    Blpop Brpop Blmove Blmovem Brpoplpush Blmpop Bzpopmin Bzpopmax Bzmpop Bzmove
        => waiting::wait_for;
    Subscribe => channels::subscribe;
    Unsubscribe => channels::unsubscribe;
    Psubscribe => channels::psubscribe;
    Punsubscribe => channels::punsubscribe;
    Ssubscribe => channels::ssubscribe;
    Sunsubscribe => channels::sunsubscribe;
    Publish Spublish => channels::publish;
    PubsubChannels PubsubShardchannels => channels::channels;
    PubsubNumsub PubsubShardnumsub => channels::numsub;
    PubsubNumpat => channels::numpat;
    Multi => transaction::multi;
    Exec => transaction::exec;
    Discard => transaction::discard;
    Watch => transaction::watch;
    Unwatch => transaction::unwatch;
    Ping => echo::ping;
    Echo => echo::echo;
    Select => connection::select;
    Hello => connection::hello;
    Auth => connection::auth;
    Quit => connection::quit;
    Reset => connection::reset;
    ClientId => client::id;
    ClientInfo => client::info;
    ClientList => client::list;
    ClientKill => client::kill;
    ClientSetname => client::setname;
    ClientGetname => client::getname;
    ClientSetinfo => client::setinfo;
    ClientReply => client::reply;
    ClientNoEvict => client::no_evict;
    ClientNoTouch => client::no_touch;
    ClientCapa => client::capa;
    ClientPause => pausing::pause;
    ClientUnpause => pausing::unpause;
    ClientUnblock => client::unblock;
    ClientTracking => tracking::tracking;
    ClientCaching => tracking::caching;
    ClientGetredir => tracking::getredir;
    ClientTrackinginfo => tracking::trackinginfo;
    Eval EvalRo => scripts::eval;
    Evalsha EvalshaRo => scripts::evalsha;
    ScriptLoad => scripts::load;
    ScriptExists => scripts::exists;
    ScriptShow => scripts::show;
    ScriptFlush => scripts::flush;
    ScriptKill FunctionKill => scripts::kill;
    Fcall FcallRo => scripts::functions::fcall;
    FunctionLoad => scripts::functions::load;
    FunctionDelete => scripts::functions::delete;
    FunctionDump => scripts::functions::dump;
    FunctionRestore => scripts::functions::restore;
    FunctionFlush => scripts::functions::flush;
    FunctionList => scripts::functions::list;
    FunctionStats => scripts::functions::stats;
    Dbsize => flush::dbsize;
    Flushall => flush::flushall;
    Flushdb => flush::flushdb;
    Swapdb => flush::swapdb;
    Info => admin::info::info;
    ConfigGet => admin::config::get;
    ConfigSet => admin::config::set;
    ConfigResetstat => admin::config::reset;
    ConfigRewrite => admin::config::rewrite;
    Command CommandInfo => admin::commands::info;
    CommandCount => admin::commands::count;
    CommandDocs => admin::commands::docs;
    CommandList => admin::commands::list;
    CommandGetkeys => admin::commands::keys;
    CommandGetkeysandflags => admin::commands::keys_and_flags;
    MemoryDoctor => admin::memory::doctor;
    MemoryPurge => admin::memory::purge;
    MemoryStats => admin::memory::stats;
    MemoryUsage => admin::memory::usage;
    SlowlogGet => admin::slow::get;
    SlowlogLen => admin::slow::len;
    SlowlogReset => admin::slow::reset;
    LatencyDoctor => admin::latency::doctor;
    LatencyGraph => admin::latency::graph;
    LatencyHistogram => admin::latency::histogram;
    LatencyHistory => admin::latency::history;
    LatencyLatest => admin::latency::latest;
    LatencyReset => admin::latency::reset;
    AclCat => admin::acl::categories;
    AclDryrun => admin::acl::dry_run;
    AclLog => admin::acl::log;
    AclGetuser => admin::acl::user;
    AclList => admin::acl::list;
    AclUsers => admin::acl::users;
    AclWhoami => admin::acl::who_am_i;
    Debug => admin::debug::debug;
    CommandlogGet => admin::slow::get_typed;
    CommandlogLen => admin::slow::len_typed;
    CommandlogReset => admin::slow::reset_typed;
    HotkeysStart => admin::hot_keys::start;
    HotkeysStop => admin::hot_keys::stop;
    HotkeysGet => admin::hot_keys::get;
    HotkeysReset => admin::hot_keys::reset;
    ModuleList => admin::unsupported::modules;
    Replicaof Slaveof => admin::unsupported::replica_of;
    Failover => admin::unsupported::failover;
    Lolwut => admin::lolwut;
    Monitor => admin::monitor;
    Time => admin::time;
    Lastsave => admin::last_save;
    Role => admin::role;
    Shutdown => admin::shutdown;
    ClusterInfo => admin::cluster::info;
    ClusterKeyslot => admin::cluster::key_slot;
    ClusterMyid ClusterMyshardid => admin::cluster::my_id;
    ClusterNodes => admin::cluster::nodes;
    ClusterShards => admin::cluster::shards;
    ClusterSlots => admin::cluster::slots;
    ClusterLinks => admin::cluster::links;
    ClusterCountkeysinslot => admin::cluster::count_keys;
    ClusterGetkeysinslot => admin::cluster::keys;
    Readonly Readwrite Asking => admin::cluster::accepted;
    ObjectHelp PubsubHelp ScriptHelp FunctionHelp ClientHelp AclHelp ClusterHelp CommandHelp
    ConfigHelp LatencyHelp MemoryHelp SlowlogHelp ModuleHelp CommandlogHelp HotkeysHelp
        => help::help;
    Object Pubsub Script Function Client Acl Cluster Config Latency Memory Slowlog Module Commandlog
    Hotkeys Bless
        => container;
}

/// Answers a container without a subcommand.
fn container(call: &mut Call<'_>) -> Outcome {
    Err(super::unknown(call.args))
}
