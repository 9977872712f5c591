//! A hosted ring under wrong use, unfortunate timing and concurrency.
//!
//! Reads of a pipe stay in the kernel until the test writes to it.

use std::fs::File;
use std::future::Future;
use std::io::{PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use io_uring::{cqueue, opcode, squeue};

use super::kernel::{Kernel, Wait};
use super::linux::{Guest, Linux};
use super::member::Member;
use super::pipe::{self, BLOCK, foreign_waker, poll, read_of, request};
use super::wire::{AnyWire, FileWire, Link, Wire};
use super::{HostedRing, RingOptions, host, host_with};
use crate::buffer::{BufferPool, IoBuffer};
use crate::error::ErrorKind;
use crate::file::uring::lead::Ring;
use crate::file::uring::submit_mode::SubmitMode;
use crate::file_options::FileOptions;
use crate::io::{Io, IoFuture, IoResult};
use crate::park::block_on;
use crate::transfer::ledger::Ledger;
use crate::transfer::{Piece, Pieces};

const LONG: Duration = Duration::from_secs(20);

/// A ring that this thread hosts. `None` where the kernel refuses one.
fn hosted() -> Option<HostedRing> {
    host().inspect_err(|why| println!("hosted rings are not tested: {why}")).ok()
}

/// A device over a pipe, and the pipe's other end.
fn pipe(options: &FileOptions) -> (Arc<Member>, PipeWriter) {
    let (file, writer) = pipe::pipe();
    (Arc::new(Member::new(Arc::new(FileWire::default()), &file, options)), writer)
}

fn plain() -> (Arc<Member>, PipeWriter) {
    pipe(&FileOptions::default())
}

fn try_read(member: &Member, blocks: usize) -> Option<IoFuture> {
    let (future, pieces) = request(read_of(blocks));
    member.submit(pieces).is_ok().then_some(future)
}

fn read(member: &Member) -> IoFuture {
    try_read(member, 1).expect("this thread hosts a ring")
}

fn bytes_in(writer: &PipeWriter) -> u64 {
    rustix::io::ioctl_fionread(writer).unwrap()
}

#[test]
fn the_kernel_is_told_once_a_turn_of_what_eight_devices_are_to_do() {
    let Some(ring) = hosted() else { return };
    let (members, mut writers): (Vec<_>, Vec<_>) = (0..8).map(|_| plain()).unzip();
    writers.iter_mut().for_each(|writer| writer.write_all(&[7; BLOCK]).unwrap());
    let mut reads: Vec<_> = members.iter().map(|member| read(member)).collect();
    // A read that the kernel knew of would have taken its bytes.
    assert!(writers.iter().all(|writer| bytes_in(writer) == BLOCK as u64));
    assert_eq!((ring.stats().enters, ring.stats().pending_pieces), (0, 8));
    assert_eq!(ring.turn(None), 8);
    assert_eq!((ring.stats().enters, ring.stats().sleeps, ring.stats().ended_pieces), (1, 1, 8));
    for read in &mut reads {
        let Poll::Ready(result) = poll(read, Waker::noop()) else { panic!("it has ended") };
        assert_eq!(result.unwrap().as_slice(), [7; BLOCK]);
    }
    ring.submit();
    assert_eq!(ring.stats().enters, 1, "there was nothing to tell");
}

#[test]
fn one_sleep_waits_for_all_devices() {
    let Some(ring) = hosted() else { return };
    let (members, mut writers): (Vec<_>, Vec<_>) = (0..8).map(|_| plain()).unzip();
    let mut reads: Vec<_> = members.iter().map(|member| read(member)).collect();
    ring.submit();
    // A completion of any device ends the sleep.
    for at in [5, 0, 7] {
        let mut writer = writers[at].try_clone().unwrap();
        let before = ring.stats();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            writer.write_all(&[1; BLOCK]).unwrap();
        });
        // The kernel may report an interruption as the end of a sleep.
        let ended = std::iter::repeat_with(|| ring.turn(None)).find(|ended| *ended > 0);
        other.join().unwrap();
        let sleeps = ring.stats().sleeps - before.sleeps;
        assert!(ended == Some(1) && sleeps <= 2, "{sleeps} sleeps");
        assert!(poll(&mut reads[at], Waker::noop()).is_ready());
    }
    writers.iter_mut().for_each(|writer| writer.write_all(&[1; BLOCK]).unwrap());
    for at in [1, 2, 3, 4, 6] {
        assert!(block_on(&mut reads[at]).is_ok());
    }
}

