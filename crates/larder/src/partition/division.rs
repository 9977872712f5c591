//! How a device is to be divided, against how it was.

use std::sync::Arc;

use larder_device::Device;

use super::erase_front;
use super::table::Part;
use crate::error::Error;

/// The parts that a device is to have.
#[derive(Debug, Default)]
pub(crate) struct Division {
    /// All of them, in the order of those who asked.
    pub(crate) parts: Vec<Part>,
    /// Those among them that are new: nothing is known of what lies there.
    pub(crate) new: Vec<Part>,
    /// Those that it had and is not to have any more, in which new ones may lie.
    pub(crate) given_up: Vec<Part>,
    /// Whether the table does not say so yet.
    pub(crate) is_changed: bool,
}

/// Makes what is given up, and then what is new, look blank: a table that is still there must not lead to what others
/// have now, nor a new one to what lay there.
pub(crate) async fn erase(device: &Arc<dyn Device>, division: &Division) -> Result<(), Error> {
    for part in division.given_up.iter().chain(&division.new) {
        erase_front(device, part).await?;
    }
    Ok(())
}
