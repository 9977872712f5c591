//! The table of commands: name, action, arity, flags, keys, the version that introduced it, and a summary.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::command::flags::*;
use super::command::{Command, Does, Group, Keys};

const NO_KEYS: Keys = Keys { first: 0, last: 0, step: 0, counted_at: 0 };
const ONE: Keys = Keys { first: 1, last: 1, step: 1, counted_at: 0 };
const TWO: Keys = Keys { last: 2, ..ONE };
const ALL: Keys = Keys { last: -1, ..ONE };
const PAIRS: Keys = Keys { last: -1, step: 2, ..ONE };
const SECOND: Keys = Keys { first: 2, last: 2, ..ONE };
/// A number of keys, and the keys.
const COUNTED: Keys = Keys { counted_at: 1, ..NO_KEYS };
const FROM_SECOND: Keys = Keys { first: 2, last: -1, ..ONE };
/// Keys, and a timeout.
const ALL_BUT_LAST: Keys = Keys { last: -2, ..ONE };
/// A timeout, a number of keys, and the keys.
const SECOND_COUNTED: Keys = Keys { counted_at: 2, ..NO_KEYS };
/// A key, a number of keys, and the keys.
const ONE_COUNTED: Keys = Keys { counted_at: 2, ..ONE };

const R: u16 = READONLY;
const RF: u16 = READONLY | FAST;
const W: u16 = WRITE;
const WF: u16 = WRITE | FAST;
const WO: u16 = WRITE | DENYOOM;
const WOF: u16 = WRITE | DENYOOM | FAST;
/// Commands that may wait.
const WB: u16 = WRITE | BLOCKING;
const WBM: u16 = WRITE | BLOCKING | MOVABLE;
const WOB: u16 = WRITE | DENYOOM | BLOCKING;
/// Commands whose keys are counted by an argument.
const RM: u16 = READONLY | MOVABLE;
const WM: u16 = WRITE | MOVABLE;
const WOM: u16 = WRITE | DENYOOM | MOVABLE;
/// Commands about the connection.
const C: u16 = NOSCRIPT | LOADING | STALE | FAST;
/// Commands for operators.
const A: u16 = ADMIN | NOSCRIPT | LOADING | STALE;
const INFO: u16 = LOADING | STALE;
/// Commands that change what a client has subscribed to.
const P: u16 = PUBSUB | NOSCRIPT | LOADING | STALE;
const PF: u16 = PUBSUB | LOADING | STALE | FAST;

/// Scripts. That some only read is not a flag of theirs: requests with it are answered beside others.
const S: u16 = NOSCRIPT | STALE | MOVABLE;

/// Name, action, arity with the name (negative: at least), flags, keys, group, since, summary.
macro_rules! table {
    ($($name:literal $does:ident $arity:literal
        $flags:expr, $keys:ident $group:ident $since:literal $summary:literal;)*) => {
        &[$(Command {
            name: $name, does: Does::$does, arity: $arity, flags: $flags, keys: $keys, group: Group::$group,
            since: $since, summary: $summary,
        }),*]
    };
}

