//! Names of keys at shards.
//!
//! ```text
//!  offset  bytes  field
//!       0      2  mark: ff 1c
//!       2      4  epoch, little-endian
//!       6      n  key
//! ```
//!
//! A key has such a name where it is stored because another shard is away ([`places`](super::places)); everywhere
//! else its name is the key itself. A key that begins with the mark itself gets a name with epoch 0: no two keys
//! share a name.

use std::borrow::Cow;

use crate::base::key::KEY_BYTES_MAX;

const MARK: [u8; 2] = [0xff, 0x1c];
const EPOCH_BYTES: usize = size_of::<u32>();

/// The name of `key` at a place where it is since epoch `since`; 0 means that it was always there. `None` if the name
/// would be too long for a key: then the key cannot be stored there.
pub(crate) fn name_of(key: &[u8], since: u32) -> Option<Cow<'_, [u8]>> {
    if since == 0 && !key.starts_with(&MARK) {
        return Some(Cow::Borrowed(key));
    }
    let name = [&MARK[..], &since.to_le_bytes(), key].concat();
    (name.len() <= KEY_BYTES_MAX).then_some(Cow::Owned(name))
}

/// Whether the key can have every name, so that it can be stored anywhere.
pub(super) fn has_room(key: &[u8]) -> bool {
    key.len() + MARK.len() + EPOCH_BYTES <= KEY_BYTES_MAX
}

/// The key with this name, and the epoch since which it is there.
pub(crate) fn key_of(name: &[u8]) -> (&[u8], u32) {
    let prefixed = name.strip_prefix(&MARK).and_then(<[u8]>::split_first_chunk::<EPOCH_BYTES>);
    match prefixed {
        Some((epoch, key)) => (key, u32::from_le_bytes(*epoch)),
        None => (name, 0),
    }
}

/// The key with this name.
pub(crate) fn key_of_name(name: &[u8]) -> &[u8] {
    key_of(name).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PREFIX_BYTES: usize = MARK.len() + EPOCH_BYTES;

    /// Often keys that begin like a name.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        let begins = prop_oneof![
            Just(Vec::new()),
            Just(MARK.to_vec()),
            Just([&MARK[..], &[0; 4]].concat()),
            Just([&MARK[..], &[0, 0, 0, 7]].concat()),
            Just([&MARK[..], &[0, 0, 0, 7], &MARK[..], &[0, 0, 0, 0]].concat()),
        ];
        (begins, prop::collection::vec(any::<u8>(), 0..5)).prop_map(|(a, b)| [a, b].concat())
    }

    proptest! {
        #[test]
        fn no_name_is_that_of_two_keys(a in keys(), b in keys(), since in 0..9_u32, other in 0..9_u32) {
            let name = name_of(&a, since).unwrap();
            prop_assert_eq!(key_of(&name), (&a[..], since));
            let same = name_of(&b, other).unwrap() == name;
            prop_assert_eq!(same, (a, since) == (b, other));
        }
    }

    #[test]
    fn most_keys_are_called_as_they_are() {
        assert!(matches!(name_of(b"bread", 0), Some(Cow::Borrowed(b"bread"))));
        let longest = vec![7; KEY_BYTES_MAX];
        assert_eq!(name_of(&longest, 0).as_deref(), Some(&longest[..]));
        assert_eq!(name_of(&longest, 1), None);
        let fits = &longest[PREFIX_BYTES..];
        assert_eq!(name_of(fits, 1).map(|name| name.len()), Some(KEY_BYTES_MAX));
        // Marks alone are keys as well.
        for key in [&MARK[..], &MARK[..1], &[MARK[0], MARK[1], 0, 0, 0, 0]] {
            assert_eq!(key_of(&name_of(key, 0).unwrap()), (key, 0));
        }
    }
}
