//! Sends evicted records to flash, many at a time.
//!
//! By default a thread of the cache does that ([`Demotions::Thread`]); it starts when something leaves for the first
//! time. With [`Demotions::Callers`] it is the callers that bring something to DRAM (rule 7), or a task that runs
//! [`Larder::send_demotions`]. Thread and task do the same:
//!
//! ```text
//!   demotions ──► in hand, by bucket ──► groups ──► 4 to 64 futures ──► flash
//!                                    one bucket each,
//!                               or a run of large records
//! ```
//!
//! A *run* of the sender begins with the first waiting record, and ends when none waits or when another task wants
//! the gate. The sender is inside the gate during a run, and holds no records after it. So a clear or a close finds
//! everything that was demoted in its usual place.
//!
//! Why there is no deadlock. A future of a run waits for
//!
//! 1. the device: its requests end, or time out (`flash_wait`);
//! 2. the lock of a key, while it holds no key lock (rule 4). The holder is a caller or another future of a run. The
//!    futures of a run are polled together as soon as they are woken: none waits for a slot while it holds anything.
//!    A caller polls its future on or drops it, which releases its locks. While it holds a key lock, it waits only
//!    for the device and for locks below key locks, never for room in DRAM, nor for a run;
//! 3. locks below key locks (buckets, writers of logs). Their holders wait only for the device and for lower locks:
//!    no task waits for a key lock while it holds one of these.
//!
//! Callers wait for a run if DRAM has no room, or too much is in flight above its budget (`demoter`); they hold no lock
//! then. They are inside the gate, so a task that shuts the gate waits for them, while no new run begins. So a caller
//! that sees that the gate is wanted, or that there is no sender, sends records itself, one by one. It is woken for
//! that (`Gate::wanted`, and `Demotions::added` when a run or another caller gives records back). `demotion_wait`
//! limits the wait, however long the device takes.
//!
//! The thread never calls a user's code, so user code cannot block it. It never drops the cache, whose drop waits for
//! the thread. Removals are reported to the listener by callers, with their next call, and by a task after each run.

mod demoter;
mod group;
mod patience;
mod run;
mod thread;

pub(super) use demoter::Demoter;
pub(super) use group::BeingDemoted;
pub(super) use patience::{Patience, Wait};
