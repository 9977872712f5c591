//! Cores are added to a running cache and removed from it while threads use it: no acknowledged data is lost, whatever
//! fails and whenever power is lost.

use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use larder_block::manage::{AttachOptions, look};
use larder_block::volume::CachedVolume;
use larder_device::ErrorKind as DeviceErrorKind;
use larder_export::volume::{DeviceVolume, Volume};

use super::overlapping::{Past, SECTORS};
use super::power::Power;
use super::*;

fn another(number: u16, bytes: usize) -> Core {
    Core { id: core(number), name: format!("core-{number}"), device: memory(bytes) }
}

fn volume_of(opened: &OpenCache, number: u16) -> CachedVolume {
    CachedVolume::new(opened.cache.core(core(number)).unwrap())
}

/// Those of these cores that the label lists.
fn listed(device: &DynDevice, all: &[Core]) -> Vec<Core> {
    let stored = block_on(look(device)).unwrap().stored;
    let is_there = |core: &&Core| stored.cores.iter().any(|known| known.id == core.id);
    all.iter().filter(is_there).cloned().collect()
}

/// Whether `is_so` returns true soon.
fn comes_true(is_so: impl Fn() -> bool) -> bool {
    (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        is_so()
    })
}

/// Whether requests to the core are refused because it is gone.
fn is_gone(device: &dyn Device) -> bool {
    let read = Io::Read { offset: 0, buffer: IoBuffer::zeroed(4096) };
    let write = Io::write(0, IoBuffer::zeroed(4096), PlacementHandle::DEFAULT);
    let trim = Io::Deallocate { offset: 0, bytes: 4096 };
    let refused = |io: Io| match device.submit(io).wait() {
        Err(failure) => {
            let text = failure.error.to_string();
            failure.error.kind() == DeviceErrorKind::Gone && text.contains("was taken away")
        }
        Ok(_) => false,
    };
    [read, write, trim, Io::Flush].map(refused) == [true; 4]
}

/// A core is added and one is removed while threads access the same sectors.
fn under_load(create: &CreateOptions, mode: Mode) {
    let mut rig = Rig::new();
    rig.create(create);
    let opened = OpenOptions { mode: Some(mode), ..options() };
    let mut opened = block_on(open(&rig.device, &rig.cores, &opened)).unwrap();
    let new = another(6, 16 * MIB);
    let gone = Arc::clone(&rig.cores[1].device);
    let pasts = [(); 3].map(|()| Past::default());
    let (is_done, is_never) = (AtomicBool::new(false), AtomicBool::new(false));
    // Two exports of one core would be two volumes; connections share one.
    let [stays, leaves] = [0, 5].map(|number| volume_of(&opened, number));
    let comes = OnceLock::new();
    std::thread::scope(|scope| {
        let (pasts, is_done, is_never) = (&pasts, &is_done, &is_never);
        let work = |past: usize, volume, seed: u64| {
            let past = &pasts[past];
            scope.spawn(move || past.work(volume, seed, is_done))
        };
        let mut served = vec![work(0, &stays, 1), work(0, &stays, 2)];
        let leave = |seed: u64| {
            let leaves = &leaves;
            scope.spawn(move || -> Result<(), larder_device::Error> {
                pasts[1].work(leaves, seed, is_never)?;
                while !is_done.load(Ordering::Relaxed) {
                    let read = leaves.read(0, IoBuffer::zeroed(4096)).wait();
                    read.map_err(|failure| failure.error)?;
                }
                Ok(())
            })
        };
        let refused = [3, 4].map(leave);
        std::thread::sleep(Duration::from_millis(1));
        block_on(opened.add_core(&new)).unwrap();
        let comes = comes.get_or_init(|| volume_of(&opened, 6));
        served.extend([5, 6].map(|seed| work(2, comes, seed)));
        std::thread::sleep(Duration::from_millis(1));
        let removed = block_on(opened.remove_core(core(5)));
        is_done.store(removed.is_err(), Ordering::Relaxed);
        removed.unwrap();
        for one in refused {
            let refused = one.join().unwrap();
            assert!(refused.is_err_and(|error| error.kind() == DeviceErrorKind::Gone), "{mode}");
        }
        is_done.store(true, Ordering::Relaxed);
        served.into_iter().for_each(|one| one.join().unwrap().unwrap());
    });
    pasts[1].read(&DeviceVolume::new(Arc::clone(&gone)), 0..SECTORS).unwrap();
    rig.cores[1] = new;
    drop((opened, stays, leaves, comes));
    // As after a crash.
    let opened = rig.open();
    for (past, number) in [(&pasts[0], 0), (&pasts[2], 6)] {
        past.read(&volume_of(&opened, number), 0..SECTORS).unwrap();
    }
    pasts.iter().for_each(Past::check);
    block_on(opened.stop(true)).unwrap();
}

