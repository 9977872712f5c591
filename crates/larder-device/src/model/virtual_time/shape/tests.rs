//! Properties that every shape has under any requests.

use super::super::shapes;
use super::*;
use crate::buffer::IoBuffer;
use crate::io::Durability;
use crate::placement::PlacementHandle;

const CAPACITY: u64 = 64 << 20;

/// A random request, and the time that it comes after the one before.
fn any_io(rng: &mut fastrand::Rng) -> (u64, Io) {
    let pause_ns = [0, rng.u64(..2_000), rng.u64(..10_000_000)][rng.usize(..3)];
    let bytes = 4096 << rng.u32(..8);
    let offset = rng.u64(..=(CAPACITY - bytes) / 4096) * 4096;
    let buffer = || IoBuffer::zeroed(usize::try_from(bytes).unwrap());
    let io = match rng.u32(..20) {
        0 => Io::Flush,
        1 => Io::Deallocate { offset, bytes },
        2..11 => Io::write(offset, buffer(), PlacementHandle::DEFAULT),
        _ => Io::Read { offset, buffer: buffer() },
    };
    (pause_ns, io)
}

#[derive(Clone, Copy)]
struct ServedRequest {
    came: Moment,
    end: Moment,
    bytes: u64,
    is_write: bool,
    is_transfer: bool,
}

/// Makes `count` requests and returns how each was served.
fn serve(shape: Shape, seed: u64, count: usize) -> (ShapedStorage, Vec<ServedRequest>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut storage = ShapedStorage::new(shape, CAPACITY).unwrap();
    let mut now = Moment::default();
    let mut served = Vec::new();
    for _ in 0..count {
        let (pause_ns, io) = any_io(&mut rng);
        now = now.after(pause_ns);
        let end = storage.serve(now, &io).unwrap();
        let is_write = matches!(io, Io::Write { .. });
        let is_transfer = is_write || matches!(io, Io::Read { .. });
        served.push(ServedRequest { came: now, end, bytes: io.extent().2, is_write, is_transfer });
    }
    (storage, served)
}

fn for_all(check: impl Fn(Shape, &ShapedStorage, &[ServedRequest])) {
    for shape in shapes::ALL {
        for seed in 0..20 {
            let (storage, served) = serve(shape, seed, 400);
            check(shape, &storage, &served);
        }
    }
}

#[test]
fn channels_are_never_busier_than_there_is_time() {
    for_all(|shape, storage, _| {
        let elapsed_ns = storage.idle_at().as_nanos();
        let most = u128::from(elapsed_ns) * u128::from(shape.channels.value);
        assert!(u128::from(storage.busy_ns()) <= most, "{}", shape.name);
    });
}

#[test]
fn no_more_requests_are_served_at_a_time_than_there_are_channels() {
    for_all(|shape, _, served| {
        // Of any `channels` + 1 ends, two requests had the same channel, so they are at least the shortest service
        // apart.
        let shortest_ns = shape.read.latency_ns.value.min(shape.write.latency_ns.value);
        let mut ends: Vec<Moment> =
            served.iter().filter(|it| it.is_transfer).map(|it| it.end).collect();
        ends.sort_unstable();
        let channels = usize::try_from(shape.channels.value).unwrap();
        for window in ends.windows(channels + 1) {
            let apart_ns = window[channels].as_nanos() - window[0].as_nanos();
            assert!(apart_ns >= shortest_ns, "{}: {apart_ns} ns", shape.name);
        }
    });
}

#[test]
fn nothing_takes_less_than_its_latency_and_its_transfer() {
    for_all(|shape, _, served| {
        for it in served.iter().filter(|it| it.is_transfer) {
            let direction = if it.is_write { shape.write } else { shape.read };
            let least =
                direction.latency_ns.value + transfer_ns(it.bytes, direction.bytes_per_s.value);
            assert!(it.end >= it.came.after(least), "{}", shape.name);
        }
    });
}

#[test]
fn no_link_carries_more_than_its_bytes_a_second() {
    for_all(|shape, _, served| {
        for is_write in [false, true] {
            let direction = if is_write { shape.write } else { shape.read };
            let of_direction: Vec<_> =
                served.iter().filter(|it| it.is_transfer && it.is_write == is_write).collect();
            // For any start: the requests that came since and have ended by some end went over the link in between.
            for from in of_direction.iter().step_by(37) {
                for until in of_direction.iter().step_by(41) {
                    let inside = of_direction.iter().filter(|it| it.came >= from.came);
                    let bytes: u64 =
                        inside.filter(|it| it.end <= until.end).map(|it| it.bytes).sum();
                    let elapsed_ns = until.end.as_nanos().saturating_sub(from.came.as_nanos());
                    let needs_ns = transfer_ns(bytes, direction.bytes_per_s.value);
                    assert!(needs_ns <= elapsed_ns, "{}: {bytes} in {elapsed_ns}", shape.name);
                }
            }
        }
    });
}

