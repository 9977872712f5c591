//! Compares how a device should be divided with how it was divided.

use std::sync::Arc;

use larder_device::Device;

use super::erase_front;
use super::table::Part;
use crate::base::error::Error;

/// The parts that a device should have.
#[derive(Debug, Default)]
pub(crate) struct Division {
    /// All of them, in the order in which they were requested.
    pub(crate) parts: Vec<Part>,
    /// The new parts among them: it is not known what lies there.
    pub(crate) new: Vec<Part>,
    /// Previous parts that are no longer wanted; new parts may overlap them.
    pub(crate) given_up: Vec<Part>,
    /// Whether the table on the device must be rewritten.
    pub(crate) is_changed: bool,
}

/// Makes removed parts, and then new ones, look blank: a table that is still on the device must not lead to data of new
/// parts, nor a new table to old data.
pub(crate) async fn erase(device: &Arc<dyn Device>, division: &Division) -> Result<(), Error> {
    for part in division.given_up.iter().chain(&division.new) {
        erase_front(device, part).await?;
    }
    Ok(())
}
