//! Calls with many keys: keys with a single place go to their caches in groups, the others one by one. All run
//! concurrently, and answers come in the order of the keys.

use std::borrow::Cow;
use std::sync::Arc;

use super::calls::View;
use crate::base::error::Error;
use crate::base::key::check_key;
use crate::base::side_by_side::together;
use crate::cache::Larder;
use crate::cache::look::MissedKey;
use crate::dram::value::{PinnedValue, Value};
use crate::fleet::partition::ShardNumber;

/// The keys of one cache: their names there, and their indexes among all keys.
struct Group<'a> {
    cache: &'a Arc<Larder>,
    shard: ShardNumber,
    names: Vec<Cow<'a, [u8]>>,
    places: Vec<usize>,
}

/// Keys of one cache that DRAM cannot answer at once.
struct OpenGroup<'a> {
    group: Group<'a>,
    missed: Vec<MissedKey>,
}

/// Keys that were not answered at once.
pub(crate) struct OpenLookups<'a> {
    view: View<'a>,
    unanswered: Vec<OpenGroup<'a>>,
    /// Keys with several places, with their indexes among all keys.
    others: Vec<(usize, &'a [u8])>,
}

impl<'a> View<'a> {
    /// Calls `hit` for the values in DRAM, with the index of the key among all keys. Returns the keys that are not
    /// answered yet.
    ///
    /// # Errors
    /// For the first invalid key; no cache is asked then.
    pub(crate) fn many_at_once<K: AsRef<[u8]>>(
        self,
        keys: &'a [K],
        mut hit: impl FnMut(usize, PinnedValue),
    ) -> Result<OpenLookups<'a>, Error> {
        keys.iter().try_for_each(|key| check_key(key.as_ref()))?;
        let mut groups: Vec<Option<Group<'a>>> = Vec::new();
        let mut others = Vec::new();
        for (place, key) in keys.iter().map(AsRef::as_ref).enumerate() {
            let (state, chain) = self.chain_to_read(key);
            let first = chain.first.and_then(|first| self.there(state, first, key));
            let Some(first) = first.filter(|_| chain.later.is_empty()) else {
                others.push((place, key));
                continue;
            };
            let number = first.shard.index();
            if groups.len() <= number {
                groups.resize_with(number + 1, || None);
            }
            let group = &mut groups[number];
            match group {
                // The set has changed since the group was created.
                Some(group) if !Arc::ptr_eq(group.cache, first.cache) => {
                    others.push((place, key));
                }
                group => {
                    let (cache, shard) = (first.cache, first.shard);
                    let new = || Group { cache, shard, names: vec![], places: vec![] };
                    let group = group.get_or_insert_with(new);
                    group.names.push(first.name);
                    group.places.push(place);
                }
            }
        }
        let mut unanswered = Vec::new();
        for group in groups.into_iter().flatten() {
            let found = |at: usize, value| hit(group.places[at], value);
            let missed = group.cache.get_many_at_once(&group.names, found)?;
            if !missed.is_empty() {
                unanswered.push(OpenGroup { group, missed });
            }
        }
        Ok(OpenLookups { view: self, unanswered, others })
    }
}

impl OpenLookups<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.unanswered.is_empty() && self.others.is_empty()
    }

    /// Looks up the remaining keys, concurrently in all caches. Returns values with the indexes among all keys.
    pub(crate) async fn answers(&self) -> Result<Vec<(usize, Option<Value>)>, Error> {
        let together_asked = self.unanswered.iter().map(async |asked| {
            let OpenGroup { group, missed } = asked;
            let found = group.cache.get_missed(&group.names, missed);
            let found = self.view.while_at(group.shard, group.cache, found);
            let found = match self.view.set.in_time(found).await {
                None | Some(None) => Vec::new(),
                Some(Some(Err(_))) if !self.is_there(group.cache) => Vec::new(),
                Some(Some(found)) => found?,
            };
            Ok(found.into_iter().map(|(at, value)| (group.places[at], value)).collect())
        });
        let alone = self.others.iter().map(async |(place, key)| {
            Ok((*place, self.view.look_up(key, PinnedValue::keep).await?))
        });
        let (groups, alone) =
            futures_util::future::join(together(together_asked), together(alone)).await;
        let groups: Vec<Vec<_>> = groups.into_iter().collect::<Result<_, Error>>()?;
        let alone: Vec<_> = alone.into_iter().collect::<Result<_, Error>>()?;
        Ok(groups.into_iter().flatten().chain(alone).collect())
    }

    fn is_there(&self, cache: &Larder) -> bool {
        let mut now = self.view.set.state().shards.iter();
        now.any(|shard| {
            let own = shard.caches.as_ref().and_then(|caches| caches.get(self.view.tenant));
            own.is_some_and(|own| std::ptr::eq(&raw const **own, cache))
        })
    }
}
