//! Decides which of the items that DRAM evicts are worth a flash write.

mod budget;
mod frequency;
mod random;
mod reject_first;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use crate::base::key::KeyHash;
pub use crate::config::AdmissionPolicy;
use crate::config::Config;
use crate::observe::stats::{Counter, Counters};
use budget::{Budget, Refusal};
use frequency::Frequency;
use random::Dice;
use reject_first::RejectFirst;

/// The policy of now, which can be replaced while the cache serves.
#[derive(Debug)]
pub(crate) struct Admission {
    /// What every policy of this cache is made with, but the policy itself.
    settings: Settings,
    /// Whether the policy counts requests. Requests look here first, so that most policies cost them no lock.
    counts_requests: AtomicBool,
    policy: RwLock<Policy>,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    seed: u64,
    memory_bytes: u64,
    expected_items: u64,
}

/// A policy with its memory.
#[derive(Debug)]
enum Policy {
    All,
    Random { chance: f64, dice: Dice },
    RejectFirst(Mutex<RejectFirst>),
    Frequency(Box<Frequency>),
    Budget(Mutex<Budget>),
}

/// An item that is to go to flash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) hash: KeyHash,
    pub(crate) object_bytes: u64,
    pub(crate) now_s: u32,
}

impl Admission {
    /// `expected_items` is the number of items that flash can hold: first visits are remembered for about that number
    /// of items.
    pub(crate) fn new(config: &Config, expected_items: u64) -> Self {
        let memory_bytes = config.admission_memory_bytes;
        let settings = Settings { seed: config.seed, memory_bytes, expected_items };
        let policy = Policy::new(config.admission, settings);
        let counts_requests = AtomicBool::new(policy.counts_requests());
        Self { settings, counts_requests, policy: RwLock::new(policy) }
    }

    /// Replaces the policy. What the old one remembers of keys, or has left of a budget, is forgotten.
    pub(crate) fn replace(&self, policy: AdmissionPolicy) {
        let policy = Policy::new(policy, self.settings);
        let mut current = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        self.counts_requests.store(policy.counts_requests(), Ordering::Relaxed);
        *current = policy;
    }

    fn policy(&self) -> RwLockReadGuard<'_, Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request for a key.
    pub(crate) fn asked(&self, hash: KeyHash) {
        if self.counts_requests.load(Ordering::Relaxed)
            && let Policy::Frequency(sketch) = &*self.policy()
        {
            sketch.asked(hash);
        }
    }

    /// Decides whether the item is written, and counts the decision. `written` returns the number of bytes that have
    /// reached the flash so far.
    pub(crate) fn admits(
        &self,
        item: Candidate,
        counters: &Counters,
        written: impl FnOnce() -> u64,
    ) -> bool {
        let Err(reason) = self.policy().judge(item, counters, written) else {
            counters.admitted_objects.add(1);
            counters.admitted_bytes.add(item.object_bytes);
            return true;
        };
        counters.rejected_by_admission_objects.add(1);
        counters.rejected_by_admission_bytes.add(item.object_bytes);
        reason.add(1);
        false
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.policy().memory_bytes()
    }
}

impl Policy {
    fn new(policy: AdmissionPolicy, settings: Settings) -> Self {
        let Settings { seed, memory_bytes, expected_items } = settings;
        match policy {
            AdmissionPolicy::All => Self::All,
            AdmissionPolicy::Random(chance) => Self::Random { chance, dice: Dice::new(seed) },
            AdmissionPolicy::RejectFirst => {
                Self::RejectFirst(Mutex::new(RejectFirst::new(expected_items, memory_bytes)))
            }
            AdmissionPolicy::Frequency { asks } => {
                Self::Frequency(Box::new(Frequency::new(asks, expected_items, memory_bytes)))
            }
            AdmissionPolicy::Budget { bytes_per_day } => {
                Self::Budget(Mutex::new(Budget::new(bytes_per_day, seed)))
            }
        }
    }

    fn counts_requests(&self) -> bool {
        matches!(self, Self::Frequency(_))
    }

