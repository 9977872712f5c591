//! One budget for several caches: each has a part of it, and may borrow what others do not use.
//!
//! A part is guaranteed: no cache's budget is ever less. The others get the unused rest of it as loans, each up to
//! its own limit, and give it back when the owner needs it. There is no thread for that: a cache divides the budget
//! anew each time that it has brought a certain number of bytes to DRAM, a fraction of the room that it has left
//! before loans are recalled. A cache that must give memory back evicts with its own calls, and with those of all
//! others while it is in debt: with flash, these calls write the evicted objects there.
//!
//! If the budget covers all memory, the needs of flash are subtracted before it is divided.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use super::memory::{check_all, is_another, left_for_dram};
use crate::base::error::Error;
use crate::config::DRAM_BYTES_MIN;

/// Reciprocal of the fraction of each part that is not lent, on top of what its owner uses.
const RESERVE_PART: u64 = 8;
/// A cache divides anew after it has brought this fraction of its reserve (reciprocal).
const STEP_PART: u64 = 4;
const _: () = assert!(RESERVE_PART > 1 && STEP_PART > 0, "a part is lent but for its reserve");

/// What the other caches that share a budget may know and ask of a cache. Bytes are bytes of its DRAM unless stated
/// otherwise.
pub(crate) trait Borrower: Sized {
    /// Memory that its flash needs, regardless of the budget.
    fn flash_bytes(&self) -> u64;

    /// Bytes in use, possibly more than its budget.
    fn used_bytes(&self) -> u64;

    fn budget_bytes(&self) -> u64;

    /// Sets its budget. Any excess leaves in steps, with its own calls and those of others.
    fn set_budget(&self, bytes: u64);

    /// Whether it still has to evict, since its budget became smaller.
    fn is_above_budget(&self) -> bool;

    /// Its membership, which is set once.
    fn membership(&self) -> &OnceLock<Membership<Self>>;
}

/// A cache and its part of the budget.
#[derive(Debug)]
pub(crate) struct Member<C> {
    pub(crate) cache: Weak<C>,
    /// Its part of DRAM, in percent.
    pub(crate) percent: f64,
    pub(crate) borrow_max: u64,
}

/// The budget of all members.
#[derive(Debug)]
pub(crate) struct Lending<C> {
    bytes: AtomicU64,
    /// Whether the budget covers all memory, and not only DRAM.
    of_all: bool,
    members: OnceLock<Vec<Member<C>>>,
    /// Held during a division.
    dividing: Mutex<()>,
    /// Whether a member may have to give memory back.
    owed: AtomicBool,
    /// Bytes for the DRAM tiers of all members, at the last division.
    tiers: AtomicU64,
}

/// A cache's membership.
#[derive(Debug)]
pub(crate) struct Membership<C> {
    lending: Arc<Lending<C>>,
    /// Bytes brought to its DRAM since its last division.
    brought: AtomicU64,
    /// Bytes to bring until its next division.
    step: AtomicU64,
}

/// The current state of a member.
#[derive(Debug, Clone, Copy)]
struct MemberUsage {
    part: u64,
    used: u64,
    had: u64,
    borrow_max: u64,
}

impl MemberUsage {
    fn reserve(&self) -> u64 {
        self.part / RESERVE_PART
    }

    /// Bytes that others may borrow from it.
    fn lends(&self) -> u64 {
        self.part.saturating_sub(self.used + self.reserve())
    }

    /// Bytes that it has borrowed, as far as it uses them or is about to.
    fn loan(&self) -> u64 {
        let wanted = (self.used + self.reserve()).saturating_sub(self.part);
        let loan = self.had.saturating_sub(self.part).min(self.borrow_max).min(wanted);
        debug_assert!(loan <= self.borrow_max, "{loan} of {} at most", self.borrow_max);
        loan
    }

    /// Bytes that it has from others, including those that it must give back.
    fn owes(&self) -> u64 {
        self.loan().max(self.used.saturating_sub(self.part))
    }

    /// Additional bytes that it would borrow.
    fn wants(&self) -> u64 {
        let is_full = self.used + self.reserve() / 2 >= self.had;
        if is_full { self.borrow_max - self.loan() } else { 0 }
    }
}

