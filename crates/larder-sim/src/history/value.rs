//! Values that identify the change that stored them, and allow a check that they are intact.

/// Identifies a change that stores a value. Never 0.
pub(super) type Id = u64;

/// Ids of counters increase by one; those of other values are this far apart.
pub(super) const ID_STEP: u64 = 1 << 20;
const HEADER_BYTES: usize = 16;

/// The id of a thread's change number `next`.
pub(super) fn id_of(thread: u32, next: u64) -> Id {
    (next << 8 | u64::from(thread)) * ID_STEP
}

/// Writes a value of `bytes` bytes, at least 16, into `room`.
pub(super) fn fill(room: &mut Vec<u8>, key: u32, id: Id, bytes: usize) {
    room.clear();
    room.extend_from_slice(&id.to_le_bytes());
    room.extend_from_slice(&key.to_le_bytes());
    room.extend_from_slice(&u32::try_from(bytes).unwrap_or(0).to_le_bytes());
    room.resize(bytes, filler(id));
}

/// The id of the change that stored a value of `key`.
///
/// # Errors
/// If the value is not intact, or belongs to another key.
pub(super) fn id_in(key: u32, value: &[u8]) -> Result<Id, String> {
    let id = value.first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
    let mut whole = Vec::new();
    fill(&mut whole, key, id, value.len().max(HEADER_BYTES));
    let is_whole = whole[..HEADER_BYTES] == value[..HEADER_BYTES.min(value.len())]
        && value[HEADER_BYTES..].iter().all(|&byte| byte == filler(id));
    if is_whole {
        Ok(id)
    } else {
        Err(format!("key {key}: {} bytes that no client stored: {value:02x?}", value.len()))
    }
}

/// The number in a value.
///
/// # Errors
/// If the value is not a number.
pub(super) fn number_in(key: u32, value: &[u8]) -> Result<Id, String> {
    let number = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| format!("key {key}: {value:02x?} is no number"))
}

fn filler(id: Id) -> u8 {
    (id / ID_STEP % 251).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_whole_is_noticed() {
        let mut value = Vec::new();
        fill(&mut value, 7, id_of(3, 99), 40);
        assert_eq!(id_in(7, &value), Ok(id_of(3, 99)));
        assert!(id_in(8, &value).is_err() && id_in(7, &value[..39]).is_err());
        for at in 0..40 {
            let mut torn = value.clone();
            torn[at] ^= 4;
            assert!(id_in(7, &torn).is_err() || at < 8 && id_in(7, &torn) != id_in(7, &value));
        }
    }
}
