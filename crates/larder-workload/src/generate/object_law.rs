//! The properties of an object: its sizes and its lifetime, as functions of its key.

use crate::hash::{finish, mix};
use crate::{Op, Request};

use super::convert::spread;
use super::size_law::SizeLaw;

/// What the size law of an object measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SizeSubject {
    Value,
    /// Key and value together; the value has at least one byte.
    Object,
}

/// A TTL in seconds (0 = never expires), and how many of a hundred keys have it.
pub(super) type TtlPercent = (u32, usize);

/// The TTLs of the keys, spread over 100 slots so that a hash picks one without a search.
#[derive(Clone, Debug)]
pub(super) struct TtlLaw {
    ttl_s: Vec<u32>,
}

impl TtlLaw {
    /// Nothing expires under this law.
    pub(super) fn never() -> Self {
        Self::new(&[(0, 100)])
    }

    /// The law of these shares, which must add up to a hundred.
    pub(super) fn new(percents: &[TtlPercent]) -> Self {
        let ttl_s: Vec<u32> =
            percents.iter().flat_map(|&(ttl_s, count)| std::iter::repeat_n(ttl_s, count)).collect();
        assert_eq!(ttl_s.len(), 100, "the shares of the TTLs are whole");
        Self { ttl_s }
    }

    #[inline]
    fn ttl_s(&self, hash: u64) -> u32 {
        let index = usize::try_from(spread(hash, self.ttl_s.len() as u64));
        index.ok().and_then(|index| self.ttl_s.get(index)).copied().unwrap_or(0)
    }
}

/// The properties of keys. The same key always has the same properties.
#[derive(Clone, Debug)]
pub(super) struct ObjectLaw {
    pub key_size: SizeLaw,
    pub size: SizeLaw,
    pub sized: SizeSubject,
    pub ttl: TtlLaw,
}

impl ObjectLaw {
    /// A request for this key. A GET has the key's TTL too: a look-aside client that fills the cache after a miss sets
    /// it.
    #[inline]
    pub(super) fn request(&self, key: u64, op: Op, time_s: u32) -> Request {
        // Each property uses other bits of the hash, so that the properties do not depend on each other; the laws use
        // the upper bits.
        let base = mix(key, 0x6c61_7264_6572);
        let key_bytes = self.key_size.size_bytes(base.rotate_left(32));
        let size = self.size.size_bytes(base);
        let value_bytes = match self.sized {
            SizeSubject::Value => size,
            SizeSubject::Object => size.saturating_sub(key_bytes).max(1),
        };
        let ttl_s = self.ttl.ttl_s(finish(base));
        Request { time_s, key, key_bytes, value_bytes, op, ttl_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_do_not_depend_on_each_other() {
        let law = ObjectLaw {
            key_size: SizeLaw::Uniform(1, 2),
            size: SizeLaw::Uniform(1, 2),
            sized: SizeSubject::Value,
            ttl: TtlLaw::new(&[(1, 50), (2, 50)]),
        };
        let mut counts = std::collections::BTreeMap::new();
        for key in 0..80_000 {
            let Request { key_bytes, value_bytes, ttl_s, .. } = law.request(key, Op::Set, 0);
            *counts.entry((key_bytes, value_bytes, ttl_s)).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 8);
        assert!(counts.values().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
    }

    #[test]
    fn ttls_have_their_shares() {
        let law = ObjectLaw {
            key_size: SizeLaw::Fixed(16),
            size: SizeLaw::Fixed(10),
            sized: SizeSubject::Object,
            ttl: TtlLaw::new(&[(60, 50), (300, 30), (0, 20)]),
        };
        let count = |ttl_s| {
            let requests = (0..100_000).map(|key| law.request(key, Op::Set, 0));
            requests.filter(|request| request.ttl_s == ttl_s).count()
        };
        assert!(count(60).abs_diff(50_000) < 1000, "{}", count(60));
        assert!(count(300).abs_diff(30_000) < 1000, "{}", count(300));
        assert!(count(0).abs_diff(20_000) < 1000, "{}", count(0));
        assert_eq!(law.request(1, Op::Get, 0).value_bytes, 1);
    }
}