#[test]
fn a_turn_ends_in_time_and_when_it_is_called_off() {
    let Some(ring) = hosted() else { return };
    let (member, _writer) = plain();
    let _read = read(&member);
    let begin = Instant::now();
    assert_eq!(ring.turn(Some(Duration::from_millis(30))), 0);
    assert!(begin.elapsed() >= Duration::from_millis(20) && begin.elapsed() < LONG);
    for _ in 0..200 {
        let waker = ring.waker();
        let other = std::thread::spawn(move || waker.wake());
        ring.turn(Some(LONG));
        other.join().unwrap();
    }
    assert!(begin.elapsed() < LONG, "a call was lost");
    // A call also ends the next sleep.
    let waker = ring.waker();
    std::thread::spawn(move || waker.wake()).join().unwrap();
    ring.turn(Some(LONG));
    ring.waker().wake();
    ring.turn(Some(Duration::from_millis(1)));
    assert!(begin.elapsed() < LONG);
}

#[test]
fn a_thread_hosts_one_ring_at_a_time() {
    let Some(ring) = hosted() else { return };
    assert_eq!(host().unwrap_err().kind(), ErrorKind::InUse);
    drop(ring);
    drop(host().unwrap());
    let none = host_with(&RingOptions { in_flight_max: 0, ..RingOptions::default() });
    assert!(none.unwrap_err().to_string().contains("in_flight_max of 0"));
    let (member, _writer) = plain();
    assert!(try_read(&member, 1).is_none(), "it hosts none");
}

#[test]
fn the_host_completes_requests_whose_futures_were_dropped() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    drop(read(&member));
    let mut polled = read(&member);
    assert!(poll(&mut polled, Waker::noop()).is_pending());
    drop(polled);
    writer.write_all(&[1; 2 * BLOCK]).unwrap();
    while ring.stats().pending_pieces > 0 {
        ring.turn(None);
    }
    assert_eq!(bytes_in(&writer), 0);
}

#[test]
fn the_host_wakes_waiters_on_other_threads() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    for foreign in [false, true] {
        let mut future = read(&member);
        let waiter = std::thread::spawn(move || {
            let (waker, woken) = foreign_waker();
            if !foreign {
                return future.wait().unwrap().len();
            }
            while poll(&mut future, &waker).is_pending() {
                woken.recv_timeout(LONG).expect("the waiter was not woken");
            }
            BLOCK
        });
        writer.write_all(&[1; BLOCK]).unwrap();
        while ring.turn(None) == 0 {}
        assert_eq!(waiter.join().unwrap(), BLOCK);
    }
}

/// Another thread wakes a future while the host sleeps for its devices.
#[test]
fn a_host_that_sleeps_is_woken_by_others() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    let mut stuck = read(&member);
    for _ in 0..200 {
        let (mut other, completer) = IoFuture::pending();
        let completing = std::thread::spawn(move || completer.complete(Ok(IoBuffer::empty())));
        ring.block_on(std::future::poll_fn(|context| {
            assert!(Pin::new(&mut stuck).poll(context).is_pending());
            Pin::new(&mut other).poll(context)
        }))
        .unwrap();
        completing.join().unwrap();
    }
    writer.write_all(&[7; BLOCK]).unwrap();
    assert_eq!(stuck.wait().unwrap().as_slice(), [7; BLOCK]);
}

