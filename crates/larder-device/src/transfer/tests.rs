//! Pieces of a request: what their calls report, and the outcome of the request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Piece, PieceStep, Pieces, VECTORS_MAX, Verb};
use crate::buffer::IoBuffer;
use crate::error::ErrorKind;
use crate::io::{Io, IoFuture};
use crate::transfer::ledger::Ledger;

const BLOCK_BYTES: u32 = 4096;
const BLOCK: usize = BLOCK_BYTES as usize;

fn read(blocks: usize, piece_blocks: u32) -> (IoFuture, Pieces, Arc<Ledger>) {
    let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(BLOCK_BYTES));
    let (future, completer) = IoFuture::pending();
    let io = Io::Read { offset: 8192, buffer: IoBuffer::zeroed(blocks * BLOCK) };
    let pieces = Pieces::new(io, completer, piece_blocks * BLOCK_BYTES, &ledger);
    (future, pieces, ledger)
}

#[test]
fn pieces_filled_by_several_threads_make_one_buffer() {
    let (future, pieces, ledger) = read(7, 2);
    let threads: Vec<_> = pieces
        .map(|mut piece| {
            std::thread::spawn(move || {
                let offset = piece.offset();
                let memory = piece.memory();
                memory.fill(u8::try_from(offset / 4096).unwrap());
                let count = memory.len();
                assert_eq!(piece.settle(Ok(count)), PieceStep::End);
            })
        })
        .collect();
    assert_eq!(threads.len(), 4);
    let buffer = future.wait().unwrap();
    let firsts: Vec<u8> = buffer.as_slice().chunks(BLOCK).map(|block| block[0]).collect();
    assert_eq!(firsts, [2, 2, 4, 4, 6, 6, 8]);
    assert_eq!(ledger.read_bytes.load(Ordering::Relaxed), 7 * 4096);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn short_transfers_go_on_at_a_block_boundary() {
    let (future, mut pieces, _) = read(4, 4);
    let mut piece = pieces.next().unwrap();
    drop(pieces);
    assert_eq!(piece.settle(Ok(BLOCK + 100)), PieceStep::Again);
    assert_eq!((piece.offset(), piece.remaining()), (8192 + 4096, 3 * 4096));
    assert_eq!(piece.memory().len(), 3 * BLOCK);
    assert_eq!(piece.settle(Err(io::ErrorKind::Interrupted.into())), PieceStep::Again);
    assert_eq!(piece.settle(Ok(100)), PieceStep::Again);
    assert_eq!(piece.remaining(), 3 * 4096);
    assert_eq!(piece.settle(Ok(3 * BLOCK)), PieceStep::End);
    drop(piece);
    assert_eq!(future.wait().unwrap().len(), 4 * BLOCK);
}

fn read_of_list(sectors: &[usize], piece_bytes: u32) -> (IoFuture, Pieces) {
    let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(512));
    let (future, completer) = IoFuture::pending();
    let buffers = sectors.iter().map(|sectors| IoBuffer::zeroed(sectors * 512)).collect();
    let io = Io::Read { offset: 0, buffer: IoBuffer::list(buffers) };
    (future, Pieces::new(io, completer, piece_bytes, &ledger))
}

/// After a short transfer, the rest of a list is requested from the right place in each buffer.
#[test]
fn a_short_transfer_of_a_list_goes_on_where_it_stopped() {
    let (future, mut pieces) = read_of_list(&[1, 3, 2], 1 << 20);
    let mut piece = pieces.next().unwrap();
    let lengths = |piece: &mut Piece| {
        let slices = piece.slices();
        slices.into_iter().map(|slice| slice.len() / 512).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&mut piece), [1, 3, 2]);
    piece.slices().into_iter().zip(1..).for_each(|(slice, value)| slice.fill(value));
    assert_eq!(
        piece.settle(Ok(1024 + 100)),
        PieceStep::Again,
        "one buffer, and a third of the next"
    );
    assert_eq!((piece.offset(), lengths(&mut piece)), (1024, vec![2, 2]));
    assert_eq!(piece.memory(), [2; 1024]);
    assert_eq!(piece.settle(Ok(1024)), PieceStep::Again);
    assert_eq!((lengths(&mut piece), piece.memory().to_vec()), (vec![2], vec![3; 1024]));
    assert_eq!(piece.settle(Ok(1024)), PieceStep::End);
    drop((piece, pieces));
    let whole = future.wait().unwrap();
    assert_eq!(whole.runs().map(|run| run[0]).collect::<Vec<_>>(), [1, 2, 3]);
}

