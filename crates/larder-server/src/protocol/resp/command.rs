//! The description of a command.

use super::number;
use super::parse::Arguments;

/// Flags of a command, as `COMMAND` reports them.
pub(super) mod flags {
    pub(in crate::protocol::resp) const WRITE: u16 = 1;
    pub(in crate::protocol::resp) const READONLY: u16 = 1 << 1;
    pub(in crate::protocol::resp) const DENYOOM: u16 = 1 << 2;
    pub(in crate::protocol::resp) const ADMIN: u16 = 1 << 3;
    pub(in crate::protocol::resp) const NOSCRIPT: u16 = 1 << 4;
    pub(in crate::protocol::resp) const LOADING: u16 = 1 << 5;
    pub(in crate::protocol::resp) const STALE: u16 = 1 << 6;
    pub(in crate::protocol::resp) const FAST: u16 = 1 << 7;
    pub(in crate::protocol::resp) const NO_AUTH: u16 = 1 << 8;
    pub(in crate::protocol::resp) const PUBSUB: u16 = 1 << 9;
    /// The keys are counted by an argument.
    pub(in crate::protocol::resp) const MOVABLE: u16 = 1 << 10;
    /// It may wait, and takes the turns of its keys by itself.
    pub(in crate::protocol::resp) const BLOCKING: u16 = 1 << 11;
    pub(in crate::protocol::resp) const NAMES: [&str; 12] = [
        "write",
        "readonly",
        "denyoom",
        "admin",
        "noscript",
        "loading",
        "stale",
        "fast",
        "no_auth",
        "pubsub",
        "movablekeys",
        "blocking",
    ];
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) does: Does,
    /// Number of arguments, including the name; negative: at least that number.
    pub(super) arity: i32,
    pub(super) flags: u16,
    pub(super) keys: Keys,
    pub(super) group: Group,
    pub(super) since: &'static str,
    pub(super) summary: &'static str,
}

/// Which arguments are keys: every `step`th from `first` to `last`. A negative `last` counts from the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) first: i32,
    pub(super) last: i32,
    pub(super) step: i32,
    /// The argument that says how many keys stand behind it; 0: there is none.
    pub(super) counted_at: usize,
}

/// The group of a command in its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Bitmap,
    Cluster,
    Connection,
    Generic,
    Hash,
    Hyperloglog,
    List,
    Pubsub,
    Scripting,
    Server,
    Set,
    SortedSet,
    String,
    Transactions,
}

/// What a command does. Two names may do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Acl,
    Append,
    Asking,
    Auth,
    Bitcount,
    Bitfield,
    BitfieldRo,
    Bitop,
    Bitpos,
    Blmove,
    Blmpop,
    Blpop,
    Brpop,
    Brpoplpush,
    Bzmpop,
    Bzpopmax,
    Bzpopmin,
    Client,
    Cluster,
    Command,
    Config,
    Copy,
    Dbsize,
    Debug,
    Decr,
    Decrby,
    Del,
    Discard,
    Dump,
    Echo,
    Eval,
    EvalRo,
    Evalsha,
    EvalshaRo,
    Exec,
    Exists,
    Expire,
    Expireat,
    Expiretime,
    Flushall,
    Flushdb,
    Function,
    Get,
    Getbit,
    Getdel,
    Getex,
    Getrange,
    Getset,
    Hdel,
    Hello,
    Hexists,
    Hexpire,
    Hexpireat,
    Hexpiretime,
    Hget,
    Hgetall,
    Hgetdel,
    Hgetex,
    Hincrby,
    Hincrbyfloat,
    Hkeys,
    Hlen,
    Hmget,
    Hmset,
    Hpersist,
    Hpexpire,
    Hpexpireat,
    Hpexpiretime,
    Hpttl,
    Hrandfield,
    Hscan,
    Hset,
    Hsetex,
    Hsetnx,
    Hstrlen,
    Httl,
    Hvals,
    Incr,
    Incrby,
    Incrbyfloat,
    Info,
    KeysLike,
    Lastsave,
    Latency,
    Lindex,
    Linsert,
    Llen,
    Lmove,
    Lmpop,
    Lpop,
    Lpos,
    Lpush,
    Lpushx,
    Lrange,
    Lrem,
    Lset,
    Ltrim,
    Memory,
    Mget,
    Move,
    Mset,
    Msetnx,
    Multi,
    Object,
    Persist,
    Pexpire,
    Pexpireat,
    Pexpiretime,
    Pfadd,
    Pfcount,
    Pfmerge,
    Ping,
    Psetex,
    Psubscribe,
    Pttl,
    Publish,
    Pubsub,
    Punsubscribe,
    Quit,
    Randomkey,
    Readonly,
    Rename,
    Renamenx,
    Reset,
    Restore,
    Role,
    Rpop,
    Rpoplpush,
    Rpush,
    Rpushx,
    Sadd,
    Scan,
    Scard,
    Sdiff,
    Sdiffstore,
    Script,
    Select,
    Set,
    Setbit,
    Setex,
    Setnx,
    Setrange,
    Sinter,
    Sintercard,
    Sinterstore,
    Sismember,
    Slowlog,
    Smembers,
    Smismember,
    Smove,
    Sort,
    SortRo,
    Spop,
    Spublish,
    Srandmember,
    Srem,
    Sscan,
    Ssubscribe,
    Strlen,
    Subscribe,
    Sunion,
    Sunionstore,
    Sunsubscribe,
    Swapdb,
    Time,
    Touch,
    Ttl,
    Type,
    Unsubscribe,
    Unwatch,
    Wait,
    Watch,
    Zadd,
    Zcard,
    Zcount,
    Zdiff,
    Zdiffstore,
    Zincrby,
    Zinter,
    Zintercard,
    Zinterstore,
    Zlexcount,
    Zmpop,
    Zmscore,
    Zpopmax,
    Zpopmin,
    Zrandmember,
    Zrange,
    Zrangebylex,
    Zrangebyscore,
    Zrangestore,
    Zrank,
    Zrem,
    Zremrangebylex,
    Zremrangebyrank,
    Zremrangebyscore,
    Zrevrange,
    Zrevrangebylex,
    Zrevrangebyscore,
    Zrevrank,
    Zscan,
    Zscore,
    Zunion,
    Zunionstore,
}

