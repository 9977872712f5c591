//! Which objects may go to flash. All layouts get the same answer for the same version of an object.

use super::objects::{Key, Objects};
use crate::Error;

/// A policy of admission.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Policy {
    All,
    /// Each version with this probability.
    Probability(f64),
    /// An object is refused at the first time that it leaves DRAM; it is admitted if it comes again while at most this
    /// share of all keys was refused since.
    RejectFirst(f64),
}

impl Policy {
    /// Reads `all`, `probability:0.5` or `reject-first:0.2`.
    pub(super) fn read(text: &str) -> Result<Self, Error> {
        let number = |text: &str| {
            let number = text.parse().ok().filter(|number| (0.001..=1.0).contains(number));
            number.ok_or_else(|| Error::usage(format!("{text}: must be 0.001 to 1")))
        };
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            Some(("probability", rest)) => Ok(Self::Probability(number(rest)?)),
            Some(("reject-first", rest)) => Ok(Self::RejectFirst(number(rest)?)),
            _ => Err(Error::usage("must be all, probability:0.5 or reject-first:0.2")),
        }
    }
}

/// The policy, and what it knows of each key.
pub(super) struct Admission {
    policy: Policy,
    /// The number of the last refusal, for `RejectFirst`; 0 is none.
    refused_at: Vec<u64>,
    refusals: u64,
}

impl Admission {
    pub(super) fn new(policy: Policy, keys: usize) -> Self {
        let remembered = if matches!(policy, Policy::RejectFirst(_)) { keys } else { 0 };
        Self { policy, refused_at: vec![0; remembered], refusals: 0 }
    }

    /// Whether the last version may go to flash. Asking changes nothing.
    #[allow(clippy::cast_precision_loss)] // 53 bits are enough
    pub(super) fn admits(&self, key: Key, objects: &Objects) -> bool {
        match self.policy {
            Policy::All => true,
            Policy::Probability(share) => {
                let mixed = (u64::from(key) << 32) | u64::from(objects.version(key));
                let mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                ((mixed ^ (mixed >> 32)) >> 11) as f64 / (1_u64 << 53) as f64 <= share
            }
            Policy::RejectFirst(share) => {
                let at = self.refused_at[key as usize];
                at != 0 && (self.refusals - at) as f64 <= share * self.refused_at.len() as f64
            }
        }
    }

    /// The last version of the object has left DRAM and was refused.
    pub(super) fn refused(&mut self, key: Key) {
        self.refusals += 1;
        if let Some(at) = self.refused_at.get_mut(key as usize) {
            *at = self.refusals;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_gets_the_same_answer_each_time() {
        let mut objects = Objects::new(1000);
        (0..1000).for_each(|key| objects.set(key, 100, 0));
        let admission = Admission::new(Policy::read("probability:0.3").unwrap(), 1000);
        let count = || (0..1000).filter(|key| admission.admits(*key, &objects)).count();
        assert!((250..350).contains(&count()), "{}", count());
        assert_eq!(count(), count());
    }

    #[test]
    fn the_second_time_is_admitted_unless_it_comes_late() {
        let objects = Objects::new(10);
        let mut admission = Admission::new(Policy::read("reject-first:0.2").unwrap(), 10);
        assert!(!admission.admits(3, &objects));
        admission.refused(3);
        assert!(admission.admits(3, &objects));
        (4..7).for_each(|key| admission.refused(key));
        assert!(!admission.admits(3, &objects), "three others were refused since, of ten keys");
        assert!(Policy::read("some").is_err() && Policy::read("probability:2").is_err());
    }
}
