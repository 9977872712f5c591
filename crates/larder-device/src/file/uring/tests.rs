//! The ring under wrong use, unfortunate timing and concurrency.
//!
//! Reads of a pipe stay in the kernel until the test writes to it.

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use super::lead::Ring;
use super::submit_mode::SubmitMode;

use crate::buffer::IoBuffer;
use crate::error::ErrorKind;
use crate::file_options::FileOptions;
use crate::io::{Io, IoFuture};
use crate::park::block_on;
use crate::plug::plugged;
use crate::ring::pipe::{BLOCK, foreign_waker, pipe, poll, read_of, request};
use crate::ring::wire::FileWire;

/// A ring over a pipe, and the pipe's other end. `None` where the kernel refuses a ring.
fn over_pipe(options: &FileOptions) -> Option<(Arc<Ring<FileWire>>, std::io::PipeWriter)> {
    let (file, writer) = pipe();
    over(&file, options).map(|ring| (ring, writer))
}

fn over(file: &Arc<File>, options: &FileOptions) -> Option<Arc<Ring<FileWire>>> {
    let ring = Ring::new(&Arc::default(), file, options);
    ring.inspect_err(|why| println!("io_uring is not tested: {why}")).ok()
}

fn depth(queue_depth: u16) -> FileOptions {
    FileOptions { queue_depth, ..FileOptions::default() }
}

fn submit(ring: &Arc<Ring<FileWire>>, io: Io, submit_mode: SubmitMode) -> IoFuture {
    let (future, pieces) = request(io);
    ring.submit(pieces, submit_mode);
    future
}

fn read(ring: &Arc<Ring<FileWire>>, blocks: usize) -> IoFuture {
    read_told_by(ring, blocks, SubmitMode::here())
}

fn read_told_by(ring: &Arc<Ring<FileWire>>, blocks: usize, submit_mode: SubmitMode) -> IoFuture {
    submit(ring, read_of(blocks), submit_mode)
}

/// Returns when a thread sleeps in the ring, or is about to.
fn wait_for_a_sleeper(ring: &Ring<FileWire>) {
    while !ring.leader_sleeps() {
        std::thread::yield_now();
    }
}

/// A read of a block that is not there yet; the leader sleeps until it is.
fn read_that_is_slept_for(ring: &Arc<Ring<FileWire>>, waker: &Waker) -> IoFuture {
    let mut future = read(ring, 1);
    assert!(poll(&mut future, waker).is_pending());
    wait_for_a_sleeper(ring);
    future
}

#[test]
fn a_ring_that_breaks_fails_its_requests_and_keeps_their_memory() {
    let Some((ring, _writer)) = over_pipe(&depth(2)) else { return };
    let (stuck, waiting, waited) = (read(&ring, 2), read(&ring, 2), read(&ring, 1));
    let waiter = std::thread::spawn(move || waited.wait());
    ring.break_down();
    let failure = stuck.wait().unwrap_err();
    assert_eq!(failure.error.kind(), ErrorKind::Gone, "{failure}");
    assert!(failure.buffer.is_empty(), "the kernel may still have its memory");
    let failure = waiting.wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, 2 * BLOCK));
    assert_eq!(waiter.join().unwrap().unwrap_err().error.kind(), ErrorKind::Gone);
    let late = read(&ring, 1).wait().unwrap_err();
    assert_eq!((late.error.kind(), late.buffer.len()), (ErrorKind::Gone, BLOCK));
    assert!(!ring.close(), "the kernel may still have the file");
}

#[test]
fn a_closed_ring_takes_nothing() {
    let Some((ring, _writer)) = over_pipe(&depth(2)) else { return };
    assert!(ring.close());
    assert_eq!(
        submit(&ring, Io::Flush, SubmitMode::here()).wait().unwrap_err().error.kind(),
        ErrorKind::Gone
    );
}

#[test]
fn a_thread_that_sleeps_in_the_ring_is_woken_by_others() {
    let Some((ring, mut writer)) = over_pipe(&depth(2)) else { return };
    let mut stuck = read(&ring, 1);
    for _ in 0..50 {
        let (mut other, completer) = IoFuture::pending();
        let completing = std::thread::spawn(move || completer.complete(Ok(IoBuffer::empty())));
        block_on(std::future::poll_fn(|context| {
            assert!(Pin::new(&mut stuck).poll(context).is_pending());
            Pin::new(&mut other).poll(context)
        }))
        .unwrap();
        completing.join().unwrap();
    }
    writer.write_all(&[7; BLOCK]).unwrap();
    assert_eq!(stuck.wait().unwrap().as_slice(), [7; BLOCK]);
    assert!(ring.close());
}

