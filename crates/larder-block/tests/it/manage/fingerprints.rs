//! Dirty data goes to the core to which it belongs, and to no other.

use std::sync::Arc;

use larder_block::ErrorKind;
use larder_block::cache::Mode;
use larder_block::manage::{ChangedCore, Core, OpenOptions, create, open};
use larder_device::label::AREA_BYTES;
use larder_device::{
    CheckedIo, Device, DeviceInfo, DeviceStats, Fault, FaultPlan, FaultRule, Identifier,
    IdentifierKind, Identity, IoFuture, MemoryDevice, block_on,
};

use super::super::rig::core;
use super::{DynDevice, MIB, Rig, layouts, log, memory, options, put, read, write, write_to};

/// Cores with different content.
fn filled() -> Rig {
    let rig = Rig::new();
    for (number, core) in (1..).zip(&rig.cores) {
        fill(&core.device, number);
    }
    rig
}

fn fill(device: &DynDevice, seed: u64) {
    let mut bytes = vec![0; usize::try_from(device.info().capacity_bytes).unwrap()];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    put(device, 0, &bytes);
}

fn swapped(rig: &Rig) -> Rig {
    let [one, other] = [0, 1].map(|at| rig.cores[at].clone());
    let cores = vec![Core { id: one.id, ..other.clone() }, Core { id: other.id, ..one.clone() }];
    Rig { device: Arc::clone(&rig.device), cores }
}

/// Leaves only dirty data in the cache.
fn dirty(rig: &Rig) {
    let opened = rig.open();
    write_to(&opened, 0, 0, 0xaa, 65536);
    block_on(opened.stop(false)).unwrap();
}

#[test]
fn cores_that_have_changed_places_are_refused_and_named() {
    for create_options in layouts() {
        let rig = filled();
        rig.create(&create_options);
        dirty(&rig);
        for changed in [ChangedCore::Refuse, ChangedCore::DestageAndDrop] {
            let (kind, message) = swapped(&rig).refusal(&OpenOptions { changed, ..options() });
            assert_eq!(kind, ErrorKind::Changed);
            assert!(
                message.contains("core 0 (core-5): of ")
                    && message.contains("it has those of core 5")
                    && message.contains("they are 0=core-0, 5=core-5"),
                "{message}"
            );
        }
        let opened = rig.open();
        for checked in opened.checked() {
            assert!(checked.compared.distinguishing >= 100, "{checked:?}");
            assert_eq!((checked.compared.differing, checked.warning()), (0, None));
        }
        block_on(opened.stop(true)).unwrap();
        assert!(read(&*rig.cores[0].device, 0, 65536) == [0xaa; 65536]);
    }
}

#[test]
fn a_core_that_was_replaced_is_refused_unless_it_is_forced() {
    for create_options in layouts() {
        let mut rig = filled();
        rig.create(&create_options);
        dirty(&rig);
        rig.cores[0].device = memory(16 * MIB);
        let (kind, message) = rig.refusal(&options());
        assert!(kind == ErrorKind::Changed && message.contains("core 0 (core-0): of"), "{message}");
        let other = OpenOptions { force: vec![core(5)], ..options() };
        assert_eq!(rig.refusal(&other).0, ErrorKind::Changed);
        let forced = OpenOptions { force: vec![core(0)], ..options() };
        drop(block_on(open(&rig.device, &rig.cores, &forced)).unwrap());
        assert!(read(&*rig.cores[0].device, 0, 65536) == [0xaa; 65536]);
        let again = rig.open().checked()[0].compared;
        assert!(again.compared > 100 && again.differing == 0, "{again:?}");
    }
}

/// A copy from before more was written and destaged.
#[test]
fn an_old_copy_of_a_cache_does_not_take_its_core_back() {
    for create_options in layouts() {
        let rig = filled();
        rig.create(&create_options);
        dirty(&rig);
        let old = read(&*rig.device, 0, 8 * MIB);
        let opened = rig.open();
        write_to(&opened, 0, 0, 0xbb, 65536);
        block_on(opened.stop(true)).unwrap();
        put(&rig.device, 0, &old);
        let (kind, message) = rig.refusal(&options());
        assert!(kind == ErrorKind::Changed && message.contains("old copy"), "{message}");
        assert!(read(&*rig.cores[0].device, 0, 65536) == [0xbb; 65536]);
    }
}

