//! The interface of a queue to the kernel's driver. Tests substitute their own driver.

use std::io;
use std::time::Duration;

use larder_device::IoBuffer;

use super::wire::IoDescriptor;

/// An event of a tag: a request has arrived, or no more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) tag: u16,
    /// 0, or a negative error number.
    pub(super) result: i32,
}

/// A queue of the driver. Each of its tags is owned by the driver or by the server. An event passes a fetched tag to
/// the server; a commit passes it back to the driver.
pub(super) trait Driver {
    /// Passes a tag to the driver for the first time.
    fn fetch(&mut self, tag: u16) -> io::Result<()>;

    /// Answers the request of a tag, and passes the tag to the driver.
    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()>;

    /// The request of a tag that the server owns.
    fn descriptor(&self, tag: u16) -> IoDescriptor;

    /// Fills `buffer` with the data that the request of a tag writes.
    fn copy_in(&self, tag: u16, buffer: &mut IoBuffer) -> io::Result<()>;

    /// Passes data to the request of a tag, which is a read.
    fn copy_out(&self, tag: u16, buffer: &IoBuffer) -> io::Result<()>;

    /// The next event, if there is one.
    fn next(&mut self) -> io::Result<Option<Event>>;

    /// Submits everything new to the driver, and sleeps until an event, for at most `at_most` (`None`: without a
    /// limit).
    fn enter(&mut self, at_most: Option<Duration>) -> io::Result<()>;
}
