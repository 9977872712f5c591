//! The table of registered buffers, and requests whose entry is wrong or refused.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use io_uring::IoUring;

use super::*;
use crate::buffer::{BufferPool, IoBuffer};
use crate::file::uring::lead::Ring;
use crate::file::uring::submit_mode::SubmitMode;
use crate::file_options::FileOptions;
use crate::io::{Io, IoFuture};
use crate::ring::wire::FileWire;
use crate::transfer::Pieces;
use crate::transfer::ledger::Ledger;

const BLOCK: usize = 4096;
const EINVAL: i32 = 22;

/// A ring with a table. `None` where the kernel refuses one.
fn table() -> Option<(IoUring, FixedBuffers)> {
    let ring = IoUring::new(8).inspect_err(|why| println!("io_uring is not tested: {why}")).ok()?;
    let fixed = FixedBuffers::new(&ring.submitter(), true);
    if !fixed.granted().all {
        println!("registered buffers are not tested: the kernel has none");
        return None;
    }
    Some((ring, fixed))
}

/// A buffer that `pool` has kept before.
fn known_to(pool: &BufferPool, blocks: usize) -> IoBuffer {
    drop(pool.take(blocks * BLOCK));
    pool.take(blocks * BLOCK)
}

/// A request that is never carried out, in pieces of a block.
fn pieces(buffer: IoBuffer) -> (IoFuture, Vec<Piece>) {
    let (future, completer) = IoFuture::pending();
    let io = Io::Read { offset: 0, buffer };
    let pieces = Pieces::new(io, completer, 4096, &Arc::new(Ledger::default()));
    (future, pieces.collect())
}

fn tag(piece: &Piece) -> Tag {
    piece.registrable().unwrap().tag
}

#[test]
fn a_buffer_is_registered_once() {
    let Some((ring, mut fixed)) = table() else { return };
    let pool = BufferPool::new();
    let (future, mut pieces) = pieces(known_to(&pool, 3));
    let entry = u16::try_from(tag(&pieces[0]).index()).unwrap();
    for piece in &mut pieces {
        // The memory of all pieces is one buffer.
        assert_eq!(fixed.entry(&ring.submitter(), piece), Some(entry));
    }
    assert_eq!(fixed.granted(), BufferGrant { all: true, pieces: 3 });
    assert_eq!(fixed.known.iter().flatten().count(), 1);
    drop((pieces, future));
    let (_future, mut young) = self::pieces(IoBuffer::zeroed(BLOCK));
    assert_eq!(fixed.entry(&ring.submitter(), &mut young[0]), None, "it belongs to no pool");
}

#[test]
fn an_entry_for_memory_that_is_gone_is_made_anew() {
    let Some((ring, mut fixed)) = table() else { return };
    // Makes sure that there was another buffer before.
    let _first = known_to(&BufferPool::new(), 1);
    let (_future, mut pieces) = pieces(known_to(&BufferPool::new(), 1));
    let tag = tag(&pieces[0]);
    fixed.known[tag.index()] = Some(tag.earlier());
    assert!(fixed.entry(&ring.submitter(), &mut pieces[0]).is_some());
    assert_eq!(fixed.known[tag.index()], Some(tag));
}

#[test]
fn the_kernel_lets_go_of_what_is_gone() {
    let Some((ring, mut fixed)) = table() else { return };
    let pool = BufferPool::new();
    drop((0..4).map(|_| pool.take(BLOCK)).collect::<Vec<_>>());
    let mut requests: Vec<_> = (0..4).map(|_| pieces(pool.take(BLOCK))).collect();
    for (_, pieces) in &mut requests {
        assert!(fixed.entry(&ring.submitter(), &mut pieces[0]).is_some());
    }
    assert_eq!(fixed.known.iter().flatten().count(), 4);
    drop((requests, pool));
    let (_future, mut pieces) = pieces(known_to(&BufferPool::new(), 1));
    fixed.entry(&ring.submitter(), &mut pieces[0]).unwrap();
    let known: Vec<Tag> = fixed.known.iter().flatten().copied().collect();
    assert_eq!(known, [tag(&pieces[0])], "the four are gone");
}