/// Checks that all requests in flight end when their host goes in the given way.
fn host_that_goes(go: impl FnOnce(HostedRing) + Send + 'static) {
    let (member, mut writer) = pipe(&FileOptions { queue_depth: 2, ..FileOptions::default() });
    let (sender, receiver) = mpsc::channel();
    let theirs = Arc::clone(&member);
    let thread = std::thread::spawn(move || {
        let Some(ring) = hosted() else { return };
        // Requests known to the kernel, not submitted yet, and waiting for a slot; one polled, one dropped.
        let mut polled = read(&theirs);
        let (waker, woken) = foreign_waker();
        assert!(poll(&mut polled, &waker).is_pending());
        ring.submit();
        let others = [read(&theirs), read(&theirs), read(&theirs)];
        drop(read(&theirs));
        sender.send((polled, woken, others)).unwrap();
        go(ring);
    });
    let Ok((mut polled, woken, others)) = receiver.recv() else { return };
    let _ = thread.join();
    writer.write_all(&[3; 5 * BLOCK]).unwrap();
    woken.recv_timeout(LONG).expect("the read was not served");
    assert!(poll(&mut polled, Waker::noop()).is_ready());
    for other in others {
        assert_eq!(other.wait().unwrap().as_slice(), [3; BLOCK]);
    }
    assert!(member.leave());
    assert_eq!(bytes_in(&writer), 0, "what was dropped went on");
}

#[test]
fn what_a_host_leaves_behind_is_seen_to() {
    host_that_goes(drop);
    host_that_goes(|_| panic!("on purpose"));
    // Without the guard's drop, the end of the thread hands the requests on.
    host_that_goes(std::mem::forget);
    host_that_goes(|ring| {
        ring.block_on(async { ring.submit() });
        drop(ring);
    });
}

#[test]
fn a_host_with_nothing_under_way_leaves_nothing_behind() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    writer.write_all(&[1; BLOCK]).unwrap();
    read(&member).wait().unwrap();
    let weak = Arc::downgrade(ring.hosted());
    drop(ring);
    assert_eq!(weak.strong_count(), 0);
    assert!(member.leave());
}

/// The host neither sleeps in its ring nor checks it.
#[test]
fn a_device_leaves_a_ring_whose_host_is_busy() {
    let Some(ring) = hosted() else { return };
    let ((member, mut writer), (other, mut others)) = (plain(), plain());
    let mut reads = [read(&member), read(&member), read(&other)];
    ring.submit();
    let late = read(&member);
    let leaving = std::thread::spawn({
        let member = Arc::clone(&member);
        move || member.leave()
    });
    others.write_all(&[2; BLOCK]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    assert!(!leaving.is_finished(), "requests of it are under way");
    writer.write_all(&[1; 3 * BLOCK]).unwrap();
    assert!(leaving.join().unwrap());
    for read in &mut reads[..2] {
        assert!(poll(read, Waker::noop()).is_ready());
    }
    drop(late);
    // The visitor may have fetched the other device's completion; the host still gets it.
    assert_eq!(block_on(&mut reads[2]).unwrap().as_slice(), [2; BLOCK]);
}

#[test]
fn a_device_leaves_with_what_the_host_has_not_told() {
    let Some(_ring) = hosted() else { return };
    let (member, mut writer) = plain();
    writer.write_all(&[1; BLOCK]).unwrap();
    let mut untold = read(&member);
    let leaving = std::thread::spawn(move || member.leave());
    assert!(leaving.join().unwrap());
    assert!(poll(&mut untold, Waker::noop()).is_ready());
}

/// The same while the host sleeps again and again for a device of its own.
#[test]
fn a_device_leaves_a_ring_whose_host_sleeps() {
    let Some(ring) = hosted() else { return };
    let (member, writer) = plain();
    for _ in 0..100 {
        let (leaves, mut theirs) = plain();
        let (one, mine) = (read(&leaves), read(&member));
        ring.submit();
        let leaving = std::thread::spawn(move || leaves.leave());
        let mut mine_too = writer.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            theirs.write_all(&[1; BLOCK]).unwrap();
            mine_too.write_all(&[2; BLOCK]).unwrap();
        });
        // The leaving thread may fetch it just before this thread sleeps for it.
        assert_eq!(block_on(mine).unwrap().as_slice(), [2; BLOCK]);
        writing.join().unwrap();
        assert!(leaving.join().unwrap());
        drop(one);
    }
}

#[test]
fn a_host_drops_its_device() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    let future = read(&member);
    let writing = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        writer.write_all(&[1; BLOCK]).unwrap();
    });
    assert!(member.leave());
    assert!(future.wait().is_ok());
    assert_eq!(ring.stats().pending_pieces, 0);
    writing.join().unwrap();
}

