//! Finds the tenant of a key by its longest prefix.

/// A sorted table of prefixes.
pub(crate) struct Prefixes<T> {
    /// Sorted by prefix.
    entries: Vec<PrefixEntry<T>>,
}

struct PrefixEntry<T> {
    prefix: Vec<u8>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    tenant: T,
}

impl<T> Prefixes<T> {
    /// No prefix may be empty or occur twice.
    pub(crate) fn new(mut all: Vec<(Vec<u8>, T)>) -> Self {
        all.sort_by(|one, other| one.0.cmp(&other.0));
        debug_assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "each is one tenant's");
        let mut prefixes = Self { entries: Vec::with_capacity(all.len()) };
        for (prefix, tenant) in all {
            // All prefixes of this prefix are before it in the order, so they are already in the table.
            let last = prefixes.entries.len().checked_sub(1);
            let parent = prefixes.longest_from(last, &prefix);
            prefixes.entries.push(PrefixEntry { prefix, parent, tenant });
        }
        prefixes
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The tenant of `key`, if it has a known prefix.
    pub(crate) fn tenant_of(&self, key: &[u8]) -> Option<&T> {
        if self.entries.is_empty() {
            return None;
        }
        let behind = self.entries.partition_point(|entry| *entry.prefix <= *key);
        let found = self.longest_from(behind.checked_sub(1), key)?;
        self.entries.get(found).map(|entry| &entry.tenant)
    }

    /// The longest prefix of `key` among the entry at `place`, its parent, and so on. If `place` is the last entry that
    /// is not greater than `key`, no other entry is a prefix of it: all entries between a prefix of `key` and `key`
    /// begin with that prefix.
    fn longest_from(&self, mut place: Option<usize>, key: &[u8]) -> Option<usize> {
        while let Some(entry) = place.and_then(|place| self.entries.get(place)) {
            if key.starts_with(&entry.prefix) {
                return place;
            }
            place = entry.parent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(all: &[&str]) -> Prefixes<usize> {
        let numbered = all.iter().enumerate();
        Prefixes::new(
            numbered.map(|(number, prefix)| (prefix.as_bytes().to_vec(), number)).collect(),
        )
    }

    #[test]
    fn the_longest_prefix_counts() {
        let prefixes = of(&["app1:", "app1:img:", "app2:", "a"]);
        let tenant_of = |key: &str| prefixes.tenant_of(key.as_bytes()).copied();
        assert_eq!(tenant_of("app1:x"), Some(0));
        assert_eq!(tenant_of("app1:img:x"), Some(1));
        assert_eq!(tenant_of("app1:img:"), Some(1));
        assert_eq!(tenant_of("app1:img"), Some(0));
        assert_eq!(tenant_of("app1:zzz"), Some(0));
        assert_eq!(tenant_of("app1"), Some(3));
        assert_eq!(tenant_of("app3:x"), Some(3));
        assert_eq!(tenant_of("b"), None);
        assert_eq!(tenant_of(""), None);
        assert_eq!(of(&[]).tenant_of(b"x"), None);
    }

    proptest! {
        #[test]
        fn it_is_what_a_search_finds(
            all in proptest::collection::btree_set("[ab]{1,5}", 0..12),
            key in "[abc]{0,7}",
        ) {
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            let longest = (0..all.len()).filter(|at| key.starts_with(all[*at]));
            let longest = longest.max_by_key(|at| all[*at].len());
            prop_assert_eq!(of(&all).tenant_of(key.as_bytes()).copied(), longest);
        }
    }
}
