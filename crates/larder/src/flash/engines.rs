//! The engines of a cache.

use std::sync::Arc;

use larder_device::Device;

use super::places::Places;
#[cfg(test)]
use super::plain::Plain;
use crate::base::item::ItemRef;
use crate::engine::array::Array;
use crate::engine::breaker::CircuitBreaker;
use crate::engine::loc::Loc;
use crate::engine::pages::Pages;
use crate::engine::soc::Soc;
use crate::engine::tombstones::Tombstones;
use crate::observe::stats::Counters;

/// One of the engines. A new engine needs a variant here, a line in [`Engines::open`] and an arm in [`call`].
#[allow(clippy::large_enum_variant)] // a cache has one of each
pub(super) enum AnyEngine {
    Loc(Loc),
    Soc(Soc),
    Pages(Pages),
    Array(Array),
    #[cfg(test)]
    Plain(Plain),
}

/// Calls a method of [`Engine`] on the engine in an [`AnyEngine`], and awaits it if `.await` follows. It calls through
/// the trait's name, because an engine may have an inherent method with the same name.
macro_rules! call {
    ($any:expr, $method:ident($($argument:expr),*) $(.$wait:tt)?) => {
        match $any {
            $crate::flash::engines::AnyEngine::Loc(engine) => {
                $crate::engine::Engine::$method(engine, $($argument),*) $(.$wait)?
            }
            $crate::flash::engines::AnyEngine::Soc(engine) => {
                $crate::engine::Engine::$method(engine, $($argument),*) $(.$wait)?
            }
            $crate::flash::engines::AnyEngine::Pages(engine) => {
                $crate::engine::Engine::$method(engine, $($argument),*) $(.$wait)?
            }
            $crate::flash::engines::AnyEngine::Array(engine) => {
                $crate::engine::Engine::$method(engine, $($argument),*) $(.$wait)?
            }
            #[cfg(test)]
            $crate::flash::engines::AnyEngine::Plain(engine) => {
                $crate::engine::Engine::$method(engine, $($argument),*) $(.$wait)?
            }
        }
    };
}
pub(super) use call;

/// Identifies an engine of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EngineId(usize);

/// All engines of the cache.
///
/// A look-up asks them in this order: regions first, because a close puts newer versions there than in buckets; and the
/// array last, because it may have to read to know that it does not have a key. An object goes to the last engine that
/// takes it: a long object to the array, a small one to buckets, where they exist.
pub(super) struct Engines(Vec<AnyEngine>);

impl Engines {
    pub(super) fn open(
        places: Places,
        device: &Arc<dyn Device>,
        tombstones: Option<&Arc<Tombstones>>,
        (counters, breaker): (&Arc<Counters>, &Arc<CircuitBreaker>),
    ) -> Self {
        let shared = || (Arc::clone(counters), Arc::clone(breaker));
        let loc = places.loc.map(|place| {
            AnyEngine::Loc(Loc::new(Arc::clone(device), place, tombstones.cloned(), shared()))
        });
        let soc = places.soc.map(|place| {
            let (device, log) = (Arc::clone(device), places.soc_log);
            AnyEngine::Soc(Soc::new(device, place, log, tombstones.cloned(), shared()))
        });
        let pages = places.pages.map(|place| {
            let tombstones = tombstones.cloned();
            AnyEngine::Pages(Pages::new(Arc::clone(device), place, tombstones, shared()))
        });
        let array = places.array.map(|place| {
            let tombstones = tombstones.cloned();
            AnyEngine::Array(Array::new(Arc::clone(device), place, tombstones, shared()))
        });
        let all = loc.into_iter().chain(soc).chain(pages).chain(array);
        #[cfg(test)]
        let all = all.chain(places.plain.map(|place| {
            AnyEngine::Plain(Plain::new(Arc::clone(device), place, Arc::clone(counters)))
        }));
        let engines = Self(all.collect());
        debug_assert!(
            engines.0.iter().skip(1).all(|any| !matches!(any, AnyEngine::Loc(_))),
            "regions are asked first: a close puts there what is newer than its bucket"
        );
        engines
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, AnyEngine> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, AnyEngine> {
        self.0.iter_mut()
    }

    /// All engines with their ids.
    pub(super) fn named(&self) -> impl DoubleEndedIterator<Item = (EngineId, &AnyEngine)> {
        self.0.iter().enumerate().map(|(at, engine)| (EngineId(at), engine))
    }

    /// All engines except `than`.
    pub(super) fn others(&self, than: EngineId) -> impl Iterator<Item = &AnyEngine> {
        self.0.iter().enumerate().filter(move |(at, _)| *at != than.0).map(|(_, engine)| engine)
    }

    pub(super) fn get(&self, engine: EngineId) -> &AnyEngine {
        debug_assert!(engine.0 < self.0.len(), "{engine:?} is of this cache");
        &self.0[engine.0]
    }

    /// The engine for an object of this size. `None` if no engine can hold it.
    pub(super) fn for_item(&self, item: &ItemRef<'_>) -> Option<EngineId> {
        let takes = |any: &AnyEngine| call!(any, takes(item));
        self.0.iter().rposition(takes).map(EngineId)
    }

    /// The engine that objects can be appended to in sequence, and its id.
    pub(super) fn to_append_to(&self) -> Option<(EngineId, &AnyEngine)> {
        let at = self.0.iter().position(|any| call!(any, append_bytes_max()).is_some())?;
        Some((EngineId(at), &self.0[at]))
    }
}