#[test]
fn a_ring_that_breaks_fails_its_requests_and_keeps_their_memory() {
    let Some(ring) = hosted() else { return };
    let (member, _writer) = pipe(&FileOptions { queue_depth: 2, ..FileOptions::default() });
    let (stuck, waiting) = (try_read(&member, 2).unwrap(), try_read(&member, 2).unwrap());
    ring.submit();
    let waiter = std::thread::spawn({
        let elsewhere = try_read(&member, 1).unwrap();
        move || elsewhere.wait()
    });
    ring.hosted().give_up();
    let failure = stuck.wait().unwrap_err();
    assert_eq!(failure.error.kind(), ErrorKind::Gone, "{failure}");
    assert!(failure.buffer.is_empty(), "the kernel may still have its memory");
    let failure = waiting.wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, 2 * BLOCK));
    assert_eq!(waiter.join().unwrap().unwrap_err().error.kind(), ErrorKind::Gone);
    assert!(try_read(&member, 1).is_none(), "the device's own rings serve");
    // A broken ring can still sleep and be called.
    let begin = Instant::now();
    assert_eq!(ring.turn(Some(Duration::from_millis(1))), 0);
    let waker = ring.waker();
    let other = std::thread::spawn(move || waker.wake());
    ring.turn(Some(LONG));
    assert!(begin.elapsed() < LONG, "it was not called");
    other.join().unwrap();
    let (mut other, completer) = IoFuture::pending();
    let completing = std::thread::spawn(move || completer.complete(Ok(IoBuffer::empty())));
    ring.block_on(&mut other).unwrap();
    completing.join().unwrap();
    assert!(!member.leave(), "the kernel may still have the file");
}

/// Waits, on the thread that completes one request, for another that ended together with it.
struct Waits(Mutex<Option<IoFuture>>, Mutex<Option<IoResult>>);

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        let other = self.0.lock().unwrap().take();
        *self.1.lock().unwrap() = other.map(IoFuture::wait);
    }
}

#[test]
fn a_waker_may_wait_for_what_ended_with_its_own() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    writer.write_all(&[1; 2 * BLOCK]).unwrap();
    let (mut first, second) = (read(&member), read(&member));
    let waits = Arc::new(Waits(Mutex::new(Some(second)), Mutex::default()));
    assert!(poll(&mut first, &Waker::from(Arc::clone(&waits))).is_pending());
    ring.turn(None);
    assert!(waits.1.lock().unwrap().take().unwrap().is_ok());
    assert!(poll(&mut first, Waker::noop()).is_ready());
}

#[test]
fn a_ring_may_be_hosted_and_given_up_inside_block_on() {
    let (member, mut writer) = plain();
    writer.write_all(&[1; BLOCK]).unwrap();
    let left = block_on(async {
        let ring = hosted()?;
        read(&member).await.unwrap();
        let left = read(&member);
        drop(ring);
        Some(left)
    });
    let Some(left) = left else { return };
    writer.write_all(&[2; BLOCK]).unwrap();
    assert_eq!(left.wait().unwrap().as_slice(), [2; BLOCK]);
}

/// Without hosting, the thread would have fetched the completions of the shared ring itself.
#[test]
fn what_was_noted_before_is_left_to_others() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let file = Arc::new(File::from(OwnedFd::from(reader)));
    let Ok(shared) = Ring::new(&Arc::<FileWire>::default(), &file, &FileOptions::default()) else {
        return;
    };
    let (mut future, completer) = IoFuture::pending();
    let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(BLOCK) };
    let pieces = Pieces::new(io, completer, 4096, &Arc::new(Ledger::default()));
    shared.submit(pieces, SubmitMode::Caller);
    let (mut writing, mut ring) = (None, None);
    block_on(std::future::poll_fn(|context| {
        let polled = poll(&mut future, context.waker());
        if polled.is_pending() && ring.is_none() {
            ring = hosted();
            let mut writer = writer.try_clone().unwrap();
            writing = Some(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                writer.write_all(&[1; BLOCK]).unwrap();
            }));
        }
        polled
    }))
    .unwrap();
    writing.unwrap().join().unwrap();
    writer.flush().unwrap();
    assert!(shared.close());
}

