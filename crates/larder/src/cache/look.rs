//! Access to values without keeping them.

use bytes::BufMut;

use super::Larder;
use crate::base::error::{Error, ErrorKind};
use crate::base::key::check_key;
use crate::dram::value::{PinnedValue, Value, ValueMeta};

impl Larder {
    /// Looks `key` up and calls `look` with its value and metadata. `None` is a miss.
    ///
    /// The value is kept only while `look` runs, because its memory may have to be written out and reused. That waits
    /// for `look`, so `look` should copy or count, and not wait. It may call the cache.
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let seen = block_on(cache.get_with(b"bread", |value, meta| (value.len(), meta.flags)))?;
    /// assert_eq!(seen, Some((3, 0)));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        let found = self.look_up(key, PinnedValue::for_now).await?;
        Ok(found.map(|value| look(&value, value.meta())))
    }

    /// Looks `key` up in DRAM only, without any wait: calls `look` with its value if it is there. `None` gives no
    /// answer; call [`Larder::get_with`] or a similar method then. This is for a loop that answers what it can at
    /// once, and starts the rest concurrently.
    ///
    /// A hit counts like one of [`Larder::get`]; `None` is not counted.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for an invalid key.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// assert_eq!(cache.get_at_once_with(b"bread", |value, _| value.len())?, Some(3));
    /// assert_eq!(cache.get_at_once_with(b"cake", |value, _| value.len())?, None);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub fn get_at_once_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        let found = self.get_at_once(self.hasher.hash(key), key, self.stopwatch.begin());
        Ok(found.map(|value| look(&value, value.meta())))
    }

    /// Calls `look` with the value of `key`, without counting a use: the value is not marked as found, stays in its
    /// tier, and appears in no statistics. For questions about an item. `None` is a miss.
    ///
    /// # Errors
    /// As [`Larder::get`].
    ///
    /// ```
    /// # use larder::{Larder, RealClock, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let fetched = || block_on(cache.peek_with(b"bread", |_, meta| meta.fetched));
    /// assert_eq!([fetched()?, fetched()?], [Some(false), Some(false)]);
    /// block_on(cache.get(b"bread"))?;
    /// assert_eq!(fetched()?, Some(true));
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn peek_with<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(&[u8], ValueMeta) -> T,
    ) -> Result<Option<T>, Error> {
        self.peek_at(key, |value| look(&value, value.meta())).await
    }

    /// The value itself, without counting a use.
    pub(crate) async fn peek(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.peek_at(key, PinnedValue::keep).await
    }

    async fn peek_at<T>(
        &self,
        key: &[u8],
        look: impl FnOnce(PinnedValue) -> T,
    ) -> Result<Option<T>, Error> {
        check_key(key)?;
        self.core.gate.check()?;
        let hash = self.hasher.hash(key);
        // DRAM first, for the reason given in `Larder::contains`.
        let residents = self.core.dram.residents(hash).into_iter();
        if let Some(resident) = residents.map(|it| it.value).find(|value| value.key() == key) {
            let alive = !resident.is_over(self.core.now_ms());
            return Ok(alive.then(|| look(resident)));
        }
        let Some(flash) = &self.core.flash else { return Ok(None) };
        let inside = self.enter().await?;
        let found = flash.get(hash, key, self.core.now_s()).await;
        self.leave(inside);
        Ok(found.map(|(fetched, _)| look(PinnedValue::alone(&fetched.item()))))
    }

    /// Looks `key` up and appends its value to `buffer`. `None` is a miss; then nothing is appended.
    ///
    /// # Errors
    /// As [`Larder::get`]. [`ErrorKind::InvalidInput`] if `buffer` has no room for the value; then nothing is
    /// appended.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"bread", b"rye", None))?;
    /// let mut reply = b"VALUE bread 0 3\r\n".to_vec();
    /// assert!(block_on(cache.get_into(b"bread", &mut reply))?.is_some());
    /// assert_eq!(reply, b"VALUE bread 0 3\r\nrye");
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_into(
        &self,
        key: &[u8],
        buffer: &mut impl BufMut,
    ) -> Result<Option<ValueMeta>, Error> {
        let found = self.look_up(key, PinnedValue::for_now).await?;
        found.map(|value| copy(&value, buffer)).transpose()
    }

    /// Looks all `keys` up as [`Larder::get_many`] does and appends the values found to `buffer`, in the order of
    /// `keys`. Returns for each key the length and the metadata of its value, if there is one.
    ///
    /// To put other bytes between the values use [`Larder::get_many_with`], which shows them one by one.
    ///
    /// # Errors
    /// As [`Larder::get_many`]. [`ErrorKind::InvalidInput`] if `buffer` has no room for all of them; then nothing is
    /// appended.
    ///
    /// ```
    /// # use larder::{Larder, RealClock, SetOptions, block_on};
    /// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
    /// block_on(cache.set(b"rye", b"1 loaf", None))?;
    /// block_on(cache.set(b"oat", b"2 loaves", None))?;
    /// let mut reply = Vec::new();
    /// let copied = block_on(cache.get_many_into(&["rye", "corn", "oat"], &mut reply))?;
    /// assert_eq!(reply, b"1 loaf2 loaves");
    /// let bytes = |at: usize| copied[at].map(|copied| copied.bytes);
    /// assert_eq!([bytes(0), bytes(1), bytes(2)], [Some(6), None, Some(8)]);
    /// # Ok::<(), larder::Error>(())
    /// ```
    pub async fn get_many_into<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        buffer: &mut impl BufMut,
    ) -> Result<Vec<Option<Copied>>, Error> {
        copy_many(&self.look_up_many(keys, PinnedValue::for_now).await?, buffer)
    }
}

/// A value that [`Larder::get_many_into`] has copied.
///
/// ```
/// # use larder::{Larder, RealClock, block_on};
/// # let cache = block_on(Larder::open(Default::default(), None, std::sync::Arc::new(RealClock)))?;
/// block_on(cache.set(b"rye", b"1 loaf", None))?;
/// let copied = block_on(cache.get_many_into(&["rye"], &mut Vec::new()))?[0].unwrap();
/// assert_eq!((copied.bytes, copied.meta.flags), (6, 0));
/// # Ok::<(), larder::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Copied {
    /// Length of the value.
    pub bytes: usize,
    /// Metadata of the value.
    pub meta: ValueMeta,
}

/// Appends all values to a buffer, or none.
pub(crate) fn copy_many(
    values: &[Option<Value>],
    buffer: &mut impl BufMut,
) -> Result<Vec<Option<Copied>>, Error> {
    check_room(values.iter().flatten().map(|value| value.len()).sum(), buffer)?;
    let mut copy = |value: &Value| {
        buffer.put_slice(value);
        Copied { bytes: value.len(), meta: value.meta() }
    };
    Ok(values.iter().map(|value| value.as_ref().map(&mut copy)).collect())
}

/// Appends a value to a buffer.
pub(crate) fn copy(value: &Value, buffer: &mut impl BufMut) -> Result<ValueMeta, Error> {
    check_room(value.len(), buffer)?;
    buffer.put_slice(value);
    Ok(value.meta())
}

fn check_room(bytes: usize, buffer: &impl BufMut) -> Result<(), Error> {
    let room = buffer.remaining_mut();
    if room < bytes {
        let message = format!("buffer with room for {room} bytes: what was found has {bytes}");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}