#[test]
fn cores_come_and_go_under_load_and_nothing_is_lost_in_any_mode_of_any_layout() {
    for create in layouts() {
        Mode::all().for_each(|mode| under_load(&create, mode));
    }
}

/// The label lists a core before any of its data is cached, and stops listing it only when the core has all data:
/// after a power loss at each change of an addition or a removal, the cache has its old or its new state.
#[test]
fn a_loss_of_power_leaves_the_cache_with_the_core_or_without_it() {
    for create in layouts() {
        for removes in [false, true] {
            let mut ends = [0, 0];
            for seed in 0..4 {
                for number in 0.. {
                    assert!(number < 300, "it never ends");
                    let (is_over, is_new) = lose_power(&create, removes, (seed, number));
                    ends[usize::from(is_new)] += 1;
                    if is_over {
                        break;
                    }
                }
            }
            assert!(ends[0] > 1 && ends[1] > 1, "{create:?}, removes {removes}: {ends:?}");
        }
    }
}

/// Loses power at change `number`. Returns whether the operation had ended before, and whether the cache has its new
/// state.
fn lose_power(create: &CreateOptions, removes: bool, (seed, number): (u64, u64)) -> (bool, bool) {
    let of = |bytes: usize| (bytes as u64, 512, None);
    let (power, mut devices) = Power::feed(&[of(8 * MIB), of(MIB), of(MIB), of(MIB)]);
    let with = |number: u16, device| Core { device, ..another(number, 512) };
    let [six, five, zero] = [6, 5, 0].map(|number| with(number, devices.pop().unwrap()));
    let (mut rig, all) = (Rig::new(), [zero.clone(), five.clone(), six.clone()]);
    (rig.device, rig.cores) = (devices.pop().unwrap(), vec![zero, five.clone()]);
    power.return_with(seed, 0);
    rig.create(create);
    let mut opened = rig.open();
    let fills = [(0, 1), (5, 2)];
    fills.iter().for_each(|(number, fill)| write_to(&opened, *number, 8192, *fill, 65536));
    // Written around the cache, and durable only after a flush: the removal must flush the core.
    block_on(opened.set_mode(Mode::WriteAround, false)).unwrap();
    write_to(&opened, 5, 262_144, 3, 65536);
    block_on(opened.set_mode(Mode::WriteBack, false)).unwrap();
    power.lose_after(number);
    let is_over = {
        let change = async {
            match removes {
                true => opened.remove_core(core(5)).await,
                false => opened.add_core(&six).await,
            }
        };
        ends_or_is_lost(&power, change)
    };
    if is_over && !removes {
        power.lose_after(u64::MAX);
        write_to(&opened, 6, 0, 4, 4096);
    }
    power.lose();
    drop(opened);
    power.return_with(seed, 0);
    let after = listed(&rig.device, &all);
    let is_new = after.len() == if removes { 1 } else { 3 };
    assert!(is_new || (!is_over && after.len() == 2), "{number}: {after:?}");
    let at = format!("{create:?}, removes {removes}, seed {seed}, change {number}");
    let opened = block_on(open(&rig.device, &after, &options())).unwrap();
    assert!(read_from(&opened, 0, 8192, 65536) == [1; 65536], "{at}");
    if removes && is_new {
        assert!(read(&*five.device, 8192, 65536) == [2; 65536], "{at}");
        assert!(read(&*five.device, 262_144, 65536) == [3; 65536], "{at}");
        assert_eq!(opened.started.dirty_sectors, 128, "of core 0, {at}");
    } else {
        assert!(read_from(&opened, 5, 8192, 65536) == [2; 65536], "{at}");
    }
    if is_over && !removes {
        assert!(read_from(&opened, 6, 0, 4096) == [4; 4096], "{at}");
    }
    block_on(opened.stop(true)).unwrap();
    (is_over, is_new)
}

