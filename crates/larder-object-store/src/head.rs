//! The head of an object: what is known of it without its bytes, and how the cache keeps it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Counts up when the encoding below changes: a head of another format is not believed.
const FORMAT: u8 = 1;

/// What a store says of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) size: u64,
    pub(crate) modified_s: i64,
    pub(crate) modified_ns: u32,
    pub(crate) e_tag: Option<String>,
    pub(crate) version: Option<String>,
    /// Kind, name (of metadata), value; sorted.
    pub(crate) attributes: Vec<(u8, String, String)>,
    /// Whether it has attributes of kinds that this crate does not know, so cannot keep.
    pub(crate) has_unknown_attributes: bool,
}

impl Head {
    /// What tells this version of the object from others, as it is in keys. `None` if nothing does: then its bytes
    /// cannot be cached.
    pub(crate) fn validator(&self, is_immutable: bool) -> Option<Vec<u8>> {
        let tagged = |tag: u8, text: &str| [&[tag], text.as_bytes()].concat();
        if self.has_unknown_attributes {
            None
        } else if let Some(e_tag) = self.strong_e_tag() {
            Some(tagged(b'e', e_tag))
        } else if let Some(version) = &self.version {
            Some(tagged(b'v', version))
        } else if is_immutable {
            let modified = self.modified_s.to_le_bytes();
            Some([&b"i"[..], &self.size.to_le_bytes(), &modified].concat())
        } else {
            None
        }
    }

    /// The ETag, if it stands for these bytes: a weak one stands for bytes that mean the same.
    pub(crate) fn strong_e_tag(&self) -> Option<&str> {
        self.e_tag.as_deref().filter(|e_tag| !e_tag.starts_with("W/"))
    }
}

/// A head as it is in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredHead {
    format: u8,
    checked_at_ms: u64,
    head: Head,
}

impl StoredHead {
    /// A head that the store was asked for at this time of the cache.
    pub(crate) fn encode(head: &Head, checked_at: Duration) -> Option<Vec<u8>> {
        let checked_at_ms = u64::try_from(checked_at.as_millis()).ok()?;
        let stored = Self { format: FORMAT, checked_at_ms, head: head.clone() };
        postcard::to_allocvec(&stored).ok()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Head, Duration)> {
        if bytes.first() != Some(&FORMAT) {
            return None;
        }
        let stored: Self = postcard::from_bytes(bytes).ok()?;
        Some((stored.head, Duration::from_millis(stored.checked_at_ms)))
    }
}

/// A listing as it is in the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredList {
    format: u8,
    checked_at_ms: u64,
    pub(crate) prefixes: Vec<String>,
    /// Paths and heads, without attributes.
    pub(crate) objects: Vec<(String, Head)>,
}

impl StoredList {
    pub(crate) fn new(
        prefixes: Vec<String>,
        objects: Vec<(String, Head)>,
        checked_at: Duration,
    ) -> Self {
        let checked_at_ms = u64::try_from(checked_at.as_millis()).unwrap_or(0);
        Self { format: FORMAT, checked_at_ms, prefixes, objects }
    }

    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        postcard::to_allocvec(self).ok()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, Duration)> {
        if bytes.first() != Some(&FORMAT) {
            return None;
        }
        let stored: Self = postcard::from_bytes(bytes).ok()?;
        let checked_at = Duration::from_millis(stored.checked_at_ms);
        Some((stored, checked_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(e_tag: Option<&str>, version: Option<&str>) -> Head {
        let (e_tag, version) = (e_tag.map(str::to_owned), version.map(str::to_owned));
        Head { size: 7, e_tag, version, ..Head::default() }
    }

    #[test]
    fn a_version_is_told_by_strong_e_tag_then_by_version() {
        let is = |head: Head| head.validator(false).map(|it| String::from_utf8(it).unwrap());
        assert_eq!(is(head(Some("\"a\""), Some("1"))).unwrap(), "e\"a\"");
        assert_eq!(is(head(Some("W/\"a\""), Some("1"))).unwrap(), "v1");
        assert_eq!(is(head(Some("W/\"a\""), None)), None);
        assert_eq!(is(head(None, None)), None);
        assert!(head(None, None).validator(true).is_some());
        let unknown = Head { has_unknown_attributes: true, ..head(Some("\"a\""), None) };
        assert_eq!(unknown.validator(true), None);
    }

    #[test]
    fn what_is_stored_is_found_again_and_nothing_else_is_believed() {
        let head = Head {
            attributes: vec![(6, "k".into(), "v".into())],
            modified_s: -1,
            ..head(Some("\"a\""), None)
        };
        let at = Duration::from_millis(12_345);
        let bytes = StoredHead::encode(&head, at).unwrap();
        assert_eq!(StoredHead::decode(&bytes), Some((head.clone(), at)));
        for length in 0..bytes.len() {
            assert_eq!(StoredHead::decode(&bytes[..length]), None);
        }
        let other_format = [&[FORMAT + 1], &bytes[1..]].concat();
        assert_eq!(StoredHead::decode(&other_format), None);
        let list = StoredList::new(vec!["a".into()], vec![("b".into(), head)], at);
        assert_eq!(StoredList::decode(&list.encode().unwrap()), Some((list, at)));
    }
}
