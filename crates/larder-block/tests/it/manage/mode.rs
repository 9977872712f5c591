//! A change of the mode that is interrupted: which mode the cache has then, which mode the label has, and which mode a
//! start uses.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use larder_block::manage::look;
use larder_device::label::AREA_BYTES;

use super::power::Power;
use super::*;

fn mode_of(opened: &OpenCache) -> Mode {
    opened.cache.with(|cache| cache.options().mode)
}

fn label_of(device: &DynDevice) -> Mode {
    block_on(look(device)).unwrap().stored.mode
}

fn dirty_sectors(opened: &OpenCache) -> u64 {
    opened.cache.with(|cache| cache.usage().dirty_sectors)
}

fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A cache in the mode `from`. It has dirty data if `is_dirty`.
fn in_mode(rig: &Rig, create: &CreateOptions, from: Mode, is_dirty: bool) -> OpenCache {
    rig.create(create);
    let mut opened = rig.open();
    write_to(&opened, 0, 0, 1, 65536);
    block_on(opened.set_mode(from, !is_dirty)).unwrap();
    opened
}

/// An error of the cache device at each I/O of a change between two modes.
fn errors_between(create: &CreateOptions, from: Mode, to: Mode, destages: bool) {
    for number in 0.. {
        assert!(number < 100, "it never ends");
        let (rig, failing) = Rig::failing();
        let mut opened = in_mode(&rig, create, from, from.may_be_dirty());
        let rule = FaultRule::new(Fault::Error).at_io(failing.submissions() + number);
        failing.set_plan(&FaultPlan::new(1).with(rule));
        let before = failing.counts().errors;
        let set = block_on(opened.set_mode(to, destages));
        let was_hit = failing.counts().errors > before;
        failing.set_plan(&FaultPlan::new(1));
        let at = format!("{create:?}, {from} to {to}, destages {destages}, I/O {number}: {set:?}");
        let leaves_dirt = from.may_be_dirty() && !to.may_be_dirty();
        let is_new = set.is_ok() || leaves_dirt;
        assert_eq!(mode_of(&opened), if is_new { to } else { from }, "{at}");
        // The previous content is written over a label that the device refused.
        assert_eq!(label_of(&rig.device), if set.is_ok() { to } else { from }, "{at}");
        assert_eq!(opened.stored().mode, label_of(&rig.device), "{at}");
        write_to(&opened, 0, 131_072, 2, 4096);
        if set.is_ok() && destages && !to.may_be_dirty() {
            assert_eq!(dirty_sectors(&opened), 0, "{at}");
        }
        // Later labels have the mode that the label has now.
        let _noted = block_on(opened.note_clean());
        drop(opened);
        let opened = rig.open();
        assert_eq!(mode_of(&opened), if set.is_ok() { to } else { from }, "{at}");
        assert!(read_from(&opened, 0, 0, 65536) == [1; 65536], "{at}");
        assert!(read_from(&opened, 0, 131_072, 4096) == [2; 4096], "{at}");
        if !was_hit {
            assert!(set.is_ok() && number > 1, "{at}");
            return;
        }
    }
}

#[test]
fn an_error_at_each_io_of_a_change_leaves_one_of_both_modes_and_nothing_is_lost() {
    for create in layouts() {
        for (from, to) in [
            (Mode::WriteBack, Mode::WriteThrough),
            (Mode::WriteThrough, Mode::WriteBack),
            (Mode::WriteOnly, Mode::WriteBack),
            (Mode::WriteAround, Mode::PassThrough),
        ] {
            errors_between(&create, from, to, true);
            errors_between(&create, from, to, false);
        }
    }
}

/// Power is lost at change `number` of a switch between two modes. Returns whether the switch had ended before.
fn power_lost_between(
    create: &CreateOptions,
    (from, to): (Mode, Mode),
    (seed, number): (u64, u64),
) -> bool {
    let of = |bytes: usize| (bytes as u64, 512, None);
    let (power, mut devices) = Power::feed(&[of(MIB), of(MIB), of(8 * MIB)]);
    let mut rig = Rig::new();
    rig.device = devices.pop().unwrap();
    rig.cores.iter_mut().zip(devices).for_each(|(core, device)| core.device = device);
    power.return_with(seed, 0);
    let mut opened = in_mode(&rig, create, from, from.may_be_dirty());
    opened.cache.core(core(0)).unwrap().submit(Io::Flush).wait().unwrap();
    power.lose_after(number);
    let is_over = {
        let mut set = pin!(opened.set_mode(to, true));
        loop {
            let polled = poll(set.as_mut());
            if power.is_lost() {
                break false;
            }
            if let Poll::Ready(ended) = polled {
                ended.unwrap();
                break true;
            }
            power.let_go();
        }
    };
    if is_over {
        power.lose_after(u64::MAX);
        write_to(&opened, 0, 131_072, 2, 4096);
        opened.cache.core(core(0)).unwrap().submit(Io::Flush).wait().unwrap();
    }
    power.lose();
    power.forget_the_unheard();
    drop(opened);
    power.return_with(seed, 0);
    let opened = rig.open();
    let at = format!("{create:?}, {from} to {to}, seed {seed}, change {number}");
    let mode = mode_of(&opened);
    assert!(mode == to || (!is_over && mode == from), "{at}: {mode}");
    assert!(mode.may_be_dirty() || dirty_sectors(&opened) == 0, "{at}: {mode}");
    assert!(read_from(&opened, 0, 0, 65536) == [1; 65536], "{at}");
    assert!(!is_over || read_from(&opened, 0, 131_072, 4096) == [2; 4096], "{at}");
    is_over
}

