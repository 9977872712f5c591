//! The drive at the level of commands, as a host sees it.

mod events;
mod formats;
mod groups;
mod handles;
mod hostile;
mod rig;
mod statistics;
