//! The virtual SSDs under the tenants, as operators list and change them at the admin address.

use std::fmt;

use serde_json::Value;

/// An operator's order to the owner of the virtual SSDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VssdOrder {
    /// Make a virtual SSD.
    Create {
        /// Name of its owner; may be empty.
        name: String,
        /// "channel", "die", "software" or "none".
        isolation: String,
        /// Share of the time of its dies relative to others, for "software".
        weight: Option<u32>,
        /// Channels, dies or quarters of dies; `None`: as many as the capacity takes.
        units: Option<u32>,
        /// Bytes; `None`: those of its units.
        capacity: Option<u64>,
    },
    /// Add units to a virtual SSD.
    Grow {
        /// Its number.
        vssd: u32,
        /// Units to add.
        units: u32,
    },
    /// Delete a virtual SSD, and free its units.
    Delete {
        /// Its number.
        vssd: u32,
        /// Whether the blocks that it has may be lost.
        destroy_data: bool,
    },
}

/// Lists and changes the virtual SSDs while their tenants are served. The admin address calls it.
pub trait VssdOrders: fmt::Debug + Send + Sync {
    /// The virtual SSDs and the free units, as an object. It must take about a second at most.
    ///
    /// # Errors
    /// A sentence for the operator.
    fn list(&self) -> Result<Value, String>;

    /// Carries out an order, and returns a sentence with the result.
    ///
    /// # Errors
    /// A sentence for the operator.
    fn carry_out(&self, order: &VssdOrder) -> Result<String, String>;
}

/// A process has one owner of its virtual SSDs, so all of them are the same.
impl PartialEq for dyn VssdOrders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
