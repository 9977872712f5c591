//! The cache under `kill -9`: a victim process works on a file at full load and is killed in the middle of it, again
//! and again; then every answer of the cache is judged.
//!
//! A round starts the victim on the file that earlier rounds have left. Its threads change and read keys; each key
//! belongs to one thread, so its changes have one order. A thread records in a journal what it begins and the answers;
//! journals are in the page cache and survive the process. The parent kills the victim at a seeded time (while opening,
//! under load, while closing, or not at all), opens the cache itself, reads every key and compares with the journals.
//! The next victim continues from there, so the remains of many crashes accumulate in one file.
//!
//! Allowed answers are a miss, the newest acknowledged version, or the version of an operation in flight. The times are
//! real: a seed repeats the operations, not the instant of the kill.
//!
//! While [`soak`](crate::soak) simulates power loss and faults on a model, this tests the real process, the real file
//! and the real ring, but not power loss: data given to the kernel survives.
//!
//! | module | content |
//! |---|---|
//! | `options` | options of a run, and the configuration of its cache |
//! | `choose` | draws the next operation with its length and key |
//! | `value` | values that identify themselves |
//! | `journal` | operations begun and their answers |
//! | `victim`, `worker` | the process that is killed |
//! | `round` | a victim from start to end |
//! | `judge` | reads the cache afterwards |
//! | `oracle` | the allowed answers |
//! | `harness` | runs the rounds |
//! | `report` | results of a run |
//! | `line_stream`, `clients` | what clients of a server share |
//! | `served` | the same for a whole server, judged by its clients |
//! | `atomic` | a server whose clients judge scripts and transactions |

mod atomic;
mod choose;
mod clients;
mod harness;
mod journal;
mod judge;
mod line_stream;
mod options;
mod oracle;
mod report;
mod round;
mod served;
mod value;
mod victim;
mod worker;

pub use atomic::{AtomicOptions, AtomicReport, AtomicRound, run_atomic};
pub use harness::run;
pub use options::{Ending, InjectedBug, Options, SETTINGS};
pub use oracle::Kind;
pub use report::{Progress, Report, Round, Totals, Wrong};
pub use served::{ServedOptions, ServedReport, ServedRound, run_served};
pub use victim::serve;

#[cfg(test)]
mod tests;