#[test]
fn a_full_table_keeps_what_it_has() {
    let Some((ring, mut fixed)) = table() else { return };
    let pool = BufferPool::new();
    let (_old_future, mut old) = pieces(known_to(&pool, 1));
    let entry = fixed.entry(&ring.submitter(), &mut old[0]);
    fixed.full = true;
    let (_new_future, mut new) = pieces(known_to(&pool, 1));
    assert_eq!(fixed.entry(&ring.submitter(), &mut new[0]), None);
    assert_eq!(fixed.entry(&ring.submitter(), &mut old[0]), entry);
    assert_eq!(fixed.granted(), BufferGrant { all: false, pieces: 2 });
}

#[test]
fn an_allowance_is_kept_and_given_back() {
    let Some((ring, mut fixed)) = table() else { return };
    fixed.allowance = Allowance { most: Some(HELD.load(Ordering::Relaxed) + (1 << 30)), held: 0 };
    let pool = BufferPool::new();
    let (future, mut first) = pieces(known_to(&pool, 3));
    let at = tag(&first[0]).index();
    assert!(fixed.entry(&ring.submitter(), &mut first[0]).is_some());
    assert_eq!(fixed.allowance.held, 3 * BLOCK);
    fixed.allowance.most = Some(0);
    let (_future, mut second) = pieces(known_to(&BufferPool::new(), 1));
    assert_eq!(fixed.entry(&ring.submitter(), &mut second[0]), None);
    assert!(fixed.entry(&ring.submitter(), &mut first[0]).is_some(), "it is there");
    assert!(!fixed.granted().all);
    drop((future, first, pool));
    fixed.sweep(&ring.submitter());
    assert_eq!((fixed.allowance.held, fixed.known[at]), (0, None));
}

#[test]
fn a_long_buffer_leaves_room_for_short_ones() {
    let Some((ring, mut fixed)) = table() else { return };
    // Enough for a long buffer, while half of it is not, whatever other tests hold.
    let room = HELD.load(Ordering::Relaxed) + (256 << 10);
    fixed.allowance = Allowance { most: Some(room), held: 0 };
    let pool = BufferPool::new();
    let (_long_future, mut long) = pieces(known_to(&pool, 33));
    assert_eq!(fixed.entry(&ring.submitter(), &mut long[0]), None);
    assert!(!fixed.granted().all, "and that is said");
    let (_short_future, mut short) = pieces(known_to(&pool, 1));
    assert!(fixed.entry(&ring.submitter(), &mut short[0]).is_some());
}

#[test]
fn a_ring_without_a_table_registers_nothing() {
    let Ok(ring) = IoUring::new(8) else { return };
    let mut fixed = FixedBuffers::new(&ring.submitter(), false);
    let (_future, mut pieces) = pieces(known_to(&BufferPool::new(), 1));
    assert_eq!(fixed.entry(&ring.submitter(), &mut pieces[0]), None);
    assert_eq!(fixed.granted(), BufferGrant { all: false, pieces: 0 });
    assert!(!fixed.is_refused(&pieces[0], -EINVAL));
    // The kernel refuses a buffer for a table that it does not have.
    (fixed.known, fixed.bytes) = (vec![None; ENTRIES].into(), vec![0; ENTRIES].into());
    assert_eq!(fixed.entry(&ring.submitter(), &mut pieces[0]), None);
    assert!(fixed.full);
}