fn ends_or_is_lost<T: std::fmt::Debug, E: std::fmt::Debug>(
    power: &Power,
    change: impl Future<Output = Result<T, E>>,
) -> bool {
    let mut change = pin!(change);
    for _ in 0..10_000 {
        let polled = change.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if power.is_lost() {
            return false;
        }
        if let Poll::Ready(ended) = polled {
            ended.unwrap();
            return true;
        }
        power.let_go();
    }
    panic!("it does not end");
}

/// The n-th I/O of a device fails, for each n until none is hit: the cache keeps its old state and continues, or has
/// its new state. `of_core`: the device of the removed core fails; otherwise the cache device.
fn at_each_io(create: &CreateOptions, removes: bool, of_core: bool) {
    for number in 0.. {
        assert!(number < 300, "it never ends");
        let failing = |bytes| Arc::new(FaultDevice::new(memory(bytes), &FaultPlan::new(1)));
        let (front, five) = (failing(8 * MIB), failing(MIB));
        let mut rig = Rig::new();
        (rig.device, rig.cores[1].device) = (Arc::clone(&front) as _, Arc::clone(&five) as _);
        rig.create(create);
        let mut opened = rig.open();
        write_to(&opened, 0, 0, 1, 65536);
        write_to(&opened, 5, 0, 2, 65536);
        let fails = if of_core { &five } else { &front };
        let rule = FaultRule::new(Fault::Error).at_io(fails.submissions() + number);
        fails.set_plan(&FaultPlan::new(1).with(rule));
        let before = fails.counts().errors;
        let new = another(6, MIB);
        let (changed, number_of) = match removes {
            true => (block_on(opened.remove_core(core(5))), 5),
            false => (block_on(opened.add_core(&new)), 6),
        };
        let was_hit = fails.counts().errors > before;
        fails.set_plan(&FaultPlan::new(1));
        let at =
            format!("{create:?}, removes {removes}, of core {of_core}, I/O {number}: {changed:?}");
        let is_there = opened.cache.core(core(number_of)).is_some();
        assert_eq!(is_there, changed.is_ok() != removes, "{at}");
        assert!(was_hit || changed.is_ok(), "{at}");
        if changed.is_err() {
            assert_eq!(
                listed(&rig.device, &[rig.cores.as_slice(), std::slice::from_ref(&new)].concat())
                    .len(),
                2,
                "{at}"
            );
        }
        // In any case the present cores are served, and a second try succeeds.
        write_to(&opened, 0, 4096, 3, 4096);
        if changed.is_err() {
            opened.cache.work(Duration::from_secs(5));
            match removes {
                true => {
                    write_to(&opened, 5, 65536, 4, 4096);
                    block_on(opened.remove_core(core(5)))
                        .unwrap_or_else(|error| panic!("{error}, {at}"));
                }
                false => block_on(opened.add_core(&new)).unwrap(),
            }
            let byte = if removes { 4 } else { 0 };
            let device: &dyn Device = if removes { &*five } else { &*new.device };
            assert!(read(device, 65536, 4096) == [byte; 4096], "{at}");
        }
        if removes {
            assert!(read(&*five, 0, 65536) == [2; 65536], "{at}");
        }
        drop(opened);
        let mut all = rig.cores.clone();
        all.push(new);
        rig.cores = listed(&rig.device, &all);
        assert_eq!(rig.cores.len(), if removes { 1 } else { 3 }, "{at}");
        let opened = rig.open();
        assert!(read_from(&opened, 0, 4096, 8192) == [[3; 4096], [1; 4096]].concat(), "{at}");
        block_on(opened.stop(true)).unwrap();
        if !was_hit {
            assert!(number > 1 || of_core, "{at}");
            return;
        }
    }
}

