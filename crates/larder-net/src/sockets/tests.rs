//! Sockets on a ring: sent bytes arrive, whether peers read, wait, leave or do not read.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::kernel::{Completion, CompletionOwner};
use super::provided::BUFFER_LEN;
use super::{RingSocket, SocketRing};

const MS: Duration = Duration::from_millis(1);

fn ring() -> Option<SocketRing> {
    let made = SocketRing::new();
    if made.is_err() {
        println!("skipped: the kernel refuses io_uring");
    }
    made.ok()
}

fn pair(ring: &SocketRing) -> (UnixStream, RingSocket) {
    let (client, server) = UnixStream::pair().unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    (client, ring.attach(server.into()))
}

fn cx() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Receives until there are `count` bytes, or the end of the stream.
fn receive(ring: &SocketRing, socket: &mut RingSocket, count: usize) -> Vec<u8> {
    let mut input = Vec::new();
    let begun = Instant::now();
    while input.len() < count {
        input.reserve(1000);
        match socket.poll_receive(&mut cx(), &mut input) {
            Poll::Ready(Ok(0)) => break,
            Poll::Ready(got) => drop(got.unwrap()),
            Poll::Pending => ring.turn(Some(10 * MS)).unwrap(),
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{} of {count} bytes", input.len());
    }
    input
}

fn send(ring: &SocketRing, socket: &mut RingSocket, bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    while socket.poll_send(&mut cx(), &mut bytes).map(Result::unwrap).is_pending() {
        ring.turn(Some(10 * MS)).unwrap();
    }
    assert!(bytes.is_empty());
    ring.turn(Some(Duration::ZERO)).unwrap();
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
}

#[test]
fn what_comes_is_received_in_order_and_whole() {
    let Some(ring) = ring() else { return };
    let (mut client, mut socket) = pair(&ring);
    let long = pattern(3_000_000);
    let sent = long.clone();
    let sender = std::thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client
    });
    // More than the pool holds, so buffers are reused.
    assert!(receive(&ring, &mut socket, long.len()) == long);
    drop(sender.join().unwrap());
    assert_eq!(receive(&ring, &mut socket, 1), b"", "the end");
}

#[test]
fn what_is_sent_arrives_in_order_and_whole() {
    let Some(ring) = ring() else { return };
    let (mut client, mut socket) = pair(&ring);
    let long = pattern(2_000_000);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        all
    });
    for piece in long.chunks(70_001) {
        send(&ring, &mut socket, piece);
    }
    drop(socket);
    let begun = Instant::now();
    while !reader.is_finished() {
        ring.turn(Some(10 * MS)).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    assert!(reader.join().unwrap() == long);
}

#[test]
fn a_socket_that_is_not_read_stops_only_itself() {
    let Some(ring) = ring() else { return };
    // More sockets than fill the pool with the most that each may hold.
    let mut others: Vec<_> = (0..100).map(|_| pair(&ring)).collect();
    for (client, socket) in &mut others {
        client.set_nonblocking(true).unwrap();
        while client.write(&[b'x'; 4096]).is_ok() {}
        assert!(socket.poll_readable(&mut cx()).is_pending());
    }
    for _ in 0..50 {
        ring.turn(Some(MS)).unwrap();
    }
    let (mut client, mut socket) = pair(&ring);
    let long = pattern(100_000);
    client.set_nonblocking(false).unwrap();
    let sent = long.clone();
    let sender = std::thread::spawn(move || client.write_all(&sent).map(|()| client));
    assert!(receive(&ring, &mut socket, long.len()) == long);
    drop(sender.join().unwrap().unwrap());
    // The bytes that they held are there when they read.
    let (client, mut socket) = others.pop().unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let rest = receive(&ring, &mut socket, usize::MAX);
    assert!(rest.len() > 8 * 4096 && rest.iter().all(|byte| *byte == b'x'), "{}", rest.len());
}

#[test]
fn sockets_that_are_not_read_hold_a_bounded_number_of_bytes_however_much_comes() {
    let Some(ring) = ring() else { return };
    let mut all: Vec<_> = (0..200).map(|_| pair(&ring)).collect();
    for (client, socket) in &mut all {
        client.set_nonblocking(true).unwrap();
        assert!(socket.poll_readable(&mut cx()).is_pending());
    }
    let mut came = 0;
    for _ in 0..200 {
        for (client, _) in &mut all {
            came += client.write(&[b'x'; 128 << 10]).unwrap_or(0);
        }
        ring.turn(Some(Duration::ZERO)).unwrap();
    }
    let held = ring.0.borrow().copied_bytes();
    // The pool emptied twice, and a buffer for each socket.
    let most = 2 * (2 << 20) + 200 * BUFFER_LEN as usize;
    assert!((1..=most).contains(&held), "{held} bytes of {came}; {most} are what it may be");
    // Sockets that are read still work and get their bytes.
    let (mut client, mut socket) = all.pop().unwrap();
    client.set_nonblocking(false).unwrap();
    let sender = std::thread::spawn(move || client.write_all(&[b'x'; 1 << 20]));
    assert!(receive(&ring, &mut socket, usize::MAX).len() > 1 << 20);
    sender.join().unwrap().unwrap();
    drop((socket, all));
    for _ in 0..50 {
        ring.turn(Some(MS)).unwrap();
    }
    assert_eq!(ring.0.borrow().copied_bytes(), 0);
}

