//! Cache devices are attached and detached while threads write and read: reads return the last written data, never
//! older cached data.

use std::sync::atomic::{AtomicBool, Ordering};

use larder_block::cache::BypassReason;
use larder_block::manage::{AttachOptions, Over, look};
use larder_block::policy::{ReadAheadOptions, ReadAheadPolicy};
use larder_block::volume::CachedVolume;
use larder_device::Durability;
use larder_export::volume::Volume;

use super::*;

fn attaching(create: &CreateOptions, over: Over) -> AttachOptions {
    AttachOptions { layout: create.layout.clone(), over, ..AttachOptions::default() }
}

/// A thread with its own blocks: each must contain what was last written there.
fn ask(core: &dyn Device, first: u64, seed: u64, is_done: &AtomicBool) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut known, mut asked) = ([0_u8; 64], 0);
    while asked < 200 || !is_done.load(Ordering::Relaxed) {
        let block = rng.usize(..known.len());
        let offset = (first + block as u64) * 4096;
        if rng.bool() {
            known[block] = rng.u8(..);
            write(core, offset, known[block], 4096);
        } else {
            assert_eq!(read(core, offset, 4096), vec![known[block]; 4096], "{offset}, {seed}");
        }
        asked += 1;
    }
    for (block, byte) in known.iter().enumerate() {
        assert_eq!(read(core, (first + block as u64) * 4096, 4096), vec![*byte; 4096]);
    }
    asked
}

#[test]
fn devices_come_and_go_under_load_and_nothing_is_lost_or_stale() {
    for create in layouts() {
        let rig = Rig::new();
        let uuid = rig.create(&create);
        let mut opened = rig.open();
        let cores = [0, 5].map(|number| opened.cache.core(core(number)).unwrap());
        let devices = [Arc::clone(&rig.device), memory(8 * MIB)];
        let mut uuids = vec![uuid];
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let askers: Vec<_> = (0..4)
                .map(|number: u64| {
                    let (core, is_done) = (&cores[usize::from(number % 2 == 1)], &is_done);
                    scope.spawn(move || ask(core, 64 * number, number, is_done))
                })
                .collect();
            for round in 0..6_usize {
                block_on(opened.detach()).unwrap();
                let left = &devices[round % 2];
                assert!(block_on(look(left)).unwrap().stored.is_distrusted);
                std::thread::sleep(std::time::Duration::from_millis(3));
                let over = uuids.iter().rev().nth(1).map_or(Over::Blank, |uuid| Over::Cache(*uuid));
                let next = &devices[(round + 1) % 2];
                uuids.push(block_on(opened.attach(next, &attaching(&create, over))).unwrap());
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
            is_done.store(true, Ordering::Relaxed);
            askers.into_iter().for_each(|asker| assert!(asker.join().unwrap() >= 200));
        });
        let done = opened.cache.with(|cache| *cache.statistics());
        assert!(done.bypasses(BypassReason::Detached) > 0 && done.writes.hits > 0, "{done:?}");
        assert_eq!(opened.cache.with(|cache| cache.options().mode), Mode::WriteBack);
        block_on(opened.stop(true)).unwrap();
    }
}

#[test]
fn a_detach_comes_while_something_is_read_ahead() {
    for create in layouts() {
        let held = held_device(16 * MIB);
        let device = Arc::clone(&held) as DynDevice;
        let core_0 = Core { id: core(0), name: "core-0".to_owned(), device };
        let rig = Rig { cores: vec![core_0], ..Rig::new() };
        rig.create(&create);
        let mut opened = rig.open();
        let policy = ReadAheadPolicy::On(ReadAheadOptions::default());
        opened.cache.with(|cache| cache.set_read_ahead(policy)).unwrap();
        let requests =
            |opened: &OpenCache| opened.cache.with(|cache| cache.statistics().read_ahead.requests);
        let seen = opened.cache.core(core(0)).unwrap();
        (0..3).for_each(|number| drop(read(&seen, number << 14, 1 << 14)));
        held.hold(|io| matches!(io, Io::Read { .. }));
        let last = seen.submit(Io::Read { offset: 3 << 14, buffer: IoBuffer::zeroed(1 << 14) });
        held.wait_for(2);
        held.let_go();
        last.wait().unwrap();
        assert_eq!(requests(&opened), 1, "it has not waited for that");
        held.hold(|_| false);
        std::thread::scope(|scope| {
            let detach = scope.spawn(|| block_on(opened.detach()).unwrap());
            held.let_go();
            detach.join().unwrap();
        });
        (4..9).for_each(|number| drop(read(&seen, number << 14, 1 << 14)));
        assert_eq!(requests(&opened), 1, "there is no cache device");
    }
}

