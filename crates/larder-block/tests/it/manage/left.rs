//! What a cache records when it is stopped, and how a start uses it: all cached data is found again, and damage is
//! distinguished from the effects of a crash.

use super::*;
use larder_block::layout::SECTOR_BYTES;
use larder_device::label::AREA_BYTES;

/// The bytes that a start has found: cached, dirty.
fn found(opened: &OpenCache) -> (u64, u64) {
    let bytes = |sectors: u64| sectors * SECTOR_BYTES as u64;
    (bytes(opened.started.valid_sectors), bytes(opened.started.dirty_sectors))
}

fn cached(opened: &OpenCache) -> u64 {
    opened.cache.with(|cache| cache.usage().valid_sectors) * SECTOR_BYTES as u64
}

/// Reads and writes, 70 to 30, of `blocks` blocks of core 0, with a flush now and then.
fn mix(opened: &OpenCache, requests: u32, blocks: u64) {
    let device = opened.cache.core(core(0)).unwrap();
    let mut rng = fastrand::Rng::with_seed(4);
    for number in 0..requests {
        let offset = rng.u64(..blocks) * 4096;
        match rng.u8(..10) {
            0..3 => write(&device, offset, rng.u8(..), 4096),
            _ => drop(read(&device, offset, 4096)),
        }
        if number % 100 == 99 {
            block_on(device.submit(Io::Flush)).unwrap();
        }
    }
}

#[test]
fn an_orderly_restart_finds_what_was_cached_in_every_mode_and_layout() {
    for create in layouts() {
        for mode in Mode::all() {
            for (requests, blocks) in [(1500, 1024), (6000, 4096)] {
                let rig = Rig::new();
                rig.create(&CreateOptions { mode, ..create.clone() });
                let opened = rig.open();
                mix(&opened, requests, blocks);
                let before = cached(&opened);
                block_on(opened.stop(true)).unwrap();
                let opened = rig.open();
                let (after, dirty) = found(&opened);
                let what = format!("{mode:?}, {blocks} blocks, {:?}", create.layout);
                assert!(after * 100 >= before * 95, "{after} of {before} bytes: {what}");
                assert_eq!(dirty, 0, "{what}");
                let device = opened.cache.core(core(0)).unwrap();
                for block in 0..blocks {
                    let below = read(&*rig.cores[0].device, block * 4096, 4096);
                    assert!(read(&device, block * 4096, 4096) == below, "{block}: {what}");
                }
            }
        }
    }
}

#[test]
fn a_second_restart_and_a_crash_behind_it_find_nothing_old() {
    for create in layouts() {
        for mode in [Mode::WriteThrough, Mode::WriteBack] {
            let rig = Rig::new();
            rig.create(&CreateOptions { mode, ..create.clone() });
            let mut known = vec![0; 4096];
            let mut rng = fastrand::Rng::with_seed(7);
            for life in 0..8 {
                let opened = rig.open();
                let device = opened.cache.core(core(0)).unwrap();
                for (block, fill) in (0..).zip(&mut known) {
                    if rng.u8(..3) == 0 {
                        assert!(read(&device, block * 4096, 4096) == [*fill; 4096], "{block}");
                    }
                    if rng.u8(..2) == 0 {
                        *fill = rng.u8(..);
                        write(&device, block * 4096, *fill, 4096);
                    }
                    if rng.u8(..16) == 0 {
                        let at = block * 4096;
                        device.submit(Io::Deallocate { offset: at, bytes: 4096 }).wait().unwrap();
                        write(&device, at, *fill, 4096);
                    }
                }
                match life % 3 {
                    0 => block_on(opened.stop(false)).unwrap(),
                    1 => block_on(opened.stop(true)).unwrap(),
                    _ => drop(opened),
                }
            }
        }
    }
}

