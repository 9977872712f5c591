//! The trait of block stores.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use larder_device::{DeviceStats, Error, IoBuffer, IoFuture, block_on};

use super::info::{BlockId, StoreInfo, Stream};
use super::ledger::{BlockState, Ledger};
use super::request::{BlockIo, CheckedBlockIo};

/// Blocks that are written in order. Used as `dyn`.
///
/// An implementation provides [`BlockStore::start`] and keeps a [`Ledger`], which has checked every request that
/// reaches it. Users call the other methods.
pub trait BlockStore: Send + Sync {
    /// The description of the store.
    fn info(&self) -> &StoreInfo;

    /// The state of its blocks. The store reports the ends of requests to it.
    fn ledger(&self) -> &Ledger;

    /// Starts `io`, which the ledger has admitted. Appends to one block may arrive out of order if they come from
    /// several threads.
    fn start(&self, io: CheckedBlockIo) -> IoFuture;

    /// Counters since the store was opened; handles are streams.
    fn stats(&self) -> DeviceStats;

    /// As [`Device::boot`](larder_device::Device::boot).
    fn boot(&self) -> Option<u64> {
        None
    }

    /// Allocates a block for `stream`. [`BlockStore::list`] returns the tag. A store that wraps another one must
    /// forward this call, because the inner store may choose the number.
    ///
    /// # Errors
    /// [`NoSpace`](larder_device::ErrorKind::NoSpace) if all blocks are allocated, or the limit of open blocks is
    /// reached; [`OutOfRange`](larder_device::ErrorKind::OutOfRange) for a stream that the store does not have; errors
    /// of the storage below.
    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        let admitted = self.ledger().admit_alloc(self.info(), stream, tag);
        AllocFuture::begin(admitted, |_, io| self.start(io))
    }

    /// Allocates a block for data that may vanish, such as clean data of a cache. A store may put it where it is taken
    /// back at any time ([`VssdArray::borrow_for`](crate::VssdArray::borrow_for)): then [`BlockStore::is_gone`] says
    /// so. After a loss of power there is no such block.
    ///
    /// # Errors
    /// As [`BlockStore::alloc`].
    fn alloc_clean(&self, stream: Stream, tag: u64) -> AllocFuture {
        self.alloc(stream, tag)
    }

    /// Whether the data of `block`, from [`BlockStore::alloc_clean`], have vanished. Then reads of it fail with
    /// [`NotOpen`](larder_device::ErrorKind::NotOpen), what is appended to it vanishes too, and it is freed as any
    /// other block.
    fn is_gone(&self, _block: BlockId) -> bool {
        false
    }

    /// Writes the whole `buffer` at `at`, which must be the end of what was submitted to the block.
    ///
    /// # Errors
    /// [`NotSequential`](larder_device::ErrorKind::NotSequential), [`BlockFull`](larder_device::ErrorKind::BlockFull),
    /// [`NotOpen`](larder_device::ErrorKind::NotOpen), [`Misaligned`](larder_device::ErrorKind::Misaligned): nothing
    /// was written. After an error of the storage below (such as [`Io`](larder_device::ErrorKind::Io) of the media) the
    /// block takes no more appends; what had landed can be read, and it is unknown how much of this append is stored.
    fn append(&self, block: BlockId, at: u64, buffer: IoBuffer) -> IoFuture {
        self.begin(BlockIo::Append { block, at, buffer })
    }

    /// Fills `buffer` from `offset` of the block on.
    ///
    /// # Errors
    /// [`OutOfRange`](larder_device::ErrorKind::OutOfRange) beyond what has landed;
    /// [`NotOpen`](larder_device::ErrorKind::NotOpen) if there is no such block, or it was freed while the read ran;
    /// [`Misaligned`](larder_device::ErrorKind::Misaligned); errors of the storage below.
    fn read(&self, block: BlockId, offset: u64, buffer: IoBuffer) -> IoFuture {
        self.begin(BlockIo::Read { block, offset, buffer })
    }

    /// Frees a block, after the appends in flight have ended.
    ///
    /// # Errors
    /// [`NotOpen`](larder_device::ErrorKind::NotOpen) if there is no such block. After an error of the storage below
    /// the block still exists, takes no more appends, and can be freed again.
    fn free(&self, block: BlockId) -> IoFuture {
        self.begin(BlockIo::Free { block })
    }

    /// Waits until everything that has returned is durable. It is durable anyway; this only checks that the storage
    /// answers.
    fn flush(&self) -> IoFuture {
        self.begin(BlockIo::Flush)
    }

    /// Checks a request and starts it. If the future is dropped, the request continues.
    fn begin(&self, io: BlockIo) -> IoFuture {
        match self.ledger().admit(self.info(), io) {
            Ok(checked) => self.start(checked),
            Err(failure) => IoFuture::ready(Err(failure)),
        }
    }

    /// The allocated blocks, in the order of their numbers.
    fn list(&self) -> Vec<BlockState> {
        self.ledger().list()
    }
}