#[test]
fn a_turn_tells_the_kernel_even_if_something_has_ended_already() {
    let Some(ring) = hosted() else { return };
    let (members, mut writers): (Vec<_>, Vec<_>) = (0..2).map(|_| plain()).unzip();
    writers.iter_mut().for_each(|writer| writer.write_all(&[7; BLOCK]).unwrap());
    let _first = read(&members[0]);
    ring.submit();
    let _second = read(&members[1]);
    assert_eq!(ring.turn(None), 1);
    assert_eq!(bytes_in(&writers[1]), 0);
}

#[test]
fn a_device_that_left_leaves_nothing_in_the_ring() {
    let Some(ring) = hosted() else { return };
    // More devices than the kernel's table of files has entries.
    for _ in 0..80 {
        let (member, mut writer) = plain();
        writer.write_all(&[1; BLOCK]).unwrap();
        read(&member).wait().unwrap();
        assert!(member.registered_file() && member.leave());
        drop(member);
        // The pipe's other end is closed.
        let closed = writer.write_all(&[1]).unwrap_err();
        assert_eq!(closed.kind(), std::io::ErrorKind::BrokenPipe);
    }
    assert_eq!(ring.stats().pending_pieces, 0);
}

/// Commands to a namespace, sent to a file that takes none.
#[test]
fn large_entries_travel_through_the_same_ring_as_small_ones() {
    let Some(ring) = hosted() else { return };
    let file = Arc::new(File::open("/dev/zero").unwrap());
    let commands = Member::new(Arc::new(Large), &file, &FileOptions::default());
    let (member, mut writer) = plain();
    writer.write_all(&[1; BLOCK]).unwrap();
    let (mut small, Some(large)) = (read(&member), try_read(&commands, 1)) else {
        return println!("large entries are not tested: the kernel has none");
    };
    let failure = large.wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Io, BLOCK));
    while poll(&mut small, Waker::noop()).is_pending() {
        ring.turn(None);
    }
    assert!(commands.leave() && member.leave());
}

/// Large entries, as a passthrough device uses them.
struct Large;

impl Wire for Large {
    type Submission = squeue::Entry128;
    type Completion = cqueue::Entry32;
    const NEEDED: &'static [u8] = &[opcode::UringCmd80::CODE];

    fn describe(&self, _: &mut Piece, link: Link<'_>) -> squeue::Entry128 {
        let command = opcode::UringCmd80::new(link.file, 0).build();
        command.flags(link.flags).user_data(link.slot)
    }

    fn outcome(&self, _: &Piece, result: i32) -> std::io::Result<usize> {
        usize::try_from(result).map_err(|_| std::io::Error::from_raw_os_error(-result))
    }
}

#[test]
fn a_ring_of_small_entries_takes_no_commands() {
    let Ok((kernel, mut tables)) = Linux::with_small_entries(16) else { return };
    let guest = |wire: Arc<dyn AnyWire>| {
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let (fixed_pieces, broken) = Default::default();
        Arc::new(Guest { wire, file, registered_buffers: false, fixed_pieces, broken })
    };
    assert!(kernel.admit(&mut tables, &guest(Arc::new(Large))).is_none());
    assert!(kernel.admit(&mut tables, &guest(Arc::new(FileWire::default()))).is_some());
}

/// A read into two buffers of a pool, in one piece.
fn list_of(pool: &BufferPool) -> (IoFuture, Pieces) {
    let buffer = IoBuffer::list(vec![pool.take(BLOCK), pool.take(BLOCK)]);
    let (future, completer) = IoFuture::pending();
    let io = Io::Read { offset: 0, buffer };
    (future, Pieces::new(io, completer, 1 << 20, &Arc::default()))
}

/// Addresses of the next two buffers of a pool.
fn addresses(pool: &BufferPool) -> [usize; 2] {
    let next = [pool.take(BLOCK), pool.take(BLOCK)];
    let mut addresses = next.map(|buffer| buffer.as_slice().as_ptr().addr());
    addresses.sort_unstable();
    addresses
}

