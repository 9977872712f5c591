//! What requests do to keys, as it is told to clients that track and to subscribers of events.

use larder::{Change, SetOptions};

use super::client::Client;
use super::command::Does;
use crate::caller::Caller;
use crate::config::KeyspaceEvents;
use crate::keyspace::{Changed, DEL, EXPIRE, Event, SET};

/// What a request has done to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// Nothing that is told.
    Nothing,
    Stored {
        has_lifetime: bool,
    },
    /// It has another lifetime, or none.
    Touched {
        has_lifetime: bool,
    },
    /// The value is gone.
    Removed,
}

impl Did {
    /// What this change does.
    pub(super) fn of(change: &Change<'_>) -> Self {
        match change {
            Change::Keep => Self::Nothing,
            Change::Touch(lifetime) => Self::Touched { has_lifetime: lifetime.is_some() },
            Change::Store(_, options) => Self::of_store(options),
            _ => Self::Stored { has_lifetime: false },
        }
    }

    pub(super) fn of_store(options: &SetOptions) -> Self {
        Self::Stored { has_lifetime: options.ttl.is_some() }
    }
}

const fn string(name: &'static str) -> Event {
    Event { class: KeyspaceEvents::STRING, name }
}

const fn list(name: &'static str) -> Event {
    Event { class: KeyspaceEvents::LIST, name }
}

const fn set(name: &'static str) -> Event {
    Event { class: KeyspaceEvents::SET, name }
}

const fn hash(name: &'static str) -> Event {
    Event { class: KeyspaceEvents::HASH, name }
}

const fn sorted_set(name: &'static str) -> Event {
    Event { class: KeyspaceEvents::SORTED_SET, name }
}

pub(super) const LPUSH: Event = list("lpush");
pub(super) const RPUSH: Event = list("rpush");
pub(super) const LPOP: Event = list("lpop");
pub(super) const RPOP: Event = list("rpop");
pub(super) const SADD: Event = set("sadd");
pub(super) const SREM: Event = set("srem");
/// Fields of a hash have expired.
pub(super) const HEXPIRED: Event = hash("hexpired");
pub(super) const ZINCR: Event = sorted_set("zincr");
pub(super) const ZPOPMIN: Event = sorted_set("zpopmin");
pub(super) const ZPOPMAX: Event = sorted_set("zpopmax");
pub(super) const RENAME_FROM: Event = Event::generic("rename_from");
pub(super) const RENAME_TO: Event = Event::generic("rename_to");
pub(super) const MOVE_FROM: Event = Event::generic("move_from");
pub(super) const MOVE_TO: Event = Event::generic("move_to");
pub(super) const COPY_TO: Event = Event::generic("copy_to");
pub(super) const RESTORE: Event = Event::generic("restore");
const PERSIST: Event = Event::generic("persist");

/// The event of what a command stores.
pub(super) fn of(does: Does) -> Event {
    match does {
        Does::Append => string("append"),
        Does::Setrange => string("setrange"),
        Does::Incr | Does::Incrby => string("incrby"),
        Does::Decr | Does::Decrby => string("decrby"),
        Does::Incrbyfloat => string("incrbyfloat"),
        Does::Setbit | Does::Bitfield => string("setbit"),
        Does::Pfadd | Does::Pfmerge => string("pfadd"),
        Does::Lpush | Does::Lpushx => LPUSH,
        Does::Rpush | Does::Rpushx => RPUSH,
        Does::Linsert => list("linsert"),
        Does::Lset => list("lset"),
        Does::Lrem => list("lrem"),
        Does::Ltrim => list("ltrim"),
        Does::Sort => list("sortstore"),
        Does::Sadd => SADD,
        Does::Srem => SREM,
        Does::Spop => set("spop"),
        Does::Sinterstore => set("sinterstore"),
        Does::Sunionstore => set("sunionstore"),
        Does::Sdiffstore => set("sdiffstore"),
        Does::Hset | Does::Hmset | Does::Hsetnx | Does::Hsetex => hash("hset"),
        Does::Hexpire | Does::Hpexpire | Does::Hexpireat | Does::Hpexpireat | Does::Hgetex => {
            hash("hexpire")
        }
        Does::Hpersist => hash("hpersist"),
        Does::Hincrby => hash("hincrby"),
        Does::Hincrbyfloat => hash("hincrbyfloat"),
        Does::Hdel | Does::Hgetdel => hash("hdel"),
        Does::Zadd => sorted_set("zadd"),
        Does::Zincrby => ZINCR,
        Does::Zrem => sorted_set("zrem"),
        Does::Zremrangebyscore => sorted_set("zremrangebyscore"),
        Does::Zremrangebyrank => sorted_set("zremrangebyrank"),
        Does::Zremrangebylex => sorted_set("zremrangebylex"),
        Does::Zinterstore => sorted_set("zinterstore"),
        Does::Zunionstore => sorted_set("zunionstore"),
        Does::Zdiffstore => sorted_set("zdiffstore"),
        Does::Zrangestore => sorted_set("zrangestore"),
        _ => SET,
    }
}

/// Tells what a request of the client has done to the key that has this name in the cache. `was_there`: whether it had
/// a value before.
pub(super) fn tell(
    caller: &Caller,
    client: &mut Client,
    name: &[u8],
    (did, was_there): (Did, bool),
) {
    let keyspace = &caller.worker.shared.keyspace;
    if did == Did::Nothing || keyspace.is_idle() {
        return;
    }
    let tenant = caller.tenant_of(name);
    let event = client.event;
    if matches!(did, Did::Stored { .. }) && !was_there {
        keyspace.is_new(tenant, name);
    }
    let is_of_collection =
        !event.class.has(KeyspaceEvents::GENERIC) && !event.class.has(KeyspaceEvents::STRING);
    let events: &[Event] = match did {
        Did::Stored { has_lifetime: true } if event == SET => &[SET, EXPIRE],
        Did::Touched { has_lifetime: true } => &[EXPIRE],
        Did::Touched { has_lifetime: false } => &[PERSIST],
        Did::Removed if is_of_collection => &[event, DEL],
        Did::Removed if event != RENAME_FROM && event != MOVE_FROM => &[DEL],
        _ => &[event],
    };
    let changed = Changed { tenant, name, writer: caller.id, events };
    keyspace.changed(changed, Some(&mut client.changed));
}