#[test]
fn a_core_that_another_cache_has_written_is_refused() {
    for create_options in layouts() {
        let rig = filled();
        rig.create(&create_options);
        dirty(&rig);
        let other = Rig { device: memory(8 * MIB), cores: rig.cores.clone() };
        other.create(&create_options);
        let opened = other.open();
        write_to(&opened, 0, 0, 0xbb, MIB);
        block_on(opened.stop(true)).unwrap();
        assert_eq!(rig.refusal(&options()).0, ErrorKind::Changed);
        assert!(read(&*rig.cores[0].device, 0, MIB) == vec![0xbb; MIB]);
    }
}

/// Blank cores cannot be distinguished, which is reported.
#[test]
fn blank_cores_are_not_told_apart_and_that_is_said() {
    let rig = Rig::new();
    rig.create(&log());
    dirty(&rig);
    let opened = swapped(&rig).open();
    for checked in opened.checked() {
        assert_eq!((checked.compared.differing, checked.compared.distinguishing), (0, 0));
        let warning = checked.warning().unwrap();
        assert!(warning.contains("the same on other devices"), "{warning}");
    }
}

/// A damaged fingerprint counts as missing: it leads to a warning and a start.
#[test]
fn a_damaged_fingerprint_is_none() {
    let rig = filled();
    rig.create(&log());
    dirty(&rig);
    write(&*rig.device, 32 << 10, 0xff, 64 << 10);
    let opened = rig.open();
    for checked in opened.checked() {
        assert!(checked.warning().unwrap().contains("no block was compared"));
    }
    block_on(opened.stop(false)).unwrap();
    for checked in rig.open().checked() {
        assert!(checked.compared.distinguishing >= 100, "it is made anew: {checked:?}");
    }
}

/// It would be outdated when it can be read again.
#[test]
fn a_fingerprint_that_could_not_be_read_is_never_found_again() {
    let (rig, failing) = Rig::failing();
    let rig = Rig { cores: filled().cores, ..rig };
    rig.create(&log());
    // A fingerprint has one block in twenty-five by its position. If it has these, there is nothing to detect.
    let (block, other) = (4096 * 1001, 4096 * 2001);
    let note = |at| {
        let opened = rig.open();
        write_to(&opened, 0, at, 1, 4096);
        block_on(opened.cache.clean()).unwrap();
        block_on(opened.note_fingerprints());
    };
    // Both slots know the block then.
    note(block);
    note(other);
    // Those of the first core. An earlier read also covers the label.
    let slots = AREA_BYTES..AREA_BYTES + 8192;
    let rule = FaultRule::new(Fault::Error).on_reads().within(slots).at_match(1);
    failing.set_plan(&FaultPlan::new(1).with(rule));
    let opened = rig.open();
    assert!(opened.checked()[0].warning().unwrap().contains("no block was compared"));
    write_to(&opened, 0, block, 9, 4096);
    block_on(opened.cache.clean()).unwrap();
    // As by kill -9: the other slot is unchanged.
    drop(opened);
    failing.set_plan(&FaultPlan::new(1));
    let opened = rig.open();
    let compared = opened.checked()[0].compared;
    assert_eq!(compared.differing, 0, "{compared:?}");
    block_on(opened.note_fingerprints());
    drop(opened);
    let compared = rig.open().checked()[0].compared;
    assert_eq!(compared.differing, 0, "{compared:?}");
    assert!(compared.compared >= 100, "it is made anew: {compared:?}");
}