#[test]
fn an_error_at_each_io_leaves_a_cache_that_goes_on_with_the_core_or_without_it() {
    for create in layouts() {
        at_each_io(&create, false, false);
        at_each_io(&create, true, false);
        at_each_io(&create, true, true);
    }
}

/// While its device refuses everything, a core stays with all its dirty data; then it can be removed.
#[test]
fn a_core_that_cannot_be_destaged_is_served_on() {
    for create in layouts() {
        let failing = Arc::new(FaultDevice::new(memory(16 * MIB), &FaultPlan::new(1)));
        let mut rig = Rig::new();
        rig.cores[1].device = Arc::clone(&failing) as _;
        rig.create(&create);
        let mut opened = rig.open();
        let cached = opened.cache.core(core(5)).unwrap();
        write(&cached, 0, 1, 65536);
        failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
        let refused = block_on(opened.remove_core(core(5))).unwrap_err();
        assert!(refused.to_string().contains("taking core 5 away"), "{refused}");
        assert_eq!(refused.kind(), ErrorKind::Device);
        assert_eq!(listed(&rig.device, &rig.cores).len(), 2);
        assert!(read(&cached, 0, 65536) == [1; 65536], "{create:?}");
        write(&cached, 4096, 2, 4096);
        failing.set_plan(&FaultPlan::new(1));
        opened.cache.work(Duration::from_secs(5));
        block_on(opened.remove_core(core(5))).unwrap();
        assert!(read(&*failing, 0, 8192) == [[1; 4096], [2; 4096]].concat(), "{create:?}");
        assert!(is_gone(&cached) && opened.cache.core(core(5)).is_none(), "{create:?}");
        let cleaned = block_on(opened.cache.clean_core(core(5))).unwrap_err();
        assert_eq!(cleaned.error.kind(), DeviceErrorKind::Gone);
        block_on(opened.stop(true)).unwrap();
    }
}

/// Data that is written while a core is destaged goes to the core at once, not at the end.
#[test]
fn what_is_written_to_a_core_that_leaves_goes_there_too() {
    let mut rig = Rig::new();
    let held = held_device(MIB);
    rig.cores[1].device = Arc::clone(&held) as _;
    rig.create(&log());
    let mut opened = rig.open();
    let cached = opened.cache.core(core(5)).unwrap();
    write(&cached, 0, 1, 4096);
    held.hold(is_change);
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| block_on(opened.remove_core(core(5))));
        held.wait_for(1);
        let mut buffer = IoBuffer::zeroed(4096);
        buffer.as_mut_slice().fill(2);
        let written = cached.submit(Io::write(65536, buffer, PlacementHandle::DEFAULT));
        let has_come = comes_true(|| held.waiting() == 2);
        held.hold(|_| false);
        (0..held.waiting()).for_each(|_| held.let_go());
        written.wait().unwrap();
        removing.join().unwrap().unwrap();
        assert!(has_come, "it is in the cache alone");
    });
    assert_eq!(
        (held.inner().bytes()[0], held.inner().bytes()[65536], is_gone(&cached)),
        (1, 2, true)
    );
}

