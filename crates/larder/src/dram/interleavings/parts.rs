//! Tests parts of the tier separately: the index, permits, and what lock-free readers see.

use std::sync::Arc;

use shuttle::thread;

use super::super::index::{Index, Location, PutOutcome, Putting, Records};
use super::super::permits::Permits;
use super::super::published::{PublishedSlice, ReplacedSlice};
use super::super::readers::{LockProof, LockProofAlone, Readers};
use super::{CHANGES, ORDERS, in_many_orders};
use crate::base::key::KeyHash;
use crate::base::sync::atomic::{AtomicU32, Ordering};

/// Entries move to other records, and lock-free readers notice that.
#[test]
fn an_entry_that_goes_to_another_record_is_not_taken_for_gone() {
    in_many_orders(|| {
        let (index, hash) = (Arc::new(Index::new(1)), KeyHash(7));
        let at = |slot| Location { slot, at: 0 };
        assert_eq!(index.put(hash, b"", false, &OfOneKey, &mut OfOneKey), Ok(PutOutcome::Done));
        let looking: Vec<_> = (0..2)
            .map(|_| {
                let index = Arc::clone(&index);
                thread::spawn(move || {
                    for _ in 0..6 {
                        let found = index.find_without_lock(hash, |_, looking| {
                            looking.is_as_it_was().then_some(())
                        });
                        assert_ne!(found, Ok(None), "the key was there all the time");
                    }
                })
            })
            .collect();
        (1..8).for_each(|slot| assert!(index.relocate(hash, at(slot), (at(slot + 1), 0), |_| ())));
        looking.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    });
}

/// All records are of one key, which is put to slot 1.
struct OfOneKey;

impl Putting for OfOneKey {
    fn append(&mut self, _: Option<Location>, _: &LockProof) -> Result<Location, PutOutcome> {
        Ok(Location { slot: 1, at: 0 })
    }
}

impl Records for OfOneKey {
    fn is_key(&self, _: Location, _: &[u8], _: &LockProof) -> bool {
        true
    }

    fn hash(&self, _: Location, _: &LockProof) -> KeyHash {
        KeyHash(7)
    }
}

/// Each thread takes permits, and another thread gives them back, while their number changes.
#[test]
fn no_permit_is_lost_and_none_is_lent_twice() {
    in_many_orders(|| {
        const MOST: u32 = 3;
        let permits = Arc::new(Permits::default());
        let lent = Arc::new(AtomicU32::new(0));
        let set_limit = |permits: &Permits, limit: usize| permits.follow(limit * 8, 1);
        set_limit(&permits, MOST as usize);
        let taking = (0..2).map(|_| {
            let (permits, lent) = (Arc::clone(&permits), Arc::clone(&lent));
            thread::spawn(move || {
                let mut giving = Vec::new();
                for _ in 0..4 {
                    if !permits.try_take() {
                        continue;
                    }
                    let before = lent.fetch_add(1, Ordering::SeqCst);
                    assert!(before < MOST, "more are lent than there are");
                    let (permits, lent) = (Arc::clone(&permits), Arc::clone(&lent));
                    let give_back = move || {
                        lent.fetch_sub(1, Ordering::SeqCst);
                        permits.give_back();
                    };
                    if giving.is_empty() {
                        giving.push(thread::spawn(give_back));
                    } else {
                        give_back();
                    }
                }
                giving.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
            })
        });
        let changing = {
            let permits = Arc::clone(&permits);
            thread::spawn(move || [1, MOST as usize, 2].map(|limit| set_limit(&permits, limit)))
        };
        let taking: Vec<_> = taking.collect();
        taking.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
        changing.join().expect("no thread panics");
        assert_eq!((permits.limit(), permits.free()), (2, 2));
    });
}

/// Records that it was freed.
struct FreedNote {
    number: usize,
    freed: Arc<[AtomicU32]>,
}

impl Drop for FreedNote {
    fn drop(&mut self) {
        self.freed[self.number].store(1, Ordering::SeqCst);
    }
}

/// Starts `replacers` threads. Each replaces its own slice `versions` times, while `lookers` threads look at it. All
/// collect what the shared readers have retired.
fn replace_and_look(replacers: usize, versions: usize, lookers: usize, looks: usize) {
    let readers = Arc::new(Readers::<ReplacedSlice<FreedNote>>::default());
    let all: Vec<_> = (0..replacers)
        .map(|_| {
            let freed: Arc<[AtomicU32]> = (0..=versions).map(|_| AtomicU32::new(0)).collect();
            let first =
                PublishedSlice::new(Box::new([FreedNote { number: 0, freed: Arc::clone(&freed) }]));
            Arc::new((first, freed))
        })
        .collect();
    let replacing = all.iter().cloned().map(|one| {
        let readers = Arc::clone(&readers);
        thread::spawn(move || {
            let mut locked = LockProofAlone::new();
            for number in 1..=versions {
                let freed = Arc::clone(&one.1);
                one.0.replace(Box::new([FreedNote { number, freed }]), &readers, &mut locked);
                drop(readers.collect());
            }
        })
    });
    let looking = (0..lookers).map(|_| {
        let (readers, all) = (Arc::clone(&readers), all.clone());
        thread::spawn(move || {
            for one in all.iter().cycle().take(looks) {
                let inside = readers.enter();
                let number = one.0.get(inside.held())[0].number;
                assert_eq!(one.1[number].load(Ordering::SeqCst), 0, "freed under a reader");
            }
        })
    });
    let running: Vec<_> = replacing.chain(looking).collect();
    running.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    drop(readers.collect()); // no reader is inside
    for one in all {
        let freed = one.1[..versions].iter().all(|freed| freed.load(Ordering::SeqCst) == 1);
        assert!(freed, "something was left behind");
    }
}

#[test]
fn nothing_is_freed_that_a_reader_looks_at() {
    in_many_orders(|| replace_and_look(2, 3, 3, 4));
}

/// A reader reads the phase, and is counted after it has changed.
#[test]
fn a_reader_that_is_counted_late_is_waited_for() {
    shuttle::check_pct(|| replace_and_look(1, 2, 1, 1), 10 * ORDERS, CHANGES);
}