    /// The decision; the error is the counter of the reason.
    fn judge<'a>(
        &self,
        item: Candidate,
        counters: &'a Counters,
        written: impl FnOnce() -> u64,
    ) -> Result<(), &'a Counter> {
        let unless = |admitted: bool, reason| if admitted { Ok(()) } else { Err(reason) };
        match self {
            Self::All => Ok(()),
            Self::Random { chance, dice } => {
                unless(dice.falls_below(*chance), &counters.rejected_at_random_objects)
            }
            Self::RejectFirst(visits) => {
                let mut visits = visits.lock().unwrap_or_else(PoisonError::into_inner);
                unless(visits.seen_before(item.hash), &counters.rejected_on_first_visit_objects)
            }
            Self::Frequency(sketch) => {
                unless(sketch.is_frequent(item.hash), &counters.rejected_as_infrequent_objects)
            }
            Self::Budget(budget) => {
                let mut budget = budget.lock().unwrap_or_else(PoisonError::into_inner);
                let asked = budget.ask(item.object_bytes, item.now_s, written);
                asked.map_err(|refusal| match refusal {
                    Refusal::Chance => &counters.rejected_by_budget_objects,
                    Refusal::Exhausted => &counters.rejected_for_exhausted_budget_objects,
                })
            }
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::All | Self::Random { .. } | Self::Budget(_) => 0,
            Self::RejectFirst(visits) => {
                visits.lock().unwrap_or_else(PoisonError::into_inner).memory_bytes()
            }
            Self::Frequency(sketch) => sketch.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(policy: AdmissionPolicy, counters: &Counters) -> usize {
        let admission = Admission::new(&Config { admission: policy, ..Config::default() }, 0);
        let item = |i| Candidate { hash: KeyHash(i), object_bytes: 100, now_s: 0 };
        let mut written = 0;
        let mut admits = |i| {
            let admitted = admission.admits(item(i), counters, || written);
            written += if admitted { 100 } else { 0 };
            admitted
        };
        (0..10_000).filter(|&i| admits(i)).count()
    }

    #[test]
    fn random_admits_its_share() {
        let counters = Counters::default();
        let share = admitted(AdmissionPolicy::Random(0.25), &counters);
        assert!((2_300..2_700).contains(&share), "{share}");
        assert_eq!(admitted(AdmissionPolicy::Random(1.0), &counters), 10_000);
        assert_eq!(admitted(AdmissionPolicy::Random(0.0), &counters), 0);
    }

    #[test]
    fn a_replaced_policy_decides_and_counts_requests_at_once() {
        let counters = Counters::default();
        let admission = Admission::new(&Config::default(), 1000);
        let item = |key| Candidate { hash: KeyHash(key), object_bytes: 100, now_s: 0 };
        assert!(admission.admits(item(1), &counters, || 0), "all are admitted");

        admission.replace(AdmissionPolicy::Frequency { asks: 1 });
        assert!(!admission.admits(item(1), &counters, || 0), "nothing was asked for yet");
        admission.asked(KeyHash(1));
        assert!(admission.admits(item(1), &counters, || 0));
        assert!(admission.memory_bytes() > 0);

        admission.replace(AdmissionPolicy::Random(0.0));
        assert!(!admission.admits(item(1), &counters, || 0));
        assert_eq!(admission.memory_bytes(), 0);
    }

    /// Each policy rejects something here, and counts it under its own reason only.
    #[test]
    fn each_rejection_is_counted_with_its_reason() {
        for (policy, reason) in [
            (AdmissionPolicy::All, 0),
            (AdmissionPolicy::Random(0.5), 1),
            (AdmissionPolicy::RejectFirst, 2),
            (AdmissionPolicy::Frequency { asks: 2 }, 3),
            (AdmissionPolicy::Budget { bytes_per_day: 1 << 20 }, 5),
        ] {
            let counters = Counters::default();
            let admitted = admitted(policy, &counters) as u64;
            let stats = counters.snapshot();
            let reasons = stats.rejections().map(|(_, objects)| objects);
            assert_eq!(reasons.iter().sum::<u64>(), 10_000 - admitted, "{policy}");
            assert_eq!(stats.rejected_by_admission_objects, 10_000 - admitted, "{policy}");
            assert_eq!(stats.rejected_by_admission_bytes, 100 * (10_000 - admitted), "{policy}");
            let nonzero: Vec<_> = (1..).zip(reasons).filter(|(_, objects)| *objects > 0).collect();
            match reason {
                0 => assert!(nonzero.is_empty(), "{policy}"),
                _ => assert!(nonzero.len() == 1 && nonzero[0].0 == reason, "{policy} {nonzero:?}"),
            }
        }
    }
}
