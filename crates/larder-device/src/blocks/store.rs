//! The trait: what a block store does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::info::{BlockId, StoreInfo, Stream};
use super::ledger::{BlockState, Ledger};
use super::request::{BlockIo, CheckedBlockIo};
use crate::buffer::IoBuffer;
use crate::device::DeviceStats;
use crate::error::Error;
use crate::io::IoFuture;
use crate::park::block_on;

/// Blocks that are written in order. Used as `dyn`.
///
/// Who implements it gives [`BlockStore::start`] and keeps a [`Ledger`], which has checked what comes there; who uses
/// it calls the others.
pub trait BlockStore: Send + Sync {
    /// What the store says of itself.
    fn info(&self) -> &StoreInfo;

    /// The state of its blocks. The store tells it what has come of requests.
    fn ledger(&self) -> &Ledger;

    /// Starts `io`, which the ledger has admitted. Appends of one block may come in another order than that of their
    /// places if they come from several threads.
    fn start(&self, io: CheckedBlockIo) -> IoFuture;

    /// Counters since the store was opened; handles are streams.
    fn stats(&self) -> DeviceStats;

    /// As [`Device::boot`](crate::Device::boot).
    fn boot(&self) -> Option<u64> {
        None
    }

    /// Allocates a block for `stream`. The tag comes back in [`BlockStore::list`]. A store that stands before another
    /// one passes this on, for the one below may choose the number.
    ///
    /// # Errors
    /// [`NoSpace`](crate::ErrorKind::NoSpace) if all blocks are allocated, or as many are open as may be;
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) for a stream that the store does not have; what the storage below
    /// reports.
    fn alloc(&self, stream: Stream, tag: u64) -> AllocFuture {
        let admitted = self.ledger().admit_alloc(self.info(), stream, tag);
        AllocFuture::begin(admitted, |_, io| self.start(io))
    }

    /// Writes all of `buffer` at `at`, which must be the end of what was submitted to the block.
    ///
    /// # Errors
    /// [`NotSequential`](crate::ErrorKind::NotSequential), [`BlockFull`](crate::ErrorKind::BlockFull),
    /// [`NotOpen`](crate::ErrorKind::NotOpen), [`Misaligned`](crate::ErrorKind::Misaligned): nothing was written.
    /// What the storage below reports ([`Io`](crate::ErrorKind::Io) of media): the block takes no more, what had
    /// landed can be read, and what of the append is there is unknown.
    fn append(&self, block: BlockId, at: u64, buffer: IoBuffer) -> IoFuture {
        self.begin(BlockIo::Append { block, at, buffer })
    }

    /// Fills `buffer` from `offset` of the block on.
    ///
    /// # Errors
    /// [`OutOfRange`](crate::ErrorKind::OutOfRange) behind what has landed, [`NotOpen`](crate::ErrorKind::NotOpen) if
    /// there is no such block, or it was freed meanwhile, [`Misaligned`](crate::ErrorKind::Misaligned); what the
    /// storage below reports.
    fn read(&self, block: BlockId, offset: u64, buffer: IoBuffer) -> IoFuture {
        self.begin(BlockIo::Read { block, offset, buffer })
    }

    /// Gives a block up, when the appends that are under way have ended.
    ///
    /// # Errors
    /// [`NotOpen`](crate::ErrorKind::NotOpen) if there is no such block; what the storage below reports: the block is
    /// still there, takes no more, and can be freed again.
    fn free(&self, block: BlockId) -> IoFuture {
        self.begin(BlockIo::Free { block })
    }

    /// Waits until all that has returned is durable: it is anyway, this only looks whether the storage answers.
    fn flush(&self) -> IoFuture {
        self.begin(BlockIo::Flush)
    }

    /// Checks a request and starts it. The future may be dropped: the request goes on.
    fn begin(&self, io: BlockIo) -> IoFuture {
        match self.ledger().admit(self.info(), io) {
            Ok(checked) => self.start(checked),
            Err(failure) => IoFuture::ready(Err(failure)),
        }
    }

    /// The blocks that are allocated, in the order of their numbers.
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
}

/// An allocation under way. Any executor can poll it; a plain thread can [`AllocFuture::wait`].
#[derive(Debug)]
pub struct AllocFuture(Alloc);

#[derive(Debug)]
enum Alloc {
    Refused(Option<Error>),
    UnderWay(BlockId, IoFuture),
}

impl AllocFuture {
    /// One that ends as `future` does, with this block.
    pub fn under_way(block: BlockId, future: IoFuture) -> Self {
        Self(Alloc::UnderWay(block, future))
    }

    /// Starts one that the ledger has admitted.
    pub fn begin(
        admitted: Result<(BlockId, CheckedBlockIo), Error>,
        start: impl FnOnce(BlockId, CheckedBlockIo) -> IoFuture,
    ) -> Self {
        match admitted {
            Ok((block, io)) => Self::under_way(block, start(block, io)),
            Err(error) => Self::refused(error),
        }
    }

    /// One that has failed.
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
            // A thread that blocks ends a delay of the device below, if it knows the request itself.
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
