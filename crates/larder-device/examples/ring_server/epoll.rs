//! A server with an event loop of its own over `epoll`, and how to host a ring in it.
//!
//! Each turn of the loop fetches the drive's completions, continues the connections that waited for them, submits all
//! new reads to the kernel, and sleeps. The descriptor of the ring is polled along with the sockets. Without a hosted
//! ring, a reaper thread fetches the completions and wakes the loop through an eventfd.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::ThreadId;

use larder_device::{BufferPool, Device, FileDevice, Io, IoFuture, ring};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::measure::{ANSWER, BLOCK, Failure, QUESTION};

const LISTENER: u64 = u64::MAX;
const CALLS: u64 = u64::MAX - 1;
const RING: u64 = u64::MAX - 2;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Connections whose reads have completed, and the eventfd that wakes the loop when another thread completed them.
struct Ready {
    numbers: Mutex<Vec<usize>>,
    calls: OwnedFd,
    called: AtomicBool,
    thread: ThreadId,
}

/// Wakes one connection.
struct Wakes(Arc<Ready>, usize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let ready = &self.0;
        ready.numbers.lock().unwrap_or_else(PoisonError::into_inner).push(self.1);
        if std::thread::current().id() != ready.thread && !ready.called.swap(true, Ordering::SeqCst)
        {
            let _ = rustix::io::write(&ready.calls, &[1, 0, 0, 0, 0, 0, 0, 1]);
        }
    }
}

struct Connection {
    stream: TcpStream,
    waker: Waker,
    /// Reads in the order of their questions.
    reads: VecDeque<IoFuture>,
}

struct Server {
    queue: OwnedFd,
    listener: TcpListener,
    ready: Arc<Ready>,
    ring: Option<ring::HostedRing>,
    device: Arc<FileDevice>,
    pool: BufferPool,
    connections: Vec<Option<Connection>>,
}

pub(crate) fn serve(
    listener: TcpListener,
    device: Arc<FileDevice>,
    hosted: bool,
) -> Result<(), Failure> {
    listener.set_nonblocking(true)?;
    let ready = Arc::new(Ready {
        numbers: Mutex::default(),
        calls: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        called: AtomicBool::new(false),
        thread: std::thread::current().id(),
    });
    let ring = if hosted { Some(ring::host()?) } else { None };
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    add(&queue, &listener, LISTENER)?;
    add(&queue, &ready.calls, CALLS)?;
    if let Some(ring) = &ring {
        add(&queue, ring, RING)?;
    }
    let (pool, connections) = (BufferPool::new(), Vec::new());
    let mut server = Server { queue, listener, ready, ring, device, pool, connections };
    let mut events = Vec::with_capacity(64);
    while server.turn(&mut events)? {}
    Ok(())
}

fn add(queue: &OwnedFd, fd: impl AsFd, data: u64) -> rustix::io::Result<()> {
    epoll::add(queue, fd, epoll::EventData::new_u64(data), epoll::EventFlags::IN)
}

impl Server {
    /// Returns `false` once all clients have disconnected.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> Result<bool, Failure> {
        if let Some(ring) = &self.ring {
            // Reap on every wake-up: the kernel may wake us before it marks the ring readable.
            ring.reap();
        }
        for number in self.ready.take() {
            if let Some(connection) = &mut self.connections[number] {
                connection.answer()?;
            }
        }
        if let Some(ring) = &self.ring {
            ring.submit();
        }
        // Submitting may already have completed some of the reads; if so, do not sleep.
        let at_once = if self.ready.is_empty() { None } else { Some(&NOW) };
        match epoll::wait(&self.queue, spare_capacity(events), at_once) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                LISTENER => self.accept()?,
                CALLS => self.ready.called(),
                RING => {}
                number => self.listen(usize::try_from(number)?)?,
            }
        }
        let none = self.connections.iter().all(Option::is_none);
        Ok(self.connections.is_empty() || !none)
    }

    fn accept(&mut self) -> Result<(), Failure> {
        let (stream, _) = self.listener.accept()?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let number = self.connections.len();
        add(&self.queue, &stream, number as u64)?;
        let waker = Waker::from(Arc::new(Wakes(Arc::clone(&self.ready), number)));
        self.connections.push(Some(Connection { stream, waker, reads: VecDeque::new() }));
        Ok(())
    }

    fn listen(&mut self, number: usize) -> Result<(), Failure> {
        let Some(connection) = &mut self.connections[number] else { return Ok(()) };
        if !connection.listen(&self.device, &self.pool)? {
            self.connections[number] = None;
        }
        Ok(())
    }
}

impl Ready {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.numbers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_empty(&self) -> bool {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The loop has seen the wake-up: the next one must write the eventfd again.
    fn called(&self) {
        let _ = rustix::io::read(&self.calls, &mut [0; 8]);
        self.called.store(false, Ordering::SeqCst);
    }
}

impl Connection {
    /// Begins the requested reads. Returns `false` if the client has disconnected.
    fn listen(&mut self, device: &FileDevice, pool: &BufferPool) -> Result<bool, Failure> {
        let mut bytes = [0; QUESTION * 64];
        let read = match self.stream.read(&mut bytes) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Each question is written in one piece, and the loopback interface does not split such short ones.
        let (questions, rest) = bytes[..read].as_chunks::<QUESTION>();
        assert!(rest.is_empty(), "half a question");
        for question in questions {
            let offset = u64::from_le_bytes(*question) * BLOCK as u64;
            let buffer = pool.take(BLOCK);
            self.reads.push_back(device.submit(Io::Read { offset, buffer }));
        }
        self.answer()?;
        Ok(true)
    }

    /// Sends the answers of completed reads, in the order of the questions.
    fn answer(&mut self) -> Result<(), Failure> {
        let mut context = Context::from_waker(&self.waker);
        while let Some(read) = self.reads.front_mut() {
            let Poll::Ready(block) = Pin::new(read).poll(&mut context) else { break };
            self.reads.pop_front();
            match self.stream.write_all(&block?.as_slice()[..ANSWER]) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}
