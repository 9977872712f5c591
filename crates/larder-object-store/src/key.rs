//! Keys in the cache.
//!
//! ```text
//! head  0 | length of the store's name, u32 | name | path
//! part  1 | length of the store's name, u32 | name | length of the path, u32 | path | validator | offset, u64
//! list  2 | length of the store's name, u32 | name | 0 or 1: all below, or one level | prefix
//! ```
//! Numbers are little-endian. Each text but the last has its length, so no two keys are equal by chance. A part is
//! named by the offset of its first byte in the object, since stores of one name may have parts of different sizes.

/// Keys of one store.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    name: String,
}

/// What a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// All objects below the prefix.
    All,
    /// Objects and prefixes directly below it.
    Level,
}

impl Keys {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn head(&self, path: &str) -> Vec<u8> {
        let mut key = self.begin(0);
        key.extend_from_slice(path.as_bytes());
        key
    }

    /// All parts of a version of an object: the front of their keys.
    pub(crate) fn object(&self, path: &str, validator: &[u8]) -> Vec<u8> {
        let mut key = self.begin(1);
        append(&mut key, path);
        key.extend_from_slice(validator);
        key
    }

    pub(crate) fn list(&self, kind: ListKind, prefix: &str) -> Vec<u8> {
        let mut key = self.begin(2);
        key.push(u8::from(kind == ListKind::Level));
        key.extend_from_slice(prefix.as_bytes());
        key
    }

    fn begin(&self, kind: u8) -> Vec<u8> {
        let mut key = vec![kind];
        append(&mut key, &self.name);
        key
    }
}

/// The key of the part of an object that begins at `offset`.
pub(crate) fn part(object: &[u8], offset: u64) -> Vec<u8> {
    [object, &offset.to_le_bytes()].concat()
}

fn append(key: &mut Vec<u8>, text: &str) {
    // A longer text would make a key that the cache refuses.
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    key.extend_from_slice(&length.to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_things_have_one_key() {
        let mut seen = HashSet::new();
        for name in ["", "a", "ab"] {
            let keys = Keys::new(name);
            for path in ["", "b", "bc", "a/b"] {
                assert!(seen.insert(keys.head(path)), "{name} {path}");
                for kind in [ListKind::All, ListKind::Level] {
                    assert!(seen.insert(keys.list(kind, path)), "{name} {path}");
                }
                for validator in [&b"e1"[..], b"e12", b"v1"] {
                    for offset in [0, 1, 256, u64::MAX] {
                        let key = part(&keys.object(path, validator), offset);
                        assert!(seen.insert(key), "{name} {path} {offset}");
                    }
                }
            }
        }
    }
}