/// In a mode without dirty data a crash leaves none, whatever was destaged, kept or evicted. In write-back it leaves
/// no dirty data that a flush has covered.
#[test]
fn a_crash_leaves_dirty_what_was_dirty_and_was_not_flushed() {
    for create in layouts() {
        for mode in Mode::all().filter(|mode| !mode.may_be_dirty()) {
            let rig = Rig::new();
            rig.create(&CreateOptions { mode, ..create.clone() });
            let opened = rig.open();
            mix(&opened, 8000, 4096);
            drop(opened);
            assert_eq!(found(&rig.open()).1, 0, "{mode:?}, {:?}", create.layout);
        }
        let rig = Rig::new();
        rig.create(&create);
        let opened = rig.open();
        mix(&opened, 8000, 4096);
        write_to(&opened, 5, 0, 1, 8192);
        block_on(opened.cache.settle()).unwrap();
        write_to(&opened, 5, 4096, 2, 4096);
        drop(opened);
        assert_eq!(found(&rig.open()).1, 4096, "{:?}", create.layout);
        let opened = rig.open();
        assert!(read_from(&opened, 5, 0, 8192) == [[1; 4096], [2; 4096]].concat());
    }
}

/// One of two cores refuses writes.
#[test]
fn a_full_core_keeps_no_other_from_what_is_its_own() {
    for create in layouts() {
        for bad in [0, 1] {
            let mut rig = Rig::new();
            let failing = Arc::new(FaultDevice::new(memory(16 * MIB), &FaultPlan::new(1)));
            rig.cores[bad].device = Arc::clone(&failing) as DynDevice;
            rig.create(&create);
            let mut opened = rig.open();
            // More than a log holds without draining a segment.
            for block in 0..400 {
                write_to(&opened, 0, block * 8192, 1, 4096);
                write_to(&opened, 5, block * 8192, 2, 4096);
            }
            failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
            // A segment begins to drain, and cannot.
            for block in 400..440 {
                write_to(&opened, 0, block * 8192, 1, 4096);
                write_to(&opened, 5, block * 8192, 2, 4096);
            }
            let dirty_of = |opened: &OpenCache, number: usize| {
                let id = rig.cores[number].id;
                opened.cache.with(|cache| cache.dirty_sectors(id))
            };
            let refused = block_on(opened.cache.settle()).unwrap_err().to_string();
            let (bad_id, layout) = (rig.cores[bad].id.get(), &create.layout);
            assert!(refused.contains(&format!("core {bad_id}")), "{refused}");
            assert_eq!(dirty_of(&opened, 1 - bad), 0, "core {bad_id} is full, {layout:?}");
            assert!(dirty_of(&opened, bad) > 0);
            let good = &rig.cores[1 - bad].device;
            let fill = [2, 1][bad];
            for block in 0..440 {
                assert!(read(&**good, block * 8192, 4096) == [fill; 4096], "{block}, {layout:?}");
            }
            write_to(&opened, rig.cores[1 - bad].id.get(), 0, 7, 4096);
            assert!(block_on(opened.detach()).is_err());
            assert!(read(&**good, 0, 4096) == [7; 4096], "{layout:?}");
            // It has room again: this must work at once.
            failing.set_plan(&FaultPlan::new(1));
            block_on(opened.cache.settle()).unwrap();
            assert_eq!(dirty_of(&opened, bad), 0, "{layout:?}");
            block_on(opened.stop(true)).unwrap();
        }
    }
}

/// Changes bytes after the label.
fn damage(rig: &Rig, at: u64, bytes: usize, noise: bool) {
    let whole = bytes.next_multiple_of(4096);
    let mut buffer = IoBuffer::zeroed(whole);
    let offset = AREA_BYTES + at;
    buffer.as_mut_slice().copy_from_slice(&read(&*rig.device, offset, whole));
    let damaged = &mut buffer.as_mut_slice()[..bytes];
    damaged.fill(0);
    if noise {
        fastrand::Rng::with_seed(at).fill(damaged);
    }
    rig.device.submit(Io::write(offset, buffer, PlacementHandle::DEFAULT)).wait().unwrap();
}

