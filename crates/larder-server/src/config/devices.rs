//! What the opening of a device found, which the device itself does not tell.

use larder_device::Opened;

/// A device below the caches, as it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedDevice {
    /// Whether the operator asked for placement. If so and a tenant writes with one handle only, the admin page warns,
    /// and `larder_placement_expected` is 1.
    pub placement_expected: bool,
    /// The better placement paths and why they are unavailable, such as
    /// [`Opened::missed`](larder_device::Opened::missed) as text.
    pub missed: Vec<String>,
    /// Bytes of flash behind the device, over-provisioning included, if known and if the device is all of its drive.
    /// From them comes the predicted write amplification.
    pub flash_bytes: Option<u64>,
}

impl OpenedDevice {
    /// What `opened` says. The size of its flash is not among it.
    ///
    /// ```
    /// use larder_device::{FileOptions, OpenOptions, open};
    /// use larder_server::OpenedDevice;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let file = FileOptions { capacity_bytes: Some(1 << 20), create: true, ..FileOptions::default() };
    /// let target = folder.path().join("flash").display().to_string();
    /// let opened = open(&target, &OpenOptions { file, ..OpenOptions::default() })?;
    /// let device = OpenedDevice::of(&opened, true);
    /// assert_eq!(device.missed, ["write streams: a file has no placement handles"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(opened: &Opened, placement_expected: bool) -> Self {
        let missed = opened.missed.iter().map(ToString::to_string).collect();
        Self { placement_expected, missed, flash_bytes: None }
    }
}
