//! What look-ups find, and how it is copied to the buffer of a caller.

use bytes::BufMut;

use crate::base::error::{Error, ErrorKind};
use crate::base::key::KeyHash;
use crate::base::tier::Tier;
use crate::dram::value::{PinnedValue, Value, ValueMeta};

/// A value and the tier where it was found.
#[derive(Debug, Clone)]
pub(super) struct Hit<V = PinnedValue> {
    pub(super) value: V,
    pub(super) tier: Tier,
}

/// A key that DRAM cannot answer at once: its index among the keys, and its hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MissedKey {
    pub(super) at: usize,
    pub(super) hash: KeyHash,
}

/// A value that [`Larder::get_many_into`](crate::Larder::get_many_into) has copied.
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
    value.look_with(|value, meta| {
        check_room(value.len(), buffer)?;
        buffer.put_slice(value);
        Ok(meta)
    })
}

fn check_room(bytes: usize, buffer: &impl BufMut) -> Result<(), Error> {
    let room = buffer.remaining_mut();
    if room < bytes {
        let message = format!("buffer with room for {room} bytes: what was found has {bytes}");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(())
}
