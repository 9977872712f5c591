//! The description of a command.

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
    pub(in crate::protocol::resp) const NAMES: [&str; 10] = [
        "write", "readonly", "denyoom", "admin", "noscript", "loading", "stale", "fast", "no_auth",
        "pubsub",
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
}

/// The group of a command in its documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Cluster,
    Connection,
    Generic,
    Pubsub,
    Scripting,
    Server,
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
    Echo,
    Exec,
    Exists,
    Expire,
    Expireat,
    Expiretime,
    Flushall,
    Flushdb,
    Function,
    Get,
    Getdel,
    Getex,
    Getrange,
    Getset,
    Hello,
    Incr,
    Incrby,
    Incrbyfloat,
    Info,
    KeysLike,
    Lastsave,
    Latency,
    Memory,
    Mget,
    Mset,
    Msetnx,
    Multi,
    Object,
    Persist,
    Pexpire,
    Pexpireat,
    Pexpiretime,
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
    Role,
    Scan,
    Select,
    Set,
    Setex,
    Setnx,
    Setrange,
    Slowlog,
    Spublish,
    Ssubscribe,
    Strlen,
    Subscribe,
    Sunsubscribe,
    Time,
    Touch,
    Ttl,
    Type,
    Unsubscribe,
    Unwatch,
    Wait,
    Watch,
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

    /// Whether earlier requests must be answered before it begins.
    pub(super) fn waits_for_earlier(&self) -> bool {
        !self.has(flags::READONLY) && !matches!(self.does, Does::Ping | Does::Echo)
    }

    /// The indices of the keys among its arguments.
    pub(super) fn key_places(&self, arguments: usize) -> impl Iterator<Item = usize> + use<> {
        let Keys { first, last, step } = self.keys;
        let first = usize::try_from(first).unwrap_or(0);
        let behind = usize::try_from(-last).unwrap_or(0);
        let end = match usize::try_from(last) {
            Ok(last) => (last + 1).min(arguments),
            Err(_) => (arguments + 1).saturating_sub(behind),
        };
        let places = if first == 0 { 0..0 } else { first..end };
        places.step_by(usize::try_from(step).unwrap_or(0).max(1))
    }

    /// The keys among its arguments.
    pub(super) fn keys_of<'a>(
        &self,
        arguments: Arguments<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.key_places(arguments.len()).map(move |place| arguments.get(place))
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
        add(self.group == Group::Generic, "@keyspace");
        add(self.group == Group::Connection, "@connection");
        add(self.group == Group::Pubsub, "@pubsub");
        add(self.group == Group::Transactions, "@transaction");
        let dangerous = matches!(
            self.does,
            Does::Flushall | Does::Flushdb | Does::KeysLike | Does::Info | Does::Role
        );
        add(self.has(flags::ADMIN), "@admin");
        add(dangerous || self.has(flags::ADMIN), "@dangerous");
        add(self.has(flags::FAST), "@fast");
        add(!self.has(flags::FAST), "@slow");
        all
    }
}

impl Group {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Pubsub => "pubsub",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }
}