/// The share of `bytes` that has the proportion of `one` to `all`.
fn share(bytes: u64, one: u64, all: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(one) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Computes the new budgets.
fn divided(members: &[MemberUsage]) -> Vec<u64> {
    let lent: u64 = members.iter().map(MemberUsage::lends).sum();
    let loans: u64 = members.iter().map(MemberUsage::loan).sum();
    let wanted: u64 = members.iter().map(MemberUsage::wants).sum();
    let owed: u64 = members.iter().map(MemberUsage::owes).sum();
    let more = lent.saturating_sub(owed).min(wanted);
    let budget = |member: &MemberUsage| {
        let kept = if loans > lent { share(lent, member.loan(), loans) } else { member.loan() };
        member.part + kept + share(more, member.wants(), wanted)
    };
    let budgets: Vec<u64> = members.iter().map(budget).collect();
    debug_assert!(
        budgets.iter().zip(members).all(|(budget, member)| *budget >= member.part),
        "no member's budget is less than its part"
    );
    debug_assert!(
        budgets.iter().zip(members).map(|(budget, member)| budget - member.part).sum::<u64>()
            <= lent,
        "no more is borrowed than is lent"
    );
    budgets
}

impl<C: Borrower> Lending<C> {
    pub(crate) fn new(bytes: u64, of_all: bool) -> Arc<Self> {
        let bytes = AtomicU64::new(bytes);
        let (members, dividing) = (OnceLock::new(), Mutex::default());
        let (owed, tiers) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
        Arc::new(Self { bytes, of_all, members, dividing, owed, tiers })
    }

    /// Sets the members, once. A member must not share another budget.
    ///
    /// # Errors
    /// If the budget is too small for them.
    pub(crate) fn begin(self: &Arc<Self>, members: Vec<Member<C>>) -> Result<(), Error> {
        let percent: f64 = members.iter().map(|member| member.percent).sum();
        assert!(percent < 100.01, "parts are of one whole: {percent} percent");
        let bytes = self.bytes.load(Ordering::Relaxed);
        let caches: Vec<_> = members.iter().filter_map(|member| member.cache.upgrade()).collect();
        if self.of_all {
            let needed: u64 = caches.iter().map(|cache| cache.flash_bytes()).sum();
            let tiers_min = DRAM_BYTES_MIN * caches.len() as u64;
            check_all(bytes, needed, tiers_min, "flash of all tenants")?;
        }
        for cache in &caches {
            let (brought, step) = (AtomicU64::new(0), AtomicU64::new(0));
            let membership = Membership { lending: Arc::clone(self), brought, step };
            let is_first = cache.membership().set(membership).is_ok();
            assert!(is_first, "a cache shares one budget");
        }
        let is_first = self.members.set(members).is_ok();
        assert!(is_first, "a budget has its members for good");
        self.divide();
        Ok(())
    }

    /// Changes the budget.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.divide();
    }

    /// Whether the budget covers all memory.
    pub(crate) fn is_of_all(&self) -> bool {
        self.of_all
    }

    fn divide(&self) {
        let Ok(_alone) = self.dividing.try_lock() else { return };
        let members = self.members.get().map_or(&[][..], Vec::as_slice);
        let caches: Vec<_> = members.iter().map(|member| member.cache.upgrade()).collect();
        let all = self.bytes.load(Ordering::Relaxed);
        let tiers = if self.of_all {
            let needed: u64 = caches.iter().flatten().map(|cache| cache.flash_bytes()).sum();
            left_for_dram(all, needed)
        } else {
            all
        };
        self.tiers.store(tiers, Ordering::Relaxed);
        let standing = |(member, cache): (&Member<C>, &Option<Arc<C>>)| {
            let cache = cache.as_deref();
            MemberUsage {
                part: part_of(tiers, member.percent),
                used: cache.map_or(0, C::used_bytes),
                had: cache.map_or(0, C::budget_bytes),
                borrow_max: member.borrow_max,
            }
        };
        let standings: Vec<_> = members.iter().zip(&caches).map(standing).collect();
        for ((cache, standing), budget) in caches.iter().zip(&standings).zip(divided(&standings)) {
            let Some(cache) = cache else { continue };
            if let Some(membership) = cache.membership().get() {
                membership.step.store(standing.reserve() / STEP_PART, Ordering::Relaxed);
            }
            if is_another(budget, standing.had, standing.part) {
                cache.set_budget(budget.max(DRAM_BYTES_MIN));
            }
            if cache.is_above_budget() {
                self.owed.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether the DRAM tiers use more together than their share of the budget.
    pub(super) fn is_over(&self) -> bool {
        let members = self.members.get().map_or(&[][..], Vec::as_slice);
        let caches = members.iter().filter_map(|member| member.cache.upgrade());
        let used: u64 = caches.map(|cache| cache.used_bytes()).sum();
        used > self.tiers.load(Ordering::Relaxed)
    }

    /// The members that must give memory back, except the one with this membership.
    fn debtors(&self, than: &Membership<C>) -> Vec<Arc<C>> {
        if !self.owed.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        let members = self.members.get().map_or(&[][..], Vec::as_slice);
        let caches = members.iter().filter_map(|member| member.cache.upgrade());
        let debtors: Vec<_> = caches.filter(|cache| cache.is_above_budget()).collect();
        if !debtors.is_empty() {
            self.owed.store(true, Ordering::Relaxed);
        }
        let is_other =
            |cache: &Arc<C>| cache.membership().get().is_none_or(|its| !std::ptr::eq(its, than));
        debtors.into_iter().filter(is_other).collect()
    }
}

impl<C: Borrower> Membership<C> {
    /// Notes that `bytes` are about to come to the member's DRAM.
    pub(super) fn note_brought(&self, bytes: u64) {
        let brought = self.brought.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if brought >= self.step.load(Ordering::Relaxed) {
            self.brought.store(0, Ordering::Relaxed);
            self.lending.divide();
        }
    }

    /// Whether a member may have to give memory back.
    pub(super) fn is_owed(&self) -> bool {
        self.lending.owed.load(Ordering::Relaxed)
    }

    /// The other members that must give memory back.
    pub(super) fn debtors(&self) -> Vec<Arc<C>> {
        self.lending.debtors(self)
    }

    pub(super) fn lending(&self) -> &Lending<C> {
        &self.lending
    }
}

/// `percent` percent of `bytes`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 100
pub(crate) fn part_of(bytes: u64, percent: f64) -> u64 {
    (bytes as f64 * (percent / 100.0)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn standing(part: u64, used: u64, had: u64, borrow_max: u64) -> MemberUsage {
        MemberUsage { part, used, had, borrow_max }
    }

    #[test]
    fn a_full_cache_borrows_what_others_do_not_use_and_gives_it_back() {
        let idle = standing(800, 100, 800, 0);
        assert_eq!(divided(&[standing(800, 790, 800, 500), idle]), [1300, 800], "up to its limit");
        assert_eq!(divided(&[standing(800, 790, 800, 5000), idle]), [1400, 800], "but a reserve");
        assert_eq!(divided(&[standing(800, 790, 800, 0), idle]), [800, 800]);
        assert_eq!(divided(&[standing(800, 300, 800, 500), idle]), [800, 800], "it needs none");
        let busy = standing(800, 500, 800, 0);
        assert_eq!(divided(&[standing(800, 1400, 1400, 5000), busy]), [1000, 800], "called in");
        let two = [standing(800, 800, 800, 900), standing(800, 800, 800, 300), idle];
        assert_eq!(divided(&two), [1250, 950, 800], "in proportion");
    }

    /// A cache that takes any budget, and uses the number of bytes that the test sets.
    #[derive(Default)]
    struct Fake {
        used: AtomicU64,
        budget: AtomicU64,
        membership: OnceLock<Membership<Self>>,
    }

    impl Borrower for Fake {
        fn flash_bytes(&self) -> u64 {
            1 << 20
        }

        fn used_bytes(&self) -> u64 {
            self.used.load(Ordering::Relaxed)
        }

        fn budget_bytes(&self) -> u64 {
            self.budget.load(Ordering::Relaxed)
        }

        fn set_budget(&self, bytes: u64) {
            self.budget.store(bytes, Ordering::Relaxed);
        }

        fn is_above_budget(&self) -> bool {
            self.used_bytes() > self.budget_bytes()
        }

        fn membership(&self) -> &OnceLock<Membership<Self>> {
            &self.membership
        }
    }

    #[test]
    fn a_cache_that_brings_part_of_its_reserve_divides_anew_and_finds_its_debtors() {
        let caches = [(); 2].map(|()| Arc::new(Fake::default()));
        caches.iter().for_each(|cache| cache.set_budget(7 << 20));
        let member =
            |cache| Member { cache: Arc::downgrade(cache), percent: 50.0, borrow_max: 8 << 20 };
        let lending = Lending::new(18 << 20, true);
        lending.begin(caches.iter().map(member).collect()).unwrap();
        let budgets = || caches.each_ref().map(|cache| cache.budget_bytes() >> 20);
        let debtors = |of: &Arc<Fake>| of.membership().get().unwrap().debtors();
        assert_eq!(budgets(), [8, 8], "what flash needs comes off first");
        let [hungry, idle] = &caches;
        hungry.used.store(8 << 20, Ordering::Relaxed);
        let membership = hungry.membership().get().unwrap();
        membership.note_brought((256 << 10) - 1);
        assert_eq!(budgets(), [8, 8], "a quarter of an eighth of its part is due");
        membership.note_brought(1);
        assert_eq!(budgets(), [15, 8]);
        assert!(debtors(idle).is_empty() && !lending.is_over());
        // The other member needs its part, and the loan is recalled.
        hungry.used.store(15 << 20, Ordering::Relaxed);
        idle.used.store(8 << 20, Ordering::Relaxed);
        idle.membership().get().unwrap().note_brought(8 << 20);
        assert_eq!(budgets(), [8, 8]);
        assert!(lending.is_over() && debtors(hungry).is_empty());
        assert!(matches!(&debtors(idle)[..], [debtor] if Arc::ptr_eq(debtor, hungry)));
        hungry.used.store(8 << 20, Ordering::Relaxed);
        assert!(debtors(idle).is_empty(), "it has given it back");
    }

    proptest! {
        #[test]
        fn parts_are_kept_and_no_more_is_lent_than_there_is(
            members in prop::collection::vec((0..2000_u64, 0..3000_u64, 0..3000_u64, 0..2000_u64), 1..6),
        ) {
            let of = |(part, used, more, borrow_max): (u64, u64, u64, u64)| {
                standing(part, used, part + more, borrow_max)
            };
            let members: Vec<_> = members.into_iter().map(of).collect();
            let budgets = divided(&members);
            let lent: u64 = members.iter().map(MemberUsage::lends).sum();
            let mut loans = 0;
            for (member, budget) in members.iter().zip(budgets) {
                prop_assert!(budget >= member.part && budget <= member.part + member.borrow_max);
                loans += budget - member.part;
            }
            prop_assert!(loans <= lent, "{loans} of {lent}");
        }
    }
}