#[test]
fn a_client_that_does_not_take_its_answer_holds_one_buffer_and_the_end_frees_it() {
    let Some(ring) = ring() else { return };
    let (client, mut socket) = pair(&ring);
    let mut taken = 0;
    let deadline = Instant::now() + 300 * MS;
    while Instant::now() < deadline {
        let mut bytes = vec![1; 50_000];
        if socket.poll_send(&mut cx(), &mut bytes).map(Result::unwrap).is_ready() {
            taken += 1;
        }
        ring.turn(Some(MS)).unwrap();
    }
    assert!(taken < 100, "{taken} sends: each waits for the one before");
    drop(client);
    let mut bytes = vec![1; 10];
    let begun = Instant::now();
    while socket.poll_send(&mut cx(), &mut bytes).map(|sent| sent.is_ok()) != Poll::Ready(false) {
        bytes = vec![1; 10];
        ring.turn(Some(MS)).unwrap();
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "no error reports the broken connection"
        );
    }
}

#[test]
fn rings_and_sockets_end_with_everything_under_way() {
    for ring_first in [true, false] {
        let Some(ring) = ring() else { return };
        let mut all: Vec<_> = (0..20).map(|_| pair(&ring)).collect();
        for (client, socket) in &mut all {
            client.write_all(b"half").unwrap();
            assert!(socket.poll_readable(&mut cx()).is_pending());
            // The first sends are in flight then; the others wait for memory.
            let _ = socket.poll_send(&mut cx(), &mut vec![1; 1_000_000]);
        }
        ring.turn(Some(MS)).unwrap();
        if ring_first {
            drop(ring);
        }
        drop(all);
    }
}

struct CallCounts(AtomicUsize);

impl Wake for CallCounts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn waiters_are_woken_and_places_are_used_again() {
    let Some(ring) = ring() else { return };
    for round in 0..200_u32 {
        let (mut client, mut socket) = pair(&ring);
        let counts = Arc::new(CallCounts(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&counts));
        let mut cx = Context::from_waker(&waker);
        assert!(socket.poll_readable(&mut cx).is_pending());
        ring.turn(Some(Duration::ZERO)).unwrap();
        assert_eq!(counts.0.load(Ordering::Relaxed), 0, "nothing has come");
        client.write_all(&round.to_le_bytes()).unwrap();
        while counts.0.load(Ordering::Relaxed) == 0 {
            ring.turn(Some(10 * MS)).unwrap();
        }
        assert_eq!(receive(&ring, &mut socket, 4), round.to_le_bytes());
        if round % 3 == 0 {
            client.write_all(b"this is not received").unwrap();
        }
        drop(socket);
        let places = ring.0.borrow().slots_len();
        assert!(places < 10, "{places} places are taken");
    }
}

#[test]
fn a_watched_descriptor_ends_the_sleep_again_and_again() {
    let Some(ring) = ring() else { return };
    let (mut there, here) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    ring.watch(here.as_fd()).unwrap();
    ring.turn(Some(Duration::ZERO)).unwrap();
    for _ in 0..3 {
        let begun = Instant::now();
        ring.turn(Some(5 * MS)).unwrap();
        assert!(begun.elapsed() >= 4 * MS, "nothing was there to end it");
        there.write_all(b"x").unwrap();
        let begun = Instant::now();
        ring.turn(Some(Duration::from_secs(20))).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        let mut byte = [0; 1];
        (&here).read_exact(&mut byte).unwrap();
    }
}

#[test]
fn sends_that_are_not_taken_hold_a_bounded_number_of_bytes_and_end_where_others_wait() {
    let Some(ring) = ring() else { return };
    // More than the kernel takes for a client that does not read.
    let long = 600_000;
    let mut all: Vec<_> = (0..20).map(|_| pair(&ring)).collect();
    let mut waiting = Vec::new();
    for (at, (_, socket)) in all.iter_mut().enumerate() {
        let mut bytes = vec![7; long];
        if socket.poll_send(&mut cx(), &mut bytes).is_pending() {
            waiting.push((at, bytes));
        }
    }
    let unsent = ring.0.borrow().unsent_bytes();
    assert!(!waiting.is_empty() && unsent < (4 << 20) + long, "{unsent}");
    let begun = Instant::now();
    while !waiting.is_empty() {
        ring.turn(Some(10 * MS)).unwrap();
        waiting.retain_mut(|(at, bytes)| all[*at].1.poll_send(&mut cx(), bytes).is_pending());
        assert!(begun.elapsed() < Duration::from_secs(20), "{} wait", waiting.len());
    }
    assert!(begun.elapsed() >= Duration::from_millis(900), "they had a second");
    assert!(all[0].1.is_broken() && ring.0.borrow().unsent_bytes() < (4 << 20) + long);
}

/// A receive that was stopped, by whatever number the kernel says so, is no error of the connection.
#[test]
fn a_receive_that_was_stopped_goes_on_and_one_that_failed_is_an_error() {
    let Some(ring) = ring() else { return };
    for (code, is_stop) in
        [(libc::ECANCELED, true), (libc::EINTR, true), (libc::EAGAIN, true), (libc::EPIPE, false)]
    {
        let (mut client, mut socket) = pair(&ring);
        let mut input = Vec::with_capacity(1000);
        assert!(socket.poll_receive(&mut cx(), &mut input).is_pending(), "nothing was sent");
        let of = CompletionOwner::Receive(socket.key());
        let failed = Completion { of, result: -code, buffer: None, goes_on: true };
        ring.0.borrow_mut().happened(failed).unwrap();
        client.write_all(b"more").unwrap();
        if is_stop {
            assert_eq!(receive(&ring, &mut socket, 4), b"more", "after error {code}");
        } else {
            let heard = socket.poll_receive(&mut cx(), &mut input);
            assert!(matches!(heard, Poll::Ready(Err(_))), "{heard:?}");
        }
    }
}