/// Lists are cut by bytes, by the number of runs that a call may name, and by buffers where a command takes one.
#[test]
fn lists_are_cut_where_a_call_ends() {
    let bytes = |pieces: Pieces| pieces.map(|piece| piece.remaining() / 512).collect::<Vec<_>>();
    assert_eq!(bytes(read_of_list(&[1, 3, 2, 9], 4 * 512).1), [4, 4, 4, 3]);
    assert_eq!(bytes(read_of_list(&[1, 3, 2, 9], 4096).1.of_one_buffer_each()), [1, 3, 2, 8, 1]);
    let most = if cfg!(target_os = "linux") { VECTORS_MAX as u64 } else { 1 };
    assert_eq!(bytes(read_of_list(&[1; 1500], 1 << 20).1)[0], most);
}

#[test]
fn where_the_kernel_refuses_the_flag_a_flush_follows_a_durable_write() {
    let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(BLOCK_BYTES));
    let write = || {
        let (future, completer) = IoFuture::pending();
        let (buffer, handle) = (IoBuffer::zeroed(BLOCK), crate::PlacementHandle::DEFAULT);
        let durability = crate::Durability::Power;
        let io = Io::Write { offset: 0, buffer, handle, durability };
        (future, Pieces::new(io, completer, BLOCK_BYTES, &ledger).next().unwrap())
    };
    let (future, mut piece) = write();
    assert!(piece.is_durable());
    assert_eq!(piece.settle(Err(io::ErrorKind::Unsupported.into())), PieceStep::Again);
    assert!(!piece.is_durable());
    assert_eq!((piece.verb(), piece.memory().len()), (Verb::Write, BLOCK));
    assert_eq!(piece.settle(Ok(BLOCK)), PieceStep::Again);
    assert_eq!((piece.verb(), piece.memory().len()), (Verb::Flush, 0));
    assert_eq!(piece.settle(Ok(0)), PieceStep::End);
    drop(piece);
    future.wait().unwrap();
    let (future, mut piece) = write();
    assert!(!piece.is_durable(), "it is not tried again");
    assert_eq!(piece.settle(Ok(BLOCK)), PieceStep::Again);
    assert_eq!(piece.settle(Err(io::ErrorKind::Other.into())), PieceStep::End);
    drop(piece);
    let error = future.wait().unwrap_err().error.to_string();
    assert!(error.contains("durable write of 4096 bytes"), "{error}");
    assert!(error.contains("the kernel refuses RWF_DSYNC"), "{error}");
    let stats = ledger.stats();
    assert_eq!((stats.durable_written_bytes, stats.durable_flushes), (BLOCK as u64, 2));
}

#[test]
fn the_first_failure_fails_the_request_and_gives_the_buffer_back() {
    let (future, mut pieces, ledger) = read(4, 1);
    assert_eq!(pieces.next().unwrap().settle(Ok(0)), PieceStep::End);
    pieces.for_each(|mut piece| assert_eq!(piece.settle(Ok(BLOCK)), PieceStep::End));
    let failure = future.wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Io, 4 * BLOCK));
    assert!(failure.error.to_string().starts_with("read of 16384 bytes at 8192 on test"));
    assert_eq!(ledger.failed_requests.load(Ordering::Relaxed), 1);
}

