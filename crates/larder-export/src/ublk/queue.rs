//! Carries the requests of a queue from the driver to the volume and back.
//!
//! A tag is *fetching* while the driver owns it, *served* while the volume has its request, and *gone* after the
//! driver has said that no more requests will come, because the device is being stopped. Requests are begun as they
//! arrive and answered as they end, in any order.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{FuturesUnordered, Stream};
use larder_device::{BufferPool, Durability, IoFuture, IoResult};
use rustix::io::Errno;

use super::driver::{Driver, Event};
use super::request::{Limits, Operation, errno_of, refused};
use crate::volume::{Volume, length};

/// The requests of a queue.
pub(super) struct Queue {
    volume: Arc<dyn Volume>,
    limits: Limits,
    pool: BufferPool,
    tags: Vec<Tag>,
    under_way: FuturesUnordered<QueuedRequest>,
    /// The number of tags that are not gone.
    left: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Fetching,
    Served,
    Gone,
}

/// A request in flight in the volume.
struct QueuedRequest {
    tag: u16,
    operation: Operation,
    io: IoFuture,
}

impl Future for QueuedRequest {
    type Output = (u16, Operation, IoResult);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.io).poll(cx));
        Poll::Ready((self.tag, self.operation.clone(), result))
    }
}

impl Queue {
    /// A queue of `depth` tags, all of which are passed to the driver.
    pub(super) fn begin(
        volume: Arc<dyn Volume>,
        limits: Limits,
        depth: u16,
        driver: &mut impl Driver,
    ) -> io::Result<Self> {
        for tag in 0..depth {
            driver.fetch(tag)?;
        }
        let (pool, under_way) = Default::default();
        let tags = vec![Tag::Fetching; depth.into()];
        Ok(Self { volume, limits, pool, tags, under_way, left: depth.into() })
    }

    /// Whether the driver has returned all tags, and the volume has no request.
    pub(super) fn has_ended(&self) -> bool {
        self.left == 0
    }

    /// Begins the requests that have arrived, and answers those that have ended.
    ///
    /// # Errors
    /// If the driver violates its protocol; the error of the kernel.
    pub(super) fn turn(
        &mut self,
        driver: &mut impl Driver,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        while let Some(event) = driver.next()? {
            self.came(event, driver, cx)?;
        }
        while let Poll::Ready(Some(ended)) = Pin::new(&mut self.under_way).poll_next(cx) {
            self.answer(ended, driver)?;
        }
        Ok(())
    }

    fn came(
        &mut self,
        Event { tag, result }: Event,
        driver: &mut impl Driver,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        let wrong = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
        let tags = self.tags.len();
        let Some(state) = self.tags.get_mut(usize::from(tag)) else {
            return wrong(format!("the driver names tag {tag}: there are {tags}"));
        };
        if *state != Tag::Fetching {
            return wrong(format!("the driver gives tag {tag}, which it does not have"));
        }
        if result == refused(Errno::NODEV) {
            *state = Tag::Gone;
            self.left -= 1;
            return Ok(());
        }
        if result != 0 {
            let error = io::Error::from_raw_os_error(result.wrapping_neg());
            return wrong(format!("the driver refuses tag {tag}: {error}"));
        }
        *state = Tag::Served;
        self.serve(tag, driver, cx)
    }

    fn serve(
        &mut self,
        tag: u16,
        driver: &mut impl Driver,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        let descriptor = driver.descriptor(tag);
        let begun = Operation::of(&descriptor, &self.limits).and_then(|operation| {
            let io = self.start(tag, &operation, driver)?;
            Ok(QueuedRequest { tag, operation, io })
        });
        let mut under_way = match begun {
            Ok(under_way) => under_way,
            Err(errno) => {
                tracing::warn!(?descriptor, %errno, "a request of the kernel's is refused");
                return self.commit(tag, refused(errno), driver);
            }
        };
        // Requests that are served from memory have usually ended already.
        match Pin::new(&mut under_way).poll(cx) {
            Poll::Ready(ended) => self.answer(ended, driver),
            Poll::Pending => {
                self.under_way.push(under_way);
                Ok(())
            }
        }
    }

    /// Submits the operation to the volume.
    fn start(
        &self,
        tag: u16,
        operation: &Operation,
        driver: &impl Driver,
    ) -> Result<IoFuture, Errno> {
        let volume = &self.volume;
        Ok(match operation.clone() {
            Operation::Read(range) => volume.read(range.start, self.pool.take(length(&range))),
            Operation::Write { range, is_durable } => {
                let mut buffer = self.pool.take(length(&range));
                driver.copy_in(tag, &mut buffer).map_err(|error| failed_copy(&error))?;
                volume.write(range.start, buffer, durability(is_durable))
            }
            Operation::Flush => volume.flush(),
            Operation::Discard(range) => volume.trim(range, Durability::Device),
            Operation::WriteZeroes { range, keeps_room, is_durable } => {
                volume.write_zeroes(range, keeps_room, durability(is_durable))
            }
        })
    }

    fn answer(
        &mut self,
        (tag, operation, result): (u16, Operation, IoResult),
        driver: &mut impl Driver,
    ) -> io::Result<()> {
        let answer = match (result, &operation) {
            (Ok(content), Operation::Read(_)) => match driver.copy_out(tag, &content) {
                Ok(()) => operation.done(),
                Err(error) => refused(failed_copy(&error)),
            },
            (Ok(_), _) => operation.done(),
            (Err(failure), _) => {
                tracing::warn!(?operation, error = %failure.error, "a request has failed");
                refused(errno_of(&failure.error))
            }
        };
        self.commit(tag, answer, driver)
    }

    fn commit(&mut self, tag: u16, answer: i32, driver: &mut impl Driver) -> io::Result<()> {
        self.tags[usize::from(tag)] = Tag::Fetching;
        driver.commit(tag, answer)
    }
}

/// The kernel cannot copy the bytes of its request.
fn failed_copy(error: &io::Error) -> Errno {
    tracing::warn!(%error, "the bytes of a request cannot be copied");
    Errno::IO
}

fn durability(is_durable: bool) -> Durability {
    if is_durable { Durability::Power } else { Durability::Device }
}
