//! Who sends to flash what leaves DRAM, and how many records at a time.
//!
//! By default that is a thread of the cache ([`Demotions::Thread`]), which starts when something leaves for
//! the first time; with [`Demotions::Callers`] it is whoever brings something to DRAM (rule 7), or a task
//! that runs [`Larder::send_demotions`]. Thread and task do the same:
//!
//! ```text
//!   demotions ──► in hand, by bucket ──► groups ──► 4 to 64 futures ──► flash
//!                                    one bucket each,
//!                               or a run of large records
//! ```
//!
//! A *run* of the sender lasts from the first record that waits until none does, or until somebody wants the gate. The
//! sender is inside the gate for the time of a run, and at its end has nothing in its hands: so who
//! clears or closes finds all that is demoted where it always is.
//!
//! Why nothing hangs. What a future of a run waits for is
//!
//! 1. the device: its requests end, or are given up (`flash_wait`);
//! 2. the lock of a key, of which it holds none meanwhile (rule 4). Who holds it is a caller or another
//!    future of a run. The latter are polled by whoever polls this one, as soon as they are woken: no
//!    future waits for a slot while it holds anything. A caller polls its future on or drops it, which
//!    gives its locks back; with a lock in its hands it waits for the device and for locks below that of
//!    keys only, never for room in DRAM, nor for a run;
//! 3. locks below those of keys (buckets, writers of logs), whose holders wait for the device and for
//!    lower ones: no lock of a key is waited for with one of them in hand.
//!
//! Callers wait for a run where DRAM has no room, or too much is on its way above its budget (`room`);
//! they hold no lock then. They are inside the gate, and who shuts it waits for them, while no run begins
//! any more: so a caller that sees that the gate is wanted, or that nobody sends, sends itself, record by
//! record. It is woken for that (`Gate::wanted`, and `Demotions::added` when a run or another caller
//! gives records back). However long the device takes, `demotion_wait` ends the wait.
//!
//! The thread never calls a user's code, so nothing of the user's can hold it up, and it never drops the
//! cache, which would wait for it: what left the cache is told by callers, with their next call, and by a
//! task after each run.

mod group;
mod room;
mod run;
mod thread;

pub(super) use group::BeingDemoted;
pub(super) use room::{Patience, Wait};
pub(super) use thread::Sender;