#[test]
fn a_foreign_executor_is_woken_by_the_reaper() {
    let Some((ring, mut writer)) = over_pipe(&depth(2)) else { return };
    for round in 0..50u8 {
        let mut future = read(&ring, 1);
        let (waker, woken) = foreign_waker();
        assert!(poll(&mut future, &waker).is_pending());
        writer.write_all(&[round; BLOCK]).unwrap();
        woken.recv_timeout(Duration::from_secs(20)).unwrap();
        let Poll::Ready(result) = poll(&mut future, &waker) else { panic!("woken for nothing") };
        assert_eq!(result.unwrap().as_slice(), [round; BLOCK]);
        // A thread that waits takes over from the reaper, which may still sleep in the ring.
        let waited = read(&ring, 1);
        writer.write_all(&[round; BLOCK]).unwrap();
        waited.wait().unwrap();
    }
    assert!(ring.close());
}

/// A thread that does not wait leaves its requests to the leader, which sleeps.
#[test]
fn what_is_handed_over_to_a_sleeper_reaches_the_kernel() {
    let Some((ring, mut writer)) = over_pipe(&depth(8)) else { return };
    for round in 0..200u8 {
        let (waker, woken) = foreign_waker();
        let mut futures: Vec<_> = (0..4).map(|_| read(&ring, 1)).collect();
        futures.iter_mut().for_each(|future| assert!(poll(future, &waker).is_pending()));
        // The reaper sleeps in the ring by now, or is about to, when these come.
        futures.extend((0..3).map(|_| read(&ring, 1)));
        futures[4..].iter_mut().for_each(|future| assert!(poll(future, &waker).is_pending()));
        for _ in 0..futures.len() {
            writer.write_all(&[round; BLOCK]).unwrap();
            woken.recv_timeout(Duration::from_secs(20)).expect("it never reached the kernel");
        }
        for future in &mut futures {
            let Poll::Ready(result) = poll(future, &waker) else { panic!("not all have ended") };
            assert_eq!(result.unwrap().as_slice(), [round; BLOCK]);
        }
    }
    assert!(ring.close());
}

/// The leader gets what it waits for and stops leading, again and again, while others hand over.
#[test]
fn requests_handed_to_a_leader_that_leaves_reach_the_kernel() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    file.set_len(1 << 20).unwrap();
    let Some(ring) = over(&file, &depth(8)) else { return };
    std::thread::scope(|scope| {
        let waiter = || (0..2000).for_each(|_| drop(block_on(async { read(&ring, 1).await })));
        scope.spawn(waiter);
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let (waker, woken) = foreign_waker();
                    let mut future = read(&ring, 1);
                    while poll(&mut future, &waker).is_pending() {
                        woken.recv_timeout(Duration::from_secs(20)).expect("it was forgotten");
                    }
                }
            });
        }
    });
    assert!(ring.close());
}

/// Hands over a request from inside the leader, when the leader's own request has completed.
struct HandsOver {
    ring: Arc<Ring<FileWire>>,
    handed: Mutex<Option<IoFuture>>,
    waiter: Waker,
}

impl Wake for HandsOver {
    fn wake(self: Arc<Self>) {
        *self.handed.lock().unwrap() = Some(read_told_by(&self.ring, 1, SubmitMode::Leader));
        self.waiter.wake_by_ref();
    }
}

/// The leader has looked into the ring for the last time, and has no follower.
#[test]
fn what_is_handed_over_to_one_on_its_way_out_reaches_the_kernel() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let file = Arc::new(File::from(OwnedFd::from(reader)));
    let Some(ring) = over(&file, &depth(8)) else { return };
    // In the first round there is no wake-up event yet, and no hand-over.
    for round in 0..20u8 {
        let waiter = std::thread::spawn({
            let ring = Arc::clone(&ring);
            move || {
                let (mut waited, mut hands_over) = (read(&ring, 1), None);
                let result = block_on(std::future::poll_fn(|context| {
                    let ring = Arc::clone(&ring);
                    let (handed, waiter) = (Mutex::default(), context.waker().clone());
                    let fresh = || Arc::new(HandsOver { ring, handed, waiter });
                    let waker = Waker::from(Arc::clone(hands_over.get_or_insert_with(fresh)));
                    poll(&mut waited, &waker)
                }));
                assert_eq!(result.unwrap().as_slice(), [round; BLOCK]);
                let handed = hands_over.unwrap().handed.lock().unwrap().take();
                handed.expect("its waker was not called")
            }
        });
        wait_for_a_sleeper(&ring);
        // A single write: half of it is for the request that is handed over.
        writer.write_all(&[round; 2 * BLOCK]).unwrap();
        let handed = waiter.join().unwrap();
        // No thread has polled that request, and no thread leads: if the kernel does not know of it now, it never will.
        assert_eq!(rustix::io::ioctl_fionread(&file).unwrap(), 0, "it was forgotten");
        assert_eq!(handed.wait().unwrap().as_slice(), [round; BLOCK]);
    }
    assert!(ring.close());
}