#[test]
fn what_was_written_past_a_detached_device_is_not_hidden_by_it() {
    for create in layouts() {
        let rig = Rig::new();
        rig.create(&create);
        let mut opened = rig.open();
        let cached = opened.cache.core(core(0)).unwrap();
        write(&cached, 8192, 1, 8192);
        block_on(opened.detach()).unwrap();
        assert_eq!(read(&*rig.cores[0].device, 8192, 8192), [1; 8192], "it was destaged");
        write(&cached, 12288, 2, 4096);
        assert_eq!(read(&cached, 8192, 8192)[4096..], [2; 4096]);
        assert_eq!(read(&*rig.cores[0].device, 12288, 4096), [2; 4096]);
        let usage = opened.cache.with(|cache| cache.usage());
        assert_eq!((usage.valid_sectors, usage.dirty_sectors), (0, 0));
        block_on(opened.stop(false)).unwrap();
        // A start with the old device trusts none of its content.
        let opened = rig.open();
        assert_eq!(opened.started.valid_sectors, 0);
        let cached = opened.cache.core(core(0)).unwrap();
        assert_eq!(read(&cached, 8192, 8192)[4096..], [2; 4096]);
    }
}

#[test]
fn a_detach_that_fails_leaves_the_cache_as_it_was() {
    let rig = Rig::new();
    rig.create(&log());
    let failing = Arc::new(FaultDevice::new(Arc::clone(&rig.device), &FaultPlan::new(1)));
    let device: DynDevice = Arc::clone(&failing) as _;
    let mut opened = block_on(open(&device, &rig.cores, &options())).unwrap();
    let cached = opened.cache.core(core(0)).unwrap();
    // The label cannot be written: no data may become dirty, and the device stays.
    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    assert_eq!(block_on(opened.detach()).unwrap_err().kind(), ErrorKind::Device);
    assert!(opened.is_attached());
    failing.set_plan(&FaultPlan::new(1));
    write(&cached, 0, 7, 4096);
    assert_eq!(read(&cached, 0, 4096), [7; 4096]);
    assert_eq!(opened.cache.with(|cache| cache.usage().dirty_sectors), 0, "its label is in doubt");
    block_on(opened.detach()).unwrap();
    assert!(!opened.is_attached());
}

