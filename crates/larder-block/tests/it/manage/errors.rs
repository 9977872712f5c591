//! An error of the cache device at each I/O of a command.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use larder_block::cache::Mode;
use larder_block::layout::ocf::{OcfOptions, OcfVersion};
use larder_block::manage::{
    Core, CreateOptions, LayoutOptions, Over, add_core, create, look, open,
};
use larder_device::{
    Device, Fault, FaultDevice, FaultPlan, FaultRule, Io, IoBuffer, MemoryDevice, PlacementHandle,
    block_on,
};

use super::{DynDevice, MIB, Rig, core, layouts, memory, options, put, read, read_from, write_to};

/// The n-th I/O of the cache device fails, for each n until none is hit.
fn at_each_io(failing: &FaultDevice<DynDevice>, ask: impl Fn(), check: impl Fn(u64)) {
    for number in 0.. {
        assert!(number < 500, "it never ends");
        let rule = FaultRule::new(Fault::Error).at_io(failing.submissions() + number);
        failing.set_plan(&FaultPlan::new(1).with(rule));
        let before = failing.counts().errors;
        ask();
        let was_hit = failing.counts().errors > before;
        failing.set_plan(&FaultPlan::new(1));
        check(number);
        if !was_hit {
            return;
        }
    }
}

#[test]
fn starts_and_stops_that_an_error_cuts_leave_what_was() {
    for create_options in layouts() {
        let (rig, failing) = Rig::failing();
        let uuid = rig.create(&create_options);
        let opened = rig.open();
        write_to(&opened, 0, 0, 1, 65536);
        block_on(opened.stop(false)).unwrap();
        let is_whole = |number: u64| {
            let opened = rig.open();
            assert_eq!(opened.uuid, uuid, "{number}");
            assert!(read_from(&opened, 0, 0, 65536) == [1; 65536], "I/O {number}");
        };
        let open = || block_on(open(&rig.device, &rig.cores, &options()));
        at_each_io(&failing, || drop(open()), is_whole);
        let stop = || drop(open().map(|opened| block_on(opened.stop(true))));
        at_each_io(&failing, stop, is_whole);
        let mode = || {
            drop(open().map(|mut opened| block_on(opened.set_mode(Mode::WriteThrough, true))));
        };
        at_each_io(&failing, mode, is_whole);
    }
}

#[test]
fn a_change_of_cores_that_an_error_cuts_was_made_or_not() {
    for create_options in layouts() {
        let (rig, failing) = Rig::failing();
        rig.create(&create_options);
        let new = Core { id: core(6), name: String::new(), device: memory(MIB) };
        let all = [rig.cores.as_slice(), &[new]].concat();
        let known = || {
            let stored = block_on(look(&rig.device)).ok()?.stored;
            let is_there = |core: &&Core| stored.cores.iter().any(|known| known.id == core.id);
            Some(all.iter().filter(is_there).cloned().collect::<Vec<_>>())
        };
        let is_sound = |number: u64| {
            let cores = known().unwrap();
            let opened = block_on(open(&rig.device, &cores, &options())).unwrap();
            let first = opened.cache.core(core(0)).unwrap();
            assert!(read(&first, 0, 65536) == [1; 65536], "I/O {number}");
        };
        let opened = rig.open();
        write_to(&opened, 0, 0, 1, 65536);
        write_to(&opened, 5, 0, 2, 65536);
        block_on(opened.stop(false)).unwrap();
        let remove = || {
            let Some(cores) = known() else { return };
            let opened = block_on(open(&rig.device, &cores, &options()));
            drop(opened.map(|mut opened| block_on(opened.remove_core(core(5)))));
        };
        at_each_io(&failing, remove, |number| {
            is_sound(number);
            if known().unwrap().len() == 1 {
                assert!(read(&*all[1].device, 0, 65536) == [2; 65536], "I/O {number}");
            }
        });
        let add = || {
            let Some(cores) = known() else { return };
            drop(block_on(add_core(&rig.device, &cores, &all[2])));
        };
        at_each_io(&failing, add, is_sound);
        assert_eq!(known().unwrap().len(), 2, "one went, one came");
    }
}