/// Noise or zeros wherever dirty data is described.
#[test]
fn damage_behind_an_orderly_stop_is_no_torn_tail() {
    let mut refused = 0;
    for create in layouts() {
        for at in [0, 4096, 20480, 65536] {
            for (bytes, noise) in [(512, true), (4096, true), (65536, false)] {
                let rig = Rig::new();
                rig.create(&create);
                let opened = rig.open();
                for block in 0..100 {
                    write_to(&opened, 0, block * 8192, 1, 4096);
                }
                block_on(opened.stop(false)).unwrap();
                damage(&rig, at, bytes, noise);
                let what = format!("{bytes} bytes at {at}, {:?}", create.layout);
                let opened = block_on(open(&rig.device, &rig.cores, &options()));
                let Some(error) = opened.as_ref().err() else {
                    assert_eq!(found(&opened.unwrap()).1, 100 * 4096, "{what}");
                    continue;
                };
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}: {what}");
                drop(opened);
                refused += 1;
                let (kind, message) = rig.refusal(&options());
                assert_eq!(kind, ErrorKind::Damaged);
                assert!(message.contains("--accept-loss"), "{message}");
                let accepts = OpenOptions { accept_loss: true, ..options() };
                let opened = block_on(open(&rig.device, &rig.cores, &accepts)).unwrap();
                let lost = opened.started.lost_sectors * SECTOR_BYTES as u64;
                assert!(opened.started.damaged > 0);
                let names = lost == 0 || message.contains(&format!("core 0 (core-0) {lost} bytes"));
                assert!(names, "{lost}: {message}");
                assert_eq!(found(&opened).1 + lost, 100 * 4096, "{what}: {message}");
                block_on(opened.stop(true)).unwrap();
                assert_eq!(found(&rig.open()).1, 0);
            }
        }
    }
    assert!(refused > 12, "{refused}");
}

/// The offset on the cache device of a block that is filled with this byte.
fn place_of(rig: &Rig, fill: u8) -> u64 {
    let bytes = read(&*rig.device, 0, 8 * MIB);
    let found = bytes.chunks(4096).position(|block| block.iter().all(|byte| *byte == fill));
    found.unwrap() as u64 * 4096
}

/// After an orderly stop, and after a crash.
#[test]
fn dirty_data_that_are_not_what_was_written_go_to_no_core() {
    for crashes in [true, false] {
        let rig = Rig::new();
        rig.create(&log());
        let opened = rig.open();
        for block in 0..100 {
            write_to(&opened, 5, block * 8192, if block == 7 { 9 } else { 1 }, 4096);
        }
        // This one has younger data.
        write_to(&opened, 5, 8 * 8192, 8, 4096);
        write_to(&opened, 5, 8 * 8192, 1, 4096);
        if crashes {
            drop(opened);
        } else {
            block_on(opened.stop(false)).unwrap();
        }
        for fill in [8, 9] {
            put(&rig.device, place_of(&rig, fill), &[77; 4096]);
        }
        let log = LogOptions { verifies_dirty: true, ..LogOptions::default() };
        let verifying = OpenOptions { log, ..options() };
        let (kind, message) = rig.refusal(&verifying);
        assert_eq!(kind, ErrorKind::Damaged);
        assert!(message.contains("1 pieces of dirty data are not"), "{message}");
        assert!(message.contains(&format!("core 5 at {}+4096", 7 * 8192)), "{message}");
        let accepts = OpenOptions { accept_loss: true, ..verifying };
        let opened = block_on(open(&rig.device, &rig.cores, &accepts)).unwrap();
        assert_eq!(opened.started.damaged, 1);
        assert_eq!(opened.started.lost_sectors, 8);
        block_on(opened.stop(true)).unwrap();
        let opened = rig.open();
        assert_eq!(found(&opened).1, 0);
        for block in 0..100 {
            let whole = if block == 7 { 0 } else { 1 };
            assert!(read(&*rig.cores[1].device, block * 8192, 4096) == [whole; 4096], "{block}");
            assert!(read_from(&opened, 5, block * 8192, 4096) == [whole; 4096], "{block}");
        }
    }
}

/// Data that was destaged before a stop is on the cores, so damage of it is no loss.
#[test]
fn a_stop_that_has_destaged_everything_leaves_nothing_dirty_by_its_label() {
    for create in layouts() {
        let rig = Rig::new();
        rig.create(&create);
        let opened = rig.open();
        write_to(&opened, 0, 0, 7, 65536);
        write_to(&opened, 5, 0, 8, 4096);
        block_on(opened.stop(false)).unwrap();
        let left =
            || block_on(larder_block::manage::look(&rig.device)).unwrap().stored.left.unwrap();
        assert_eq!(left(), [(core(0), 128), (core(5), 8)], "{:?}", create.layout);
        block_on(rig.open().stop(true)).unwrap();
        assert_eq!(left(), [], "{:?}", create.layout);
    }
}