#[test]
fn a_loss_of_power_within_a_change_leaves_one_of_both_modes_and_dirty_data_by_it_alone() {
    for create in layouts() {
        for modes in [(Mode::WriteBack, Mode::WriteThrough), (Mode::WriteThrough, Mode::WriteBack)]
        {
            let mut number = 0;
            while !power_lost_between(&create, modes, (number, number)) {
                number += 1;
                assert!(number < 300, "it never ends");
            }
            assert!(number > 2, "{create:?}, {modes:?}");
        }
    }
}

/// While the write of the label waits, nothing becomes dirty: the core gets the writes too.
#[test]
fn nothing_is_dirty_before_the_label_says_that_it_may_be() {
    for create in layouts() {
        let (rig, failing) = Rig::failing();
        let mut opened = in_mode(&rig, &create, Mode::WriteThrough, false);
        let cache = opened.cache.clone();
        let dirty = || cache.with(|cache| cache.usage().dirty_sectors);
        let cached = cache.core(core(0)).unwrap();
        let stalls = FaultRule::new(Fault::Stall).within(0..AREA_BYTES).on_writes();
        failing.set_plan(&FaultPlan::new(1).with(stalls));
        {
            let mut set = pin!(opened.set_mode(Mode::WriteBack, false));
            assert!(poll(set.as_mut()).is_pending());
            write(&cached, 131_072, 2, 4096);
            assert_eq!(dirty(), 0, "{create:?}");
            failing.set_plan(&FaultPlan::new(1));
            failing.release_delayed();
            block_on(set).unwrap();
        }
        write(&cached, 131_072, 3, 4096);
        assert!(dirty() > 0, "{create:?}");
        // In the other direction, nothing becomes dirty while the label waits.
        failing.set_plan(
            &FaultPlan::new(1).with(FaultRule::new(Fault::Stall).within(0..AREA_BYTES).on_writes()),
        );
        let mut set = pin!(opened.set_mode(Mode::WriteThrough, true));
        assert!(poll(set.as_mut()).is_pending());
        write(&cached, 262_144, 4, 4096);
        assert_eq!((dirty(), read(&*rig.cores[0].device, 262_144, 4096)[0]), (0, 4), "{create:?}");
        failing.set_plan(&FaultPlan::new(1));
        failing.release_delayed();
        block_on(set).unwrap();
    }
}

/// The device refuses both the new label and the write that restores the old one.
#[test]
fn a_label_that_may_be_either_takes_nothing_with_it() {
    for (from, to) in [(Mode::WriteBack, Mode::WriteThrough), (Mode::WriteThrough, Mode::WriteBack)]
    {
        let (rig, failing) = Rig::failing();
        let mut opened = in_mode(&rig, &log(), from, true);
        let refuse = FaultRule::new(Fault::Error).within(0..AREA_BYTES).on_writes();
        failing.set_plan(&FaultPlan::new(1).with(refuse));
        let refused = block_on(opened.set_mode(to, false)).unwrap_err().to_string();
        assert!(refused.contains(&format!("may be in the mode {to}")), "{refused}");
        assert_eq!((mode_of(&opened), opened.stored().mode), (Mode::WriteThrough, from));
        failing.set_plan(&FaultPlan::new(1));
        write_to(&opened, 0, 131_072, 2, 4096);
        assert_eq!(read(&*rig.cores[0].device, 131_072, 4096), [2; 4096]);
        drop(opened);
        let opened = rig.open();
        assert!(read_from(&opened, 0, 0, 65536) == [1; 65536]);
        assert!(read_from(&opened, 0, 131_072, 4096) == [2; 4096]);
    }
}

/// A label that is written for a new mode, or later for clean data, also ends the doubt.
#[test]
fn a_label_of_a_mode_ends_a_doubt() {
    for by_mode in [true, false] {
        let (rig, failing) = Rig::failing();
        rig.create(&log());
        let mut opened = rig.open();
        failing.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
        block_on(opened.remove_core(core(5))).unwrap_err();
        failing.set_plan(&FaultPlan::new(1));
        write_to(&opened, 5, 0, 2, 4096);
        assert_eq!(dirty_sectors(&opened), 0, "it is in doubt");
        match by_mode {
            true => block_on(opened.set_mode(Mode::WriteBack, false)).unwrap(),
            false => block_on(opened.note_clean()).unwrap(),
        }
        write_to(&opened, 5, 0, 3, 4096);
        assert_eq!(dirty_sectors(&opened), 8, "by a mode {by_mode}");
    }
}

/// A given-up cache does not become valid again through a label that is written for another reason.
#[test]
fn no_label_makes_believe_in_what_was_given_up() {
    let changes: [fn(&mut OpenCache); 2] = [
        |opened| block_on(opened.set_mode(Mode::WriteBack, false)).unwrap(),
        |opened| {
            let new = Core { id: core(6), name: String::new(), device: memory(MIB) };
            block_on(opened.add_core(&new)).unwrap();
        },
    ];
    for (change, number) in changes.into_iter().zip(0..) {
        let (rig, failing) = Rig::failing();
        let mut opened = in_mode(&rig, &log(), Mode::WriteThrough, false);
        let rule = FaultRule::new(Fault::Error).within(AREA_BYTES..8 * MIB as u64).on_writes();
        failing.set_plan(&FaultPlan::new(1).with(rule));
        (0..16).for_each(|number| write_to(&opened, 0, number * 4096, 9, 4096));
        assert_eq!(opened.cache.with(|cache| cache.health()), Health::Failed);
        failing.set_plan(&FaultPlan::new(1));
        change(&mut opened);
        assert!(block_on(look(&rig.device)).unwrap().stored.is_distrusted, "change {number}");
    }
}