/// Writes around the cache are durable on a removed core, which is not flushed afterwards.
#[test]
fn a_core_that_goes_is_flushed_and_the_others_are_flushed_without_it() {
    for create in layouts() {
        let volatile = FaultPlan::new(1).volatile_cache(true).volatile_writes(100_000);
        let five = Arc::new(FaultDevice::new(memory(MIB), &volatile));
        let mut rig = Rig::new();
        rig.cores[1].device = Arc::clone(&five) as _;
        rig.create(&create);
        let mut opened = rig.open();
        block_on(opened.set_mode(Mode::WriteAround, false)).unwrap();
        write_to(&opened, 5, 0, 1, 65536);
        write_to(&opened, 0, 0, 1, 65536);
        block_on(opened.remove_core(core(5))).unwrap();
        opened.cache.core(core(0)).unwrap().submit(Io::Flush).wait().unwrap();
        five.crash().unwrap();
        five.restart().unwrap();
        assert!(read(&*five, 0, 65536) == [1; 65536], "{create:?}");
    }
}

/// A label whose write failed, and which may be on the device nevertheless, loses no data.
#[test]
fn while_the_label_is_in_doubt_nothing_of_the_core_is_in_the_cache_alone() {
    let (rig, failing) = Rig::failing();
    rig.create(&log());
    let mut opened = rig.open();
    write_to(&opened, 5, 0, 1, 65536);
    block_on(opened.cache.clean()).unwrap();
    failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
    let refused = block_on(opened.remove_core(core(5))).unwrap_err();
    assert!(refused.to_string().contains("core 5 is none of the cache's"), "{refused}");
    failing.set_plan(&FaultPlan::new(1));
    write_to(&opened, 5, 0, 2, 4096);
    assert!(read(&*rig.cores[1].device, 0, 4096) == [2; 4096]);
    block_on(opened.add_core(&another(6, MIB))).unwrap();
    write_to(&opened, 5, 0, 3, 4096);
    assert!(
        read(&*rig.cores[1].device, 0, 4096) == [2; 4096],
        "a label that was written is no doubt"
    );
}

#[test]
fn what_cannot_come_or_go_is_refused_and_nothing_is_written() {
    let rig = Rig::new();
    rig.create(&log());
    let mut opened = rig.open();
    let before = rig.written();
    let refused = |opened: &mut OpenCache, new: &Core| {
        let error = block_on(opened.add_core(new)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setup, "{error}");
        error.to_string()
    };
    let new = another(6, MIB);
    for taken in [&rig.device, &rig.cores[0].device] {
        let twice = Core { device: Arc::clone(taken), ..new.clone() };
        assert!(refused(&mut opened, &twice).contains("the cache or one core, once"));
    }
    let elsewhere = Rig::new();
    elsewhere.create(&log());
    let other = elsewhere.open();
    let others = Core { device: Arc::clone(&elsewhere.cores[0].device), ..new.clone() };
    assert!(refused(&mut opened, &others).contains("another cache"));
    drop(other);
    assert!(refused(&mut opened, &another(0, MIB)).contains("one of that number"));
    let long = Core { name: "x".repeat(1 << 16), ..new.clone() };
    assert!(refused(&mut opened, &long).contains("shorter names"));
    let unknown = block_on(opened.remove_core(core(7))).unwrap_err();
    assert!(unknown.to_string().contains("core 7: the cache has 0, 5"), "{unknown}");
    assert_eq!(rig.written(), before);

    block_on(opened.remove_core(core(5))).unwrap();
    let only = block_on(opened.remove_core(core(0))).unwrap_err();
    assert!(only.to_string().contains("add another first"), "{only}");
    assert!(refused(&mut opened, &another(3, MIB)).contains("give 6 or more"));
    assert!(another(9, MIB).device.info().capacity_bytes > 0);
    // A refused device is not claimed.
    block_on(opened.add_core(&others)).unwrap();
    block_on(opened.detach()).unwrap();
    assert!(refused(&mut opened, &another(8, MIB)).contains("attach one first"));
    let detached = block_on(opened.remove_core(core(0))).unwrap_err();
    assert!(detached.to_string().contains("attach one first"), "{detached}");
}

