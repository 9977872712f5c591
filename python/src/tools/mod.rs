//! The tools of the command `larder` for notebooks: replay, plan, experiments, the SSD model.
//!
//! | module | what it is |
//! |---|---|
//! | `columns` | columns of a recorded workload, from arrays and lists, as requests |
//! | `watched` | long work on a thread of its own, with progress, until an interrupt |
//! | `runs` | replay, plan and experiments, whose results are JSON |
//! | `ssd` | the model of a drive |

mod columns;
mod runs;
mod ssd;
mod watched;

pub(crate) use columns::Recorded;
pub(crate) use runs::{lab_list, lab_run, plan, replay};
pub(crate) use ssd::Ssd;
