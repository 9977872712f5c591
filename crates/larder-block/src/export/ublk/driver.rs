//! What a queue asks of the kernel's driver: the seam behind which tests put one of their own.

use std::io;
use std::time::Duration;

use larder_device::IoBuffer;

use super::wire::IoDescriptor;

/// What the driver says of a tag: that a request is there, or that none will come any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) tag: u16,
    /// 0, or a negative number of an error.
    pub(super) result: i32,
}

/// A queue of the driver's. Each of its tags is the driver's or the server's: fetched, it becomes the server's with an
/// event; committed, the driver's again.
pub(super) trait Driver {
    /// Hands a tag over, for the first time.
    fn fetch(&mut self, tag: u16) -> io::Result<()>;

    /// Answers the request of a tag, and hands the tag over.
    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()>;

    /// The request of a tag that is the server's.
    fn descriptor(&self, tag: u16) -> IoDescriptor;

    /// Fills `buffer` with what the request of a tag writes.
    fn copy_in(&self, tag: u16, buffer: &mut IoBuffer) -> io::Result<()>;

    /// Gives the request of a tag what it reads.
    fn copy_out(&self, tag: u16, buffer: &IoBuffer) -> io::Result<()>;

    /// What has happened, if anything has.
    fn next(&mut self) -> io::Result<Option<Event>>;

    /// Tells the driver of all that is new, and sleeps until something has happened, at most for so long (`None`: for
    /// ever).
    fn enter(&mut self, at_most: Option<Duration>) -> io::Result<()>;
}
