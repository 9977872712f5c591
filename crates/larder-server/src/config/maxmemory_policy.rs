//! The policy of eviction that clients of RESP are told.

use std::fmt;
use std::str::FromStr;

/// The policy of eviction that clients of RESP are told, under Redis' names.
///
/// The cache evicts by its own policy whichever name this is: among all keys, those that are asked for least. The name
/// is for clients that refuse to work with some policies. Symfony's cache with tags, for one, wants `noeviction` or
/// `volatile-…`, since it stores tags without a lifetime; in a cache they may be evicted all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MaxmemoryPolicy {
    /// Nearest to what the cache does.
    #[default]
    AllkeysLru,
    /// `allkeys-lfu`
    AllkeysLfu,
    /// `volatile-lru`
    VolatileLru,
    /// `volatile-lfu`
    VolatileLfu,
    /// `volatile-ttl`
    VolatileTtl,
    /// `noeviction`
    Noeviction,
}

impl MaxmemoryPolicy {
    const ALL: [Self; 6] = [
        Self::AllkeysLru,
        Self::AllkeysLfu,
        Self::VolatileLru,
        Self::VolatileLfu,
        Self::VolatileTtl,
        Self::Noeviction,
    ];

    /// Its name in Redis.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllkeysLru => "allkeys-lru",
            Self::AllkeysLfu => "allkeys-lfu",
            Self::VolatileLru => "volatile-lru",
            Self::VolatileLfu => "volatile-lfu",
            Self::VolatileTtl => "volatile-ttl",
            Self::Noeviction => "noeviction",
        }
    }
}

impl fmt::Display for MaxmemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MaxmemoryPolicy {
    type Err = String;

    /// # Errors
    /// If no policy has this name; the text lists all names.
    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.into_iter().map(Self::name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}
