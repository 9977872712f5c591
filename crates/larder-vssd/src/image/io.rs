//! Byte storage for an image.

use crate::images::ImageFailed;

/// Storage that can be read and written at any byte. Bytes that were never written read as zeros.
pub trait ImageIo {
    /// Length of the image in bytes.
    ///
    /// # Errors
    /// If the length cannot be determined.
    fn bytes(&mut self) -> Result<u64, ImageFailed>;

    /// Sets the length of the image; added bytes are zeros.
    ///
    /// # Errors
    /// If the length cannot be set.
    fn set_bytes(&mut self, bytes: u64) -> Result<(), ImageFailed>;

    /// Fills `into` from byte `at` on.
    ///
    /// # Errors
    /// If the bytes do not exist or cannot be read.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed>;

    /// Writes `bytes` at byte `at`. If the process ends, no later write is present without all earlier ones.
    ///
    /// # Errors
    /// If the write failed.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageFailed>;

    /// The content of `bytes` bytes from `at` on is not read again before it is rewritten: their space may be released.
    ///
    /// # Errors
    /// If a failure matters to the caller.
    fn release(&mut self, at: u64, bytes: u64) -> Result<(), ImageFailed>;

    /// Waits until all writes are durable: they survive a power loss of the computer.
    ///
    /// # Errors
    /// If the storage cannot confirm this.
    fn sync(&mut self) -> Result<(), ImageFailed>;
}
