//! Calls with many keys over shards: each key goes to its cache, the caches work concurrently, and the answers come
//! in the order of the keys.

use bytes::BufMut;

use crate::base::error::Error;
use crate::cache::Copied;
use crate::cache::look::copy_many;
use crate::dram::value::{PinnedValue, Value, ValueMeta};
use crate::fleet::shards::ShardMap;

/// [`Larder::get_many`](crate::Larder::get_many) over shards.
pub(super) async fn look_up<K: AsRef<[u8]>>(
    shards: &ShardMap,
    keys: &[K],
    look: impl Fn(PinnedValue) -> Value,
) -> Result<Vec<Option<Value>>, Error> {
    let mut found = vec![None; keys.len()];
    let asked =
        shards.view().many_at_once(keys, |place, value| found[place] = Some(look(value)))?;
    if asked.is_empty() {
        return Ok(found);
    }
    // Keep the values found so far before the first wait.
    found.iter_mut().for_each(|value| *value = value.take().map(Value::kept));
    for (place, value) in asked.answers().await? {
        found[place] = value;
    }
    Ok(found)
}

/// [`Larder::get_many_with`](crate::Larder::get_many_with) over shards.
pub(super) async fn show<K: AsRef<[u8]>>(
    shards: &ShardMap,
    keys: &[K],
    mut look: impl FnMut(usize, &[u8], ValueMeta),
) -> Result<usize, Error> {
    let mut hits = 0;
    let mut show = |place: usize, value: Value| {
        hits += 1;
        value.look_with(|value, meta| look(place, value, meta));
    };
    let asked = shards.view().many_at_once(keys, |place, value| show(place, value.for_now()))?;
    for (place, value) in asked.answers().await? {
        if let Some(value) = value {
            show(place, value);
        }
    }
    Ok(hits)
}

/// [`Larder::get_many_into`](crate::Larder::get_many_into) over shards.
pub(super) async fn copy<K: AsRef<[u8]>>(
    shards: &ShardMap,
    keys: &[K],
    buffer: &mut impl BufMut,
) -> Result<Vec<Option<Copied>>, Error> {
    copy_many(&look_up(shards, keys, PinnedValue::for_now).await?, buffer)
}
