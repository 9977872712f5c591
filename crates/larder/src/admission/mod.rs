//! Which of the items that DRAM evicts are worth a flash write.

mod reject_first;

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::key::KeyHash;
use reject_first::RejectFirst;

/// Which of the items that DRAM evicts are written to flash.
///
/// ```
/// use larder::AdmissionPolicy;
///
/// assert_eq!("random:0.5".parse(), Ok(AdmissionPolicy::Random(0.5)));
/// assert!("random:5".parse::<AdmissionPolicy>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum AdmissionPolicy {
    /// All of them.
    #[default]
    All,
    /// Each with this probability (0 to 1).
    Random(f64),
    /// Those that come for the second time within a while: one-hit wonders never reach flash.
    RejectFirst,
}

impl AdmissionPolicy {
    pub(crate) fn check(self) -> Result<(), Error> {
        match self {
            Self::Random(p) if !(0.0..=1.0).contains(&p) => {
                Err(Error::config(format!("admission probability {p}: must be 0 to 1")))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for AdmissionPolicy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let unknown = || {
            format!(
                "\"{s}\" is not an admission policy: use all, reject-first or random:P with P from 0 to 1"
            )
        };
        match s {
            "all" => Ok(Self::All),
            "reject-first" => Ok(Self::RejectFirst),
            _ => {
                let p: f64 =
                    s.strip_prefix("random:").and_then(|p| p.parse().ok()).ok_or_else(unknown)?;
                if (0.0..=1.0).contains(&p) { Ok(Self::Random(p)) } else { Err(unknown()) }
            }
        }
    }
}

impl fmt::Display for AdmissionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Random(p) => write!(f, "random:{p}"),
            Self::RejectFirst => f.write_str("reject-first"),
        }
    }
}

/// A policy with its memory.
#[derive(Debug)]
pub(crate) enum Admission {
    All,
    Random { threshold: u64, state: AtomicU64 },
    RejectFirst(Mutex<RejectFirst>),
}

impl Admission {
    /// `expected_items` is how many items flash can hold: a first visit is remembered about that
    /// long.
    pub(crate) fn new(policy: AdmissionPolicy, expected_items: u64, seed: u64) -> Self {
        match policy {
            AdmissionPolicy::All => Self::All,
            AdmissionPolicy::Random(p) => {
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                // p is 0 to 1, and the conversion saturates
                let threshold = (p * 2f64.powi(64)) as u64;
                Self::Random { threshold, state: AtomicU64::new(seed) }
            }
            AdmissionPolicy::RejectFirst => {
                Self::RejectFirst(Mutex::new(RejectFirst::new(expected_items)))
            }
        }
    }

    pub(crate) fn admits(&self, hash: KeyHash) -> bool {
        match self {
            Self::All => true,
            Self::Random { threshold, state } => {
                let step = state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
                *threshold == u64::MAX || mix(step) < *threshold
            }
            Self::RejectFirst(visits) => {
                visits.lock().unwrap_or_else(PoisonError::into_inner).seen_before(hash)
            }
        }
    }
}

/// SplitMix64's output function (Steele, Lea, Flood: OOPSLA'14): an evenly distributed number from
/// a counter.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_admits_its_share() {
        let admission = Admission::new(AdmissionPolicy::Random(0.25), 0, 7);
        let admitted = (0..10_000).filter(|&i| admission.admits(KeyHash(i))).count();
        assert!((2_300..2_700).contains(&admitted), "{admitted}");
        let always = Admission::new(AdmissionPolicy::Random(1.0), 0, 7);
        assert!((0..1000).all(|i| always.admits(KeyHash(i))));
        let never = Admission::new(AdmissionPolicy::Random(0.0), 0, 7);
        assert!(!(0..1000).any(|i| never.admits(KeyHash(i))));
    }

    #[test]
    fn policies_are_read_and_written() {
        for text in ["all", "reject-first", "random:0.5"] {
            assert_eq!(text.parse::<AdmissionPolicy>().unwrap().to_string(), text);
        }
        for text in ["", "random", "random:2", "random:nan", "first"] {
            assert!(
                text.parse::<AdmissionPolicy>().unwrap_err().contains("reject-first"),
                "{text}"
            );
        }
    }
}
