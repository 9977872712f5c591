//! Who sends to flash what leaves DRAM, and how many records at a time.
//!
//! By default that is a thread of the cache ([`Departures::Thread`]), which starts when something leaves for
//! the first time; with [`Departures::Callers`] it is whoever brings something to DRAM (rule 7), or a task
//! that runs [`Larder::send_departures`]. Thread and task do the same:
//!
//! ```text
//!   departures ──► batch, sorted by bucket ──► groups ──► up to 32 futures ──► flash
//!                                       one bucket each,
//!                                  or a run of large records
//! ```
//!
//! A *session* lasts from the first record that waits until none does, or until somebody wants the gate. The
//! sender is inside the gate for the time of a session, and at its end has nothing in its hands: so who
//! clears or closes finds all that departs where it always is.
//!
//! Why nothing hangs. What a future of a session waits for is
//!
//! 1. the device: its requests end, or are given up (`flash_wait`);
//! 2. the lock of a key, of which it holds none meanwhile (rule 4). Who holds it is a caller or another
//!    future of a session. The latter are polled by whoever polls this one, as soon as they are woken: no
//!    future waits for a slot while it holds anything. A caller polls its future on or drops it, which
//!    gives its locks back; with a lock in its hands it waits for the device and for locks below that of
//!    keys only, never for room in DRAM, nor for a session;
//! 3. locks below those of keys (buckets, turns of the engines), whose holders wait for the device and for
//!    lower ones: no lock of a key is waited for with one of them in hand.
//!
//! Callers wait for a session where DRAM has no room, and hold no lock then; they are inside the gate, which
//! a session needs as well: so who shuts the gate lets sessions that have begun go on as long as somebody
//! waits for room (`Gate::is_wanted` ends a session only between two records, and who waits for room leaves
//! when it sees that the gate is wanted and nobody sends). The thread never calls a user's code, so nothing
//! of the user's can hold it up: removals are told by callers.

mod crew;
mod group;
mod room;
mod session;
mod thread;

pub(super) use group::Unsettled;
pub(super) use room::{Patience, Wait};
pub(super) use thread::Sender;