#[test]
fn a_list_whose_future_was_dropped_keeps_its_memory_until_the_kernel_is_done() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    let pool = BufferPool::new();
    let before = addresses(&pool);
    let (future, pieces) = list_of(&pool);
    assert!(member.submit(pieces).is_ok());
    ring.submit();
    drop(future);
    assert!(addresses(&pool).iter().all(|address| !before.contains(address)));
    writer.write_all(&[7; 2 * BLOCK]).unwrap();
    assert_eq!(ring.turn(None), 1, "one operation for both buffers");
    let mut all = [pool.take(BLOCK), pool.take(BLOCK), pool.take(BLOCK), pool.take(BLOCK)];
    all.sort_by_key(|buffer| !before.contains(&buffer.as_slice().as_ptr().addr()));
    assert!(all[..2].iter().all(|buffer| buffer.as_slice() == [7; BLOCK]), "they are back");
    assert!(member.leave());
}

#[test]
fn rings_of_either_size_read_into_lists() {
    for small in [true, false] {
        let ring = if small { Linux::with_small_entries(16) } else { Linux::new(16, false) };
        let Ok((kernel, mut tables)) = ring else { return };
        let (file, mut writer) = pipe::pipe();
        writer.write_all(&[5; 2 * BLOCK]).unwrap();
        let (fixed_pieces, broken) = Default::default();
        let wire: Arc<dyn AnyWire> = Arc::new(FileWire::default());
        let guest = Guest { wire, file, registered_buffers: false, fixed_pieces, broken };
        let mut target = kernel.admit(&mut tables, &Arc::new(guest)).unwrap();
        let (future, mut pieces) = list_of(&BufferPool::new());
        let (mut piece, mut range) = (pieces.next().unwrap(), Default::default());
        assert!(pieces.next().is_none());
        drop(pieces);
        assert!(kernel.push(&mut tables, &mut target, (3, &mut piece, &mut range)));
        kernel.enter(Wait::Completion(None));
        let ended = kernel.next(&mut tables);
        assert_eq!(ended, Some((3, 8192)), "small: {small}");
        piece.settle(Ok(2 * BLOCK));
        drop(piece);
        let read = future.wait().unwrap().into_list();
        assert!(read.len() == 2 && read.iter().all(|it| it.as_slice() == [5; BLOCK]));
    }
}

#[test]
fn what_block_on_leaves_untold_is_told() {
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = plain();
    writer.write_all(&[1; BLOCK]).unwrap();
    ring.block_on(async { drop(read(&member)) });
    assert_eq!(bytes_in(&writer), 0, "it was kept back");
}

#[test]
fn devices_share_a_narrow_ring() {
    let options = RingOptions { in_flight_max: 2, ..RingOptions::default() };
    let Ok(ring) = host_with(&options) else { return };
    let (members, mut writers): (Vec<_>, Vec<_>) = (0..3).map(|_| plain()).unzip();
    writers.iter_mut().for_each(|writer| writer.write_all(&[1; 8 * BLOCK]).unwrap());
    let reads: Vec<_> = members.iter().map(|member| try_read(member, 8).unwrap()).collect();
    assert_eq!(ring.turn(None), 2);
    // Pieces of a device that comes late do not wait behind all pieces of the ones before.
    let taken: Vec<u64> = writers.iter().map(|it| 8 - bytes_in(it) / BLOCK as u64).collect();
    assert_eq!(taken, [2, 0, 0]);
    (0..3).for_each(|_| assert!(ring.turn(None) > 0));
    let taken: Vec<u64> = writers.iter().map(|it| 8 - bytes_in(it) / BLOCK as u64).collect();
    assert!(taken.iter().all(|&taken| (2..=4).contains(&taken)), "{taken:?}");
    for read in reads {
        assert_eq!(read.wait().unwrap().len(), 8 * BLOCK);
    }
}

#[test]
fn bounds_of_a_device_hold_in_a_hosted_ring() {
    let options = FileOptions { queue_depth: 1, waiting_max: 2, ..FileOptions::default() };
    let options = FileOptions { waiting_age_max: Duration::from_millis(5), ..options };
    let Some(ring) = hosted() else { return };
    let (member, mut writer) = pipe(&options);
    let (first, aged, aged_too) = (read(&member), read(&member), read(&member));
    let failure = read(&member).wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Busy, BLOCK));
    std::thread::sleep(Duration::from_millis(10));
    writer.write_all(&[1; BLOCK]).unwrap();
    first.wait().unwrap();
    for aged in [aged, aged_too] {
        assert_eq!(aged.wait().unwrap_err().error.kind(), ErrorKind::Busy);
    }
    assert_eq!(ring.stats().pending_pieces, 0);
}
