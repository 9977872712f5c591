//! Which events of keys are published.

use std::fmt;
use std::str::FromStr;

/// Which events of keys RESP clients can subscribe to, in Redis' letters (`notify-keyspace-events`).
///
/// `K` publishes on `__keyspace@N__:key`, `E` on `__keyevent@N__:event`; without one of them nothing is published. The
/// others are classes of events: `g` of all kinds of keys, `$` strings, `l` lists, `s` sets, `h` hashes, `z` sorted
/// sets, `x` expiry, `e` eviction, `n` new keys, `m` reads of missing keys; `t` and `d` have no events here. `A` is all
/// but `n` and `m`.
///
/// ```
/// use larder_server::KeyspaceEvents;
///
/// let events: KeyspaceEvents = "KEA".parse().unwrap();
/// assert_eq!(events.to_string(), "AKE");
/// assert!("KEy".parse::<KeyspaceEvents>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyspaceEvents(u16);

/// The letters, in the order in which they are shown; the place of each is its bit.
const LETTERS: &[u8; 14] = b"g$lshzxetdnKEm";

impl KeyspaceEvents {
    pub(crate) const GENERIC: Self = Self(1);
    pub(crate) const STRING: Self = Self(1 << 1);
    pub(crate) const LIST: Self = Self(1 << 2);
    pub(crate) const SET: Self = Self(1 << 3);
    pub(crate) const HASH: Self = Self(1 << 4);
    pub(crate) const SORTED_SET: Self = Self(1 << 5);
    pub(crate) const EXPIRED: Self = Self(1 << 6);
    pub(crate) const EVICTED: Self = Self(1 << 7);
    pub(crate) const NEW: Self = Self(1 << 10);
    pub(crate) const OF_KEY: Self = Self(1 << 11);
    pub(crate) const OF_EVENT: Self = Self(1 << 12);
    pub(crate) const MISSES: Self = Self(1 << 13);
    /// What `A` means.
    const ALL: Self = Self((1 << 10) - 1);

    /// Whether it has any of these letters.
    pub(crate) fn has(self, letters: Self) -> bool {
        self.0 & letters.0 != 0
    }

    /// Whether events of this class are published.
    pub(crate) fn publishes(self, class: Self) -> bool {
        self.has(class) && self.has(Self(Self::OF_KEY.0 | Self::OF_EVENT.0))
    }

    /// Its bits, below 2^14.
    pub(crate) fn bits(self) -> u16 {
        self.0
    }

    pub(crate) fn of_bits(bits: u16) -> Self {
        Self(bits)
    }
}

impl fmt::Display for KeyspaceEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_all = self.0 & Self::ALL.0 == Self::ALL.0;
        let mut text = String::from(if has_all { "A" } else { "" });
        for (bit, letter) in LETTERS.iter().enumerate() {
            let bit = Self(1 << bit);
            if self.has(bit) && !(has_all && Self::ALL.has(bit)) {
                text.push(char::from(*letter));
            }
        }
        f.pad(&text)
    }
}

impl FromStr for KeyspaceEvents {
    type Err = String;

    /// # Errors
    /// If a letter means no events.
    fn from_str(text: &str) -> Result<Self, String> {
        text.bytes().try_fold(Self::default(), |events, letter| {
            let bits = match LETTERS.iter().position(|known| *known == letter) {
                Some(bit) => 1 << bit,
                None if letter == b'A' => Self::ALL.0,
                None => {
                    return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned());
                }
            };
            Ok(Self(events.0 | bits))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_have_an_order() {
        let told = |text: &str| text.parse::<KeyspaceEvents>().map(|it| it.to_string());
        for (text, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("g$lshzxeKEtmdn", "AnKEm"),
            ("KE$lg", "g$lKE"),
            ("mE", "Em"),
            ("K$lshzxeg", "g$lshzxeK"),
        ] {
            assert_eq!(told(text).as_deref(), Ok(shown), "{text}");
        }
        assert!(told("Ky").is_err());
    }

    #[test]
    fn nothing_is_published_without_a_place() {
        let of = |text: &str| text.parse::<KeyspaceEvents>().unwrap();
        assert!(!of("A").publishes(KeyspaceEvents::STRING));
        assert!(
            of("K$").publishes(KeyspaceEvents::STRING) && of("EA").publishes(KeyspaceEvents::HASH)
        );
        assert!(
            !of("KEA").publishes(KeyspaceEvents::NEW)
                && !of("KEA").publishes(KeyspaceEvents::MISSES)
        );
    }
}