impl<S: BlockStore + ?Sized> BlockStore for Arc<S> {
    fn info(&self) -> &StoreInfo {
        (**self).info()
    }

    fn ledger(&self) -> &Ledger {
        (**self).ledger()
    }

    fn start(&self, io: CheckedBlockIo) -> IoFuture {
        (**self).start(io)
    }

    fn stats(&self) -> DeviceStats {
        (**self).stats()
    }

    fn boot(&self) -> Option<u64> {
        (**self).boot()
    }

    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        (**self).alloc(stream, tag)
    }

    fn alloc_clean(&self, stream: Stream, tag: u64) -> AllocFuture {
        (**self).alloc_clean(stream, tag)
    }

    fn is_gone(&self, block: BlockId) -> bool {
        (**self).is_gone(block)
    }
}

/// An allocation in flight. Any executor can poll it; a plain thread can call [`AllocFuture::wait`].
#[derive(Debug)]
pub struct AllocFuture(Alloc);

#[derive(Debug)]
enum Alloc {
    Refused(Option<Error>),
    UnderWay(BlockId, IoFuture),
}

impl AllocFuture {
    /// An allocation that ends as `future` does, with this block.
    pub fn under_way(block: BlockId, future: IoFuture) -> Self {
        Self(Alloc::UnderWay(block, future))
    }

    /// Starts an allocation that the ledger has admitted.
    pub fn begin(
        admitted: Result<(BlockId, CheckedBlockIo), Error>,
        start: impl FnOnce(BlockId, CheckedBlockIo) -> IoFuture,
    ) -> Self {
        match admitted {
            Ok((block, io)) => Self::under_way(block, start(block, io)),
            Err(error) => Self::refused(error),
        }
    }

    /// An allocation that has failed.
    pub fn refused(error: Error) -> Self {
        Self(Alloc::Refused(Some(error)))
    }

    /// Blocks the thread until the block is allocated.
    ///
    /// # Errors
    /// As [`BlockStore::alloc`].
    ///
    /// # Panics
    /// If the future was polled to its end before.
    pub fn wait(self) -> Result<BlockId, Error> {
        match self.0 {
            // Wait on the request itself: blocking on it ends a delay of a [`FaultDevice`](larder_device::FaultDevice)
            // below.
            Alloc::UnderWay(block, future) => future.wait().map(|_| block).map_err(|it| it.error),
            refused @ Alloc::Refused(_) => block_on(Self(refused)),
        }
    }
}

impl Future for AllocFuture {
    type Output = Result<BlockId, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Alloc::Refused(error) => {
                Poll::Ready(Err(error.take().expect("an AllocFuture is awaited once")))
            }
            Alloc::UnderWay(block, future) => {
                let block = *block;
                let ended = Pin::new(future).poll(context);
                ended.map(|ended| ended.map(|_| block).map_err(|failure| failure.error))
            }
        }
    }
}