/// Sorted by name.
pub(super) static TABLE: &[Command] = table! {
    "acl" Acl -2 C, NO_KEYS Server "6.0.0" "Users of the configuration.";
    "append" Append 3 WOF, ONE String "2.0.0" "Puts bytes behind a value, or makes one of them.";
    "asking" Asking 1 FAST, NO_KEYS Cluster "3.0.0" "Answers OK: no slot is on its way elsewhere.";
    "auth" Auth -2 C | NO_AUTH, NO_KEYS Connection "1.0.0" "Logs in.";
    "bitcount" Bitcount -2 R, ONE Bitmap "2.6.0" "How many bits of a string are on.";
    "bitfield" Bitfield -2 WO, ONE Bitmap "3.2.0" "Numbers of some bits within a string.";
    "bitfield_ro" BitfieldRo -2 RF, ONE Bitmap "6.0.0" "Numbers of some bits within a string, which are only read.";
    "bitop" Bitop -4 WO, FROM_SECOND Bitmap "2.6.0" "Stores what bits of strings are together.";
    "bitpos" Bitpos -3 R, ONE Bitmap "2.8.7" "The first bit of a string that is on, or off.";
    "blmove" Blmove 6 WOB, TWO List "6.2.0" "Moves an element between lists, or waits for one.";
    "blmpop" Blmpop -5 WBM, SECOND_COUNTED List "7.0.0" "Elements of the first list that is there, or waits.";
    "blpop" Blpop -3 WB, ALL_BUT_LAST List "2.0.0" "Takes the first element of a list, or waits for one.";
    "brpop" Brpop -3 WB, ALL_BUT_LAST List "2.0.0" "Takes the last element of a list, or waits for one.";
    "brpoplpush" Brpoplpush 4 WOB, TWO List "2.2.0" "Moves a last element to a head, or waits for one.";
    "bzmpop" Bzmpop -5 WBM, SECOND_COUNTED SortedSet "7.0.0" "Members of the first sorted set that is there, or waits.";
    "bzpopmax" Bzpopmax -3 WB, ALL_BUT_LAST SortedSet "5.0.0" "Takes the member with the highest score, or waits.";
    "bzpopmin" Bzpopmin -3 WB, ALL_BUT_LAST SortedSet "5.0.0" "Takes the member with the lowest score, or waits.";
    "client" Client -2 C, NO_KEYS Connection "2.4.0" "Connections: their names, lists and replies.";
    "cluster" Cluster -2 INFO, NO_KEYS Cluster "3.0.0" "Which server has which slots.";
    "command" Command -1 INFO, NO_KEYS Server "2.8.13" "This table.";
    "config" Config -2 A, NO_KEYS Server "2.0.0" "Settings.";
    "copy" Copy -3 WO, TWO Generic "6.2.0" "Stores the value of a key under another one too.";
    "dbsize" Dbsize 1 RF, NO_KEYS Server "1.0.0" "How many keys there are, about.";
    "debug" Debug -2 A, NO_KEYS Server "1.0.0" "Refused.";
    "decr" Decr 2 WOF, ONE String "1.0.0" "Takes one from a number.";
    "decrby" Decrby 3 WOF, ONE String "1.0.0" "Takes so much from a number.";
    "del" Del -2 W, ALL Generic "1.0.0" "Removes keys.";
    "discard" Discard 1 C, NO_KEYS Transactions "2.0.0" "Forgets a transaction that was begun.";
    "dump" Dump 2 R, ONE Generic "2.6.0" "A value as bytes, which RESTORE takes.";
    "echo" Echo 2 LOADING | STALE | FAST, NO_KEYS Connection "1.0.0" "Answers what it is sent.";
    "eval" Eval -3 S, SECOND_COUNTED Scripting "2.6.0" "Runs a script.";
    "eval_ro" EvalRo -3 S, SECOND_COUNTED Scripting "7.0.0" "Runs a script that only reads.";
    "evalsha" Evalsha -3 S, SECOND_COUNTED Scripting "2.6.0" "Runs a script that is known by its SHA1.";
    "evalsha_ro" EvalshaRo -3 S, SECOND_COUNTED Scripting "7.0.0" "Runs a script that is known by its SHA1, to read.";
    "exec" Exec 1 NOSCRIPT | LOADING | STALE, NO_KEYS Transactions "1.2.0" "Does what a transaction has collected.";
    "exists" Exists -2 RF, ALL Generic "1.0.0" "How many of these keys have a value.";
    "expire" Expire -3 WF, ONE Generic "1.0.0" "Sets how many seconds a value lives.";
    "expireat" Expireat -3 WF, ONE Generic "1.2.0" "A value shall live until this second.";
    "expiretime" Expiretime 2 RF, ONE Generic "7.0.0" "The second in which a value expires.";
    "flushall" Flushall -1 W, NO_KEYS Server "1.0.0" "Removes all keys.";
    "flushdb" Flushdb -1 W, NO_KEYS Server "1.0.0" "Removes all keys.";
    "function" Function -2 NOSCRIPT, NO_KEYS Scripting "7.0.0" "There are no functions.";
    "get" Get 2 RF, ONE String "1.0.0" "The value of a key.";
    "getbit" Getbit 3 RF, ONE Bitmap "2.2.0" "A bit of a string.";
    "getdel" Getdel 2 WF, ONE String "6.2.0" "The value of a key, which is removed.";
    "getex" Getex -2 WF, ONE String "6.2.0" "The value of a key, which shall expire at another time.";
    "getrange" Getrange 4 R, ONE String "2.4.0" "A part of a value.";
    "getset" Getset 3 WOF, ONE String "1.0.0" "The value of a key, and puts another in its place.";
    "hdel" Hdel -3 WF, ONE Hash "2.0.0" "Removes fields.";
    "hello" Hello -1 C | NO_AUTH, NO_KEYS Connection "6.0.0" "Chooses the version of the protocol, and logs in.";
    "hexists" Hexists 3 RF, ONE Hash "2.0.0" "Whether a hash has a field.";
    "hexpire" Hexpire -6 WF, ONE Hash "7.4.0" "Sets how many seconds fields live.";
    "hexpireat" Hexpireat -6 WF, ONE Hash "7.4.0" "Fields shall live until this second.";
    "hexpiretime" Hexpiretime -5 RF, ONE Hash "7.4.0" "The second in which fields expire.";
    "hget" Hget 3 RF, ONE Hash "2.0.0" "The value of a field.";
    "hgetall" Hgetall 2 R, ONE Hash "2.0.0" "All fields of a hash with their values.";
    "hgetdel" Hgetdel -5 WF, ONE Hash "8.0.0" "The values of fields, which are removed.";
    "hgetex" Hgetex -5 WF, ONE Hash "8.0.0" "The values of fields, which shall expire at another time.";
    "hincrby" Hincrby 4 WOF, ONE Hash "2.0.0" "Adds a number to that of a field.";
    "hincrbyfloat" Hincrbyfloat 4 WOF, ONE Hash "2.6.0" "Adds a fraction to the number of a field.";
    "hkeys" Hkeys 2 R, ONE Hash "2.0.0" "All fields of a hash.";
    "hlen" Hlen 2 RF, ONE Hash "2.0.0" "How many fields a hash has.";
    "hmget" Hmget -3 RF, ONE Hash "2.0.0" "The values of fields.";
    "hmset" Hmset -4 WOF, ONE Hash "2.0.0" "Sets fields of a hash.";
    "hpersist" Hpersist -5 WF, ONE Hash "7.4.0" "Fields shall live as long as their hash.";
    "hpexpire" Hpexpire -6 WF, ONE Hash "7.4.0" "Sets how many milliseconds fields live.";
    "hpexpireat" Hpexpireat -6 WF, ONE Hash "7.4.0" "Fields shall live until this millisecond.";
    "hpexpiretime" Hpexpiretime -5 RF, ONE Hash "7.4.0" "The millisecond in which fields expire.";
    "hpttl" Hpttl -5 RF, ONE Hash "7.4.0" "How many milliseconds fields have left to live.";
    "hrandfield" Hrandfield -2 R, ONE Hash "6.2.0" "Random fields of a hash.";
    "hscan" Hscan -3 R, ONE Hash "2.8.0" "Fields of a hash with their values, page by page.";
    "hset" Hset -4 WOF, ONE Hash "2.0.0" "Sets fields of a hash.";
    "hsetex" Hsetex -6 WOF, ONE Hash "8.0.0" "Sets fields of a hash that expire.";
    "hsetnx" Hsetnx 4 WOF, ONE Hash "2.0.0" "Sets a field that has no value.";
    "hstrlen" Hstrlen 3 RF, ONE Hash "3.2.0" "How long the value of a field is.";
    "httl" Httl -5 RF, ONE Hash "7.4.0" "How many seconds fields have left to live.";
    "hvals" Hvals 2 R, ONE Hash "2.0.0" "All values of a hash.";
    "incr" Incr 2 WOF, ONE String "1.0.0" "Adds one to a number.";
    "incrby" Incrby 3 WOF, ONE String "1.0.0" "Adds so much to a number.";
    "incrbyfloat" Incrbyfloat 3 WOF, ONE String "2.6.0" "Adds a fraction to a number.";
    "info" Info -1 INFO, NO_KEYS Server "1.0.0" "What is known of the server.";
    "keys" KeysLike 2 R, NO_KEYS Generic "1.0.0" "All keys that a pattern describes.";
    "lastsave" Lastsave 1 LOADING | STALE | FAST, NO_KEYS Server "1.0.0" "The second in which the server began.";
    "latency" Latency -2 A, NO_KEYS Server "2.8.13" "Spikes of latency, which are not recorded.";
    "lindex" Lindex 3 R, ONE List "1.0.0" "The element at a place.";
    "linsert" Linsert 5 WO, ONE List "2.2.0" "Puts an element beside another.";
    "llen" Llen 2 RF, ONE List "1.0.0" "How many elements a list has.";
    "lmove" Lmove 5 WO, TWO List "6.2.0" "Moves an element from a list to another.";
    "lmpop" Lmpop -4 WM, COUNTED List "7.0.0" "Elements of the first list that is there, which are removed.";
    "lpop" Lpop -2 WF, ONE List "1.0.0" "Takes elements from the head of a list.";
    "lpos" Lpos -3 R, ONE List "6.0.6" "Where a list has an element.";
    "lpush" Lpush -3 WOF, ONE List "1.0.0" "Puts elements at the head of a list.";
    "lpushx" Lpushx -3 WOF, ONE List "2.2.0" "Puts elements at the head of a list that is there.";
    "lrange" Lrange 4 R, ONE List "1.0.0" "The elements in a range.";
    "lrem" Lrem 4 W, ONE List "1.0.0" "Removes elements that are equal to this.";
    "lset" Lset 4 WO, ONE List "1.0.0" "Replaces the element at a place.";
    "ltrim" Ltrim 4 W, ONE List "1.0.0" "Keeps a range of a list.";
    "memory" Memory -2 R, NO_KEYS Server "4.0.0" "What an item takes in memory.";
    "mget" Mget -2 RF, ALL String "1.0.0" "The values of keys, each as it is when it is looked up.";
    "move" Move 3 WF, ONE Generic "1.0.0" "Moves a value to another database.";
    "mset" Mset -3 WO, PAIRS String "1.0.1" "Stores values, one after the other.";
    "msetnx" Msetnx -3 WO, PAIRS String "1.0.1" "Stores values if none of the keys has one.";
    "multi" Multi 1 C, NO_KEYS Transactions "1.2.0" "Begins a transaction.";
    "object" Object -2 R, SECOND Generic "2.2.3" "What is known of a value beside its bytes.";
    "persist" Persist 2 WF, ONE Generic "2.2.0" "A value shall live for ever.";
    "pexpire" Pexpire -3 WF, ONE Generic "2.6.0" "Sets how many milliseconds a value lives.";
    "pexpireat" Pexpireat -3 WF, ONE Generic "2.6.0" "A value shall live until this millisecond.";
    "pexpiretime" Pexpiretime 2 RF, ONE Generic "7.0.0" "The millisecond in which a value expires.";
    "pfadd" Pfadd -2 WOF, ONE Hyperloglog "2.8.9" "Adds members to a sketch, which counts them about.";
    "pfcount" Pfcount -2 R, ALL Hyperloglog "2.8.9" "About how many members sketches have together.";
    "pfmerge" Pfmerge -2 WO, ALL Hyperloglog "2.8.9" "Adds the members of sketches to one.";
    "ping" Ping -1 FAST, NO_KEYS Connection "1.0.0" "Answers.";
    "psetex" Psetex 4 WO, ONE String "2.6.0" "Stores a value for a number of milliseconds.";
    "psubscribe" Psubscribe -2 P, NO_KEYS Pubsub "2.0.0" "Hears the channels that patterns describe.";
    "pttl" Pttl 2 RF, ONE Generic "2.6.0" "How many milliseconds a value has left to live.";
    "publish" Publish 3 PF, NO_KEYS Pubsub "2.0.0" "Sends a message to the subscribers of a channel.";
    "pubsub" Pubsub -2 INFO | PUBSUB, NO_KEYS Pubsub "2.8.0" "Which channels have subscribers.";
    "punsubscribe" Punsubscribe -1 P, NO_KEYS Pubsub "2.0.0" "Hears the channels of patterns no more.";
    "quit" Quit -1 C | NO_AUTH, NO_KEYS Connection "1.0.0" "Closes the connection.";
    "randomkey" Randomkey 1 R, NO_KEYS Generic "1.0.0" "Some key.";
    "readonly" Readonly 1 LOADING | STALE | FAST, NO_KEYS Cluster "3.0.0" "Answers OK: there are no replicas.";
    "readwrite" Readonly 1 LOADING | STALE | FAST, NO_KEYS Cluster "3.0.0" "Answers OK: there are no replicas.";
    "rename" Rename 3 W, TWO Generic "1.0.0" "Gives a value another key, in the place of what that has.";
    "renamenx" Renamenx 3 WF, TWO Generic "1.0.0" "Gives a value another key that has none.";
    "reset" Reset 1 C | NO_AUTH, NO_KEYS Connection "6.2.0" "Makes the connection what it was at its begin.";
    "restore" Restore -4 WO, ONE Generic "2.6.0" "Stores a value that DUMP has given.";
    "role" Role 1 C, NO_KEYS Server "2.8.12" "Says that this server is a master without replicas.";
    "rpop" Rpop -2 WF, ONE List "1.0.0" "Takes elements from the tail of a list.";
    "rpoplpush" Rpoplpush 3 WO, TWO List "1.2.0" "Moves the last element of a list to the head of another.";
    "rpush" Rpush -3 WOF, ONE List "1.0.0" "Puts elements at the tail of a list.";
    "rpushx" Rpushx -3 WOF, ONE List "2.2.0" "Puts elements at the tail of a list that is there.";
    "sadd" Sadd -3 WOF, ONE Set "1.0.0" "Adds members to a set.";
    "scan" Scan -2 R, NO_KEYS Generic "2.8.0" "Keys, page by page.";
    "scard" Scard 2 RF, ONE Set "1.0.0" "How many members a set has.";
    "script" Script -2 NOSCRIPT, NO_KEYS Scripting "2.6.0" "Scripts that are known by their SHA1.";
    "sdiff" Sdiff -2 R, ALL Set "1.0.0" "The members of a set that no other has.";
    "sdiffstore" Sdiffstore -3 WO, ALL Set "1.0.0" "Stores what a set has and no other.";
    "select" Select 2 LOADING | STALE | FAST, NO_KEYS Connection "1.0.0" "Chooses a database.";
    "set" Set -3 WO, ONE String "1.0.0" "Stores a value, on conditions.";
    "setbit" Setbit 4 WO, ONE Bitmap "2.2.0" "Sets a bit of a string.";
    "setex" Setex 4 WO, ONE String "2.0.0" "Stores a value for a number of seconds.";
    "setnx" Setnx 3 WOF, ONE String "1.0.0" "Stores a value if the key has none.";
    "setrange" Setrange 4 WO, ONE String "2.2.0" "Writes over a part of a value.";
    "sinter" Sinter -2 R, ALL Set "1.0.0" "The members that all of these sets have.";
    "sintercard" Sintercard -3 RM, COUNTED Set "7.0.0" "How many members all of these sets have.";
    "sinterstore" Sinterstore -3 WO, ALL Set "1.0.0" "Stores what all of these sets have.";
    "sismember" Sismember 3 RF, ONE Set "1.0.0" "Whether a set has a member.";
    "slowlog" Slowlog -2 A, NO_KEYS Server "2.2.12" "Requests that took long.";
    "smembers" Smembers 2 R, ONE Set "1.0.0" "All members of a set.";
    "smismember" Smismember -3 RF, ONE Set "6.2.0" "Which of these members a set has.";
    "smove" Smove 4 WF, TWO Set "1.0.0" "Moves a member from a set to another.";
    "sort" Sort -2 WOM, ONE Generic "1.0.0" "The members of a collection in an order.";
    "sort_ro" SortRo -2 RM, ONE Generic "7.0.0" "The members of a collection in an order, which is not stored.";
    "spop" Spop -2 WF, ONE Set "1.0.0" "Random members of a set, which are removed.";
    "spublish" Spublish 3 PF, ONE Pubsub "7.0.0" "Sends a message to the subscribers of a sharded channel.";
    "srandmember" Srandmember -2 R, ONE Set "1.0.0" "Random members of a set.";
    "srem" Srem -3 WF, ONE Set "1.0.0" "Removes members from a set.";
    "sscan" Sscan -3 R, ONE Set "2.8.0" "Members of a set, page by page.";
    "ssubscribe" Ssubscribe -2 P, ALL Pubsub "7.0.0" "Hears sharded channels.";
    "strlen" Strlen 2 RF, ONE String "2.2.0" "How long a value is.";
    "subscribe" Subscribe -2 P, NO_KEYS Pubsub "2.0.0" "Hears channels.";
    "substr" Getrange 4 R, ONE String "1.0.0" "A part of a value.";
    "sunion" Sunion -2 R, ALL Set "1.0.0" "The members that any of these sets has.";
    "sunionstore" Sunionstore -3 WO, ALL Set "1.0.0" "Stores what any of these sets has.";
    "sunsubscribe" Sunsubscribe -1 P, ALL Pubsub "7.0.0" "Hears sharded channels no more.";
    "swapdb" Swapdb 3 WF, NO_KEYS Server "4.0.0" "Swaps the keys of two databases.";
    "time" Time 1 LOADING | STALE | FAST, NO_KEYS Server "2.6.0" "The server's time.";
    "touch" Touch -2 RF, ALL Generic "3.2.1" "How many of these keys have a value, which are used by that.";
    "ttl" Ttl 2 RF, ONE Generic "1.0.0" "How many seconds a value has left to live.";
    "type" Type 2 RF, ONE Generic "1.0.0" "What kind of value a key has, or none.";
    "unlink" Del -2 WF, ALL Generic "4.0.0" "Removes keys.";
    "unsubscribe" Unsubscribe -1 P, NO_KEYS Pubsub "2.0.0" "Hears channels no more.";
    "unwatch" Unwatch 1 C, NO_KEYS Transactions "2.2.0" "Watches no key any more.";
    "wait" Wait 3 0, NO_KEYS Generic "3.0.0" "How many replicas have followed: none.";
    "watch" Watch -2 C, ALL Transactions "2.2.0" "A transaction shall do nothing if one of these keys changes before.";
    "zadd" Zadd -4 WOF, ONE SortedSet "1.2.0" "Adds members with scores, or changes scores.";
    "zcard" Zcard 2 RF, ONE SortedSet "1.2.0" "How many members a sorted set has.";
    "zcount" Zcount 4 RF, ONE SortedSet "2.0.0" "How many members have scores in a range.";
    "zdiff" Zdiff -3 RM, COUNTED SortedSet "6.2.0" "The members of a sorted set that no other has.";
    "zdiffstore" Zdiffstore -4 WOM, ONE_COUNTED SortedSet "6.2.0" "Stores what a sorted set has and no other.";
    "zincrby" Zincrby 4 WOF, ONE SortedSet "1.2.0" "Adds to the score of a member.";
    "zinter" Zinter -3 RM, COUNTED SortedSet "6.2.0" "The members that all of these have.";
    "zintercard" Zintercard -3 RM, COUNTED SortedSet "7.0.0" "How many members all of these have.";
    "zinterstore" Zinterstore -4 WOM, ONE_COUNTED SortedSet "2.0.0" "Stores what all of these have.";
    "zlexcount" Zlexcount 4 RF, ONE SortedSet "2.8.9" "How many members are in a range.";
    "zmpop" Zmpop -4 WM, COUNTED SortedSet "7.0.0" "Members of the first sorted set that is there, which are removed.";
    "zmscore" Zmscore -3 RF, ONE SortedSet "6.2.0" "The scores of members.";
    "zpopmax" Zpopmax -2 WF, ONE SortedSet "5.0.0" "The members with the highest scores, which are removed.";
    "zpopmin" Zpopmin -2 WF, ONE SortedSet "5.0.0" "The members with the lowest scores, which are removed.";
    "zrandmember" Zrandmember -2 R, ONE SortedSet "6.2.0" "Random members of a sorted set.";
    "zrange" Zrange -4 R, ONE SortedSet "1.2.0" "Members in a range of ranks, scores or members.";
    "zrangebylex" Zrangebylex -4 R, ONE SortedSet "2.8.9" "Members in a range of members.";
    "zrangebyscore" Zrangebyscore -4 R, ONE SortedSet "1.0.5" "Members with scores in a range.";
    "zrangestore" Zrangestore -5 WO, TWO SortedSet "6.2.0" "Stores a range of members.";
    "zrank" Zrank -3 RF, ONE SortedSet "2.0.0" "How many members have lower scores.";
    "zrem" Zrem -3 WF, ONE SortedSet "1.2.0" "Removes members.";
    "zremrangebylex" Zremrangebylex 4 W, ONE SortedSet "2.8.9" "Removes a range of members.";
    "zremrangebyrank" Zremrangebyrank 4 W, ONE SortedSet "2.0.0" "Removes a range of ranks.";
    "zremrangebyscore" Zremrangebyscore 4 W, ONE SortedSet "1.2.0" "Removes a range of scores.";
    "zrevrange" Zrevrange -4 R, ONE SortedSet "1.2.0" "Members in a range of ranks, the highest first.";
    "zrevrangebylex" Zrevrangebylex -4 R, ONE SortedSet "2.8.9" "Members in a range of members, the last first.";
    "zrevrangebyscore" Zrevrangebyscore -4 R, ONE SortedSet "2.2.0" "Members in a range of scores, the highest first.";
    "zrevrank" Zrevrank -3 RF, ONE SortedSet "2.0.0" "How many members have higher scores.";
    "zscan" Zscan -3 R, ONE SortedSet "2.8.0" "Members with their scores, page by page.";
    "zscore" Zscore 3 RF, ONE SortedSet "1.2.0" "The score of a member.";
    "zunion" Zunion -3 RM, COUNTED SortedSet "6.2.0" "The members that any of these has.";
    "zunionstore" Zunionstore -4 WOM, ONE_COUNTED SortedSet "2.0.0" "Stores what any of these has.";
};

