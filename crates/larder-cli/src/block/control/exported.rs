//! The exports of the cores of a running cache.

use larder_export::nbd::Exports;

/// The exports of the cores.
#[derive(Default)]
pub(in crate::block) struct CoreExports {
    /// The NBD exports, if there are any.
    pub(in crate::block) nbd: Option<Exports>,
    /// Whether cores are kernel disks.
    pub(in crate::block) has_disks: bool,
}

impl CoreExports {
    /// Refuses if cores are kernel disks: their number is fixed at the start.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.has_disks {
            true => Err("cores are disks of the kernel's (--ublk) of this cache, and which ones is decided at its \
                         start: stop it, change its cores (`larder block cores CACHE`), and start it again"
                .to_owned()),
            false => Ok(()),
        }
    }
}
