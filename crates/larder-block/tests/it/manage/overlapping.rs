//! Threads write and read the same few sectors concurrently, while modes change and cache devices are detached and
//! attached. Each sector of each read must hold a version that is possible at that time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use larder_block::manage::{AttachOptions, Over};
use larder_block::volume::CachedVolume;
use larder_device::{Durability, Error, IoResult};
use larder_export::volume::Volume;

use super::*;

const SECTOR: usize = 512;
/// All threads work on these sectors.
pub(super) const SECTORS: usize = 24;

/// A change or a read of a sector: its version, when it was submitted and when it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    sector: usize,
    version: u64,
    begin: u64,
    end: u64,
}

/// The changes and reads of all threads.
#[derive(Default)]
pub(super) struct Past {
    clock: AtomicU64,
    changes: Mutex<Vec<Event>>,
    pub(super) reads: Mutex<Vec<Event>>,
}

impl Past {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn note(events: &Mutex<Vec<Event>>, sectors: std::ops::Range<usize>, of: Event) {
        let all = sectors.map(|sector| Event { sector, ..of });
        events.lock().unwrap().extend(all);
    }

    fn write(&self, volume: &dyn Volume, sectors: std::ops::Range<usize>) -> Result<(), Error> {
        let begin = self.now();
        let mut buffer = IoBuffer::zeroed(sectors.len() * SECTOR);
        for word in buffer.as_mut_slice().chunks_exact_mut(8) {
            word.copy_from_slice(&begin.to_le_bytes());
        }
        let ended = volume.write((sectors.start * SECTOR) as u64, buffer, Durability::Device);
        self.changed(sectors, (begin, begin), ended.wait())
    }

    fn zero(&self, volume: &dyn Volume, sectors: std::ops::Range<usize>) -> Result<(), Error> {
        let begin = self.now();
        let bytes = (sectors.start * SECTOR) as u64..(sectors.end * SECTOR) as u64;
        self.changed(
            sectors,
            (0, begin),
            volume.write_zeroes(bytes, false, Durability::Device).wait(),
        )
    }

    /// Records that a change has ended. A refused change never ends: part of it may be there, because a change that
    /// does not begin and end at block boundaries has several steps.
    fn changed(
        &self,
        sectors: std::ops::Range<usize>,
        (version, begin): (u64, u64),
        ended: IoResult,
    ) -> Result<(), Error> {
        let end = if ended.is_ok() { self.now() } else { u64::MAX };
        Self::note(&self.changes, sectors, Event { sector: 0, version, begin, end });
        ended.map(drop).map_err(|failure| failure.error)
    }

    pub(super) fn read(
        &self,
        volume: &dyn Volume,
        sectors: std::ops::Range<usize>,
    ) -> Result<(), Error> {
        let begin = self.now();
        let buffer = IoBuffer::zeroed(sectors.len() * SECTOR);
        let read = volume.read((sectors.start * SECTOR) as u64, buffer).wait();
        let read = read.map_err(|failure| failure.error)?;
        let end = self.now();
        for (sector, bytes) in sectors.zip(read.as_slice().chunks_exact(SECTOR)) {
            let mut words = bytes.chunks_exact(8).map(|word| word.try_into().unwrap());
            let version = u64::from_le_bytes(words.next().unwrap());
            assert!(words.all(|word| u64::from_le_bytes(word) == version), "{sector} is torn");
            self.reads.lock().unwrap().push(Event { sector, version, begin, end });
        }
        Ok(())
    }

    /// Checks that each read returned a version that was written before the read ended, and that was not overwritten
    /// before the read began.
    pub(super) fn check(&self) {
        let mut changes = self.changes.lock().unwrap().clone();
        let first = Event { sector: 0, version: 0, begin: 0, end: 0 };
        changes.extend((0..SECTORS).map(|sector| Event { sector, ..first }));
        for read in self.reads.lock().unwrap().iter() {
            let of = || changes.iter().filter(|change| change.sector == read.sector);
            let is_there = |change: &&Event| {
                change.version == read.version
                    && change.begin < read.end
                    && !of().any(|other| other.begin > change.end && other.end < read.begin)
            };
            assert!(of().any(|change| is_there(&change)), "{read:?}");
        }
    }

    /// Submits requests one after the other. Ends at the first refusal.
    pub(super) fn work(
        &self,
        volume: &dyn Volume,
        seed: u64,
        is_done: &AtomicBool,
    ) -> Result<(), Error> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut asked = 0;
        while asked < 100 || (asked < 1000 && !is_done.load(Ordering::Relaxed)) {
            let start = rng.usize(..SECTORS);
            let sectors = start..(start + rng.usize(1..=12)).min(SECTORS);
            match rng.u8(..10) {
                0..5 => self.read(volume, sectors)?,
                5..9 => self.write(volume, sectors)?,
                _ => self.zero(volume, sectors)?,
            }
            asked += 1;
        }
        Ok(())
    }
}

/// Changes modes, and replaces the cache device repeatedly.
fn administer(opened: &mut OpenCache, devices: &[DynDevice; 2], create: &CreateOptions) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut uuids = [Over::Cache(opened.uuid), Over::Blank];
    for round in 1..=6_usize {
        for _ in 0..4 {
            block_on(opened.set_mode(rng.choice(Mode::all()).unwrap(), rng.bool())).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        block_on(opened.detach()).unwrap();
        block_on(opened.set_mode(Mode::WriteBack, false)).unwrap();
        let (layout, over) = (create.layout.clone(), uuids[round % 2]);
        let options = AttachOptions { layout, over, ..AttachOptions::default() };
        let uuid = block_on(opened.attach(&devices[round % 2], &options)).unwrap();
        uuids[round % 2] = Over::Cache(uuid);
    }
}

#[test]
fn concurrent_clients_read_valid_data_while_modes_and_devices_change() {
    for create in layouts() {
        let rig = Rig::new();
        rig.create(&create);
        let mut opened = rig.open();
        let devices = [Arc::clone(&rig.device), memory(8 * MIB)];
        let (past, is_done) = (Past::default(), AtomicBool::new(false));
        // Two exports of one core would be two volumes; connections share one volume.
        let volume = CachedVolume::new(opened.cache.core(core(0)).unwrap());
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let (past, volume, is_done) = (&past, &volume, &is_done);
                scope.spawn(move || past.work(volume, seed, is_done).unwrap());
            }
            administer(&mut opened, &devices, &create);
            is_done.store(true, Ordering::Relaxed);
        });
        past.read(&volume, 0..SECTORS).unwrap();
        drop((volume, opened));
        // As after a crash. The number of attached devices is even.
        let opened = rig.open();
        let volume = CachedVolume::new(opened.cache.core(core(0)).unwrap());
        past.read(&volume, 0..SECTORS).unwrap();
        past.check();
        block_on(opened.stop(true)).unwrap();
        assert!(past.reads.lock().unwrap().len() > 100);
    }
}