/// Longest name, in bytes, that we look up.
const NAME_BYTES_MAX: usize = 16;

/// Places in the table, by name in lower case, with zero bytes behind.
static PLACES: LazyLock<FxHashMap<u128, usize>> = LazyLock::new(|| {
    let names = TABLE.iter().filter_map(|command| word(command.name.as_bytes()));
    names.enumerate().map(|(at, name)| (name, at)).collect()
});

fn word(name: &[u8]) -> Option<u128> {
    let mut lower = [0; NAME_BYTES_MAX];
    let word = lower.get_mut(..name.len())?;
    word.copy_from_slice(name);
    word.make_ascii_lowercase();
    Some(u128::from_le_bytes(lower))
}

/// The command with this name, and its index in the table.
pub(super) fn find(name: &[u8]) -> Option<(usize, &'static Command)> {
    let at = *PLACES.get(&word(name)?)?;
    let command = TABLE.get(at).filter(|command| command.name.len() == name.len())?;
    Some((at, command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_found() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, no name twice");
        for (at, command) in TABLE.iter().enumerate() {
            let found = find(command.name.to_ascii_uppercase().as_bytes());
            assert!(found.is_some_and(|(place, it)| place == at && it.name == command.name));
        }
        for wrong in [&b""[..], b"nope", b"get\0", b"\0\0\0", b"gett", &[b'g'; 100], b"\xff"] {
            assert!(find(wrong).is_none());
        }
    }

    #[test]
    fn arities() {
        let takes = |name: &str, count| find(name.as_bytes()).unwrap().1.takes(count);
        assert!(takes("get", 2) && !takes("get", 1) && !takes("get", 3));
        assert!(takes("mget", 2) && takes("mget", 1000) && !takes("mget", 1));
    }

    #[test]
    fn keys_by_place() {
        let places = |name: &str, count| -> Vec<usize> {
            find(name.as_bytes()).unwrap().1.key_places(count).collect()
        };
        assert_eq!(places("get", 2), [1]);
        assert_eq!(places("mget", 4), [1, 2, 3]);
        assert_eq!(places("mset", 5), [1, 3]);
        assert_eq!(places("rename", 3), [1, 2]);
        assert_eq!(places("object", 3), [2]);
        assert_eq!(places("object", 2), [] as [usize; 0]);
        assert_eq!(places("ping", 2), [] as [usize; 0]);
        assert_eq!(places("del", 0), [] as [usize; 0]);
    }

    #[test]
    fn keys_that_an_argument_counts() {
        let keys = |name: &str, arguments: &[&str]| -> Vec<String> {
            let request = std::iter::once(&name).chain(arguments);
            let line = request.fold(String::new(), |line, word| line + word + " ") + "\r\n";
            let mut parser = super::super::parse::Parser::default();
            let limits = super::super::parse::Limits { has_logged_in: true, value_bytes_max: 100 };
            parser.parse(line.as_bytes(), limits);
            let command = find(name.as_bytes()).unwrap().1;
            let keys = command.keys_of(parser.arguments(line.as_bytes()));
            keys.map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
        };
        assert_eq!(keys("zunion", &["2", "a", "b", "withscores"]), ["a", "b"]);
        assert_eq!(
            keys("zunionstore", &["d", "2", "a", "b", "weights", "1", "2"]),
            ["d", "a", "b"]
        );
        assert_eq!(keys("lmpop", &["99", "a", "left"]), ["a", "left"], "no more than there are");
        for wrong in ["-1", "x", "9223372036854775807"] {
            assert!(keys("sintercard", &[wrong, "a"]).len() <= 1, "{wrong}");
        }
        assert_eq!(keys("hget", &["a", "b"]), ["a"]);
        assert_eq!(keys("sort", &["a", "get", "store", "store", "b", "STORE", "c"]), ["a", "c"]);
        assert_eq!(keys("sort", &["a", "limit", "0", "store", "store"]), ["a"]);
    }
}