/// Writes to a core by the cache itself are no reason to refuse it, whenever the process was killed.
#[test]
fn what_the_cache_has_written_itself_is_no_change() {
    for create_options in layouts() {
        let rig = filled();
        rig.create(&create_options);
        let mut rng = fastrand::Rng::with_seed(7);
        for life in 0..12 {
            let mut opened = rig.open();
            for checked in opened.checked() {
                assert_eq!(checked.compared.differing, 0, "life {life}: {checked:?}");
                assert!(life == 0 || checked.compared.compared > 0);
            }
            let mode = rng.choice(Mode::all()).unwrap();
            block_on(opened.set_mode(mode, rng.bool())).unwrap();
            for _ in 0..200 {
                let (number, at) = (rng.choice([0, 5]).unwrap(), rng.u64(..3800));
                write_to(&opened, number, at * 4096, rng.u8(..), 4096);
            }
            match rng.u8(..4) {
                0 => block_on(opened.cache.clean()).unwrap(),
                1 => block_on(opened.note_fingerprints()),
                2 => {
                    block_on(opened.cache.clean()).unwrap();
                    block_on(opened.note_fingerprints());
                    write_to(&opened, 0, 0, rng.u8(..), 2 * MIB);
                    block_on(opened.cache.clean()).unwrap();
                }
                _ => {}
            }
            // As by kill -9.
            drop(opened);
        }
    }
}

/// A device with an identity.
struct IdentifiedDevice(DynDevice, DeviceInfo);

impl Device for IdentifiedDevice {
    fn info(&self) -> &DeviceInfo {
        &self.1
    }

    fn stats(&self) -> DeviceStats {
        self.0.stats()
    }

    fn start(&self, io: CheckedIo) -> IoFuture {
        self.0.start(io)
    }
}

fn known(core: &Core, kind: IdentifierKind, value: &str) -> Core {
    let identity = Identity::new([Identifier { kind, value: value.to_owned() }]);
    let info = DeviceInfo { identity, ..core.device.info().clone() };
    Core { device: Arc::new(IdentifiedDevice(Arc::clone(&core.device), info)), ..core.clone() }
}

#[test]
fn another_drive_with_the_same_content_is_refused_and_a_copied_file_is_noted() {
    for (kind, is_refused) in [(IdentifierKind::Wwn, true), (IdentifierKind::Inode, false)] {
        let mut rig = filled();
        let plain = rig.cores[0].clone();
        rig.cores[0] = known(&plain, kind, "the first");
        rig.create(&log());
        dirty(&rig);
        rig.cores[0] = known(&plain, kind, "another");
        if is_refused {
            let (_, message) = rig.refusal(&options());
            assert!(message.contains("known by WWN the first and has WWN another"), "{message}");
            let forced = OpenOptions { force: vec![core(0)], ..options() };
            let opened = block_on(open(&rig.device, &rig.cores, &forced)).unwrap();
            block_on(opened.stop(false)).unwrap();
        } else {
            let opened = rig.open();
            let note = opened.checked()[0].note.clone().unwrap();
            assert!(note.contains("known by inode the first and has inode another"), "{note}");
            block_on(opened.stop(false)).unwrap();
        }
        assert_eq!(rig.open().checked()[0].note, None, "it is known by the new one now");
    }
}

/// Nothing on them distinguishes them, but each has the known identity of the other one.
#[test]
fn blank_files_that_have_changed_places_are_refused() {
    let mut rig = Rig::new();
    let plain = rig.cores.clone();
    let inode = |core: &Core, value| known(core, IdentifierKind::Inode, value);
    rig.cores = vec![inode(&plain[0], "1"), inode(&plain[1], "2")];
    rig.create(&log());
    dirty(&rig);
    let (kind, message) = swapped(&rig).refusal(&options());
    assert!(kind == ErrorKind::Changed && message.contains("as core 5 had"), "{message}");
    rig.open();
}

/// More cores than there is room for: the excess cores have no fingerprint, which is reported.
#[test]
fn cores_beyond_the_room_for_fingerprints_are_served() {
    let rig = Rig { device: memory(8 * MIB), cores: Vec::new() };
    let of = |number: u16| Core {
        id: core(number),
        name: String::new(),
        device: Arc::new(MemoryDevice::holding(vec![3; 4096])),
    };
    let cores: Vec<Core> = (0..9).map(of).collect();
    block_on(create(&rig.device, &cores[..1], &log())).unwrap();
    for next in 1..9 {
        let known = &cores[..next];
        block_on(larder_block::manage::add_core(&rig.device, known, &cores[next])).unwrap();
    }
    let opened = block_on(open(&rig.device, &cores, &options())).unwrap();
    let compared: Vec<u32> = opened.checked().iter().map(|it| it.compared.compared).collect();
    assert_eq!(compared, [1, 1, 1, 1, 1, 1, 1, 1, 0]);
}