/// A cache that has lost all its devices at once fails all requests, and becomes idle.
#[test]
fn devices_that_refuse_everything_are_not_asked_without_end() {
    for (create_options, block_bytes) in
        layouts().into_iter().map(|layout| (layout, 512)).chain([(super::log(), 64)])
    {
        let of = |bytes: usize, block_bytes: u32| {
            let memory = MemoryDevice::with_blocks(vec![0; bytes], block_bytes).unwrap();
            Arc::new(FaultDevice::new(memory, &FaultPlan::new(1)))
        };
        let cache = of(8 * MIB, block_bytes);
        let cores = [of(16 * MIB, 512), of(16 * MIB, 512)];
        let mut rig = Rig::new();
        rig.device = Arc::clone(&cache) as DynDevice;
        for (known, device) in rig.cores.iter_mut().zip(&cores) {
            known.device = Arc::clone(device) as DynDevice;
        }
        rig.create(&create_options);
        let opened = rig.open();
        for number in 0..40 {
            write_to(&opened, 0, number << 17, 1, 65536);
        }
        let refuse = FaultPlan::new(1).with(FaultRule::new(Fault::Error));
        cache.set_plan(&refuse);
        cores.iter().for_each(|core| core.set_plan(&refuse));
        let before = cache.submissions() + cores[0].submissions();
        let first = opened.cache.core(core(0)).unwrap();
        for number in 0..20 {
            let buffer = IoBuffer::zeroed(65536);
            let write = Io::write(number << 17 | 1 << 16, buffer, PlacementHandle::DEFAULT);
            assert!(first.submit(write).wait().is_err(), "{create_options:?}");
        }
        let asked = cache.submissions() + cores[0].submissions() - before;
        assert!(asked < 1000, "{asked} requests, {create_options:?}, blocks of {block_bytes}");
    }
}

#[test]
fn a_format_that_an_error_cuts_leaves_nothing_or_a_cache() {
    for create_options in layouts() {
        let (rig, failing) = Rig::failing();
        let over = CreateOptions { over: Over::Other, ..create_options.clone() };
        let format = || drop(block_on(create(&rig.device, &rig.cores, &over)));
        at_each_io(&failing, format, |number| {
            if let Ok(seen) = block_on(look(&rig.device)) {
                assert_eq!(rig.open().uuid, seen.uuid, "I/O {number}");
                // Reset for the next command.
                put(&rig.device, 0, &[0; 32768]);
            }
        });
    }
}

/// The ring of entries wraps only when the table has the entries durably.
#[test]
fn what_waits_for_room_in_the_ring_is_refused_while_the_device_lets_none_be_made() {
    let wal = OcfOptions { version: OcfVersion::Wal, line_bytes: 4096 };
    let (rig, failing) = Rig::failing();
    rig.create(&CreateOptions { layout: LayoutOptions::Ocf(wal), ..super::log() });
    let opened = rig.open();
    let cached = opened.cache.core(core(0)).unwrap();
    // Each write is to another line.
    let is_taken = |number: u64| {
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.as_mut_slice().fill(7);
        let write = Io::write(number * 4096, buffer, PlacementHandle::DEFAULT);
        // Memory completes everything at once: a request that is pending now is pending for ever.
        match pin!(cached.submit(write)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.is_ok(),
            Poll::Pending => panic!("write {number} waits for ever"),
        }
    };
    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_flushes()));
    let mut taken: Vec<u64> = (0..400).filter(|number| is_taken(*number)).collect();
    assert!(failing.counts().errors > 0, "the ring has not come round");
    assert!(taken.len() < 400, "none was refused");
    failing.set_plan(&FaultPlan::new(1));
    for turn in 0..10 {
        opened.cache.work(Duration::from_secs(60 * turn));
    }
    taken.extend((400..500).filter(|number| is_taken(*number)));
    assert_eq!(taken.last(), Some(&499), "it goes on");
    drop(cached);
    drop(opened);
    // As after a crash.
    let opened = rig.open();
    for number in taken {
        assert_eq!(read_from(&opened, 0, number * 4096, 4096), [7; 4096], "{number}");
    }
}
