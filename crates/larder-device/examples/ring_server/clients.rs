//! The clients: one thread with many connections, far cheaper than the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use hdrhistogram::Histogram;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::measure::{ANSWER, Arguments, CLIENTS, Failure, QUESTION, pin};

/// Clients that send requests until they are told to stop.
pub(crate) struct Clients {
    shared: Arc<ClientState>,
    thread: JoinHandle<Result<ClientLatency, Failure>>,
}

#[derive(Default)]
struct ClientState {
    asked: AtomicU64,
    end: AtomicBool,
}

/// The measured latency.
pub(crate) struct ClientLatency {
    pub(crate) median_us: f64,
}

/// A connection, which sends the next request as soon as it has an answer.
struct Connection {
    stream: TcpStream,
    since: Instant,
    /// Bytes of answers received so far.
    came: usize,
}

impl Clients {
    pub(crate) fn begin(address: SocketAddr, arguments: &Arguments) -> Result<Self, Failure> {
        let shared = Arc::<ClientState>::default();
        let theirs = Arc::clone(&shared);
        let (count, depth, blocks) =
            (arguments.connections as usize, arguments.depth as usize, arguments.blocks());
        let builder = std::thread::Builder::new().name(CLIENTS.to_owned());
        let thread = builder.spawn(move || {
            pin(usize::MAX);
            ask(address, (count, depth, blocks), &theirs)
        })?;
        Ok(Self { shared, thread })
    }

    pub(crate) fn asked(&self) -> u64 {
        self.shared.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn end(self) -> Result<ClientLatency, Failure> {
        self.shared.end.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "the clients have panicked")?
    }
}

fn ask(
    address: SocketAddr,
    (count, depth, blocks): (usize, usize, u64),
    shared: &ClientState,
) -> Result<ClientLatency, Failure> {
    let mut rng = fastrand::Rng::with_seed(7);
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::with_capacity(count);
    for number in 0..count {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        epoll::add(
            &queue,
            &stream,
            epoll::EventData::new_u64(number as u64),
            epoll::EventFlags::IN,
        )?;
        connections.push(Connection { stream, since: Instant::now(), came: 0 });
    }
    for connection in &mut connections {
        (0..depth).try_for_each(|_| connection.ask(rng.u64(..blocks)))?;
    }
    let mut took_ns = Histogram::<u32>::new(3)?;
    let mut events = Vec::with_capacity(64);
    while !shared.end.load(Ordering::Relaxed) {
        epoll::wait(&queue, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let connection = &mut connections[usize::try_from(event.data.u64())?];
            let mut bytes = [0; ANSWER * 16];
            let read = connection.stream.read(&mut bytes)?;
            if read == 0 {
                return Err("the server hung up".into());
            }
            let before = connection.came / ANSWER;
            connection.came += read;
            let answers = connection.came / ANSWER - before;
            if answers > 0 {
                took_ns.record(u64::try_from(connection.since.elapsed().as_nanos())?)?;
                shared.asked.fetch_add(answers as u64, Ordering::Relaxed);
                (0..answers).try_for_each(|_| connection.ask(rng.u64(..blocks)))?;
            }
        }
    }
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let median_us = took_ns.value_at_quantile(0.5) as f64 / 1e3;
    Ok(ClientLatency { median_us })
}

impl Connection {
    fn ask(&mut self, block: u64) -> Result<(), Failure> {
        let question: [u8; QUESTION] = block.to_le_bytes();
        self.since = Instant::now();
        Ok(self.stream.write_all(&question)?)
    }
}
