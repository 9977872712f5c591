//! What a command works with: the client, and the place for the answer.

use std::time::Duration;

use larder::{Change, SetOptions, Value};

use super::client::Client;
use super::events::{self, Did};
use super::queue::WatchedKeys;
use super::write::{NO_ROOM, Outcome, Refusal, Writer};
use crate::caller::Caller;
use crate::databases::KeySpace;
use crate::key_calls::KeyCalls;
use crate::keyspace::DEL;
use crate::resp_board::ClientScope;
use crate::resp_board::{Board, KnownAs};

/// What a command works with.
pub(super) struct Context<'a> {
    pub(super) caller: &'a mut Caller,
    pub(super) client: &'a mut Client,
    pub(super) out: Writer<'a>,
}

impl Context<'_> {
    /// The calls of the cache that holds `key`.
    pub(super) fn cache(&self, key: &[u8]) -> KeyCalls<'_> {
        self.caller.cache_for(key)
    }

    /// The client's database.
    pub(super) fn space(&self) -> KeySpace {
        self.caller.tenant.databases.space(self.client.database())
    }

    /// The name in the cache of a key of the client's database.
    pub(super) fn name_of(&self, key: &[u8]) -> Vec<u8> {
        let mut name = Vec::with_capacity(key.len() + 4);
        self.space().append_name(key, &mut name);
        name
    }

    /// Writes the key that has this name in the cache.
    pub(super) fn tells_key(&mut self, name: &[u8]) {
        self.out.bulk(crate::databases::key_in(name));
    }

    /// The time of the clock in which clients name points in time.
    pub(super) fn wall(&self, key: &[u8]) -> Duration {
        self.cache(key).moment(key).wall()
    }

    /// Whose slow requests and connections the client may see.
    pub(super) fn visible(&self) -> ClientScope {
        if self.caller.is_admin() {
            ClientScope::All
        } else {
            ClientScope::Of(self.caller.tenant.number)
        }
    }

    /// Refuses what belongs to the process, unless the client is an administrator.
    pub(super) fn needs_admin(&self, command: &str) -> Outcome {
        if self.caller.is_admin() {
            return Ok(());
        }
        let user = self.caller.user();
        Err(Refusal::Said(format!(
            "NOPERM User {user} has no permissions to run the '{command}' command"
        )))
    }

    /// Updates the client's entry in the list with its current user and tenant.
    pub(super) fn is_known_as_it_is(&self) {
        if let Some(listed) = &self.client.listed {
            listed.is_known_as(known_as(self.caller));
        }
    }

    pub(super) fn board(&self) -> &Board {
        &self.caller.worker.shared.resp
    }

    /// Longest value.
    pub(super) fn value_bytes_max(&self) -> usize {
        self.caller.worker.shared.config.value_bytes_max
    }

    /// Reads the value of `key` and changes it in one step. Returns the value as it was before.
    pub(super) async fn change<'c>(
        &mut self,
        key: &[u8],
        mut change: impl FnMut(Option<&Value>) -> Change<'c>,
    ) -> Result<Option<Value>, Refusal> {
        let guarded = std::mem::take(&mut self.client.guarded);
        let mut bytes = 0;
        let (mut has_changed, mut is_gone, mut did) = (false, false, Did::Nothing);
        let Self { caller, client, .. } = self;
        let keyspace = &caller.worker.shared.keyspace;
        let touch = keyspace.touches(caller.tenant_of(key), key);
        let cache = caller.cache_for(key);
        let before = cache.update(key, |current| {
            bytes = current.map_or(0, |value| value.len());
            has_changed = !guarded.is_still(key, current.map(Value::meta));
            let change = if has_changed { Change::Keep } else { change(current) };
            is_gone = is_end(&change);
            did = if is_gone { Did::Removed } else { Did::of(&change) };
            if is_gone && current.is_none() {
                did = Did::Nothing;
            }
            change
        });
        let before = before.await?;
        touch.settles();
        events::tell(caller, client, key, (did, before.is_some()));
        // The value is copied on its way in and out.
        caller.work.does_bytes(2 * bytes);
        if is_gone {
            // This access finds that the value has expired, and takes it out of the counts.
            let _ending = keyspace.removes(caller.tenant_of(key), key);
            caller.cache_for(key).update(key, |_| Change::Keep).await?;
        }
        if has_changed { Err(Refusal::Overtaken) } else { Ok(before) }
    }

    /// Stores a value unconditionally.
    pub(super) async fn store(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<(), Refusal> {
        self.caller.work.does_bytes(value.len());
        let wants_new = self.caller.worker.shared.keyspace.wants_new();
        if wants_new || self.client.guarded.has(key) {
            self.change(key, |_| Change::Store(value.into(), options)).await?;
        } else {
            self.client.guarded = WatchedKeys::default();
            let Self { caller, client, .. } = self;
            let touch = caller.worker.shared.keyspace.touches(caller.tenant_of(key), key);
            let did = Did::of_store(&options);
            caller.cache_for(key).set_with(key, value, options).await?;
            touch.settles();
            events::tell(caller, client, key, (did, true));
        }
        self.caller.worker.counters.cmd_set.add(1);
        Ok(())
    }

    /// Removes a value, and returns whether there was one.
    pub(super) async fn delete(&mut self, key: &[u8]) -> Result<bool, Refusal> {
        // Also by a command that stores something else as a rule.
        self.client.event = DEL;
        let existed = if self.client.guarded.has(key) {
            self.change(key, |current| current.map_or(Change::Keep, |_| gone())).await?.is_some()
        } else {
            self.client.guarded = WatchedKeys::default();
            let Self { caller, client, .. } = self;
            let touch = caller.worker.shared.keyspace.touches(caller.tenant_of(key), key);
            let existed = caller.cache_for(key).delete(key).await?;
            touch.settles();
            if existed {
                events::tell(caller, client, key, (Did::Removed, true));
            }
            existed
        };
        let counters = &self.caller.worker.counters;
        if existed {
            counters.delete_hits.add(1)
        } else {
            counters.delete_misses.add(1)
        }
        Ok(existed)
    }

    /// A request has read `key`, which has no value.
    pub(super) fn misses(&self, key: &[u8]) {
        self.caller.worker.shared.keyspace.misses(self.caller.tenant_of(key), key);
    }

    /// The value of `key` has become one that clients may wait for: wakes the first that does.
    pub(super) fn wakes(&self, key: &[u8]) {
        let tenant = self.caller.tenant_of(key).number;
        self.caller.worker.shared.waiters.wake(tenant, key);
    }

    /// Called after each of several keys: counts the work, and yields to other connections if it is time.
    pub(super) async fn rests_behind(&self, key: &[u8]) {
        self.caller.work.does(1);
        self.caller.work.does_bytes(key.len());
        self.caller.rests().await;
    }

    /// Writes the help of a command with subcommands.
    pub(super) fn help(&mut self, command: &str, lines: &[&str]) {
        let head = format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
        self.out.array(lines.len() + 3);
        self.out.simple(&head);
        lines.iter().for_each(|line| self.out.simple(line));
        self.out.simple("HELP");
        self.out.simple("    Print this help.");
    }
}

