//! The cache under `kill -9`: a victim process works on a file at full load and is killed in the
//! middle of it, again and again, and every answer after that is judged.
//!
//! A round starts the victim on the file that the rounds before have left. Its threads change and
//! read keys; each key belongs to one thread, so that its changes have one order. A thread writes
//! into a journal what it begins and what was answered; journals live in the page cache and outlast
//! the process. The parent kills at a seeded moment (while opening, under load, while closing, or
//! not at all), opens the cache itself, reads every key and compares with the journals. The next
//! victim goes on from there, so that the remains of many crashes lie on one file.
//!
//! Allowed is a miss, or the newest acknowledged version, or the version of an operation that was
//! under way. The moments are real time: a seed repeats the operations, not the instant of the kill.
//!
//! Where [`soak`](crate::soak) simulates power loss and faults on a model, this has the real process, the
//! real file and the real ring, and nothing of power loss: what the kernel was given stays.
//!
//! | module | what it is |
//! |---|---|
//! | `options` | what a run shall do, and the configuration of its cache |
//! | `choose` | which operation comes next, how long, on which key |
//! | `value` | values that say whose they are |
//! | `journal` | what was begun and what was answered |
//! | `victim`, `worker` | the process that is killed |
//! | `round` | from its start to its end |
//! | `judge` | what the cache answers afterwards |
//! | `oracle` | which answers are allowed |
//! | `harness` | one round after the other |
//! | `report` | what it adds up to |
//! | `served` | a whole server that is killed, judged by its clients |

mod choose;
mod harness;
mod journal;
mod judge;
mod options;
mod oracle;
mod report;
mod round;
mod served;
mod value;
mod victim;
mod worker;

pub use harness::run;
pub use options::{Ending, InjectedBug, Options, SETTINGS};
pub use oracle::Kind;
pub use report::{Progress, Report, Round, Totals, Wrong};
pub use served::{ServedOptions, ServedReport, ServedRound, run_served};
pub use victim::serve;

#[cfg(test)]
mod tests;
