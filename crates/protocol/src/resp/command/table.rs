//! The rows of the table of commands.
//!
//! What a row is made of: rows.rs. Arity, flags and keys are those that Redis 7.4 reports; commands
//! that only later versions, Valkey or this server have follow the same rules.

use super::{Command, Flags, Group, Keys};

commands! {
    Get "get" 2 [READONLY FAST] ONE String "1.0.0" "Reads a string.";
    Set "set" -3 [WRITE DENYOOM] ONE String "1.0.0"
        "Stores a string, with conditions and a deadline.";
    Mget "mget" -2 [READONLY FAST] ALL String "1.0.0" "Reads several strings.";
    Mset "mset" -3 [WRITE DENYOOM] PAIRS String "1.0.1" "Stores several strings.";
    Msetnx "msetnx" -3 [WRITE DENYOOM] PAIRS String "1.0.1"
        "Stores several strings if none of the keys exists.";
    Msetex "msetex" -4 [WRITE DENYOOM MOVABLEKEYS] COUNTED_PAIRS String "8.4.0"
        "Stores several strings with one condition and deadline.";
    Setex "setex" 4 [WRITE DENYOOM] ONE String "2.0.0" "Stores a string with a TTL in seconds.";
    Psetex "psetex" 4 [WRITE DENYOOM] ONE String "2.6.0"
        "Stores a string with a TTL in milliseconds.";
    Setnx "setnx" 3 [WRITE DENYOOM FAST] ONE String "1.0.0"
        "Stores a string if the key does not exist.";
    Getset "getset" 3 [WRITE DENYOOM FAST] ONE String "1.0.0"
        "Stores a string and returns the old one.";
    Getdel "getdel" 2 [WRITE FAST] ONE String "6.2.0" "Reads a string and removes it.";
    Getex "getex" -2 [WRITE FAST] ONE String "6.2.0" "Reads a string and changes its deadline.";
    Append "append" 3 [WRITE DENYOOM FAST] ONE String "2.0.0" "Appends bytes to a string.";
    Strlen "strlen" 2 [READONLY FAST] ONE String "2.2.0" "Returns the length of a string.";
    Getrange "getrange" 4 [READONLY] ONE String "2.4.0" "Reads a part of a string.";
    Substr "substr" 4 [READONLY] ONE String "1.0.0"
        "Reads a part of a string; older name of GETRANGE.";
    Setrange "setrange" 4 [WRITE DENYOOM] ONE String "2.2.0" "Overwrites a part of a string.";
    Incr "incr" 2 [WRITE DENYOOM FAST] ONE String "1.0.0" "Adds one to a number.";
    Decr "decr" 2 [WRITE DENYOOM FAST] ONE String "1.0.0" "Subtracts one from a number.";
    Incrby "incrby" 3 [WRITE DENYOOM FAST] ONE String "1.0.0" "Adds to a number.";
    Decrby "decrby" 3 [WRITE DENYOOM FAST] ONE String "1.0.0" "Subtracts from a number.";
    Incrbyfloat "incrbyfloat" 3 [WRITE DENYOOM FAST] ONE String "2.6.0"
        "Adds to a number with decimals.";
    Increx "increx" -2 [WRITE DENYOOM FAST] ONE String "8.8.0"
        "Adds to a number within bounds, and gives it a deadline.";
    Lcs "lcs" -3 [READONLY] TWO String "7.0.0"
        "Finds the longest common subsequence of two strings.";
    Digest "digest" 2 [READONLY FAST] ONE String "8.4.0" "Hashes a string with XXH3.";
    Delifeq "delifeq" 3 [WRITE FAST] ONE String "9.0.0" "Removes a string if it has this value.";
    Delex "delex" -2 [WRITE FAST] ONE String "8.4.0"
        "Removes a key if its string meets a condition.";
    Getlease "getlease" -2 [WRITE DENYOOM FAST] ONE String "0.1.0"
        "Reads a string; on a miss one caller wins a lease to fill it.";
    Getbit "getbit" 3 [READONLY FAST] ONE Bitmap "2.2.0" "Reads one bit of a string.";
    Setbit "setbit" 4 [WRITE DENYOOM] ONE Bitmap "2.2.0" "Changes one bit of a string.";
    Bitcount "bitcount" -2 [READONLY] ONE Bitmap "2.6.0" "Counts the set bits of a string.";
    Bitpos "bitpos" -3 [READONLY] ONE Bitmap "2.8.7"
        "Finds the first bit of a string that is set or clear.";
    Bitop "bitop" -4 [WRITE DENYOOM] FROM_SECOND Bitmap "2.6.0"
        "Stores the result of a bitwise operation on strings.";
    Bitfield "bitfield" -2 [WRITE DENYOOM] ONE Bitmap "3.2.0"
        "Reads and changes integers of any width in a string.";
    BitfieldRo "bitfield_ro" -2 [READONLY FAST] ONE Bitmap "6.0.0"
        "Reads integers of any width in a string.";
    Pfadd "pfadd" -2 [WRITE DENYOOM FAST] ONE Hyperloglog "2.8.9" "Adds elements to a HyperLogLog.";
    Pfcount "pfcount" -2 [READONLY MAY_REPLICATE] ALL Hyperloglog "2.8.9"
        "Returns the approximate number of different elements in HyperLogLogs.";
    Pfmerge "pfmerge" -2 [WRITE DENYOOM] ALL Hyperloglog "2.8.9" "Merges HyperLogLogs into one.";
    Del "del" -2 [WRITE] ALL Generic "1.0.0" "Removes keys.";
    Unlink "unlink" -2 [WRITE FAST] ALL Generic "4.0.0" "Removes keys.";
    Exists "exists" -2 [READONLY FAST] ALL Generic "1.0.0" "Counts the existing keys.";
    Touch "touch" -2 [READONLY FAST] ALL Generic "3.2.1"
        "Counts the existing keys, and updates their access time.";
    Expire "expire" -3 [WRITE FAST] ONE Generic "1.0.0" "Sets a key's TTL in seconds.";
    Pexpire "pexpire" -3 [WRITE FAST] ONE Generic "2.6.0" "Sets a key's TTL in milliseconds.";
    Expireat "expireat" -3 [WRITE FAST] ONE Generic "1.2.0"
        "Sets a key's deadline as a Unix time in seconds.";
    Pexpireat "pexpireat" -3 [WRITE FAST] ONE Generic "2.6.0"
        "Sets a key's deadline as a Unix time in milliseconds.";
    Ttl "ttl" 2 [READONLY FAST] ONE Generic "1.0.0" "Returns a key's remaining TTL in seconds.";
    Pttl "pttl" 2 [READONLY FAST] ONE Generic "2.6.0"
        "Returns a key's remaining TTL in milliseconds.";
    Expiretime "expiretime" 2 [READONLY FAST] ONE Generic "7.0.0"
        "Returns a key's deadline in Unix seconds.";
    Pexpiretime "pexpiretime" 2 [READONLY FAST] ONE Generic "7.0.0"
        "Returns a key's deadline in Unix milliseconds.";
    Persist "persist" 2 [WRITE FAST] ONE Generic "2.2.0" "Removes a key's deadline.";
    Invalidate "invalidate" -2 [WRITE FAST] ONE Generic "0.1.0"
        "Marks a key as stale, or removes it.";
    Type "type" 2 [READONLY FAST] ONE Generic "1.0.0" "Returns the type of a key's value.";
    Rename "rename" 3 [WRITE] TWO Generic "1.0.0" "Renames a key.";
    Renamenx "renamenx" 3 [WRITE FAST] TWO Generic "1.0.0"
        "Renames a key if the new name does not exist.";
    Copy "copy" -3 [WRITE DENYOOM] TWO Generic "6.2.0" "Copies a value to another key.";
    Move "move" 3 [WRITE FAST] ONE Generic "1.0.0" "Moves a key to another database.";
    Sort "sort" -2 [WRITE DENYOOM MOVABLEKEYS DANGEROUS] ONE_AND_STORED_EARLY Generic "1.0.0"
        "Sorts a list, set or sorted set, and returns or stores the result.";
    SortRo "sort_ro" -2 [READONLY MOVABLEKEYS DANGEROUS] ONE Generic "7.0.0"
        "Sorts a list, set or sorted set, and returns the result.";
    Dump "dump" 2 [READONLY] ONE Generic "2.6.0" "Returns a serialized value for RESTORE.";
    Restore "restore" -4 [WRITE DENYOOM DANGEROUS] ONE Generic "2.6.0"
        "Stores a serialized value of DUMP.";
    Randomkey "randomkey" 1 [READONLY] NONE Generic "1.0.0" "Returns a random key.";
    Keys "keys" 2 [READONLY DANGEROUS] NONE Generic "1.0.0" "Lists the keys that match a pattern.";
    Scan "scan" -2 [READONLY] NONE Generic "2.8.0" "Lists keys in steps.";
    Clusterscan "clusterscan" -2 [READONLY] NONE Cluster "9.1.0" "Lists a cluster's keys in steps.";
    Wait "wait" 3 [BLOCKING] NONE Generic "3.0.0" "Returns 0; there are no replicas.";
    Waitaof "waitaof" 4 [BLOCKING] NONE Generic "7.2.0"
        "Returns 0 and 0; there is no append-only file and there are no replicas.";
    Object "object" -2 [] NONE Generic "2.2.3" "Returns the inner facts of a value." {
        ObjectEncoding "encoding" 3 [READONLY] SECOND Generic "2.2.3"
            "Returns the encoding of a value.";
        ObjectFreq "freq" 3 [READONLY] SECOND Generic "4.0.0"
            "Returns the access frequency of a key, 0 to 255.";
        ObjectIdletime "idletime" 3 [READONLY] SECOND Generic "2.2.3"
            "Returns the seconds since the last access of a key.";
        ObjectRefcount "refcount" 3 [READONLY] SECOND Generic "2.2.3"
            "Returns 1 for a key that exists.";
        ObjectHelp "help" 2 [LOADING STALE] NONE Generic "6.2.0" "Lists the subcommands.";
    };
    Hset "hset" -4 [WRITE DENYOOM FAST] ONE Hash "2.0.0" "Stores fields of a hash.";
    Hmset "hmset" -4 [WRITE DENYOOM FAST] ONE Hash "2.0.0"
        "Stores fields of a hash and returns OK.";
    Hsetnx "hsetnx" 4 [WRITE DENYOOM FAST] ONE Hash "2.0.0"
        "Stores a field of a hash if it does not exist.";
    Hget "hget" 3 [READONLY FAST] ONE Hash "2.0.0" "Reads a field of a hash.";
    Hmget "hmget" -3 [READONLY FAST] ONE Hash "2.0.0" "Reads several fields of a hash.";
    Hgetall "hgetall" 2 [READONLY] ONE Hash "2.0.0" "Reads all fields of a hash with their values.";
    Hkeys "hkeys" 2 [READONLY] ONE Hash "2.0.0" "Lists the fields of a hash.";
    Hvals "hvals" 2 [READONLY] ONE Hash "2.0.0" "Lists the values of a hash.";
    Hdel "hdel" -3 [WRITE FAST] ONE Hash "2.0.0" "Removes fields of a hash.";
    Hexists "hexists" 3 [READONLY FAST] ONE Hash "2.0.0" "Returns whether a hash has a field.";
    Hlen "hlen" 2 [READONLY FAST] ONE Hash "2.0.0" "Counts the fields of a hash.";
    Hstrlen "hstrlen" 3 [READONLY FAST] ONE Hash "3.2.0" "Returns the length of a field's value.";
    Hincrby "hincrby" 4 [WRITE DENYOOM FAST] ONE Hash "2.0.0" "Adds to the number in a field.";
    Hincrbyfloat "hincrbyfloat" 4 [WRITE DENYOOM FAST] ONE Hash "2.6.0"
        "Adds to the number with decimals in a field.";
    Hrandfield "hrandfield" -2 [READONLY] ONE Hash "6.2.0" "Returns random fields of a hash.";
    Hscan "hscan" -3 [READONLY] ONE Hash "2.8.0" "Lists the fields of a hash in steps.";
    Hexpire "hexpire" -6 [WRITE FAST] ONE Hash "7.4.0" "Sets the TTL of fields in seconds.";
    Hpexpire "hpexpire" -6 [WRITE FAST] ONE Hash "7.4.0" "Sets the TTL of fields in milliseconds.";
    Hexpireat "hexpireat" -6 [WRITE FAST] ONE Hash "7.4.0"
        "Sets the deadline of fields as a Unix time in seconds.";
    Hpexpireat "hpexpireat" -6 [WRITE FAST] ONE Hash "7.4.0"
        "Sets the deadline of fields as a Unix time in milliseconds.";
    Httl "httl" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the remaining TTL of fields in seconds.";
    Hpttl "hpttl" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the remaining TTL of fields in milliseconds.";
    Hexpiretime "hexpiretime" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the deadlines of fields in Unix seconds.";
    Hpexpiretime "hpexpiretime" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the deadlines of fields in Unix milliseconds.";
    Hpersist "hpersist" -5 [WRITE FAST] ONE Hash "7.4.0" "Removes the deadlines of fields.";
    Hgetex "hgetex" -5 [WRITE FAST] ONE Hash "8.0.0" "Reads fields and changes their deadlines.";
    Hsetex "hsetex" -6 [WRITE DENYOOM FAST] ONE Hash "8.0.0"
        "Stores fields with one condition and deadline.";
    Hgetdel "hgetdel" -5 [WRITE FAST] ONE Hash "8.0.0" "Reads fields and removes them.";
    Sadd "sadd" -3 [WRITE DENYOOM FAST] ONE Set "1.0.0" "Adds members to a set.";
    Srem "srem" -3 [WRITE FAST] ONE Set "1.0.0" "Removes members of a set.";
    Smembers "smembers" 2 [READONLY] ONE Set "1.0.0" "Lists the members of a set.";
    Sismember "sismember" 3 [READONLY FAST] ONE Set "1.0.0" "Returns whether a set has a member.";
    Smismember "smismember" -3 [READONLY FAST] ONE Set "6.2.0" "Returns which members a set has.";
    Scard "scard" 2 [READONLY FAST] ONE Set "1.0.0" "Counts the members of a set.";
    Spop "spop" -2 [WRITE FAST] ONE Set "1.0.0" "Removes and returns random members.";
    Srandmember "srandmember" -2 [READONLY] ONE Set "1.0.0" "Returns random members.";
    Smove "smove" 4 [WRITE FAST] TWO Set "1.0.0" "Moves a member to another set.";
    Saddex "saddex" -5 [WRITE DENYOOM FAST] ONE Set "8.12.0" "Adds members with a TTL.";
    Sexpire "sexpire" -6 [WRITE FAST] ONE Set "8.12.0" "Sets the TTL of members in seconds.";
    Spexpire "spexpire" -6 [WRITE FAST] ONE Set "8.12.0" "Sets the TTL of members in milliseconds.";
    Sexpireat "sexpireat" -6 [WRITE FAST] ONE Set "8.12.0"
        "Sets when members expire, as a Unix time in seconds.";
    Spexpireat "spexpireat" -6 [WRITE FAST] ONE Set "8.12.0"
        "Sets when members expire, as a Unix time in milliseconds.";
    Sttl "sttl" -5 [READONLY FAST] ONE Set "8.12.0" "Returns the TTL of members in seconds.";
    Spttl "spttl" -5 [READONLY FAST] ONE Set "8.12.0" "Returns the TTL of members in milliseconds.";
    Sexpiretime "sexpiretime" -5 [READONLY FAST] ONE Set "8.12.0"
        "Returns when members expire, as a Unix time in seconds.";
    Spexpiretime "spexpiretime" -5 [READONLY FAST] ONE Set "8.12.0"
        "Returns when members expire, as a Unix time in milliseconds.";
    Spersist "spersist" -5 [WRITE FAST] ONE Set "8.12.0" "Removes the deadlines of members.";
    Sscan "sscan" -3 [READONLY] ONE Set "2.8.0" "Lists the members of a set in steps.";
    Sunion "sunion" -2 [READONLY] ALL Set "1.0.0" "Lists the members of any of the sets.";
    Sinter "sinter" -2 [READONLY] ALL Set "1.0.0" "Lists the members of all of the sets.";
    Sdiff "sdiff" -2 [READONLY] ALL Set "1.0.0" "Lists the members of the first set only.";
    Sunionstore "sunionstore" -3 [WRITE DENYOOM] ALL Set "1.0.0"
        "Stores the members of any of the sets.";
    Sinterstore "sinterstore" -3 [WRITE DENYOOM] ALL Set "1.0.0"
        "Stores the members of all of the sets.";
    Sdiffstore "sdiffstore" -3 [WRITE DENYOOM] ALL Set "1.0.0"
        "Stores the members of the first set only.";
    Sintercard "sintercard" -3 [READONLY MOVABLEKEYS] COUNTED Set "7.0.0"
        "Counts the members of all of the sets.";
    Sunioncard "sunioncard" -3 [READONLY MOVABLEKEYS] COUNTED Set "8.10.0"
        "Counts the members of any of the sets.";
    Sdiffcard "sdiffcard" -3 [READONLY MOVABLEKEYS] COUNTED Set "8.10.0"
        "Counts the members of the first set only.";
    Lpush "lpush" -3 [WRITE DENYOOM FAST] ONE List "1.0.0" "Prepends elements to a list.";
    Rpush "rpush" -3 [WRITE DENYOOM FAST] ONE List "1.0.0" "Appends elements to a list.";
    Lpushx "lpushx" -3 [WRITE DENYOOM FAST] ONE List "2.2.0" "Prepends to an existing list.";
    Rpushx "rpushx" -3 [WRITE DENYOOM FAST] ONE List "2.2.0" "Appends to an existing list.";
    Lpop "lpop" -2 [WRITE FAST] ONE List "1.0.0" "Removes and returns the first elements.";
    Rpop "rpop" -2 [WRITE FAST] ONE List "1.0.0" "Removes and returns the last elements.";
    Llen "llen" 2 [READONLY FAST] ONE List "1.0.0" "Counts the elements of a list.";
    Lindex "lindex" 3 [READONLY] ONE List "1.0.0" "Returns the element at an index.";
    Lrange "lrange" 4 [READONLY] ONE List "1.0.0" "Returns the elements between two indexes.";
    Ltrim "ltrim" 4 [WRITE] ONE List "1.0.0" "Trims a list to a range.";
    Lset "lset" 4 [WRITE DENYOOM] ONE List "1.0.0" "Sets the element at an index.";
    Linsert "linsert" 5 [WRITE DENYOOM] ONE List "2.2.0" "Inserts an element beside another.";
    Lrem "lrem" 4 [WRITE] ONE List "1.0.0" "Removes elements equal to a value.";
    Lpos "lpos" -3 [READONLY] ONE List "6.0.6" "Returns the indexes of elements equal to a value.";
    Lmove "lmove" 5 [WRITE DENYOOM] TWO List "6.2.0" "Moves an element to another list.";
    Lmovem "lmovem" -5 [WRITE DENYOOM] TWO List "8.10.0" "Moves elements to another list.";
    Rpoplpush "rpoplpush" 3 [WRITE DENYOOM] TWO List "1.2.0"
        "Moves the last element of a list to the head of another.";
    Lmpop "lmpop" -4 [WRITE MOVABLEKEYS] COUNTED List "7.0.0"
        "Removes and returns elements of the first non-empty list.";
    Blpop "blpop" -3 [WRITE BLOCKING] ALL_BUT_LAST List "2.0.0"
        "Removes and returns the first element of the first non-empty list, or blocks.";
    Brpop "brpop" -3 [WRITE BLOCKING] ALL_BUT_LAST List "2.0.0"
        "Removes and returns the last element of the first non-empty list, or blocks.";
    Blmove "blmove" 6 [WRITE DENYOOM BLOCKING] TWO List "6.2.0"
        "Moves an element to another list, or blocks.";
    Blmovem "blmovem" -6 [WRITE DENYOOM BLOCKING] TWO List "8.10.0"
        "Moves elements to another list, or blocks.";
    Brpoplpush "brpoplpush" 4 [WRITE DENYOOM BLOCKING] TWO List "2.2.0"
        "Moves the last element of a list to the head of another, or blocks.";
    Blmpop "blmpop" -5 [WRITE BLOCKING MOVABLEKEYS] COUNTED_SECOND List "7.0.0"
        "Removes and returns elements of the first non-empty list, or blocks.";
    Zadd "zadd" -4 [WRITE DENYOOM FAST] ONE SortedSet "1.2.0"
        "Adds members with scores, or changes scores.";
    Zrem "zrem" -3 [WRITE FAST] ONE SortedSet "1.2.0" "Removes members of a sorted set.";
    Zscore "zscore" 3 [READONLY FAST] ONE SortedSet "1.2.0" "Returns a member's score.";
    Zmscore "zmscore" -3 [READONLY FAST] ONE SortedSet "6.2.0"
        "Returns the scores of several members.";
    Zcard "zcard" 2 [READONLY FAST] ONE SortedSet "1.2.0" "Counts the members of a sorted set.";
    Zcount "zcount" 4 [READONLY FAST] ONE SortedSet "2.0.0"
        "Counts the members with scores in a range.";
    Zincrby "zincrby" 4 [WRITE DENYOOM FAST] ONE SortedSet "1.2.0" "Adds to a member's score.";
    Zrank "zrank" -3 [READONLY FAST] ONE SortedSet "2.0.0"
        "Returns a member's rank, lowest score first.";
    Zrevrank "zrevrank" -3 [READONLY FAST] ONE SortedSet "2.0.0"
        "Returns a member's rank, highest score first.";
    Zrange "zrange" -4 [READONLY] ONE SortedSet "1.2.0"
        "Lists members by rank, score or lexicographical order.";
    Zrevrange "zrevrange" -4 [READONLY] ONE SortedSet "1.2.0"
        "Lists members by rank, highest score first.";
    Zrangebyscore "zrangebyscore" -4 [READONLY] ONE SortedSet "1.0.5" "Lists members by score.";
    Zrevrangebyscore "zrevrangebyscore" -4 [READONLY] ONE SortedSet "2.2.0"
        "Lists members by score, highest first.";
    Zrangebylex "zrangebylex" -4 [READONLY] ONE SortedSet "2.8.9"
        "Lists members in lexicographical order.";
    Zrevrangebylex "zrevrangebylex" -4 [READONLY] ONE SortedSet "2.8.9"
        "Lists members in reverse lexicographical order.";
    Zlexcount "zlexcount" 4 [READONLY FAST] ONE SortedSet "2.8.9"
        "Counts the members in a lexicographical range.";
    Zremrangebyscore "zremrangebyscore" 4 [WRITE] ONE SortedSet "1.2.0" "Removes members by score.";
    Zremrangebyrank "zremrangebyrank" 4 [WRITE] ONE SortedSet "2.0.0" "Removes members by rank.";
    Zremrangebylex "zremrangebylex" 4 [WRITE] ONE SortedSet "2.8.9"
        "Removes members in a lexicographical range.";
    Zpopmin "zpopmin" -2 [WRITE FAST] ONE SortedSet "5.0.0"
        "Removes and returns the members with the lowest scores.";
    Zpopmax "zpopmax" -2 [WRITE FAST] ONE SortedSet "5.0.0"
        "Removes and returns the members with the highest scores.";
    Zrandmember "zrandmember" -2 [READONLY] ONE SortedSet "6.2.0" "Returns random members.";
    Zscan "zscan" -3 [READONLY] ONE SortedSet "2.8.0" "Lists members and scores in steps.";
    Zrangestore "zrangestore" -5 [WRITE DENYOOM] TWO SortedSet "6.2.0"
        "Stores members selected by rank, score or lexicographical order.";
    Zmpop "zmpop" -4 [WRITE MOVABLEKEYS] COUNTED SortedSet "7.0.0"
        "Removes and returns members of the first non-empty sorted set.";
    Bzpopmin "bzpopmin" -3 [WRITE FAST BLOCKING] ALL_BUT_LAST SortedSet "5.0.0"
        "Removes and returns the lowest member of the first non-empty sorted set, or blocks.";
    Bzpopmax "bzpopmax" -3 [WRITE FAST BLOCKING] ALL_BUT_LAST SortedSet "5.0.0"
        "Removes and returns the highest member of the first non-empty sorted set, or blocks.";
    Bzmpop "bzmpop" -5 [WRITE BLOCKING MOVABLEKEYS] COUNTED_SECOND SortedSet "7.0.0"
        "Removes and returns members of the first non-empty sorted set, or blocks.";
    Zunion "zunion" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "6.2.0"
        "Lists the members of any of the sorted sets.";
    Zinter "zinter" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "6.2.0"
        "Lists the members of all of the sorted sets.";
    Zdiff "zdiff" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "6.2.0"
        "Lists the members of the first sorted set only.";
    Zintercard "zintercard" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "7.0.0"
        "Counts the members of all of the sorted sets.";
    Zunionstore "zunionstore" -4 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_COUNTED SortedSet "2.0.0"
        "Stores the members of any of the sorted sets.";
    Zinterstore "zinterstore" -4 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_COUNTED SortedSet "2.0.0"
        "Stores the members of all of the sorted sets.";
    Zdiffstore "zdiffstore" -4 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_COUNTED SortedSet "6.2.0"
        "Stores the members of the first sorted set only.";
    Geoadd "geoadd" -5 [WRITE DENYOOM] ONE Geo "3.2.0"
        "Adds members to a sorted set by their longitude and latitude.";
    Geopos "geopos" -2 [READONLY] ONE Geo "3.2.0" "Returns the positions of members.";
    Geodist "geodist" -4 [READONLY] ONE Geo "3.2.0" "Returns the distance between two members.";
    Geohash "geohash" -2 [READONLY] ONE Geo "3.2.0" "Returns the geohashes of members.";
    Geosearch "geosearch" -7 [READONLY] ONE Geo "6.2.0"
        "Lists members within a radius, a box or a polygon.";
    Geosearchstore "geosearchstore" -8 [WRITE DENYOOM] TWO Geo "6.2.0"
        "Stores members within a radius, a box or a polygon.";
    Georadius "georadius" -6 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_STORED Geo "3.2.0"
        "Lists or stores members within a radius of a position.";
    GeoradiusRo "georadius_ro" -6 [READONLY] ONE Geo "3.2.10"
        "Lists members within a radius of a position.";
    Georadiusbymember "georadiusbymember" -5 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_STORED_EARLIER
        Geo "3.2.0" "Lists or stores members within a radius of a member.";
    GeoradiusbymemberRo "georadiusbymember_ro" -5 [READONLY] ONE Geo "3.2.10"
        "Lists members within a radius of a member.";
    Subscribe "subscribe" -2 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Subscribes to channels.";
    Unsubscribe "unsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Unsubscribes from channels.";
    Psubscribe "psubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Subscribes to channels that match patterns.";
    Punsubscribe "punsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Unsubscribes from patterns.";
    Publish "publish" 3 [PUBSUB LOADING STALE FAST MAY_REPLICATE] NONE Pubsub "2.0.0"
        "Publishes a message to a channel.";
    Ssubscribe "ssubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE] ALL Pubsub "7.0.0"
        "Subscribes to shard channels.";
    Sunsubscribe "sunsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE] ALL Pubsub "7.0.0"
        "Unsubscribes from shard channels.";
    Spublish "spublish" 3 [PUBSUB LOADING STALE FAST MAY_REPLICATE] ONE Pubsub "7.0.0"
        "Publishes a message to a shard channel.";
    Pubsub "pubsub" -2 [] NONE Pubsub "2.8.0" "Returns who listens." {
        PubsubChannels "channels" -2 [PUBSUB LOADING STALE] NONE Pubsub "2.8.0"
            "Lists the active channels.";
        PubsubNumsub "numsub" -2 [PUBSUB LOADING STALE] NONE Pubsub "2.8.0"
            "Counts the subscribers of channels.";
        PubsubNumpat "numpat" 2 [PUBSUB LOADING STALE] NONE Pubsub "2.8.0"
            "Counts the subscribed patterns.";
        PubsubShardchannels "shardchannels" -2 [PUBSUB LOADING STALE] NONE Pubsub "7.0.0"
            "Lists the active shard channels.";
        PubsubShardnumsub "shardnumsub" -2 [PUBSUB LOADING STALE] NONE Pubsub "7.0.0"
            "Counts the subscribers of shard channels.";
        PubsubHelp "help" 2 [LOADING STALE] NONE Pubsub "6.2.0" "Lists the subcommands.";
    };
    Multi "multi" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NONE Transactions "1.2.0"
        "Begins a transaction.";
    Exec "exec" 1 [NOSCRIPT LOADING STALE SKIP_SLOWLOG] NONE Transactions "1.2.0"
        "Executes a transaction atomically.";
    Discard "discard" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NONE Transactions "2.0.0"
        "Discards a transaction.";
    Watch "watch" -2 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] ALL Transactions "2.2.0"
        "Watches keys: the next transaction fails if one of them changes.";
    Unwatch "unwatch" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NONE Transactions "2.2.0"
        "Forgets the watched keys.";
    Eval "eval" -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "2.6.0" "Runs a script.";
    Evalsha "evalsha" -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "2.6.0" "Runs a script by its digest.";
    EvalRo "eval_ro" -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Runs a read-only script.";
    EvalshaRo "evalsha_ro" -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Runs a read-only script by its digest.";
    Script "script" -2 [] NONE Scripting "2.6.0" "Keeps scripts." {
        ScriptLoad "load" 3 [NOSCRIPT STALE] NONE Scripting "2.6.0"
            "Loads a script and returns its SHA1 digest.";
        ScriptExists "exists" -3 [NOSCRIPT] NONE Scripting "2.6.0"
        "Returns which scripts are loaded.";
        ScriptShow "show" 3 [NOSCRIPT STALE] NONE Scripting "8.0.0" "Returns a script's source.";
        ScriptFlush "flush" -2 [NOSCRIPT] NONE Scripting "2.6.0" "Deletes all scripts.";
        ScriptKill "kill" 2 [NOSCRIPT ALLOW_BUSY] NONE Scripting "2.6.0"
            "Stops the running script.";
        ScriptHelp "help" 2 [LOADING STALE] NONE Scripting "5.0.0" "Lists the subcommands.";
    };
    Fcall "fcall" -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Calls a function of a library.";
    FcallRo "fcall_ro" -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Calls a read-only function.";
    Function "function" -2 [] NONE Scripting "7.0.0" "Keeps libraries of functions." {
        FunctionLoad "load" -3 [WRITE DENYOOM NOSCRIPT] NONE Scripting "7.0.0"
            "Loads a library and returns its name.";
        FunctionDelete "delete" 3 [WRITE NOSCRIPT] NONE Scripting "7.0.0" "Deletes a library.";
        FunctionDump "dump" 2 [NOSCRIPT] NONE Scripting "7.0.0"
            "Returns all libraries serialized for RESTORE.";
        FunctionRestore "restore" -3 [WRITE DENYOOM NOSCRIPT] NONE Scripting "7.0.0"
            "Loads serialized libraries of DUMP.";
        FunctionList "list" -2 [NOSCRIPT] NONE Scripting "7.0.0" "Lists libraries.";
        FunctionStats "stats" 2 [NOSCRIPT ALLOW_BUSY] NONE Scripting "7.0.0"
            "Returns the number of libraries and functions.";
        FunctionFlush "flush" -2 [WRITE NOSCRIPT] NONE Scripting "7.0.0" "Deletes all libraries.";
        FunctionKill "kill" 2 [NOSCRIPT ALLOW_BUSY] NONE Scripting "7.0.0"
            "Returns that no function is running.";
        FunctionHelp "help" 2 [LOADING STALE] NONE Scripting "7.0.0" "Lists the subcommands.";
    };
    Hello "hello" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "6.0.0"
        "Chooses the protocol's version; may authenticate and name.";
    Auth "auth" -2 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "1.0.0"
        "Authenticates the connection.";
    Select "select" 2 [LOADING STALE FAST] NONE Connection "1.0.0"
        "Chooses the connection's database.";
    Ping "ping" -1 [FAST] NONE Connection "1.0.0" "Returns PONG, or the message.";
    Echo "echo" 2 [LOADING STALE FAST] NONE Connection "1.0.0" "Returns the message.";
    Quit "quit" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "1.0.0"
        "Closes the connection.";
    Reset "reset" 1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "6.2.0"
        "Resets the connection.";
    Client "client" -2 [] NONE Connection "2.4.0" "Shows and changes connections." {
        ClientCaching "caching" 3 [NOSCRIPT LOADING STALE] NONE Connection "6.0.0"
            "Sets whether the next request is tracked.";
        ClientCapa "capa" -3 [NOSCRIPT LOADING STALE] NONE Connection "8.0.0"
            "Announces capabilities of the client.";
        ClientGetname "getname" 2 [NOSCRIPT LOADING STALE] NONE Connection "2.6.9"
            "Returns the connection's name.";
        ClientGetredir "getredir" 2 [NOSCRIPT LOADING STALE] NONE Connection "6.0.0"
            "Returns the client that gets the invalidations.";
        ClientId "id" 2 [NOSCRIPT LOADING STALE] NONE Connection "5.0.0"
            "Returns the connection's number.";
        ClientInfo "info" 2 [NOSCRIPT LOADING STALE] NONE Connection "6.2.0"
            "Describes the connection.";
        ClientKill "kill" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "2.4.0"
            "Closes connections.";
        ClientList "list" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "2.4.0"
            "Describes all connections.";
        ClientNoEvict "no-evict" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "7.0.0"
            "Has the connection closed last when memory for clients is short.";
        ClientNoTouch "no-touch" 3 [NOSCRIPT LOADING STALE] NONE Connection "7.2.0"
            "Sets whether requests update the access time of keys.";
        ClientPause "pause" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "2.9.50"
            "Pauses the execution of requests.";
        ClientReply "reply" 3 [NOSCRIPT LOADING STALE] NONE Connection "3.2.0"
            "Turns replies on or off.";
        ClientSetinfo "setinfo" 4 [NOSCRIPT LOADING STALE] NONE Connection "7.2.0"
            "Sets the name or version of the client library.";
        ClientSetname "setname" 3 [NOSCRIPT LOADING STALE] NONE Connection "2.6.9"
            "Names the connection.";
        ClientTracking "tracking" -3 [NOSCRIPT LOADING STALE] NONE Connection "6.0.0"
            "Turns client-side caching (tracking) on or off.";
        ClientTrackinginfo "trackinginfo" 2 [NOSCRIPT LOADING STALE] NONE Connection "6.2.0"
            "Returns the tracking settings of the connection.";
        ClientUnblock "unblock" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "5.0.0"
            "Unblocks another connection.";
        ClientUnpause "unpause" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "6.2.0"
            "Ends a pause.";
        ClientHelp "help" 2 [LOADING STALE] NONE Connection "5.0.0" "Lists the subcommands.";
    };
    Acl "acl" -2 [] NONE Server "6.0.0" "Shows users and their rights." {
        AclCat "cat" -2 [NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists the categories of commands, or the commands of one.";
        AclDryrun "dryrun" -4 [ADMIN NOSCRIPT LOADING STALE] NONE Server "7.0.0"
            "Checks whether a user may run a request.";
        AclGetuser "getuser" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Shows a user's rights.";
        AclList "list" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists the users with their rights.";
        AclLog "log" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists or deletes the log of refused requests.";
        AclUsers "users" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists the names of the users.";
        AclWhoami "whoami" 2 [NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Returns the connection's user.";
        AclHelp "help" 2 [LOADING STALE] NONE Server "6.0.0" "Lists the subcommands.";
    };
    Readonly "readonly" 1 [LOADING STALE FAST] NONE Cluster "3.0.0"
        "Returns OK on a node of a cluster; each key has only one node.";
    Readwrite "readwrite" 1 [LOADING STALE FAST] NONE Cluster "3.0.0"
        "Returns OK on a node of a cluster; each key has only one node.";
    Asking "asking" 1 [FAST] NONE Cluster "3.0.0"
        "Returns OK on a node of a cluster; no slot is being migrated.";
    Cluster "cluster" -2 [] NONE Cluster "3.0.0" "Returns which node keeps which keys." {
        ClusterInfo "info" 2 [STALE] NONE Cluster "3.0.0" "Shows the state of the cluster.";
        ClusterKeyslot "keyslot" 3 [STALE] NONE Cluster "3.0.0" "Returns a key's slot.";
        ClusterMyid "myid" 2 [STALE] NONE Cluster "3.0.0" "Returns this node's name.";
        ClusterNodes "nodes" 2 [STALE] NONE Cluster "3.0.0" "Lists the nodes.";
        ClusterShards "shards" 2 [STALE] NONE Cluster "7.0.0" "Lists the shards.";
        ClusterSlots "slots" 2 [STALE] NONE Cluster "3.0.0" "Lists the slots.";
        ClusterMyshardid "myshardid" 2 [STALE] NONE Cluster "7.2.0"
            "Returns the shard's id, which is this node's id.";
        ClusterLinks "links" 2 [STALE] NONE Cluster "7.0.0"
            "Lists the links between nodes, of which there are none.";
        ClusterCountkeysinslot "countkeysinslot" 3 [STALE] NONE Cluster "3.0.0"
            "Counts the keys in a slot.";
        ClusterGetkeysinslot "getkeysinslot" 4 [STALE] NONE Cluster "3.0.0" "Lists keys in a slot.";
        ClusterHelp "help" 2 [LOADING STALE] NONE Cluster "5.0.0" "Lists the subcommands.";
    };
    Command "command" -1 [LOADING STALE] NONE Server "2.8.13" "Describes all commands." {
        CommandCount "count" 2 [LOADING STALE] NONE Server "2.8.13" "Counts the commands.";
        CommandDocs "docs" -2 [LOADING STALE] NONE Server "7.0.0"
        "Returns documentation of commands.";
        CommandGetkeys "getkeys" -3 [LOADING STALE] NONE Server "2.8.13"
            "Lists the keys of a request.";
        CommandGetkeysandflags "getkeysandflags" -3 [LOADING STALE] NONE Server "7.0.0"
            "Lists the keys of a request and how they are accessed.";
        CommandInfo "info" -2 [LOADING STALE] NONE Server "2.8.13" "Describes commands.";
        CommandList "list" -2 [LOADING STALE] NONE Server "7.0.0" "Lists the names of commands.";
        CommandHelp "help" 2 [LOADING STALE] NONE Server "5.0.0" "Lists the subcommands.";
    };
    Config "config" -2 [] NONE Server "2.0.0" "Shows and changes settings." {
        ConfigGet "get" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.0.0" "Shows settings.";
        ConfigSet "set" -4 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.0.0" "Changes settings.";
        ConfigResetstat "resetstat" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.0.0"
            "Resets counters.";
        ConfigRewrite "rewrite" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.0"
            "Writes the settings file.";
        ConfigHelp "help" 2 [LOADING STALE] NONE Server "5.0.0" "Lists the subcommands.";
    };
    Dbsize "dbsize" 1 [READONLY FAST] NONE Server "1.0.0" "Counts the keys of the database.";
    Debug "debug" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "1.0.0" "Functions for tests.";
    Flushall "flushall" -1 [WRITE DANGEROUS] NONE Server "1.0.0"
        "Removes all keys of all databases.";
    Flushdb "flushdb" -1 [WRITE DANGEROUS] NONE Server "1.0.0" "Removes all keys of the database.";
    Info "info" -1 [LOADING STALE DANGEROUS] NONE Server "1.0.0" "Shows the server in sections.";
    Lastsave "lastsave" 1 [LOADING STALE FAST DANGEROUS] NONE Server "1.0.0"
        "Returns the start time of the server; nothing is saved.";
    Latency "latency" -2 [] NONE Server "2.8.13" "Shows slow events." {
        LatencyDoctor "doctor" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Explains the latency events.";
        LatencyGraph "graph" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Draws a graph of the latency events of one kind.";
        LatencyHistogram "histogram" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "7.0.0"
            "Shows how long commands take.";
        LatencyHistory "history" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Lists the latency events of one kind.";
        LatencyLatest "latest" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Lists the latest latency events.";
        LatencyReset "reset" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Deletes the latency events.";
        LatencyHelp "help" 2 [LOADING STALE] NONE Server "2.8.13" "Lists the subcommands.";
    };
    Memory "memory" -2 [] NONE Server "4.0.0" "Shows the use of memory." {
        MemoryDoctor "doctor" 2 [] NONE Server "4.0.0" "Explains the memory usage.";
        MemoryPurge "purge" 2 [] NONE Server "4.0.0"
        "Returns unused memory to the operating system.";
        MemoryStats "stats" 2 [] NONE Server "4.0.0" "Shows memory usage.";
        MemoryUsage "usage" -3 [READONLY] SECOND Server "4.0.0"
        "Returns the memory usage of a key in bytes.";
        MemoryHelp "help" 2 [LOADING STALE] NONE Server "4.0.0" "Lists the subcommands.";
    };
    Module "module" -2 [] NONE Server "4.0.0" "Shows modules." {
        ModuleList "list" 2 [ADMIN NOSCRIPT] NONE Server "4.0.0" "Lists the modules: none.";
        ModuleHelp "help" 2 [LOADING STALE] NONE Server "5.0.0" "Lists the subcommands.";
    };
    Replicaof "replicaof" 3 [ADMIN NOSCRIPT STALE] NONE Server "5.0.0" "Returns OK for NO ONE.";
    Slaveof "slaveof" 3 [ADMIN NOSCRIPT STALE] NONE Server "1.0.0" "Older name of REPLICAOF.";
    Failover "failover" -1 [ADMIN NOSCRIPT STALE] NONE Server "6.2.0"
        "Returns an error; there are no replicas.";
    Lolwut "lolwut" -1 [READONLY FAST] NONE Server "5.0.0" "Shows the version of the server.";
    Monitor "monitor" 1 [ADMIN NOSCRIPT LOADING STALE] NONE Server "1.0.0"
        "Shows each command of Redis's protocol as it runs.";
    Role "role" 1 [NOSCRIPT LOADING STALE FAST DANGEROUS] NONE Server "2.8.12"
        "Returns that this is a master without replicas.";
    Shutdown "shutdown" -1 [ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY] NONE Server "1.0.0"
        "Shuts down the server.";
    Slowlog "slowlog" -2 [] NONE Server "2.2.12" "Shows slow requests." {
        SlowlogGet "get" -2 [ADMIN LOADING STALE] NONE Server "2.2.12" "Lists the slow log.";
        SlowlogLen "len" 2 [ADMIN LOADING STALE] NONE Server "2.2.12"
            "Counts the entries of the slow log.";
        SlowlogReset "reset" 2 [ADMIN LOADING STALE] NONE Server "2.2.12" "Deletes the slow log.";
        SlowlogHelp "help" 2 [LOADING STALE] NONE Server "6.2.0" "Lists the subcommands.";
    };
    Commandlog "commandlog" -2 [] NONE Server "8.1.0" "Shows slow and large requests." {
        CommandlogGet "get" 4 [ADMIN LOADING STALE] NONE Server "8.1.0" "Lists one of the logs.";
        CommandlogLen "len" 3 [ADMIN LOADING STALE] NONE Server "8.1.0" "Counts a log's entries.";
        CommandlogReset "reset" 3 [ADMIN LOADING STALE] NONE Server "8.1.0" "Deletes one log.";
        CommandlogHelp "help" 2 [LOADING STALE] NONE Server "8.1.0" "Lists the subcommands.";
    };
    Hotkeys "hotkeys" -2 [] NONE Server "8.6.0" "Finds the keys that cost most." {
        HotkeysStart "start" -2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Starts a measurement.";
        HotkeysStop "stop" 2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Ends the measurement.";
        HotkeysGet "get" 2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Shows the measurement.";
        HotkeysReset "reset" 2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Deletes the measurement.";
        HotkeysHelp "help" 2 [LOADING STALE] NONE Server "8.6.0" "Lists the subcommands.";
    };
    Swapdb "swapdb" 3 [WRITE FAST DANGEROUS] NONE Server "4.0.0" "Swaps two databases.";
    Time "time" 1 [LOADING STALE FAST] NONE Server "2.6.0" "Returns the server's time.";
}