/// The leader sleeps, and nothing else will wake it.
#[test]
fn what_the_kernel_has_no_memory_for_is_told_again() {
    let Some((ring, mut writer)) = over_pipe(&depth(8)) else { return };
    let (waker, woken) = foreign_waker();
    let mut first = read_that_is_slept_for(&ring, &waker);
    ring.refuse(3);
    // A pipe cannot be flushed; the kernel reports that at once.
    let mut second = submit(&ring, Io::Flush, SubmitMode::Leader);
    if poll(&mut second, &waker).is_pending() {
        woken.recv_timeout(Duration::from_secs(20)).expect("it never reached the kernel");
        assert!(poll(&mut second, &waker).is_ready());
    }
    writer.write_all(&[1; BLOCK]).unwrap();
    woken.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(poll(&mut first, &waker).is_ready());
    assert!(ring.close());
}

#[test]
fn few_requests_do_not_wake_the_leader() {
    for _ in 0..20 {
        let Some((ring, mut writer)) = over_pipe(&depth(8)) else { return };
        let (waker, woken) = foreign_waker();
        let mut first = read_that_is_slept_for(&ring, &waker);
        let mut second = read(&ring, 1);
        assert!(!ring.has_wake_event(), "it was to be called for one request more");
        assert!(poll(&mut second, &waker).is_pending());
        writer.write_all(&[1; 2 * BLOCK]).unwrap();
        for _ in 0..2 {
            woken.recv_timeout(Duration::from_secs(20)).expect("it never reached the kernel");
        }
        assert!(poll(&mut first, &waker).is_ready() && poll(&mut second, &waker).is_ready());
        assert!(ring.close());
    }
}

#[test]
fn what_a_thread_leaves_behind_is_seen_to() {
    let Some((ring, mut writer)) = over_pipe(&depth(2)) else { return };
    let (waker, woken) = foreign_waker();
    let mut future = read(&ring, 1);
    // Polled inside `block_on`, for a task that will continue elsewhere.
    block_on(async { assert!(poll(&mut future, &waker).is_pending()) });
    writer.write_all(&[1; BLOCK]).unwrap();
    woken.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(poll(&mut future, &waker).is_ready());
    assert!(ring.close());
}

#[test]
fn the_lead_passes_on_when_its_holder_is_done() {
    let Some((ring, mut writer)) = over_pipe(&depth(16)) else { return };
    let waiters: Vec<_> = (0..8)
        .map(|_| {
            let ring = Arc::clone(&ring);
            std::thread::spawn(move || read(&ring, 1).wait().unwrap().len())
        })
        .collect();
    for _ in 0..8 {
        writer.write_all(&[1; BLOCK]).unwrap();
        std::thread::yield_now();
    }
    waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), BLOCK));
    assert!(ring.close());
}

/// When a thread ends, the kernel cancels what the thread has in flight. The request continues.
#[test]
fn a_request_outlives_the_thread_that_submitted_it() {
    let Some((ring, mut writer)) = over_pipe(&depth(4)) else { return };
    let theirs = Arc::clone(&ring);
    let future = std::thread::spawn(move || read(&theirs, 1)).join().unwrap();
    let theirs = Arc::clone(&ring);
    std::thread::spawn(move || drop(read(&theirs, 1))).join().unwrap();
    writer.write_all(&[3; 2 * BLOCK]).unwrap();
    assert_eq!(future.wait().unwrap().as_slice(), [3; BLOCK]);
    assert!(ring.close());
}

