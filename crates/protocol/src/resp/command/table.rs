//! The rows of the table of commands.
//!
//! The layout of a row: rows.rs. Arity, flags and keys are those that Redis 7.4 reports; commands
//! that only later versions, Valkey or this server have follow the same rules.

use super::{Command, Flags, Group, Keys};

commands! {
    Get "get" 2 [READONLY FAST] ONE String "1.0.0" "Reads a string." "O(1)";
    Set "set" -3 [WRITE DENYOOM] ONE String "1.0.0"
        "Stores a string, with conditions and a deadline." "O(1)";
    Mget "mget" -2 [READONLY FAST] ALL String "1.0.0" "Reads several strings." "O(1) for each key";
    Mset "mset" -3 [WRITE DENYOOM] PAIRS String "1.0.1" "Stores several strings."
        "O(1) for each key";
    Msetnx "msetnx" -3 [WRITE DENYOOM] PAIRS String "1.0.1"
        "Stores several strings if none of the keys exists." "O(1) for each key";
    Msetex "msetex" -4 [WRITE DENYOOM MOVABLEKEYS] COUNTED_PAIRS String "8.4.0"
        "Stores several strings with one condition and deadline." "O(1) for each key";
    Setex "setex" 4 [WRITE DENYOOM] ONE String "2.0.0" "Stores a string with a TTL in seconds."
        "O(1)";
    Psetex "psetex" 4 [WRITE DENYOOM] ONE String "2.6.0"
        "Stores a string with a TTL in milliseconds." "O(1)";
    Setnx "setnx" 3 [WRITE DENYOOM FAST] ONE String "1.0.0"
        "Stores a string if the key does not exist." "O(1)";
    Getset "getset" 3 [WRITE DENYOOM FAST] ONE String "1.0.0"
        "Stores a string and returns the old one." "O(1)";
    Getdel "getdel" 2 [WRITE FAST] ONE String "6.2.0" "Reads a string and removes it." "O(1)";
    Getex "getex" -2 [WRITE FAST] ONE String "6.2.0" "Reads a string and changes its deadline."
        "O(1)";
    Append "append" 3 [WRITE DENYOOM FAST] ONE String "2.0.0" "Appends bytes to a string."
        "O(N) for the N bytes written, amortized; a string that has outgrown its room is copied";
    Strlen "strlen" 2 [READONLY FAST] ONE String "2.2.0" "Returns the length of a string." "O(1)";
    Getrange "getrange" 4 [READONLY] ONE String "2.4.0" "Reads a part of a string." "O(1)";
    Substr "substr" 4 [READONLY] ONE String "1.0.0"
        "Reads a part of a string; older name of GETRANGE." "O(1)";
    Setrange "setrange" 4 [WRITE DENYOOM] ONE String "2.2.0" "Overwrites a part of a string."
        "O(N) for the N bytes written, amortized; a string that has outgrown its room is copied";
    Incr "incr" 2 [WRITE DENYOOM FAST] ONE String "1.0.0" "Adds one to a number." "O(1)";
    Decr "decr" 2 [WRITE DENYOOM FAST] ONE String "1.0.0" "Subtracts one from a number." "O(1)";
    Incrby "incrby" 3 [WRITE DENYOOM FAST] ONE String "1.0.0" "Adds to a number." "O(1)";
    Decrby "decrby" 3 [WRITE DENYOOM FAST] ONE String "1.0.0" "Subtracts from a number." "O(1)";
    Incrbyfloat "incrbyfloat" 3 [WRITE DENYOOM FAST] ONE String "2.6.0"
        "Adds to a number with decimals." "O(1)";
    Increx "increx" -2 [WRITE DENYOOM FAST] ONE String "8.8.0"
        "Adds to a number within bounds, and gives it a deadline." "O(1)";
    Lcs "lcs" -3 [READONLY] TWO String "7.0.0"
        "Finds the longest common subsequence of two strings."
        "O(N*M) for two lengths in bytes, 64 products at once";
    Digest "digest" 2 [READONLY FAST] ONE String "8.4.0" "Hashes a string with XXH3."
        "O(N) for the N bytes of the value";
    Delifeq "delifeq" 3 [WRITE FAST] ONE String "9.0.0" "Removes a string if it has this value."
        "O(N) for the N bytes of the value";
    Delex "delex" -2 [WRITE FAST] ONE String "8.4.0"
        "Removes a key if its string meets a condition." "O(N) for the N bytes of the value";
    Getlease "getlease" -2 [WRITE DENYOOM FAST] ONE String "0.1.0"
        "Reads a string; on a miss one caller wins a lease to fill it." "O(1)";
    Getbit "getbit" 3 [READONLY FAST] ONE Bitmap "2.2.0" "Reads one bit of a string." "O(1)";
    Setbit "setbit" 4 [WRITE DENYOOM] ONE Bitmap "2.2.0" "Changes one bit of a string."
        "O(N) for the N bytes written, amortized; a string that has outgrown its room is copied";
    Bitcount "bitcount" -2 [READONLY] ONE Bitmap "2.6.0" "Counts the set bits of a string."
        "O(N) for the N bytes of the value";
    Bitpos "bitpos" -3 [READONLY] ONE Bitmap "2.8.7"
        "Finds the first bit of a string that is set or clear." "O(N) for the N bytes of the value";
    Bitop "bitop" -4 [WRITE DENYOOM] FROM_SECOND Bitmap "2.6.0"
        "Stores the result of a bitwise operation on strings." "O(N) for the N bytes of all values";
    Bitfield "bitfield" -2 [WRITE DENYOOM] ONE Bitmap "3.2.0"
        "Reads and changes integers of any width in a string." "O(1) for each field";
    BitfieldRo "bitfield_ro" -2 [READONLY FAST] ONE Bitmap "6.0.0"
        "Reads integers of any width in a string." "O(1) for each field";
    Pfadd "pfadd" -2 [WRITE DENYOOM FAST] ONE Hyperloglog "2.8.9" "Adds elements to a HyperLogLog."
        "O(1) for each element";
    Pfcount "pfcount" -2 [READONLY MAY_REPLICATE] ALL Hyperloglog "2.8.9"
        "Returns the approximate number of different elements in HyperLogLogs."
        "O(N) for N HyperLogLogs of up to 12 KiB";
    Pfmerge "pfmerge" -2 [WRITE DENYOOM] ALL Hyperloglog "2.8.9" "Merges HyperLogLogs into one."
        "O(N) for N HyperLogLogs of up to 12 KiB";
    Del "del" -2 [WRITE] ALL Generic "1.0.0" "Removes keys." "O(1) for each key";
    Unlink "unlink" -2 [WRITE FAST] ALL Generic "4.0.0" "Removes keys." "O(1) for each key";
    Exists "exists" -2 [READONLY FAST] ALL Generic "1.0.0" "Counts the existing keys."
        "O(1) for each key";
    Touch "touch" -2 [READONLY FAST] ALL Generic "3.2.1"
        "Counts the existing keys, and updates their access time." "O(1) for each key";
    Expire "expire" -3 [WRITE FAST] ONE Generic "1.0.0" "Sets a key's TTL in seconds." "O(1)";
    Pexpire "pexpire" -3 [WRITE FAST] ONE Generic "2.6.0" "Sets a key's TTL in milliseconds."
        "O(1)";
    Expireat "expireat" -3 [WRITE FAST] ONE Generic "1.2.0"
        "Sets a key's deadline as a Unix time in seconds." "O(1)";
    Pexpireat "pexpireat" -3 [WRITE FAST] ONE Generic "2.6.0"
        "Sets a key's deadline as a Unix time in milliseconds." "O(1)";
    Ttl "ttl" 2 [READONLY FAST] ONE Generic "1.0.0" "Returns a key's remaining TTL in seconds."
        "O(1)";
    Pttl "pttl" 2 [READONLY FAST] ONE Generic "2.6.0"
        "Returns a key's remaining TTL in milliseconds." "O(1)";
    Expiretime "expiretime" 2 [READONLY FAST] ONE Generic "7.0.0"
        "Returns a key's deadline in Unix seconds." "O(1)";
    Pexpiretime "pexpiretime" 2 [READONLY FAST] ONE Generic "7.0.0"
        "Returns a key's deadline in Unix milliseconds." "O(1)";
    Persist "persist" 2 [WRITE FAST] ONE Generic "2.2.0" "Removes a key's deadline." "O(1)";
    Invalidate "invalidate" -2 [WRITE FAST] ONE Generic "0.1.0"
        "Marks a key as stale, or removes it." "O(1)";
    Type "type" 2 [READONLY FAST] ONE Generic "1.0.0" "Returns the type of a key's value." "O(1)";
    Rename "rename" 3 [WRITE] TWO Generic "1.0.0" "Renames a key."
        "O(N) for the N bytes of the value";
    Renamenx "renamenx" 3 [WRITE FAST] TWO Generic "1.0.0"
        "Renames a key if the new name does not exist." "O(N) for the N bytes of the value";
    Copy "copy" -3 [WRITE DENYOOM] TWO Generic "6.2.0" "Copies a value to another key."
        "O(N) for the N bytes of the value";
    Move "move" 3 [WRITE FAST] ONE Generic "1.0.0" "Moves a key to another database."
        "O(N) for the N bytes of the value";
    Sort "sort" -2 [WRITE DENYOOM MOVABLEKEYS DANGEROUS] ONE_AND_STORED_EARLY Generic "1.0.0"
        "Sorts a list, set or sorted set, and returns or stores the result."
        "O(N*log(N)) for N elements, and O(1) for each element and pattern";
    SortRo "sort_ro" -2 [READONLY MOVABLEKEYS DANGEROUS] ONE Generic "7.0.0"
        "Sorts a list, set or sorted set, and returns the result."
        "O(N*log(N)) for N elements, and O(1) for each element and pattern";
    Dump "dump" 2 [READONLY] ONE Generic "2.6.0" "Returns a serialized value for RESTORE."
        "O(N) for the N bytes of the value";
    Restore "restore" -4 [WRITE DENYOOM DANGEROUS] ONE Generic "2.6.0"
        "Stores a serialized value of DUMP." "O(N) for N bytes, and O(log(N)) for each member";
    Randomkey "randomkey" 1 [READONLY] NONE Generic "1.0.0" "Returns a random key." "O(1)";
    Keys "keys" 2 [READONLY DANGEROUS] NONE Generic "1.0.0" "Lists the keys that match a pattern."
        "O(N) for all N keys";
    Scan "scan" -2 [READONLY] NONE Generic "2.8.0" "Lists keys in steps."
        "O(1) for each call, O(N) for all N keys";
    Clusterscan "clusterscan" -2 [READONLY] NONE Cluster "9.1.0" "Lists a cluster's keys in steps."
        "O(1) for each call, O(N) for all N keys";
    Wait "wait" 3 [BLOCKING] NONE Generic "3.0.0" "Returns 0; there are no replicas." "O(1)";
    Waitaof "waitaof" 4 [BLOCKING] NONE Generic "7.2.0"
        "Returns 0 and 0; there is no append-only file and there are no replicas." "O(1)";
    Object "object" -2 [] NONE Generic "2.2.3" "Returns the inner facts of a value." "O(1)" {
        ObjectEncoding "encoding" 3 [READONLY] SECOND Generic "2.2.3"
            "Returns the encoding of a value." "O(1)";
        ObjectFreq "freq" 3 [READONLY] SECOND Generic "4.0.0"
            "Returns the access frequency of a key, 0 to 255." "O(1)";
        ObjectIdletime "idletime" 3 [READONLY] SECOND Generic "2.2.3"
            "Returns the seconds since the last access of a key." "O(1)";
        ObjectRefcount "refcount" 3 [READONLY] SECOND Generic "2.2.3"
            "Returns 1 for a key that exists." "O(1)";
        ObjectHelp "help" 2 [LOADING STALE] NONE Generic "6.2.0" "Lists the subcommands." "O(1)";
    };
    Bless "bless" -2 [] NONE Generic "8.12.0" "Tells which keys are never evicted." "O(1)" {
        BlessSet "set" 4 [WRITE DENYOOM FAST DANGEROUS] SECOND Generic "8.12.0"
            "Returns 0, or an error in a database that evicts." "O(1)";
        BlessClear "clear" 4 [WRITE FAST DANGEROUS] SECOND Generic "8.12.0"
            "Returns 0, or an error in a database that evicts nothing." "O(1)";
        BlessGet "get" 3 [FAST] SECOND Generic "8.12.0"
            "Returns NO-EVICT for a key of a database that evicts nothing." "O(1)";
        BlessScan "scan" -4 [] NONE Generic "8.12.0"
            "Lists the keys of a database that evicts nothing in steps."
            "O(1) for each call, O(N) for all N keys";
    };
    Hset "hset" -4 [WRITE DENYOOM FAST] ONE Hash "2.0.0" "Stores fields of a hash."
        "O(log(N)) for each member, in a collection of N";
    Hmset "hmset" -4 [WRITE DENYOOM FAST] ONE Hash "2.0.0"
        "Stores fields of a hash and returns OK." "O(log(N)) for each member, in a collection of N";
    Hsetnx "hsetnx" 4 [WRITE DENYOOM FAST] ONE Hash "2.0.0"
        "Stores a field of a hash if it does not exist." "O(log(N)) for a collection of N members";
    Hget "hget" 3 [READONLY FAST] ONE Hash "2.0.0" "Reads a field of a hash." "O(1) for each field";
    Hmget "hmget" -3 [READONLY FAST] ONE Hash "2.0.0" "Reads several fields of a hash."
        "O(1) for each member";
    Hgetall "hgetall" 2 [READONLY] ONE Hash "2.0.0" "Reads all fields of a hash with their values."
        "O(N) for N members";
    Hkeys "hkeys" 2 [READONLY] ONE Hash "2.0.0" "Lists the fields of a hash." "O(N) for N members";
    Hvals "hvals" 2 [READONLY] ONE Hash "2.0.0" "Lists the values of a hash." "O(N) for N members";
    Hdel "hdel" -3 [WRITE FAST] ONE Hash "2.0.0" "Removes fields of a hash."
        "O(log(N)) for each member, in a collection of N";
    Hexists "hexists" 3 [READONLY FAST] ONE Hash "2.0.0" "Returns whether a hash has a field."
        "O(1) for each field";
    Hlen "hlen" 2 [READONLY FAST] ONE Hash "2.0.0" "Counts the fields of a hash."
        "O(1) for each field";
    Hstrlen "hstrlen" 3 [READONLY FAST] ONE Hash "3.2.0" "Returns the length of a field's value."
        "O(1) for each field";
    Hincrby "hincrby" 4 [WRITE DENYOOM FAST] ONE Hash "2.0.0" "Adds to the number in a field."
        "O(log(N)) for a collection of N members";
    Hincrbyfloat "hincrbyfloat" 4 [WRITE DENYOOM FAST] ONE Hash "2.6.0"
        "Adds to the number with decimals in a field." "O(log(N)) for a collection of N members";
    Hrandfield "hrandfield" -2 [READONLY] ONE Hash "6.2.0" "Returns random fields of a hash."
        "O(log(N)) for each member returned";
    Hscan "hscan" -3 [READONLY] ONE Hash "2.8.0" "Lists the fields of a hash in steps."
        "O(1) for each call, O(N) for all N members";
    Hexpire "hexpire" -6 [WRITE FAST] ONE Hash "7.4.0" "Sets the TTL of fields in seconds."
        "O(log(N)) for each field, in a hash of N";
    Hpexpire "hpexpire" -6 [WRITE FAST] ONE Hash "7.4.0" "Sets the TTL of fields in milliseconds."
        "O(log(N)) for each field, in a hash of N";
    Hexpireat "hexpireat" -6 [WRITE FAST] ONE Hash "7.4.0"
        "Sets the deadline of fields as a Unix time in seconds."
        "O(log(N)) for each field, in a hash of N";
    Hpexpireat "hpexpireat" -6 [WRITE FAST] ONE Hash "7.4.0"
        "Sets the deadline of fields as a Unix time in milliseconds."
        "O(log(N)) for each field, in a hash of N";
    Httl "httl" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the remaining TTL of fields in seconds." "O(1) for each field";
    Hpttl "hpttl" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the remaining TTL of fields in milliseconds." "O(1) for each field";
    Hexpiretime "hexpiretime" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the deadlines of fields in Unix seconds." "O(1) for each field";
    Hpexpiretime "hpexpiretime" -5 [READONLY FAST] ONE Hash "7.4.0"
        "Returns the deadlines of fields in Unix milliseconds." "O(1) for each field";
    Hpersist "hpersist" -5 [WRITE FAST] ONE Hash "7.4.0" "Removes the deadlines of fields."
        "O(log(N)) for each field, in a hash of N";
    Hgetex "hgetex" -5 [WRITE FAST] ONE Hash "8.0.0" "Reads fields and changes their deadlines."
        "O(log(N)) for each field, in a hash of N";
    Hsetex "hsetex" -6 [WRITE DENYOOM FAST] ONE Hash "8.0.0"
        "Stores fields with one condition and deadline." "O(log(N)) for each field, in a hash of N";
    Hgetdel "hgetdel" -5 [WRITE FAST] ONE Hash "8.0.0" "Reads fields and removes them."
        "O(log(N)) for each field, in a hash of N";
    Sadd "sadd" -3 [WRITE DENYOOM FAST] ONE Set "1.0.0" "Adds members to a set."
        "O(log(N)) for each member, in a collection of N";
    Srem "srem" -3 [WRITE FAST] ONE Set "1.0.0" "Removes members of a set."
        "O(log(N)) for each member, in a collection of N";
    Smembers "smembers" 2 [READONLY] ONE Set "1.0.0" "Lists the members of a set."
        "O(N) for N members";
    Sismember "sismember" 3 [READONLY FAST] ONE Set "1.0.0" "Returns whether a set has a member."
        "O(1)";
    Smismember "smismember" -3 [READONLY FAST] ONE Set "6.2.0" "Returns which members a set has."
        "O(1) for each member";
    Scard "scard" 2 [READONLY FAST] ONE Set "1.0.0" "Counts the members of a set." "O(1)";
    Spop "spop" -2 [WRITE FAST] ONE Set "1.0.0" "Removes and returns random members."
        "O(log(N)) for each member removed";
    Srandmember "srandmember" -2 [READONLY] ONE Set "1.0.0" "Returns random members."
        "O(log(N)) for each member returned";
    Smove "smove" 4 [WRITE FAST] TWO Set "1.0.0" "Moves a member to another set."
        "O(log(N)) for a collection of N members";
    Saddex "saddex" -5 [WRITE DENYOOM FAST] ONE Set "8.12.0" "Adds members with a TTL."
        "O(log(N)) for each member, in a collection of N";
    Sexpire "sexpire" -6 [WRITE FAST] ONE Set "8.12.0" "Sets the TTL of members in seconds."
        "O(log(N)) for each member, in a collection of N";
    Spexpire "spexpire" -6 [WRITE FAST] ONE Set "8.12.0" "Sets the TTL of members in milliseconds."
        "O(log(N)) for each member, in a collection of N";
    Sexpireat "sexpireat" -6 [WRITE FAST] ONE Set "8.12.0"
        "Sets when members expire, as a Unix time in seconds."
        "O(log(N)) for each member, in a collection of N";
    Spexpireat "spexpireat" -6 [WRITE FAST] ONE Set "8.12.0"
        "Sets when members expire, as a Unix time in milliseconds."
        "O(log(N)) for each member, in a collection of N";
    Sttl "sttl" -5 [READONLY FAST] ONE Set "8.12.0" "Returns the TTL of members in seconds."
        "O(1) for each field";
    Spttl "spttl" -5 [READONLY FAST] ONE Set "8.12.0" "Returns the TTL of members in milliseconds."
        "O(1) for each field";
    Sexpiretime "sexpiretime" -5 [READONLY FAST] ONE Set "8.12.0"
        "Returns when members expire, as a Unix time in seconds." "O(1) for each field";
    Spexpiretime "spexpiretime" -5 [READONLY FAST] ONE Set "8.12.0"
        "Returns when members expire, as a Unix time in milliseconds." "O(1) for each field";
    Spersist "spersist" -5 [WRITE FAST] ONE Set "8.12.0" "Removes the deadlines of members."
        "O(log(N)) for each member, in a collection of N";
    Sscan "sscan" -3 [READONLY] ONE Set "2.8.0" "Lists the members of a set in steps."
        "O(1) for each call, O(N) for all N members";
    Sunion "sunion" -2 [READONLY] ALL Set "1.0.0" "Lists the members of any of the sets."
        "O(N*M) for N members of the smallest set, or of all, and M sets";
    Sinter "sinter" -2 [READONLY] ALL Set "1.0.0" "Lists the members of all of the sets."
        "O(N*M) for N members of the smallest set, or of all, and M sets";
    Sdiff "sdiff" -2 [READONLY] ALL Set "1.0.0" "Lists the members of the first set only."
        "O(N*M) for N members of the smallest set, or of all, and M sets";
    Sunionstore "sunionstore" -3 [WRITE DENYOOM] ALL Set "1.0.0"
        "Stores the members of any of the sets."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Sinterstore "sinterstore" -3 [WRITE DENYOOM] ALL Set "1.0.0"
        "Stores the members of all of the sets."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Sdiffstore "sdiffstore" -3 [WRITE DENYOOM] ALL Set "1.0.0"
        "Stores the members of the first set only."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Sintercard "sintercard" -3 [READONLY MOVABLEKEYS] COUNTED Set "7.0.0"
        "Counts the members of all of the sets."
        "O(N*M) for N members of the smallest set and M sets";
    Sunioncard "sunioncard" -3 [READONLY MOVABLEKEYS] COUNTED Set "8.10.0"
        "Counts the members of any of the sets."
        "O(N*M) for N members of the smallest set, or of all, and M sets";
    Sdiffcard "sdiffcard" -3 [READONLY MOVABLEKEYS] COUNTED Set "8.10.0"
        "Counts the members of the first set only."
        "O(N*M) for N members of the smallest set, or of all, and M sets";
    Lpush "lpush" -3 [WRITE DENYOOM FAST] ONE List "1.0.0" "Prepends elements to a list."
        "O(1) for each element";
    Rpush "rpush" -3 [WRITE DENYOOM FAST] ONE List "1.0.0" "Appends elements to a list."
        "O(1) for each element";
    Lpushx "lpushx" -3 [WRITE DENYOOM FAST] ONE List "2.2.0" "Prepends to an existing list."
        "O(1) for each element";
    Rpushx "rpushx" -3 [WRITE DENYOOM FAST] ONE List "2.2.0" "Appends to an existing list."
        "O(1) for each element";
    Lpop "lpop" -2 [WRITE FAST] ONE List "1.0.0" "Removes and returns the first elements."
        "O(1) for each element removed, amortized";
    Rpop "rpop" -2 [WRITE FAST] ONE List "1.0.0" "Removes and returns the last elements."
        "O(1) for each element removed, amortized";
    Llen "llen" 2 [READONLY FAST] ONE List "1.0.0" "Counts the elements of a list." "O(1)";
    Lindex "lindex" 3 [READONLY] ONE List "1.0.0" "Returns the element at an index."
        "O(log(N)) for a collection of N members";
    Lrange "lrange" 4 [READONLY] ONE List "1.0.0" "Returns the elements between two indexes."
        "O(log(N)+M) for N members, of which M are returned";
    Ltrim "ltrim" 4 [WRITE] ONE List "1.0.0" "Trims a list to a range."
        "O(1) for each element removed, amortized";
    Lset "lset" 4 [WRITE DENYOOM] ONE List "1.0.0" "Sets the element at an index."
        "O(log(N)) for a list of N";
    Linsert "linsert" 5 [WRITE DENYOOM] ONE List "2.2.0" "Inserts an element beside another."
        "O(N) for a list of N elements";
    Lrem "lrem" 4 [WRITE] ONE List "1.0.0" "Removes elements equal to a value."
        "O(N) for a list of N elements";
    Lpos "lpos" -3 [READONLY] ONE List "6.0.6" "Returns the indexes of elements equal to a value."
        "O(N) for a list of N elements";
    Lmove "lmove" 5 [WRITE DENYOOM] TWO List "6.2.0" "Moves an element to another list."
        "O(1) for each element moved";
    Lmovem "lmovem" -5 [WRITE DENYOOM] TWO List "8.10.0" "Moves elements to another list."
        "O(1) for each element moved";
    Rpoplpush "rpoplpush" 3 [WRITE DENYOOM] TWO List "1.2.0"
        "Moves the last element of a list to the head of another." "O(1) for each element moved";
    Lmpop "lmpop" -4 [WRITE MOVABLEKEYS] COUNTED List "7.0.0"
        "Removes and returns elements of the first non-empty list."
        "O(N+M) for N keys and M elements returned";
    Blpop "blpop" -3 [WRITE BLOCKING] ALL_BUT_LAST List "2.0.0"
        "Removes and returns the first element of the first non-empty list, or blocks."
        "O(N*log(N)) for N keys, and O(log(M)) for each element returned";
    Brpop "brpop" -3 [WRITE BLOCKING] ALL_BUT_LAST List "2.0.0"
        "Removes and returns the last element of the first non-empty list, or blocks."
        "O(N*log(N)) for N keys, and O(log(M)) for each element returned";
    Blmove "blmove" 6 [WRITE DENYOOM BLOCKING] TWO List "6.2.0"
        "Moves an element to another list, or blocks." "O(1) for each element moved";
    Blmovem "blmovem" -6 [WRITE DENYOOM BLOCKING] TWO List "8.10.0"
        "Moves elements to another list, or blocks." "O(1) for each element moved";
    Brpoplpush "brpoplpush" 4 [WRITE DENYOOM BLOCKING] TWO List "2.2.0"
        "Moves the last element of a list to the head of another, or blocks."
        "O(1) for each element moved";
    Blmpop "blmpop" -5 [WRITE BLOCKING MOVABLEKEYS] COUNTED_SECOND List "7.0.0"
        "Removes and returns elements of the first non-empty list, or blocks."
        "O(N*log(N)) for N keys, and O(log(M)) for each element returned";
    Zadd "zadd" -4 [WRITE DENYOOM FAST] ONE SortedSet "1.2.0"
        "Adds members with scores, or changes scores."
        "O(log(N)) for each member, in a collection of N";
    Zrem "zrem" -3 [WRITE FAST] ONE SortedSet "1.2.0" "Removes members of a sorted set."
        "O(log(N)) for each member, in a collection of N";
    Zscore "zscore" 3 [READONLY FAST] ONE SortedSet "1.2.0" "Returns a member's score."
        "O(log(N)) for a set of N members";
    Zmscore "zmscore" -3 [READONLY FAST] ONE SortedSet "6.2.0"
        "Returns the scores of several members." "O(1) for each member";
    Zcard "zcard" 2 [READONLY FAST] ONE SortedSet "1.2.0" "Counts the members of a sorted set."
        "O(log(N)) for a set of N members";
    Zcount "zcount" 4 [READONLY FAST] ONE SortedSet "2.0.0"
        "Counts the members with scores in a range." "O(log(N)) for a set of N members";
    Zincrby "zincrby" 4 [WRITE DENYOOM FAST] ONE SortedSet "1.2.0" "Adds to a member's score."
        "O(log(N)) for a collection of N members";
    Zrank "zrank" -3 [READONLY FAST] ONE SortedSet "2.0.0"
        "Returns a member's rank, lowest score first." "O(log(N)) for a set of N members";
    Zrevrank "zrevrank" -3 [READONLY FAST] ONE SortedSet "2.0.0"
        "Returns a member's rank, highest score first." "O(log(N)) for a set of N members";
    Zrange "zrange" -4 [READONLY] ONE SortedSet "1.2.0"
        "Lists members by rank, score or lexicographical order."
        "O(log(N)+M) for N members, of which M are returned";
    Zrevrange "zrevrange" -4 [READONLY] ONE SortedSet "1.2.0"
        "Lists members by rank, highest score first."
        "O(log(N)+M) for N members, of which M are returned";
    Zrangebyscore "zrangebyscore" -4 [READONLY] ONE SortedSet "1.0.5" "Lists members by score."
        "O(log(N)+M) for N members, of which M are returned";
    Zrevrangebyscore "zrevrangebyscore" -4 [READONLY] ONE SortedSet "2.2.0"
        "Lists members by score, highest first."
        "O(log(N)+M) for N members, of which M are returned";
    Zrangebylex "zrangebylex" -4 [READONLY] ONE SortedSet "2.8.9"
        "Lists members in lexicographical order."
        "O(log(N)+M) for N members, of which M are returned";
    Zrevrangebylex "zrevrangebylex" -4 [READONLY] ONE SortedSet "2.8.9"
        "Lists members in reverse lexicographical order."
        "O(log(N)+M) for N members, of which M are returned";
    Zlexcount "zlexcount" 4 [READONLY FAST] ONE SortedSet "2.8.9"
        "Counts the members in a lexicographical range." "O(log(N)) for a set of N members";
    Zremrangebyscore "zremrangebyscore" 4 [WRITE] ONE SortedSet "1.2.0" "Removes members by score."
        "O(log(N)) for each member removed";
    Zremrangebyrank "zremrangebyrank" 4 [WRITE] ONE SortedSet "2.0.0" "Removes members by rank."
        "O(log(N)) for each member removed";
    Zremrangebylex "zremrangebylex" 4 [WRITE] ONE SortedSet "2.8.9"
        "Removes members in a lexicographical range." "O(log(N)) for each member removed";
    Zpopmin "zpopmin" -2 [WRITE FAST] ONE SortedSet "5.0.0"
        "Removes and returns the members with the lowest scores."
        "O(log(N)) for each member removed";
    Zpopmax "zpopmax" -2 [WRITE FAST] ONE SortedSet "5.0.0"
        "Removes and returns the members with the highest scores."
        "O(log(N)) for each member removed";
    Zrandmember "zrandmember" -2 [READONLY] ONE SortedSet "6.2.0" "Returns random members."
        "O(log(N)) for each member returned";
    Zscan "zscan" -3 [READONLY] ONE SortedSet "2.8.0" "Lists members and scores in steps."
        "O(1) for each call, O(N) for all N members";
    Zrangestore "zrangestore" -5 [WRITE DENYOOM] TWO SortedSet "6.2.0"
        "Stores members selected by rank, score or lexicographical order."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Zmpop "zmpop" -4 [WRITE MOVABLEKEYS] COUNTED SortedSet "7.0.0"
        "Removes and returns members of the first non-empty sorted set."
        "O(N)+O(M*log(K)) for N keys and M members removed from a set of K";
    Zmove "zmove" -4 [WRITE DENYOOM] TWO SortedSet "8.12.0"
        "Moves members with the lowest or highest scores, or by score, to another sorted set."
        "O(log(N)) for each member moved";
    Zmovemember "zmovemember" -6 [WRITE DENYOOM] TWO SortedSet "8.12.0"
        "Moves members to another sorted set." "O(log(N)) for each member moved";
    Bzpopmin "bzpopmin" -3 [WRITE FAST BLOCKING] ALL_BUT_LAST SortedSet "5.0.0"
        "Removes and returns the lowest member of the first non-empty sorted set, or blocks."
        "O(N*log(N)) for N keys, and O(log(M)) for each element returned";
    Bzpopmax "bzpopmax" -3 [WRITE FAST BLOCKING] ALL_BUT_LAST SortedSet "5.0.0"
        "Removes and returns the highest member of the first non-empty sorted set, or blocks."
        "O(N*log(N)) for N keys, and O(log(M)) for each element returned";
    Bzmpop "bzmpop" -5 [WRITE BLOCKING MOVABLEKEYS] COUNTED_SECOND SortedSet "7.0.0"
        "Removes and returns members of the first non-empty sorted set, or blocks."
        "O(N*log(N)) for N keys, and O(log(M)) for each element returned";
    Bzmove "bzmove" -5 [WRITE DENYOOM BLOCKING] TWO SortedSet "8.12.0"
        "Moves members with the lowest or highest scores to another sorted set, or blocks."
        "O(log(N)) for each member moved";
    Zunion "zunion" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "6.2.0"
        "Lists the members of any of the sorted sets."
        "O(N*M) for N members and M sets, and O(K*log(K)) for the K members of the result";
    Zinter "zinter" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "6.2.0"
        "Lists the members of all of the sorted sets."
        "O(N*M) for N members and M sets, and O(K*log(K)) for the K members of the result";
    Zdiff "zdiff" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "6.2.0"
        "Lists the members of the first sorted set only."
        "O(N*M) for N members and M sets, and O(K*log(K)) for the K members of the result";
    Zintercard "zintercard" -3 [READONLY MOVABLEKEYS] COUNTED SortedSet "7.0.0"
        "Counts the members of all of the sorted sets."
        "O(N*M) for N members and M sets, and O(K*log(K)) for the K members of the result";
    Zunionstore "zunionstore" -4 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_COUNTED SortedSet "2.0.0"
        "Stores the members of any of the sorted sets."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Zinterstore "zinterstore" -4 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_COUNTED SortedSet "2.0.0"
        "Stores the members of all of the sorted sets."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Zdiffstore "zdiffstore" -4 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_COUNTED SortedSet "6.2.0"
        "Stores the members of the first sorted set only."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Geoadd "geoadd" -5 [WRITE DENYOOM] ONE Geo "3.2.0"
        "Adds members to a sorted set by their longitude and latitude."
        "O(log(N)) for each member, in a set of N";
    Geopos "geopos" -2 [READONLY] ONE Geo "3.2.0" "Returns the positions of members."
        "O(1) for each member";
    Geodist "geodist" -4 [READONLY] ONE Geo "3.2.0" "Returns the distance between two members."
        "O(1)";
    Geohash "geohash" -2 [READONLY] ONE Geo "3.2.0" "Returns the geohashes of members."
        "O(1) for each member";
    Geosearch "geosearch" -7 [READONLY] ONE Geo "6.2.0"
        "Lists members within a radius, a box or a polygon."
        "O(N+M*log(M)) for N members near the area, of which M are in it";
    Geosearchstore "geosearchstore" -8 [WRITE DENYOOM] TWO Geo "6.2.0"
        "Stores members within a radius, a box or a polygon."
        "O(N*M) for N members and M sets, and O(K) for the K members stored";
    Georadius "georadius" -6 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_STORED Geo "3.2.0"
        "Lists or stores members within a radius of a position."
        "O(N+M*log(M)) for N members near the area, of which M are in it";
    GeoradiusRo "georadius_ro" -6 [READONLY] ONE Geo "3.2.10"
        "Lists members within a radius of a position."
        "O(N+M*log(M)) for N members near the area, of which M are in it";
    Georadiusbymember "georadiusbymember" -5 [WRITE DENYOOM MOVABLEKEYS] ONE_AND_STORED_EARLIER
        Geo "3.2.0" "Lists or stores members within a radius of a member."
        "O(N+M*log(M)) for N members near the area, of which M are in it";
    GeoradiusbymemberRo "georadiusbymember_ro" -5 [READONLY] ONE Geo "3.2.10"
        "Lists members within a radius of a member."
        "O(N+M*log(M)) for N members near the area, of which M are in it";
    Subscribe "subscribe" -2 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Subscribes to channels." "O(log(N)) for each name, with N subscriptions";
    Unsubscribe "unsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Unsubscribes from channels." "O(log(N)) for each name, with N subscriptions";
    Psubscribe "psubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Subscribes to channels that match patterns."
        "O(log(N)) for each name, with N subscriptions";
    Punsubscribe "punsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE] NONE Pubsub "2.0.0"
        "Unsubscribes from patterns." "O(log(N)) for each name, with N subscriptions";
    Publish "publish" 3 [PUBSUB LOADING STALE FAST MAY_REPLICATE] NONE Pubsub "2.0.0"
        "Publishes a message to a channel."
        "O(N+M) for N subscribers and M patterns that begin like the channel";
    Ssubscribe "ssubscribe" -2 [PUBSUB NOSCRIPT LOADING STALE] ALL Pubsub "7.0.0"
        "Subscribes to shard channels." "O(log(N)) for each name, with N subscriptions";
    Sunsubscribe "sunsubscribe" -1 [PUBSUB NOSCRIPT LOADING STALE] ALL Pubsub "7.0.0"
        "Unsubscribes from shard channels." "O(log(N)) for each name, with N subscriptions";
    Spublish "spublish" 3 [PUBSUB LOADING STALE FAST MAY_REPLICATE] ONE Pubsub "7.0.0"
        "Publishes a message to a shard channel."
        "O(N+M) for N subscribers and M patterns that begin like the channel";
    Pubsub "pubsub" -2 [] NONE Pubsub "2.8.0" "Returns who listens." "O(N) for N channels" {
        PubsubChannels "channels" -2 [PUBSUB LOADING STALE] NONE Pubsub "2.8.0"
            "Lists the active channels." "O(N) for N channels";
        PubsubNumsub "numsub" -2 [PUBSUB LOADING STALE] NONE Pubsub "2.8.0"
            "Counts the subscribers of channels." "O(N) for N channels";
        PubsubNumpat "numpat" 2 [PUBSUB LOADING STALE] NONE Pubsub "2.8.0"
            "Counts the subscribed patterns." "O(N) for N channels";
        PubsubShardchannels "shardchannels" -2 [PUBSUB LOADING STALE] NONE Pubsub "7.0.0"
            "Lists the active shard channels." "O(N) for N channels";
        PubsubShardnumsub "shardnumsub" -2 [PUBSUB LOADING STALE] NONE Pubsub "7.0.0"
            "Counts the subscribers of shard channels." "O(N) for N channels";
        PubsubHelp "help" 2 [LOADING STALE] NONE Pubsub "6.2.0" "Lists the subcommands."
            "O(N) for N channels";
    };
    Multi "multi" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NONE Transactions "1.2.0"
        "Begins a transaction." "O(log(N)) for each watched key";
    Exec "exec" 1 [NOSCRIPT LOADING STALE SKIP_SLOWLOG] NONE Transactions "1.2.0"
        "Executes a transaction atomically." "depends on the queued commands";
    Discard "discard" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NONE Transactions "2.0.0"
        "Discards a transaction." "O(log(N)) for each watched key";
    Watch "watch" -2 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] ALL Transactions "2.2.0"
        "Watches keys: the next transaction fails if one of them changes."
        "O(log(N)) for each watched key";
    Unwatch "unwatch" 1 [NOSCRIPT LOADING STALE FAST ALLOW_BUSY] NONE Transactions "2.2.0"
        "Forgets the watched keys." "O(log(N)) for each watched key";
    Eval "eval" -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "2.6.0" "Runs a script." "depends on the script";
    Evalsha "evalsha" -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "2.6.0" "Runs a script by its digest."
        "depends on the script";
    EvalRo "eval_ro" -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Runs a read-only script."
        "depends on the script";
    EvalshaRo "evalsha_ro" -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Runs a read-only script by its digest."
        "depends on the script";
    Script "script" -2 [] NONE Scripting "2.6.0" "Keeps scripts." "O(N) for a source of N bytes" {
        ScriptLoad "load" 3 [NOSCRIPT STALE] NONE Scripting "2.6.0"
            "Loads a script and returns its SHA1 digest." "O(N) for a source of N bytes";
        ScriptExists "exists" -3 [NOSCRIPT] NONE Scripting "2.6.0"
        "Returns which scripts are loaded." "O(N) for a source of N bytes";
        ScriptShow "show" 3 [NOSCRIPT STALE] NONE Scripting "8.0.0" "Returns a script's source."
            "O(N) for a source of N bytes";
        ScriptFlush "flush" -2 [NOSCRIPT] NONE Scripting "2.6.0" "Deletes all scripts."
            "O(N) for a source of N bytes";
        ScriptKill "kill" 2 [NOSCRIPT ALLOW_BUSY] NONE Scripting "2.6.0"
            "Stops the running script." "O(N) for a source of N bytes";
        ScriptHelp "help" 2 [LOADING STALE] NONE Scripting "5.0.0" "Lists the subcommands."
            "O(N) for a source of N bytes";
    };
    Fcall "fcall" -3 [NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Calls a function of a library."
        "depends on the function";
    FcallRo "fcall_ro" -3 [READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS]
        COUNTED_SECOND Scripting "7.0.0" "Calls a read-only function."
        "depends on the function";
    Function "function" -2 [] NONE Scripting "7.0.0" "Keeps libraries of functions."
        "O(N) for N libraries" {
        FunctionLoad "load" -3 [WRITE DENYOOM NOSCRIPT] NONE Scripting "7.0.0"
            "Loads a library and returns its name." "O(N) for sources of N bytes";
        FunctionDelete "delete" 3 [WRITE NOSCRIPT] NONE Scripting "7.0.0" "Deletes a library."
            "O(N) for N libraries";
        FunctionDump "dump" 2 [NOSCRIPT] NONE Scripting "7.0.0"
            "Returns all libraries serialized for RESTORE." "O(N) for N libraries";
        FunctionRestore "restore" -3 [WRITE DENYOOM NOSCRIPT] NONE Scripting "7.0.0"
            "Loads serialized libraries of DUMP." "O(N) for sources of N bytes";
        FunctionList "list" -2 [NOSCRIPT] NONE Scripting "7.0.0" "Lists libraries."
            "O(N) for N libraries";
        FunctionStats "stats" 2 [NOSCRIPT ALLOW_BUSY] NONE Scripting "7.0.0"
            "Returns the number of libraries and functions." "O(N) for N libraries";
        FunctionFlush "flush" -2 [WRITE NOSCRIPT] NONE Scripting "7.0.0" "Deletes all libraries."
            "O(N) for N libraries";
        FunctionKill "kill" 2 [NOSCRIPT ALLOW_BUSY] NONE Scripting "7.0.0"
            "Returns that no function is running." "O(N) for N libraries";
        FunctionHelp "help" 2 [LOADING STALE] NONE Scripting "7.0.0" "Lists the subcommands."
            "O(N) for N libraries";
    };
    Hello "hello" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "6.0.0"
        "Chooses the protocol's version; may authenticate and name." "O(1)";
    Auth "auth" -2 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "1.0.0"
        "Authenticates the connection." "O(1)";
    Select "select" 2 [LOADING STALE FAST] NONE Connection "1.0.0"
        "Chooses the connection's database." "O(1)";
    Ping "ping" -1 [FAST] NONE Connection "1.0.0" "Returns PONG, or the message." "O(1)";
    Echo "echo" 2 [LOADING STALE FAST] NONE Connection "1.0.0" "Returns the message." "O(1)";
    Quit "quit" -1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "1.0.0"
        "Closes the connection." "O(1)";
    Reset "reset" 1 [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] NONE Connection "6.2.0"
        "Resets the connection." "O(1)";
    Client "client" -2 [] NONE Connection "2.4.0" "Shows and changes connections." "O(1)" {
        ClientCaching "caching" 3 [NOSCRIPT LOADING STALE] NONE Connection "6.0.0"
            "Sets whether the next request is tracked." "O(1)";
        ClientCapa "capa" -3 [NOSCRIPT LOADING STALE] NONE Connection "8.0.0"
            "Announces capabilities of the client." "O(1)";
        ClientGetname "getname" 2 [NOSCRIPT LOADING STALE] NONE Connection "2.6.9"
            "Returns the connection's name." "O(1)";
        ClientGetredir "getredir" 2 [NOSCRIPT LOADING STALE] NONE Connection "6.0.0"
            "Returns the client that gets the invalidations." "O(1)";
        ClientId "id" 2 [NOSCRIPT LOADING STALE] NONE Connection "5.0.0"
            "Returns the connection's number." "O(1)";
        ClientInfo "info" 2 [NOSCRIPT LOADING STALE] NONE Connection "6.2.0"
            "Describes the connection." "O(1)";
        ClientKill "kill" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "2.4.0"
            "Closes connections." "O(N) for N clients";
        ClientList "list" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "2.4.0"
            "Describes all connections." "O(N) for N clients";
        ClientNoEvict "no-evict" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "7.0.0"
            "Has the connection closed last when memory for clients is short." "O(1)";
        ClientNoTouch "no-touch" 3 [NOSCRIPT LOADING STALE] NONE Connection "7.2.0"
            "Sets whether requests update the access time of keys." "O(1)";
        ClientPause "pause" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "2.9.50"
            "Pauses the execution of requests." "O(1)";
        ClientReply "reply" 3 [NOSCRIPT LOADING STALE] NONE Connection "3.2.0"
            "Turns replies on or off." "O(1)";
        ClientSetinfo "setinfo" 4 [NOSCRIPT LOADING STALE] NONE Connection "7.2.0"
            "Sets the name or version of the client library." "O(1)";
        ClientSetname "setname" 3 [NOSCRIPT LOADING STALE] NONE Connection "2.6.9"
            "Names the connection." "O(1)";
        ClientTracking "tracking" -3 [NOSCRIPT LOADING STALE] NONE Connection "6.0.0"
            "Turns client-side caching (tracking) on or off." "O(1); O(log(N)) for each prefix";
        ClientTrackinginfo "trackinginfo" 2 [NOSCRIPT LOADING STALE] NONE Connection "6.2.0"
            "Returns the tracking settings of the connection." "O(1)";
        ClientUnblock "unblock" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "5.0.0"
            "Unblocks another connection." "O(1)";
        ClientUnpause "unpause" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Connection "6.2.0"
            "Ends a pause." "O(1)";
        ClientHelp "help" 2 [LOADING STALE] NONE Connection "5.0.0" "Lists the subcommands." "O(1)";
    };
    Acl "acl" -2 [] NONE Server "6.0.0" "Shows users and their rights." "O(N) for N commands" {
        AclCat "cat" -2 [NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists the categories of commands, or the commands of one." "O(N) for N commands";
        AclDryrun "dryrun" -4 [ADMIN NOSCRIPT LOADING STALE] NONE Server "7.0.0"
            "Checks whether a user may run a request." "O(N) for N users";
        AclGetuser "getuser" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Shows a user's rights." "O(N) for N users";
        AclList "list" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists the users with their rights." "O(N) for N users";
        AclLog "log" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists or deletes the log of refused requests." "O(N) for N entries";
        AclUsers "users" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Lists the names of the users." "O(N) for N users";
        AclWhoami "whoami" 2 [NOSCRIPT LOADING STALE] NONE Server "6.0.0"
            "Returns the connection's user." "O(N) for N commands";
        AclHelp "help" 2 [LOADING STALE] NONE Server "6.0.0" "Lists the subcommands."
            "O(N) for N commands";
    };
    Readonly "readonly" 1 [LOADING STALE FAST] NONE Cluster "3.0.0"
        "Returns OK on a node of a cluster; each key has only one node." "O(1)";
    Readwrite "readwrite" 1 [LOADING STALE FAST] NONE Cluster "3.0.0"
        "Returns OK on a node of a cluster; each key has only one node." "O(1)";
    Asking "asking" 1 [FAST] NONE Cluster "3.0.0"
        "Returns OK on a node of a cluster; no slot is being migrated." "O(1)";
    Cluster "cluster" -2 [] NONE Cluster "3.0.0" "Returns which node keeps which keys." "O(1)" {
        ClusterInfo "info" 2 [STALE] NONE Cluster "3.0.0" "Shows the state of the cluster." "O(1)";
        ClusterKeyslot "keyslot" 3 [STALE] NONE Cluster "3.0.0" "Returns a key's slot." "O(1)";
        ClusterMyid "myid" 2 [STALE] NONE Cluster "3.0.0" "Returns this node's name." "O(1)";
        ClusterNodes "nodes" 2 [STALE] NONE Cluster "3.0.0" "Lists the nodes." "O(N) for N nodes";
        ClusterShards "shards" 2 [STALE] NONE Cluster "7.0.0" "Lists the shards."
            "O(N) for N nodes";
        ClusterSlots "slots" 2 [STALE] NONE Cluster "3.0.0" "Lists the slots." "O(N) for N nodes";
        ClusterMyshardid "myshardid" 2 [STALE] NONE Cluster "7.2.0"
            "Returns the shard's id, which is this node's id." "O(1)";
        ClusterLinks "links" 2 [STALE] NONE Cluster "7.0.0"
            "Lists the links between nodes, of which there are none." "O(1)";
        ClusterCountkeysinslot "countkeysinslot" 3 [STALE] NONE Cluster "3.0.0"
            "Counts the keys in a slot." "O(N) for all N keys";
        ClusterGetkeysinslot "getkeysinslot" 4 [STALE] NONE Cluster "3.0.0" "Lists keys in a slot."
            "O(N) for all N keys";
        ClusterHelp "help" 2 [LOADING STALE] NONE Cluster "5.0.0" "Lists the subcommands." "O(1)";
    };
    Command "command" -1 [LOADING STALE] NONE Server "2.8.13" "Describes all commands."
        "O(1) for each name" {
        CommandCount "count" 2 [LOADING STALE] NONE Server "2.8.13" "Counts the commands."
            "O(1) for each name";
        CommandDocs "docs" -2 [LOADING STALE] NONE Server "7.0.0"
        "Returns documentation of commands." "O(1) for each name";
        CommandGetkeys "getkeys" -3 [LOADING STALE] NONE Server "2.8.13"
            "Lists the keys of a request." "O(1) for each name";
        CommandGetkeysandflags "getkeysandflags" -3 [LOADING STALE] NONE Server "7.0.0"
            "Lists the keys of a request and how they are accessed." "O(1) for each name";
        CommandInfo "info" -2 [LOADING STALE] NONE Server "2.8.13" "Describes commands."
            "O(1) for each name";
        CommandList "list" -2 [LOADING STALE] NONE Server "7.0.0" "Lists the names of commands."
            "O(1) for each name";
        CommandHelp "help" 2 [LOADING STALE] NONE Server "5.0.0" "Lists the subcommands."
            "O(1) for each name";
    };
    Config "config" -2 [] NONE Server "2.0.0" "Shows and changes settings."
        "O(N*M) for N names of settings and M patterns" {
        ConfigGet "get" -3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.0.0" "Shows settings."
            "O(N*M) for N names of settings and M patterns";
        ConfigSet "set" -4 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.0.0" "Changes settings."
            "O(N*M) for N names of settings and M patterns";
        ConfigResetstat "resetstat" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.0.0"
            "Resets counters." "O(N*M) for N names of settings and M patterns";
        ConfigRewrite "rewrite" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.0"
            "Writes the settings file." "O(N*M) for N names of settings and M patterns";
        ConfigHelp "help" 2 [LOADING STALE] NONE Server "5.0.0" "Lists the subcommands."
            "O(N*M) for N names of settings and M patterns";
    };
    Dbsize "dbsize" 1 [READONLY FAST] NONE Server "1.0.0" "Counts the keys of the database." "O(1)";
    Debug "debug" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "1.0.0" "Functions for tests."
        "depends on the command";
    Flushall "flushall" -1 [WRITE DANGEROUS] NONE Server "1.0.0"
        "Removes all keys of all databases." "O(1); the memory is freed in the background";
    Flushdb "flushdb" -1 [WRITE DANGEROUS] NONE Server "1.0.0" "Removes all keys of the database."
        "O(1); the memory is freed in the background";
    Info "info" -1 [LOADING STALE DANGEROUS] NONE Server "1.0.0" "Shows the server in sections."
        "O(1); O(N) with keysizes, for all N keys";
    Lastsave "lastsave" 1 [LOADING STALE FAST DANGEROUS] NONE Server "1.0.0"
        "Returns the start time of the server; nothing is saved." "O(1)";
    Latency "latency" -2 [] NONE Server "2.8.13" "Shows slow events." "O(N) for N entries" {
        LatencyDoctor "doctor" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Explains the latency events." "O(N) for N entries";
        LatencyGraph "graph" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Draws a graph of the latency events of one kind." "O(N) for N entries";
        LatencyHistogram "histogram" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "7.0.0"
            "Shows how long commands take." "O(N) for N entries";
        LatencyHistory "history" 3 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Lists the latency events of one kind." "O(N) for N entries";
        LatencyLatest "latest" 2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Lists the latest latency events." "O(N) for N entries";
        LatencyReset "reset" -2 [ADMIN NOSCRIPT LOADING STALE] NONE Server "2.8.13"
            "Deletes the latency events." "O(N) for N entries";
        LatencyHelp "help" 2 [LOADING STALE] NONE Server "2.8.13" "Lists the subcommands."
            "O(N) for N entries";
    };
    Memory "memory" -2 [] NONE Server "4.0.0" "Shows the use of memory." "O(1)" {
        MemoryDoctor "doctor" 2 [] NONE Server "4.0.0" "Explains the memory usage." "O(1)";
        MemoryPurge "purge" 2 [] NONE Server "4.0.0"
        "Returns unused memory to the operating system." "O(1)";
        MemoryStats "stats" 2 [] NONE Server "4.0.0" "Shows memory usage." "O(1)";
        MemoryUsage "usage" -3 [READONLY] SECOND Server "4.0.0"
        "Returns the memory usage of a key in bytes." "O(1)";
        MemoryHelp "help" 2 [LOADING STALE] NONE Server "4.0.0" "Lists the subcommands." "O(1)";
    };
    Module "module" -2 [] NONE Server "4.0.0" "Shows modules." "O(1)" {
        ModuleList "list" 2 [ADMIN NOSCRIPT] NONE Server "4.0.0" "Lists the modules: none." "O(1)";
        ModuleHelp "help" 2 [LOADING STALE] NONE Server "5.0.0" "Lists the subcommands." "O(1)";
    };
    Replicaof "replicaof" 3 [ADMIN NOSCRIPT STALE] NONE Server "5.0.0" "Returns OK for NO ONE."
        "O(1)";
    Slaveof "slaveof" 3 [ADMIN NOSCRIPT STALE] NONE Server "1.0.0" "Older name of REPLICAOF."
        "O(1)";
    Failover "failover" -1 [ADMIN NOSCRIPT STALE] NONE Server "6.2.0"
        "Returns an error; there are no replicas." "O(1)";
    Lolwut "lolwut" -1 [READONLY FAST] NONE Server "5.0.0" "Shows the version of the server."
        "O(1)";
    Monitor "monitor" 1 [ADMIN NOSCRIPT LOADING STALE] NONE Server "1.0.0"
        "Shows each command of Redis's protocol as it runs." "depends on the command";
    Role "role" 1 [NOSCRIPT LOADING STALE FAST DANGEROUS] NONE Server "2.8.12"
        "Returns that this is a master without replicas." "O(1)";
    Shutdown "shutdown" -1 [ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY] NONE Server "1.0.0"
        "Shuts down the server." "depends on the command";
    Slowlog "slowlog" -2 [] NONE Server "2.2.12" "Shows slow requests." "O(N) for N entries" {
        SlowlogGet "get" -2 [ADMIN LOADING STALE] NONE Server "2.2.12" "Lists the slow log."
            "O(N) for N entries";
        SlowlogLen "len" 2 [ADMIN LOADING STALE] NONE Server "2.2.12"
            "Counts the entries of the slow log." "O(N) for N entries";
        SlowlogReset "reset" 2 [ADMIN LOADING STALE] NONE Server "2.2.12" "Deletes the slow log."
            "O(N) for N entries";
        SlowlogHelp "help" 2 [LOADING STALE] NONE Server "6.2.0" "Lists the subcommands."
            "O(N) for N entries";
    };
    Commandlog "commandlog" -2 [] NONE Server "8.1.0" "Shows slow and large requests."
        "O(N) for N entries" {
        CommandlogGet "get" 4 [ADMIN LOADING STALE] NONE Server "8.1.0" "Lists one of the logs."
            "O(N) for N entries";
        CommandlogLen "len" 3 [ADMIN LOADING STALE] NONE Server "8.1.0" "Counts a log's entries."
            "O(N) for N entries";
        CommandlogReset "reset" 3 [ADMIN LOADING STALE] NONE Server "8.1.0" "Deletes one log."
            "O(N) for N entries";
        CommandlogHelp "help" 2 [LOADING STALE] NONE Server "8.1.0" "Lists the subcommands."
            "O(N) for N entries";
    };
    Hotkeys "hotkeys" -2 [] NONE Server "8.6.0" "Finds the keys that cost most."
        "O(N) for N entries" {
        HotkeysStart "start" -2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Starts a measurement."
            "O(N) for N entries";
        HotkeysStop "stop" 2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Ends the measurement."
            "O(N) for N entries";
        HotkeysGet "get" 2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Shows the measurement."
            "O(N) for N entries";
        HotkeysReset "reset" 2 [ADMIN NOSCRIPT] NONE Server "8.6.0" "Deletes the measurement."
            "O(N) for N entries";
        HotkeysHelp "help" 2 [LOADING STALE] NONE Server "8.6.0" "Lists the subcommands."
            "O(N) for N entries";
    };
    Swapdb "swapdb" 3 [WRITE FAST DANGEROUS] NONE Server "4.0.0" "Swaps two databases."
        "O(1); the memory is freed in the background";
    Time "time" 1 [LOADING STALE FAST] NONE Server "2.6.0" "Returns the server's time." "O(1)";
}