#[test]
fn a_flush_ends_after_every_write_before_it() {
    for shape in shapes::ALL {
        let mut storage = ShapedStorage::new(shape, CAPACITY).unwrap();
        let write =
            |n: u64| Io::write(n << 20, IoBuffer::zeroed(64 << 10), PlacementHandle::DEFAULT);
        let now = Moment::from_nanos(7);
        let ends: Vec<_> = (0..20).map(|n| storage.serve(now, &write(n)).unwrap()).collect();
        let flushed = storage.serve(now, &Io::Flush).unwrap();
        let last = ends.into_iter().max().unwrap();
        assert_eq!(flushed.as_nanos(), last.as_nanos() + shape.flush_ns.value, "{}", shape.name);
    }
}

#[test]
fn a_durable_write_takes_a_flush_longer_where_the_cache_is_volatile() {
    for shape in shapes::ALL {
        let end = |durability| {
            let (buffer, handle) = (IoBuffer::zeroed(4096), PlacementHandle::DEFAULT);
            let mut storage = ShapedStorage::new(shape, CAPACITY).unwrap();
            let write = Io::Write { offset: 0, buffer, handle, durability };
            storage.serve(Moment::from_nanos(7), &write).unwrap().as_nanos()
        };
        let longer = if shape.volatile_cache { shape.flush_ns.value } else { 0 };
        assert_eq!(end(Durability::Power), end(Durability::Device) + longer, "{}", shape.name);
    }
    assert!(shapes::ALL.iter().any(|shape| shape.volatile_cache));
}

#[test]
fn shapes_do_what_their_sources_say() {
    let alone_ns = |shape, is_write| {
        let mut storage = ShapedStorage::new(shape, 1 << 40).unwrap();
        let (buffer, offset) = (IoBuffer::zeroed(4096), 0);
        let io = match is_write {
            true => Io::write(offset, buffer, PlacementHandle::DEFAULT),
            false => Io::Read { offset, buffer },
        };
        storage.serve(Moment::default(), &io).unwrap().as_nanos()
    };
    let per_s = |shape: Shape, is_write| 1_000_000_000 / alone_ns(shape, is_write);
    assert!((9_500..10_500).contains(&alone_ns(shapes::OPTANE_SSD, false)));
    assert!((9_500..10_500).contains(&alone_ns(shapes::OPTANE_SSD, true)));
    assert!((12_500..13_500).contains(&per_s(shapes::SATA_SSD, false)));
    assert!((35_000..37_000).contains(&per_s(shapes::SATA_SSD, true)));
    let deep = |shape: Shape| shape.channels.value * per_s(shape, false);
    assert!((500_000..660_000).contains(&deep(shapes::OPTANE_SSD)));
    assert!((850_000..950_000).contains(&deep(shapes::NVME_TLC)));
    assert!((93_000..108_000).contains(&deep(shapes::SATA_SSD)));
}

#[test]
fn a_disk_seeks_only_where_it_has_to_and_longer_to_farther() {
    let mut disk = ShapedStorage::new(shapes::HDD, 1 << 40).unwrap();
    let mut now = Moment::default();
    let mut took_ns = |offset| {
        let io = Io::Read { offset, buffer: IoBuffer::zeroed(4096) };
        let end = disk.serve(now, &io).unwrap();
        (end.as_nanos() - now.as_nanos(), now = end).0
    };
    let [first, next, near, far] = [0, 4096, 1 << 30, 1 << 39].map(&mut took_ns);
    assert_eq!(first, next, "what follows needs no seek");
    assert!(near > next + 4_600_000 && far > near + 7_000_000, "{next} {near} {far}");
    assert!(far < 14_000_000 + 4_200_000);
}

#[test]
fn a_shape_that_cannot_be_is_refused_with_the_field() {
    type Change = fn(&mut Shape);
    let complaint = |change: Change| {
        let mut shape = shapes::HDD;
        change(&mut shape);
        ShapedStorage::new(shape, CAPACITY).expect_err("must be refused").to_string()
    };
    let none = Sourced::fitted(0, "");
    let cases: [(Change, &str); 8] = [
        (|it| it.block_bytes = 1000, "block_bytes 1000: must be a power of two from 512 to 4096"),
        (|it| it.channels.value = 0, "channels 0: must be 1 to 4096"),
        (|it| it.channels.value = 4097, "channels 4097: must be 1 to 4096"),
        (|it| it.channels.value = 2, "channels 2: must be 1 where there is a seek"),
        (|it| it.read.bytes_per_s.value = 0, "read.bytes_per_s 0: must be at least 1"),
        (|it| it.write.bytes_per_s.value = 0, "write.bytes_per_s 0: must be at least 1"),
        (|it| it.flush_ns.value = u64::MAX, "flush_ns 18446744073709551615: must be at most"),
        (
            |it| it.seek.as_mut().unwrap().shortest_ns.value = 14_000_001,
            "seek.shortest_ns 14000001: must be at most seek.longest_ns 14000000",
        ),
    ];
    for (change, wanted) in cases {
        let complaint = complaint(change);
        assert!(complaint.contains(wanted), "{complaint}");
    }
    assert_eq!(none.source, Source::Fitted(""));
    let odd = ShapedStorage::new(shapes::HDD, 1000).unwrap_err().to_string();
    assert!(odd.contains("capacity_bytes 1000: must be a multiple of 512"), "{odd}");
    assert!(ShapedStorage::new(shapes::HDD, 0).is_err());
    assert!(shapes::ALL.iter().all(|shape| shape.check().is_ok()));
}