/// All ways of waiting and not waiting, on one shallow ring.
#[test]
fn many_threads_share_a_ring() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    file.set_len(1 << 20).unwrap();
    let Some(ring) = over(&file, &depth(3)) else { return };
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let ring = &ring;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed);
                let mut held = Vec::new();
                for _ in 0..400 {
                    let mut future = match rng.u8(..8) {
                        0 => submit(ring, Io::Flush, SubmitMode::here()),
                        _ => read(ring, rng.usize(1..6)),
                    };
                    match rng.u8(..6) {
                        0 => drop(future),
                        1 => held.push(future),
                        2 => drop(future.wait().unwrap()),
                        3 => drop(block_on(future).unwrap()),
                        4 => {
                            let (waker, woken) = foreign_waker();
                            while poll(&mut future, &waker).is_pending() {
                                woken.recv_timeout(Duration::from_secs(20)).unwrap();
                            }
                        }
                        _ => {
                            if poll(&mut future, Waker::noop()).is_pending() {
                                held.push(future);
                            }
                        }
                    }
                    if held.len() > 4 {
                        let future = held.swap_remove(rng.usize(..held.len()));
                        drop(block_on(future).unwrap());
                    }
                }
                // The requests still held end without being waited for.
            });
        }
    });
    assert!(ring.close());
}

#[test]
fn requests_fail_at_once_when_too_many_wait() {
    let options = FileOptions { waiting_max: 2, ..depth(1) };
    let Some((ring, mut writer)) = over_pipe(&options) else { return };
    let taken: Vec<_> = (0..3).map(|_| read(&ring, 1)).collect();
    let failure = read(&ring, 1).wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Busy, BLOCK));
    assert!(failure.error.to_string().contains("2 pieces wait already"), "{failure}");
    writer.write_all(&[1; 3 * BLOCK]).unwrap();
    taken.into_iter().for_each(|future| drop(future.wait().unwrap()));
    let again = read(&ring, 1);
    writer.write_all(&[1; BLOCK]).unwrap();
    again.wait().unwrap();
    assert!(ring.close());
}

#[test]
fn requests_that_have_waited_for_too_long_fail() {
    let options = FileOptions { waiting_age_max: Duration::from_millis(1), ..depth(1) };
    let Some((ring, mut writer)) = over_pipe(&options) else { return };
    let (first, aged) = (read(&ring, 1), read(&ring, 1));
    std::thread::sleep(Duration::from_millis(10));
    let third = read(&ring, 1);
    assert_eq!(aged.wait().unwrap_err().error.kind(), ErrorKind::Busy);
    writer.write_all(&[1; BLOCK]).unwrap();
    first.wait().unwrap();
    // The third may have aged as well; it ends in either case.
    writer.write_all(&[1; BLOCK]).unwrap();
    let _ = third.wait();
    assert!(ring.close());
}

#[test]
fn unplugging_submits_all_requests_to_the_kernel_at_once() {
    let Some((ring, mut writer)) = over_pipe(&depth(8)) else { return };
    writer.write_all(&[7; 3 * BLOCK]).unwrap();
    let left = || rustix::io::ioctl_fionread(&writer).unwrap();
    block_on(async {
        let mut reads = plugged(|| {
            let mut reads: Vec<_> = (0..3).map(|_| read(&ring, 1)).collect();
            assert!(reads.iter_mut().all(|read| poll(read, Waker::noop()).is_pending()));
            plugged(|| ()); // a nested plug submits nothing when it ends
            // A read that the kernel knew of would have taken its bytes.
            assert_eq!(left(), 3 * BLOCK as u64);
            reads
        });
        assert_eq!(left(), 0);
        for read in reads.drain(..) {
            assert_eq!(read.await.unwrap().as_slice(), [7; BLOCK]);
        }
    });
    assert!(ring.close());
}

#[test]
fn a_thread_that_waits_inside_a_plug_submits_the_held_requests() {
    let Some((ring, mut writer)) = over_pipe(&depth(8)) else { return };
    writer.write_all(&[7; 2 * BLOCK]).unwrap();
    let read_one = || block_on(async { read(&ring, 1).await });
    assert_eq!(plugged(read_one).unwrap().len(), BLOCK);
    // A panic unplugs too.
    let caught = std::panic::catch_unwind(|| {
        block_on(async {
            plugged(|| -> () {
                std::mem::forget(read(&ring, 1));
                panic!("on purpose");
            })
        })
    });
    assert!(caught.is_err());
    assert_eq!(rustix::io::ioctl_fionread(&writer).unwrap(), 0);
    assert!(ring.close());
}