#[test]
fn only_what_named_an_entry_can_be_refused_for_it() {
    const EIO: i32 = 5;
    let Some((ring, mut fixed)) = table() else { return };
    let pool = BufferPool::new();
    let (_future, mut known) = pieces(known_to(&pool, 1));
    let (_other_future, mut unknown) = pieces(IoBuffer::zeroed(BLOCK));
    fixed.entry(&ring.submitter(), &mut known[0]).unwrap();
    assert_eq!(fixed.entry(&ring.submitter(), &mut unknown[0]), None);
    assert!(!fixed.is_refused(&unknown[0], -EINVAL));
    assert!(!fixed.is_refused(&known[0], -EIO));
    assert!(!fixed.is_refused(&known[0], EINVAL), "that many bytes");
    assert!(fixed.is_refused(&known[0], -EINVAL));
    assert!(fixed.is_refused(&known[0], -EINVAL), "so may others that are under way");
    assert_eq!(fixed.entry(&ring.submitter(), &mut known[0]), None);
    assert!(!fixed.is_refused(&known[0], -EINVAL), "without an entry it is the request");
    assert!(!fixed.granted().all);
}

/// A ring over a pipe, and the pipe's other end.
fn over_pipe() -> Option<(Arc<Ring<FileWire>>, std::io::PipeWriter)> {
    let (reader, writer) = std::io::pipe().unwrap();
    let file = Arc::new(File::from(OwnedFd::from(reader)));
    let ring = Ring::new(&Arc::default(), &file, &FileOptions::default());
    let ring = ring.inspect_err(|why| println!("io_uring is not tested: {why}")).ok()?;
    Some((ring, writer))
}

fn read(ring: &Arc<Ring<FileWire>>, buffer: IoBuffer) -> IoFuture {
    let (future, completer) = IoFuture::pending();
    let io = Io::Read { offset: 0, buffer };
    let pieces = Pieces::new(io, completer, 1 << 20, &Arc::new(Ledger::default()));
    ring.submit(pieces, SubmitMode::here());
    future
}

/// The rest of a short read continues in the same buffer, after the bytes that are there.
#[test]
fn short_reads_go_on_in_a_registered_buffer() {
    let Some((ring, mut writer)) = over_pipe() else { return };
    let pool = BufferPool::new();
    for round in 0..20 {
        let future = read(&ring, known_to(&pool, 5));
        let waiter = std::thread::spawn(move || future.wait().unwrap());
        let mut bytes = vec![0; 5 * BLOCK];
        fastrand::Rng::with_seed(round).fill(&mut bytes);
        for part in [0..BLOCK, BLOCK..2 * BLOCK, 2 * BLOCK..5 * BLOCK] {
            writer.write_all(&bytes[part]).unwrap();
            std::thread::yield_now();
        }
        assert!(waiter.join().unwrap().as_slice() == bytes);
    }
    let granted = ring.fixed_buffers();
    println!("{granted:?}");
    assert!(!granted.all || granted.pieces >= 20);
    assert!(ring.close());
}

/// If the kernel refuses a registered buffer, the request is sent again without it.
#[test]
fn a_request_whose_entry_is_refused_goes_again_without() {
    let Some((ring, mut writer)) = over_pipe() else { return };
    let pool = BufferPool::new();
    drop((0..8).map(|_| pool.take(BLOCK)).collect::<Vec<_>>());
    let futures: Vec<_> = (0..8).map(|_| read(&ring, pool.take(BLOCK))).collect();
    writer.write_all(&[1; 8 * BLOCK]).unwrap();
    drop(futures.into_iter().map(|future| future.wait().unwrap()).collect::<Vec<_>>());
    let granted = ring.fixed_buffers();
    if !granted.all {
        return println!("registered buffers are not tested: the kernel has none");
    }
    assert!(granted.pieces >= 8);
    ring.lose_buffers();
    // All of these name entries that do not exist any more, and are in flight when the first is refused.
    let futures: Vec<_> = (0..8).map(|_| read(&ring, pool.take(BLOCK))).collect();
    for content in 0..8 {
        writer.write_all(&[content; BLOCK]).unwrap();
    }
    let ended = futures.into_iter().map(|future| future.wait().unwrap());
    let mut contents: Vec<u8> = ended
        .map(|buffer| {
            assert!(buffer.as_slice().iter().all(|byte| *byte == buffer.as_slice()[0]));
            buffer.as_slice()[0]
        })
        .collect();
    contents.sort_unstable();
    assert!(contents.into_iter().eq(0..8));
    assert!(!ring.fixed_buffers().all);
    assert!(ring.close());
}
