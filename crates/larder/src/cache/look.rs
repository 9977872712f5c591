//! Looking at a value without keeping it.

use bytes::BufMut;

use super::Larder;
use crate::error::{Error, ErrorKind};
use crate::value::{Value, ValueMeta};

impl Larder {
    /// Looks `key` up and shows `look` its value and what is known of it. `None` is a miss.
    ///
    /// The value is kept for no longer than `look` takes: memory under it may be written and given away
    /// again. While it lasts `look` holds it back, so it should copy, or count, and not wait. It may call
    /// the cache.
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
        let found = self.get(key).await?;
        Ok(found.map(|value| look(&value, value.meta())))
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
        self.get(key).await?.map(|value| copy(&value, buffer)).transpose()
    }
}

/// Appends a value to a buffer.
pub(crate) fn copy(value: &Value, buffer: &mut impl BufMut) -> Result<ValueMeta, Error> {
    let room = buffer.remaining_mut();
    if room < value.len() {
        let message = format!("buffer with room for {room} bytes: the value has {}", value.len());
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    buffer.put_slice(value);
    Ok(value.meta())
}
