//! Calls of the cache for a key, which wait while a step of another client holds the key.
//!
//! The futures of the cache have up to 31 KiB, since those of a set of shards are in them. They are boxed here, so that
//! the futures of requests stay small: each is moved several times. What DRAM answers needs none.

use std::future::pending;
use std::num::NonZeroU64;
use std::time::Duration;

use async_lock::MutexGuardArc;
use larder::{Change, Error, Moment, SetOptions, Value, ValueMeta};

use crate::counters::Counter;
use crate::steps::{Inside, Steps};
use crate::tenant::{Calls, Tenant};

/// The steps of all clients, and the worker that calls.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) steps: &'a Steps,
    pub(crate) worker: usize,
    /// Requests that waited for a step.
    pub(crate) waited: &'a Counter,
}

/// How a caller waits for its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For steps of others, and for the cache.
    ForAll,
    /// It is such a step itself, and waits for the cache alone.
    ForCache,
    /// Not at all. A call that would have to wait never ends, and has done nothing: the caller drops it.
    Never,
}

/// Calls of the cache that holds a key.
#[derive(Clone, Copy)]
pub(crate) struct KeyCalls<'a> {
    place: Place<'a>,
    tenant: &'a Tenant,
    waits: Waits,
}

/// The right to work with a key.
pub(crate) enum Pass<'a> {
    /// The caller is a step, and holds the key.
    Step,
    Inside(#[allow(dead_code)] Inside<'a>),
    /// No step runs meanwhile.
    Turn(#[allow(dead_code)] MutexGuardArc<()>),
}

impl<'a> KeyCalls<'a> {
    pub(crate) fn new(place: Place<'a>, tenant: &'a Tenant, waits: Waits) -> Self {
        Self { place, tenant, waits }
    }

    /// The calls themselves, which wait for no step.
    pub(crate) fn calls(&self) -> Calls<'a> {
        self.tenant.calls()
    }

    /// See [`larder::Larder::moment`].
    pub(crate) fn moment(&self, key: &[u8]) -> Moment {
        self.calls().moment(key)
    }

    /// See [`larder::Larder::draw_version`].
    pub(crate) fn draw_version(&self, key: &[u8]) -> NonZeroU64 {
        self.calls().draw_version(key)
    }

    /// The right to work with the key that has this name, unless a step holds it.
    fn pass_at_once(&self, key: &[u8]) -> Option<Pass<'a>> {
        if self.waits == Waits::ForCache {
            return Some(Pass::Step);
        }
        let Place { steps, worker, .. } = self.place;
        steps.enter(worker, self.tenant.number, key).map(Pass::Inside)
    }

    /// Waits for the right to work with a key.
    pub(crate) async fn pass(&self, key: &[u8]) -> Pass<'a> {
        match self.pass_at_once(key) {
            Some(pass) => pass,
            None => {
                self.has_to_wait().await;
                self.place.waited.add(1);
                Pass::Turn(self.tenant.turn.lock_arc().await)
            }
        }
    }

    /// Before a wait: a caller that does not wait goes no further.
    async fn has_to_wait(&self) {
        if self.waits == Waits::Never {
            pending::<()>().await;
        }
    }

    /// See [`larder::Larder::get`].
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        let _pass = self.pass(key).await;
        self.has_to_wait().await;
        Box::pin(self.calls().get(key)).await
    }

    /// See [`larder::Larder::get_with`].
    pub(crate) async fn get_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let _pass = self.pass(key).await;
        let mut look = Some(look);
        let found = self
            .calls()
            .get_at_once_with(key, |value, meta| look.take().map(|look| look(value, meta)));
        if let Some(Some(found)) = found? {
            return Ok(Some(found));
        }
        let Some(look) = look else { return Ok(None) };
        self.has_to_wait().await;
        Box::pin(self.calls().get_with(key, look)).await
    }

    /// See [`larder::Larder::get_at_once_with`].
    pub(crate) fn get_at_once_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let Some(_pass) = self.pass_at_once(key) else { return Ok(None) };
        self.calls().get_at_once_with(key, look)
    }

    /// See [`larder::Larder::misses_at_once`].
    pub(crate) fn misses_at_once(&self, key: &[u8]) -> Result<bool, Error> {
        let Some(_pass) = self.pass_at_once(key) else { return Ok(false) };
        self.calls().misses_at_once(key)
    }

    /// See [`larder::Larder::peek_with`].
    pub(crate) async fn peek_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let _pass = self.pass(key).await;
        self.has_to_wait().await;
        Box::pin(self.calls().peek_with(key, look)).await
    }

    /// See [`larder::Larder::contains`].
    pub(crate) async fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        let _pass = self.pass(key).await;
        self.has_to_wait().await;
        Box::pin(self.calls().contains(key)).await
    }

    /// See [`larder::Larder::set_with`].
    pub(crate) async fn set_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<(), Error> {
        let _pass = self.pass(key).await;
        self.has_to_wait().await;
        Box::pin(self.calls().set_with(key, value, options)).await
    }

    /// See [`larder::Larder::set_at_once`].
    pub(crate) fn set_at_once(
        &self,
        key: &[u8],
        value: &[u8],
        options: SetOptions,
    ) -> Result<bool, Error> {
        let Some(_pass) = self.pass_at_once(key) else { return Ok(false) };
        self.calls().set_at_once(key, value, options)
    }

    /// See [`larder::Larder::update`].
    pub(crate) async fn update<'c>(
        &self,
        key: &[u8],
        mut change: impl FnMut(Option<&Value>) -> Change<'c>,
    ) -> Result<Option<Value>, Error> {
        let _pass = self.pass(key).await;
        if let Some(before) = self.calls().update_at_once(key, &mut change)? {
            return Ok(before);
        }
        self.has_to_wait().await;
        Box::pin(self.calls().update(key, change)).await
    }

    /// See [`larder::Larder::touch`].
    pub(crate) async fn touch(&self, key: &[u8], ttl: Option<Duration>) -> Result<bool, Error> {
        let _pass = self.pass(key).await;
        self.has_to_wait().await;
        Box::pin(self.calls().touch(key, ttl)).await
    }

    /// See [`larder::Larder::delete`].
    pub(crate) async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let _pass = self.pass(key).await;
        self.has_to_wait().await;
        Box::pin(self.calls().delete(key)).await
    }
}