#[test]
fn failures_in_a_row_mean_that_the_device_is_gone() {
    let ledger = Arc::new(Ledger::new("test".to_owned(), 1).in_blocks(BLOCK_BYTES));
    let read = |result: fn() -> io::Result<usize>| {
        let (future, completer) = IoFuture::pending();
        let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(BLOCK) };
        let pieces = Pieces::new(io, completer, BLOCK_BYTES, &ledger);
        pieces.for_each(|mut piece| assert_eq!(piece.settle(result()), PieceStep::End));
        future.wait().map_err(|failure| failure.error.kind())
    };
    let fail = || Err(io::ErrorKind::Other.into());
    for _ in 0..crate::transfer::ledger::FAILURES_IN_ROW_MAX {
        assert_eq!(read(fail).unwrap_err(), ErrorKind::Io);
    }
    assert_eq!(read(fail).unwrap_err(), ErrorKind::Gone);
    assert!(read(|| Ok(BLOCK)).is_ok(), "it was not");
    assert_eq!(read(fail).unwrap_err(), ErrorKind::Io);
}

#[test]
fn a_device_that_is_gone_is_not_full() {
    let folder = tempfile::tempdir().unwrap();
    let write = |shown: &std::path::Path| {
        let ledger = Ledger::new("test".to_owned(), 1).shown_at(Some(shown.to_owned()));
        let (future, completer) = IoFuture::pending();
        let io = Io::Read { offset: 0, buffer: IoBuffer::zeroed(BLOCK) };
        for mut piece in Pieces::new(io, completer, BLOCK_BYTES, &Arc::new(ledger)) {
            assert_eq!(piece.settle(Err(io::ErrorKind::StorageFull.into())), PieceStep::End);
        }
        future.wait().unwrap_err().error
    };
    assert_eq!(write(folder.path()).kind(), ErrorKind::NoSpace);
    let gone = write(&folder.path().join("gone"));
    assert_eq!(gone.kind(), ErrorKind::Gone);
    assert!(gone.to_string().starts_with("the device is gone: "), "{gone}");
}

#[test]
fn endless_interruption_is_an_error() {
    let (future, mut pieces, _) = read(1, 1);
    let mut piece = pieces.next().unwrap();
    while piece.settle(Err(io::ErrorKind::WouldBlock.into())) == PieceStep::Again {}
    drop((piece, pieces));
    assert_eq!(future.wait().unwrap_err().error.kind(), ErrorKind::Io);
}

#[test]
fn a_forgotten_piece_fails_its_request() {
    let (future, pieces, _) = read(2, 1);
    drop(pieces.collect::<Vec<_>>());
    let failure = future.wait().unwrap_err();
    assert_eq!((failure.error.kind(), failure.buffer.len()), (ErrorKind::Gone, 2 * BLOCK));
}

#[test]
#[cfg_attr(miri, ignore = "leaks on purpose")]
fn a_leaked_piece_fails_its_request_and_keeps_the_memory() {
    let (future, pieces, _) = read(2, 1);
    pieces.for_each(Piece::leak);
    assert!(future.wait().unwrap_err().buffer.is_empty());
}

#[test]
fn an_unsupported_deallocation_is_counted_and_succeeds() {
    let ledger = Arc::new(Ledger::default());
    let (future, completer) = IoFuture::pending();
    let io = Io::Deallocate { offset: 0, bytes: 1 << 40 };
    let mut pieces = Pieces::new(io, completer, BLOCK_BYTES, &ledger);
    let mut piece = pieces.next().unwrap();
    assert!(pieces.next().is_none() && piece.memory().is_empty());
    assert_eq!(piece.settle(Err(io::ErrorKind::Unsupported.into())), PieceStep::End);
    drop((piece, pieces));
    future.wait().unwrap();
    assert_eq!(ledger.ignored_deallocations.load(Ordering::Relaxed), 1);
}