/// Counts a request that finds no room in the memory of clients, and returns the refusal.
pub(super) fn no_room(caller: &Caller) -> Refusal {
    caller.worker.counters.refused_busy.add(1);
    NO_ROOM
}

/// The user and tenant of `caller`, as other clients see them.
pub(super) fn known_as(caller: &Caller) -> KnownAs<'_> {
    let tenant = (!caller.needs_login()).then_some(caller.tenant.number);
    KnownAs { tenant, user: caller.user() }
}

/// The change that removes a value in an update: it stores one whose lifetime is over.
pub(super) fn gone() -> Change<'static> {
    Change::Store([][..].into(), SetOptions { ttl: Some(Duration::ZERO), ..SetOptions::default() })
}

/// Whether it is such a change.
fn is_end(change: &Change<'_>) -> bool {
    matches!(change, Change::Store(_, SetOptions { ttl: Some(Duration::ZERO), .. }))
}

pub(super) fn unknown_subcommand(command: &str, sub: &[u8]) -> Refusal {
    let sub = shown(sub);
    Refusal::Said(format!("ERR unknown subcommand '{sub}'. Try {command} HELP."))
}

pub(super) fn wrong_arity(name: &str) -> Refusal {
    Refusal::Said(format!("ERR wrong number of arguments for '{name}' command"))
}

/// A client's bytes, shortened for an error message.
pub(super) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..128).unwrap_or(bytes)).into_owned()
}
