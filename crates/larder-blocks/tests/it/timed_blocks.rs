//! Blocks of vSSDs in the simulated time of a drive, with threads as clients.

use larder_blocks::{BlockStore, Stream, TimedBlocks};
use larder_device::IoBuffer;
use larder_ssd::raw::{RawConfig, RawSsd};
use larder_ssd::timed::{DriveTiming, NandTiming, open_channel};
use larder_vssd::timed::{SharePolicy, TimedVssds};
use larder_vssd::{Isolation, MemoryImages, Request, Throughputs, VssdId, Vssds};

const PAGE: usize = 16 << 10;
/// Time of the transfer of a page to a die, and of programming it there.
const TRANSFER_NS: u64 = 40_000;
const PROGRAM_NS: u64 = 700_000;
const COMMAND_NS: u64 = 8_000;

/// Two vSSDs on two channels of four dies.
fn clients(isolation: Isolation, units: u32) -> Vec<TimedBlocks> {
    let nand = NandTiming { planes: 1, block_stripes: 32, ..open_channel().nand };
    let timing = DriveTiming { channels: 2, nand, ..open_channel() };
    let drive = RawSsd::new(RawConfig::new(timing.geometry(32).unwrap())).unwrap();
    let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
    let mut array = Vssds::create(vec![drive], MemoryImages::default(), [7; 16], rates).unwrap();
    let request = Request { isolation, mb_s: units, bytes: 1 };
    let ids: Vec<VssdId> = (0..2).map(|_| array.alloc(request).unwrap()).collect();
    let timed = TimedVssds::new(array, &timing, &SharePolicy::None).unwrap();
    TimedBlocks::of(timed, &ids).unwrap()
}

fn filled(with: u8, pages: usize) -> IoBuffer {
    let mut buffer = IoBuffer::zeroed(pages * PAGE);
    buffer.as_mut_slice().fill(with);
    buffer
}

/// Runs `client` on one thread per store, with the store's number. Returns the results.
fn run<T: Send>(stores: Vec<TimedBlocks>, client: impl Fn(u8, TimedBlocks) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let client = &client;
        let threads: Vec<_> = (0..)
            .zip(stores)
            .map(|(number, store)| {
                scope.spawn(move || {
                    store.enter();
                    client(number, store)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn requests_take_what_dies_and_channel_take() {
    let times = run(clients(Isolation::Channel, 1), |number, store| {
        let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
        let append = |at: usize, pages| {
            store.append(block, (at * PAGE) as u64, filled(number, pages)).wait().unwrap();
            store.now_ns()
        };
        // An append to one die, then one to four dies that the channel feeds one after the other.
        let (one, four) = (append(0, 1), append(1, 4));
        let read = store.read(block, 0, IoBuffer::zeroed(PAGE)).wait().unwrap();
        assert!(read.as_slice().iter().all(|byte| *byte == number), "its own bytes");
        store.spend(1_000_000);
        (one, four - one, store.now_ns() - four)
    });
    let append = TRANSFER_NS + PROGRAM_NS + COMMAND_NS;
    let expected = (append, append + 3 * TRANSFER_NS, 60_000 + 40_000 + 8_000 + 1_000_000);
    assert_eq!(times, [expected; 2], "channels of their own");
}

/// Two clients that share all dies work for a while. Each proceeds while the other waits, always in the same order.
fn times_of_two_clients() -> Vec<Vec<u64>> {
    run(clients(Isolation::None, 8), |number, store| {
        let mut rng = fastrand::Rng::with_seed(number.into());
        let mut times = Vec::new();
        let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
        store.append(block, 0, filled(number, 64)).wait().unwrap();
        store.meet();
        times.push(store.now_ns());
        for at in 64..128 {
            let append = store.append(block, at * PAGE as u64, filled(number, 1));
            let read = store.read(block, rng.u64(..64) * PAGE as u64, IoBuffer::zeroed(PAGE));
            let read = read.wait().unwrap();
            assert!(read.as_slice().iter().all(|byte| *byte == number));
            times.push(store.now_ns());
            append.wait().unwrap();
            store.spend(rng.u64(..50_000));
        }
        times
    })
}

#[test]
fn the_same_clients_make_the_same_run() {
    let once = times_of_two_clients();
    assert_eq!(once[0][0], once[1][0], "they met");
    assert!(once.iter().all(|times| times.is_sorted()));
    for _ in 0..3 {
        assert_eq!(once, times_of_two_clients());
    }
    // `alone` is the time of an append without a neighbour. On shared dies some steps wait for the other client.
    let alone = TRANSFER_NS + PROGRAM_NS + COMMAND_NS;
    let waited = once[0].windows(2).filter(|pair| pair[1] - pair[0] > 2 * alone).count();
    assert!(waited > 0, "{:?}", once[0]);
}

#[test]
fn a_client_that_overfills_a_queue_waits_and_one_that_leaves_delays_no_other() {
    let ends = run(clients(Isolation::Channel, 1), |number, store| {
        if number == 1 {
            return 0;
        }
        // 512 pages for each of four dies, with 32 pages of each block on each die.
        let mut appends = Vec::new();
        for _ in 0..16 {
            let block = store.alloc(Stream::DEFAULT, 1).wait().unwrap();
            appends.extend((0..128).map(|at| store.append(block, at * PAGE as u64, filled(0, 1))));
        }
        assert!(store.now_ns() > 0, "it had to wait for some");
        appends.into_iter().for_each(|append| drop(append.wait().unwrap()));
        store.now_ns()
    });
    assert!(ends[0] > 512 * PROGRAM_NS, "{ends:?}");
}

#[test]
fn stores_are_for_vssds_without_blocks() {
    let nand = NandTiming { planes: 1, block_stripes: 32, ..open_channel().nand };
    let timing = DriveTiming { channels: 2, nand, ..open_channel() };
    let drive = RawSsd::new(RawConfig::new(timing.geometry(32).unwrap())).unwrap();
    let rates = Throughputs { channel_mb_s: 1, die_mb_s: 1, soft_plane_mb_s: 1 };
    let mut array = Vssds::create(vec![drive], MemoryImages::default(), [7; 16], rates).unwrap();
    let channel = Request { isolation: Isolation::Channel, mb_s: 1, bytes: 1 };
    let id = array.alloc(channel).unwrap();
    array.alloc_block(id, 1).unwrap();
    let timed = TimedVssds::new(array, &timing, &SharePolicy::None).unwrap();
    let refused = TimedBlocks::of(timed, &[id]).unwrap_err().to_string();
    assert!(refused.contains("has blocks"), "{refused}");
}
