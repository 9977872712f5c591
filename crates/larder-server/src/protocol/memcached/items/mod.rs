//! Operations on items, shared by all dialects of the protocol.

mod count;
mod delete;
mod ending;
mod store;

pub(crate) use count::{Count, CountOutcome, count};
pub(crate) use delete::{Delete, DeleteOutcome, delete};
pub(crate) use ending::{TOO_LATE, let_pass, server_error};
pub(crate) use store::{Mode, Store, StoreOutcome, reserved, store, store_at_once};
