//! Tests of the drive at the level of NVMe commands, from a host's view.

mod events;
mod formats;
mod groups;
mod handles;
mod hostile;
mod rig;
mod statistics;
