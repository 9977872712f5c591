//! What has the bytes of an image.

use crate::vssd::ImageFailed;

/// Bytes that can be read and written anywhere. What was never written reads as zeros.
pub trait ImageIo {
    /// Bytes of the image.
    ///
    /// # Errors
    /// If nobody can say.
    fn bytes(&mut self) -> Result<u64, ImageFailed>;

    /// Makes the image so long; what is added is zeros.
    ///
    /// # Errors
    /// If it cannot be.
    fn set_bytes(&mut self, bytes: u64) -> Result<(), ImageFailed>;

    /// Fills `into` from byte `at` on.
    ///
    /// # Errors
    /// If they are not there, or cannot be read.
    fn read_at(&mut self, at: u64, into: &mut [u8]) -> Result<(), ImageFailed>;

    /// Writes `bytes` at byte `at`. Later writes never happen without earlier ones, when a process ends.
    ///
    /// # Errors
    /// If that cannot be said of it.
    fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), ImageFailed>;

    /// Nobody reads `bytes` bytes from `at` on before they are written again: their room may be given back.
    ///
    /// # Errors
    /// If that failed in a way that matters.
    fn release(&mut self, at: u64, bytes: u64) -> Result<(), ImageFailed>;

    /// Waits until all that was written outlives a loss of power of the computer.
    ///
    /// # Errors
    /// If nobody can say that it does.
    fn sync(&mut self) -> Result<(), ImageFailed>;
}
