//! Tips: how a client of a cluster sends a command to several nodes, and joins their replies.
//!
//! Source: `COMMAND INFO` of Valkey 9.1, redis.io/docs/latest/develop/reference/command-tips. The
//! commands that only this server has carry none.

use cellar_protocol::resp::Verb;

/// The words of one command.
pub(super) type TipWords = &'static [&'static str];

const VARIES: &str = "nondeterministic_output";
const VARIES_IN_ORDER: &str = "nondeterministic_output_order";
const ALL_NODES: &str = "request_policy:all_nodes";
const ALL_SHARDS: &str = "request_policy:all_shards";
const MULTI_SHARD: &str = "request_policy:multi_shard";
const SPECIAL_REQUEST: &str = "request_policy:special";
const SPECIAL_RESPONSE: &str = "response_policy:special";
const SUM: &str = "response_policy:agg_sum";
const ALL_SUCCEEDED: &str = "response_policy:all_succeeded";
const ONE_SUCCEEDED: &str = "response_policy:one_succeeded";

/// The tips about a command.
pub(super) fn of(verb: Verb) -> TipWords {
    match verb {
        Verb::Mget => &[MULTI_SHARD],
        Verb::Mset | Verb::Msetex => &[MULTI_SHARD, ALL_SUCCEEDED],
        Verb::Del | Verb::Unlink | Verb::Exists | Verb::Touch => &[MULTI_SHARD, SUM],
        Verb::Dbsize => &[ALL_SHARDS, SUM],
        Verb::Keys => &[ALL_SHARDS, VARIES_IN_ORDER],
        Verb::Randomkey => &[ALL_SHARDS, SPECIAL_RESPONSE, VARIES],
        Verb::Scan | Verb::Clusterscan => &[VARIES, SPECIAL_REQUEST, SPECIAL_RESPONSE],
        Verb::Wait | Verb::Waitaof => &[ALL_SHARDS, "response_policy:agg_min"],
        Verb::Ping
        | Verb::Flushall
        | Verb::Flushdb
        | Verb::FunctionFlush
        | Verb::FunctionLoad
        | Verb::FunctionDelete
        | Verb::FunctionRestore
        | Verb::MemoryPurge => &[ALL_SHARDS, ALL_SUCCEEDED],
        Verb::ScriptExists => &[ALL_SHARDS, "response_policy:agg_logical_and"],
        Verb::ScriptKill | Verb::FunctionKill => &[ALL_SHARDS, ONE_SUCCEEDED],
        Verb::ScriptLoad
        | Verb::ScriptFlush
        | Verb::SlowlogReset
        | Verb::CommandlogReset
        | Verb::ConfigSet
        | Verb::ConfigResetstat
        | Verb::ConfigRewrite
        | Verb::ClientSetname
        | Verb::ClientSetinfo => &[ALL_NODES, ALL_SUCCEEDED],
        verb => of_output(verb),
    }
}

/// The tips of commands whose replies differ from call to call or from node to node.
fn of_output(verb: Verb) -> TipWords {
    match verb {
        Verb::Info | Verb::MemoryDoctor | Verb::MemoryStats | Verb::FunctionStats => {
            &[VARIES, ALL_SHARDS, SPECIAL_RESPONSE]
        }
        Verb::LatencyDoctor
        | Verb::LatencyGraph
        | Verb::LatencyHistogram
        | Verb::LatencyHistory
        | Verb::LatencyLatest => &[VARIES, ALL_NODES, SPECIAL_RESPONSE],
        Verb::LatencyReset => &[ALL_NODES, SUM],
        Verb::SlowlogGet | Verb::CommandlogGet => &[ALL_NODES, VARIES],
        Verb::SlowlogLen | Verb::CommandlogLen => &[ALL_NODES, SUM, VARIES],
        Verb::Command
        | Verb::CommandDocs
        | Verb::CommandInfo
        | Verb::CommandList
        | Verb::FunctionList
        | Verb::ModuleList
        | Verb::Hgetall
        | Verb::Hkeys
        | Verb::Hvals
        | Verb::Sdiff
        | Verb::Sinter
        | Verb::Sunion
        | Verb::Smembers => &[VARIES_IN_ORDER],
        Verb::ClientInfo
        | Verb::ClientList
        | Verb::ClusterInfo
        | Verb::ClusterNodes
        | Verb::ClusterShards
        | Verb::ClusterSlots
        | Verb::ClusterMyshardid
        | Verb::ClusterLinks
        | Verb::ClusterGetkeysinslot
        | Verb::Dump
        | Verb::Ttl
        | Verb::Pttl
        | Verb::Hrandfield
        | Verb::Hscan
        | Verb::Lastsave
        | Verb::ObjectEncoding
        | Verb::ObjectFreq
        | Verb::ObjectIdletime
        | Verb::ObjectRefcount
        | Verb::Spop
        | Verb::Srandmember
        | Verb::Sscan
        | Verb::Time
        | Verb::Zrandmember
        | Verb::Zscan => &[VARIES],
        _ => &[],
    }
}