/// On another cache device numbers are reused, and a client of the old core with this number does not get the new one.
#[test]
fn a_client_of_a_removed_core_never_gets_the_new_core_with_its_number() {
    let rig = Rig::new();
    rig.create(&log());
    let mut opened = rig.open();
    let before = opened.cache.core(core(5)).unwrap();
    write(&before, 0, 1, 65536);
    block_on(opened.remove_core(core(5))).unwrap();
    assert!(is_gone(&before));
    block_on(opened.detach()).unwrap();
    let attach = AttachOptions { layout: log().layout, ..AttachOptions::default() };
    block_on(opened.attach(&memory(8 * MIB), &attach)).unwrap();
    let new = another(5, MIB);
    block_on(opened.add_core(&new)).unwrap();
    assert!(is_gone(&before));
    assert!(read_from(&opened, 5, 0, 65536) == [0; 65536]);
    // The same device can be added again, with another number.
    let again = Core { id: core(6), ..rig.cores[1].clone() };
    block_on(opened.add_core(&again)).unwrap();
    assert!(is_gone(&before) && read_from(&opened, 6, 0, 65536) == [1; 65536]);
    block_on(opened.stop(true)).unwrap();
}

/// The current cache device may have larger blocks than the first one.
#[test]
fn a_core_that_comes_has_blocks_that_the_cache_device_has_too() {
    let of = |bytes: usize, block_bytes| -> DynDevice {
        Arc::new(MemoryDevice::with_blocks(vec![0; bytes], block_bytes).unwrap())
    };
    for create_options in layouts() {
        let long = vec![Core { device: of(MIB, 4096), ..another(0, MIB) }];
        let first = of(8 * MIB, 512);
        block_on(create(&first, &long, &create_options)).unwrap();
        let mut opened = block_on(open(&first, &long, &options())).unwrap();
        block_on(opened.detach()).unwrap();
        let layout = create_options.layout.clone();
        let attach = AttachOptions { layout, ..AttachOptions::default() };
        block_on(opened.attach(&of(8 * MIB, 4096), &attach)).unwrap();
        let short = Core { device: of(MIB, 512), ..another(1, MIB) };
        block_on(opened.add_core(&short)).unwrap();
        let cached = opened.cache.core(core(1)).unwrap();
        assert_eq!(cached.info().block_bytes, 4096);
        write(&cached, 4096, 1, 4096);
        assert!(read(&cached, 0, 8192) == [[0; 4096], [1; 4096]].concat());
        block_on(opened.stop(true)).unwrap();
    }
}

/// The cleaning of a whole core does not make other operations wait for its end.
#[test]
fn the_cleaning_of_a_core_pauses_while_others_wait() {
    let mut rig = Rig::new();
    rig.device = memory(64 * MIB);
    let held = held_device(64 * MIB);
    rig.cores[0].device = Arc::clone(&held) as _;
    rig.create(&log());
    let mut opened = rig.open();
    // More than is cleaned at a time.
    (0..12).for_each(|chunk| write_to(&opened, 0, chunk * 4 * MIB as u64, 1, 65536));
    held.hold(is_change);
    let cleaning = opened.cache.clean_core(core(0));
    held.wait_for(4);
    let new = another(6, MIB);
    std::thread::scope(|scope| {
        let adding = scope.spawn(|| block_on(opened.add_core(&new)));
        std::thread::sleep(Duration::from_millis(20));
        (0..4).for_each(|_| held.let_go());
        let was_added = comes_true(|| adding.is_finished());
        held.hold(|_| false);
        while held.waiting() > 0 {
            held.let_go();
        }
        adding.join().unwrap().unwrap();
        assert!(was_added, "it has waited for the whole core");
    });
    cleaning.wait().unwrap();
    assert_eq!(opened.cache.with(|cache| cache.usage().dirty_sectors), 0);
    assert!(held.inner().bytes()[44 * MIB..][..65536] == [1; 65536]);
    block_on(opened.stop(true)).unwrap();
}
