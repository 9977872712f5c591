//! Checks of single settings.

use crate::base::error::Error;

/// A smaller DRAM tier would have no room for items.
pub(crate) const DRAM_BYTES_MIN: u64 = 8 << 10;
/// The largest DRAM tier whose bytes its index can address: 1 TiB, or half of what a pointer can.
pub(crate) const DRAM_BYTES_MAX: u64 = {
    let addressed = usize::MAX as u64 / 2;
    if addressed < 1 << 40 { addressed } else { 1 << 40 }
};

/// Refuses a value that is no percentage.
pub(crate) fn percent(name: &str, value: f64) -> Result<(), Error> {
    if (0.0..=100.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(format!("{name} = {value}: must be 0 to 100")))
}

/// Refuses a memory budget that is certainly a mistake, or that the allocator would fail on.
pub(crate) fn check_memory(name: &str, bytes: u64, least: u64) -> Result<(), Error> {
    if (least..=DRAM_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::config(format!("{name} = {bytes}: must be {least} to {DRAM_BYTES_MAX}")))
}

/// The same for the DRAM tier, which may also be 0.
pub(crate) fn check_dram(bytes: u64) -> Result<(), Error> {
    if bytes == 0 || (DRAM_BYTES_MIN..=DRAM_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::config(format!(
        "dram_bytes = {bytes}: must be {DRAM_BYTES_MIN} to {DRAM_BYTES_MAX}, or 0, with which everything \
         goes to flash"
    )))
}