impl Command {
    /// Whether it may have this number of arguments, including its name.
    pub(super) fn takes(&self, arguments: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= wanted } else { arguments == wanted }
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether earlier requests must be answered before it begins. A step waits for requests that work with its keys,
    /// and so must not be one that earlier requests of its connection wait for.
    pub(super) fn waits_for_earlier(&self) -> bool {
        !self.has(flags::READONLY) && !matches!(self.does, Does::Ping | Does::Echo)
            || self.takes_turns()
            || self.does == Does::SortRo
    }

    /// The indices of the keys among its arguments.
    pub(super) fn key_places(&self, arguments: usize) -> impl Iterator<Item = usize> + use<> {
        let Keys { first, last, step, .. } = self.keys;
        let first = usize::try_from(first).unwrap_or(0);
        let behind = usize::try_from(-last).unwrap_or(0);
        let end = match usize::try_from(last) {
            Ok(last) => (last + 1).min(arguments),
            Err(_) => (arguments + 1).saturating_sub(behind),
        };
        let places = if first == 0 { 0..0 } else { first..end };
        places.step_by(usize::try_from(step).unwrap_or(0).max(1))
    }

    /// The indices of the keys among these arguments, counted keys too.
    pub(super) fn key_places_of(
        &self,
        arguments: Arguments<'_>,
    ) -> impl Iterator<Item = usize> + use<> {
        let at = self.keys.counted_at;
        let count = if at > 0 { number::integer(arguments.get(at)) } else { None };
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        let end = count.saturating_add(at + 1).min(arguments.len().max(at + 1));
        let stored = (self.does == Does::Sort).then(|| stored_at(arguments)).flatten();
        self.key_places(arguments.len()).chain(at + 1..end).chain(stored)
    }

    /// The keys among its arguments.
    pub(super) fn keys_of<'a>(
        &self,
        arguments: Arguments<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.key_places_of(arguments).map(move |place| arguments.get(place))
    }

    /// Whether it holds the turns of the tenants of its keys while it runs, since it may have several keys.
    pub(super) fn takes_turns(&self) -> bool {
        let Keys { first, last, counted_at, .. } = self.keys;
        let of_collections = !matches!(
            self.group,
            Group::Generic | Group::String | Group::Pubsub | Group::Scripting | Group::Transactions
        );
        of_collections && (first != last || counted_at > 0) && !self.has(flags::BLOCKING)
            || matches!(
                self.does,
                Does::Rename | Does::Renamenx | Does::Copy | Does::Move | Does::Msetnx
            )
    }

    /// The names of its flags.
    pub(super) fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        let flags = self.flags;
        let named = flags::NAMES.iter().enumerate();
        named.filter(move |(bit, _)| flags & 1 << bit != 0).map(|(_, name)| *name)
    }

    /// Its categories in an access list.
    pub(super) fn categories(&self) -> Vec<&'static str> {
        let mut all = Vec::new();
        let mut add = |is: bool, name| all.extend(is.then_some(name));
        add(self.has(flags::WRITE), "@write");
        add(self.has(flags::READONLY), "@read");
        add(self.group == Group::String, "@string");
        add(self.group == Group::Bitmap, "@bitmap");
        add(self.group == Group::Hash, "@hash");
        add(self.group == Group::Hyperloglog, "@hyperloglog");
        add(self.group == Group::List, "@list");
        add(self.group == Group::Set, "@set");
        add(self.group == Group::SortedSet, "@sortedset");
        add(self.group == Group::Generic, "@keyspace");
        add(self.group == Group::Connection, "@connection");
        add(self.group == Group::Pubsub, "@pubsub");
        add(self.group == Group::Transactions, "@transaction");
        add(self.group == Group::Scripting, "@scripting");
        let dangerous = matches!(
            self.does,
            Does::Flushall | Does::Flushdb | Does::KeysLike | Does::Info | Does::Role
        );
        add(self.has(flags::ADMIN), "@admin");
        add(dangerous || self.has(flags::ADMIN), "@dangerous");
        add(self.has(flags::BLOCKING), "@blocking");
        add(self.has(flags::FAST), "@fast");
        add(!self.has(flags::FAST), "@slow");
        all
    }
}

/// The place of the key at which `SORT` stores: the last one, if there are several.
fn stored_at(arguments: Arguments<'_>) -> Option<usize> {
    let (mut at, mut stored) = (2, None);
    while at < arguments.len() {
        at += match &*arguments.get(at).to_ascii_uppercase() {
            b"LIMIT" => 3,
            b"GET" | b"BY" => 2,
            b"STORE" => {
                stored = Some(at + 1).filter(|key| *key < arguments.len()).or(stored);
                2
            }
            _ => 1,
        };
    }
    stored
}

impl Group {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Cluster => "cluster",
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Hash => "hash",
            Self::Hyperloglog => "hyperloglog",
            Self::List => "list",
            Self::Pubsub => "pubsub",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }
}
