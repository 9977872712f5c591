//! The life cycle of a cache on its devices: format, start, stop.
//!
//! A cache device begins with a label ([`larder_device::label`]). The label lists the cores and describes the layout
//! behind it ([`StoredCache`]). Nothing is added to the cores: a cache without dirty data can be taken away, and the
//! cores are as they were.
//!
//! A start serves the cores that are present (`missing`), after comparing each with what is known of it (`checked`).
//!
//! *Always:* nothing is written before all checks have passed. A label is written atomically, so a start, a stop or a
//! format that a crash interrupts leaves the cache as before or as after.

mod attach;
mod calibrate;
mod checked;
mod cores;
mod create;
mod damage;
mod elsewhere;
mod front;
mod live_cores;
mod missing;
mod open;
mod recover;
mod sample;
mod stored;

use std::sync::Arc;

use larder_device::Device;

use crate::layout::CoreId;
pub use attach::AttachOptions;
pub use calibrate::{CalibrateOptions, calibrate, store_profile};
pub use checked::{CheckedCore, known_by};
pub use cores::{add_core, give_up};
pub use create::{CreateOptions, LayoutOptions, Over, create};
pub use elsewhere::{CachedElsewhere, DirtyElsewhere, cached_elsewhere};
pub use front::{CacheLabel, look};
pub use missing::MissingCore;
pub use open::{ChangedCore, OpenCache, OpenOptions, open};
pub use recover::StartReport;
pub use stored::{StoredCache, StoredCore, StoredLayout, front_bytes};

/// A core and its device.
#[derive(Clone)]
pub struct Core {
    /// The number of the core.
    pub id: CoreId,
    /// The name by which its user knows it.
    pub name: String,
    /// The device itself.
    pub device: Arc<dyn Device>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "core {} ({})", self.id.get(), self.name)
    }
}