#[test]
fn what_cannot_be_attached_is_refused_and_the_cores_are_served_on() {
    let rig = Rig::new();
    let uuid = rig.create(&log());
    let mut opened = rig.open();
    let blank = attaching(&log(), Over::Blank);
    let refusal = |opened: &mut OpenCache, device: &DynDevice, options: &AttachOptions| {
        let error = block_on(opened.attach(device, options)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setup, "{error}");
        error.to_string()
    };
    assert!(refusal(&mut opened, &memory(8 * MIB), &blank).contains("is attached already"));
    block_on(opened.detach()).unwrap();
    let second = block_on(opened.detach()).unwrap_err().to_string();
    assert!(second.contains("detached already"), "{second}");
    assert!(refusal(&mut opened, &rig.cores[0].device, &blank).contains("once"));
    assert!(refusal(&mut opened, &memory(MIB / 4), &blank).contains("bytes"));
    assert!(refusal(&mut opened, &rig.device, &blank).contains("name it by its UUID"));
    let large: DynDevice = Arc::new(MemoryDevice::with_blocks(vec![0; 8 * MIB], 4096).unwrap());
    let blocks = opened.cache.core(core(0)).unwrap().info().block_bytes;
    if blocks < 4096 {
        assert!(refusal(&mut opened, &large, &blank).contains("blocks have 4096"));
    }
    let cached = opened.cache.core(core(0)).unwrap();
    write(&cached, 0, 3, 4096);
    assert_eq!(read(&*rig.cores[0].device, 0, 4096), [3; 4096]);
    let again = attaching(&log(), Over::Cache(uuid));
    assert_ne!(block_on(opened.attach(&rig.device, &again)).unwrap(), uuid);
    write(&cached, 0, 4, 4096);
    assert_eq!(read(&*rig.cores[0].device, 0, 4096), [3; 4096], "it is dirty");
    drop(opened);
    // As after a crash.
    let opened = rig.open();
    assert_eq!(read(&opened.cache.core(core(0)).unwrap(), 0, 4096), [4; 4096]);
}

/// A log that starts empty reuses sequences that the earlier log had declared clean.
#[test]
fn what_is_written_to_a_device_that_began_anew_is_dirty_after_a_crash() {
    for create in layouts() {
        let rig = Rig::new();
        rig.create(&create);
        let mut first = rig.open();
        for line in 0..32 {
            write_to(&first, 0, line * 4096, 1, 4096);
        }
        block_on(first.cache.destage_all()).unwrap();
        block_on(first.note_clean()).unwrap();
        block_on(first.detach()).unwrap();
        block_on(first.stop(false)).unwrap();
        let second = rig.open();
        assert_eq!(second.started.valid_sectors, 0, "it is not believed");
        write_to(&second, 0, 0, 2, 4096);
        drop(second);
        let third = rig.open();
        assert_eq!(third.started.dirty_sectors, 8, "{create:?}");
        block_on(third.stop(true)).unwrap();
        assert!(read(&*rig.cores[0].device, 0, 4096) == [2; 4096], "{create:?}");
    }
}

#[test]
fn a_client_without_a_cache_device_sees_blocks_that_the_next_device_may_have() {
    let of = |bytes: usize, block_bytes| -> DynDevice {
        Arc::new(MemoryDevice::with_blocks(vec![0; bytes], block_bytes).unwrap())
    };
    for layout in layouts() {
        let device = of(16 * MIB, 512);
        let cores = vec![Core { device, ..Rig::new().cores.swap_remove(0) }];
        let first = of(8 * MIB, 4096);
        block_on(create(&first, &cores, &layout)).unwrap();
        let mut opened = block_on(open(&first, &cores, &options())).unwrap();
        block_on(opened.detach()).unwrap();
        let cached = opened.cache.core(core(0)).unwrap();
        assert_eq!((cached.info().block_bytes, cores[0].device.info().block_bytes), (4096, 512));
        let refusal = block_on(opened.attach(&of(8 * MIB, 8192), &attaching(&layout, Over::Blank)));
        assert!(refusal.unwrap_err().to_string().contains("blocks of 4096"));
        block_on(opened.attach(&of(8 * MIB, 4096), &attaching(&layout, Over::Blank))).unwrap();
        let half = Io::write(2048, IoBuffer::zeroed(2048), PlacementHandle::DEFAULT);
        let refused = cached.submit(half).wait().unwrap_err().to_string();
        assert!(refused.contains("4096"), "{refused}");
        // Half a block through an export: the whole block is read and written.
        let volume = CachedVolume::new(cached);
        let mut part = IoBuffer::zeroed(2048);
        part.as_mut_slice().fill(7);
        volume.write(2048, part, Durability::Device).wait().unwrap();
        let read = volume.read(0, IoBuffer::zeroed(4096)).wait().unwrap();
        assert_eq!(read.as_slice(), [[0; 2048], [7; 2048]].concat());
        block_on(opened.stop(true)).unwrap();
    }
}
