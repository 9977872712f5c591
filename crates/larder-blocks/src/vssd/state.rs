//! The state of an array in memory, and how it is rebuilt when the array is opened.

use std::collections::{BTreeMap, BTreeSet};

use larder_device::{Completer, DeviceStats, Error, ErrorKind, IoBuffer};
use larder_ssd::raw::RawSsd;
use larder_vssd::{Images, LogicalBlock, Recovered, VssdId, Vssds};

use super::errors::of_model;
use super::keeper::{Keeper, Tail};
use super::load::TenantsLoad;
use super::slots::ArraySlots;
use super::word;

/// Images of any kind.
pub(super) type AnyImages = Box<dyn Images + Send>;

pub(super) struct ArrayState {
    pub(super) power: Power,
    pub(super) keeper: Box<dyn Keeper>,
    pub(super) slots: ArraySlots,
    pub(super) tails: BTreeMap<LogicalBlock, KeptTail>,
    entries: Entries,
    /// Appends that came before their predecessors.
    pub(super) early: BTreeMap<(LogicalBlock, u64), (IoBuffer, Completer)>,
    /// vSSDs that have a store now.
    stores: BTreeSet<VssdId>,
    pub(super) stats: BTreeMap<VssdId, DeviceStats>,
    pub(super) load: TenantsLoad,
    /// vSSDs that borrow, and whether their next clean block is their own.
    pub(super) borrowers: BTreeMap<VssdId, bool>,
    /// Blocks whose loans have ended and which their stores have not freed.
    pub(super) gone: BTreeSet<LogicalBlock>,
    pub(super) page_bytes: u32,
    /// Why it is unknown whether the last changes were kept.
    broken: Option<String>,
}

pub(super) enum Power {
    On(Box<Vssds<AnyImages>>),
    /// An open failed; these parts allow another attempt.
    Off(Vec<RawSsd>, Option<AnyImages>),
}

/// A tail, and its entry in the protected buffer.
pub(super) struct KeptTail {
    pub(super) entry: u32,
    pub(super) words: Vec<u64>,
}

/// Entries of the protected buffer.
#[derive(Default)]
struct Entries {
    free: Vec<u32>,
    end: u32,
}

impl ArrayState {
    /// The state of an array that was just powered on.
    pub(super) fn begin(
        array: Vssds<AnyImages>,
        keeper: Box<dyn Keeper>,
        page_bytes: u32,
    ) -> Result<Self, Error> {
        let mut state = Self {
            power: Power::On(Box::new(array)),
            keeper,
            slots: ArraySlots::new(0, []),
            tails: BTreeMap::new(),
            entries: Entries::default(),
            early: BTreeMap::new(),
            stores: BTreeSet::new(),
            stats: BTreeMap::new(),
            load: TenantsLoad::default(),
            borrowers: BTreeMap::new(),
            gone: BTreeSet::new(),
            page_bytes,
            broken: None,
        };
        state.find_bytes()?;
        Ok(state)
    }

    pub(super) fn array(&mut self) -> Result<&mut Vssds<AnyImages>, Error> {
        if let Some(why) = &self.broken {
            let context =
                format!("virtual SSDs: open them anew, for they could not be kept: {why}");
            return Err(Error::new(ErrorKind::Gone, context));
        }
        match &mut self.power {
            Power::On(array) => Ok(array),
            Power::Off(..) => {
                let context = "virtual SSDs: no power: a power cycle brings it back";
                Err(Error::new(ErrorKind::Gone, context))
            }
        }
    }

    /// Performs an operation on the array, and keeps its effects.
    pub(super) fn operate<T>(
        &mut self,
        what: &str,
        operate: impl FnOnce(&mut Vssds<AnyImages>) -> Result<T, larder_ssd::Error>,
    ) -> Result<T, Error> {
        let done = operate(self.array()?);
        // Also after a failure: a part of the operation may be on flash.
        self.keep_media()?;
        self.settle_loans()?;
        done.map_err(|error| of_model(what, &error))
    }

    fn keep_media(&mut self) -> Result<(), Error> {
        let Power::On(array) = &mut self.power else { return Ok(()) };
        let kept = self.keeper.after_operation(array.drives_mut());
        kept.map_err(|error| self.broke(error))
    }

    /// Records that it is unknown what was kept.
    #[cold]
    pub(super) fn broke(&mut self, error: Error) -> Error {
        self.broken = Some(error.to_string());
        error
    }

    pub(super) fn write_tail(
        &mut self,
        block: LogicalBlock,
        at: u64,
        words: Vec<u64>,
    ) -> Result<(), Error> {
        let entry = self.tails.get(&block).map(|kept| kept.entry);
        let entry = entry.unwrap_or_else(|| self.entries.take());
        let tail = Tail { block, at, words };
        self.keeper.write_tail(entry, Some(&tail)).map_err(|error| self.broke(error))?;
        self.tails.insert(block, KeptTail { entry, words: tail.words });
        Ok(())
    }

    pub(super) fn drop_tail(&mut self, block: LogicalBlock) -> Result<Vec<u64>, Error> {
        let Some(kept) = self.tails.remove(&block) else { return Ok(Vec::new()) };
        self.keeper.write_tail(kept.entry, None).map_err(|error| self.broke(error))?;
        self.entries.free.push(kept.entry);
        Ok(kept.words)
    }

    pub(super) fn release(&mut self, slots: &[u32]) -> Result<(), Error> {
        let free = self.slots.release(slots);
        self.keeper.release(&free).map_err(|error| self.broke(error))
    }

    /// Finds the slots that are named, and the tails that are still the ends of their blocks.
    fn find_bytes(&mut self) -> Result<(), Error> {
        let Power::On(array) = &mut self.power else { unreachable!("it is on") };
        self.keeper.after_operation(array.drives_mut())?;
        let geometry =
            array.drive(0).map(|drive| (*drive.geometry(), drive.geometry().stripe_pages()));
        let Some((geometry, stripe)) = geometry else { unreachable!("there is a drive") };
        let drives = array.drives_mut().len() as u64;
        let pages = drives * u64::from(geometry.blocks()) * u64::from(geometry.block_pages());
        let mut used = Vec::new();
        let mut written = BTreeMap::new();
        for id in array.list().map(|info| info.id).collect::<Vec<_>>() {
            for state in array.blocks(id).map_err(|error| of_model("opening", &error))? {
                written.insert(state.block, state.written_pages);
                used.extend(slots_of(array, id, state.block, state.written_pages));
            }
        }
        (self.tails, self.entries) = (BTreeMap::new(), Entries::default());
        for (entry, Tail { block, at, words }) in self.keeper.tails()? {
            let is_end = written.get(&block) == Some(&at) && words.len() < stripe as usize;
            if is_end && !words.is_empty() && !self.tails.contains_key(&block) {
                used.extend(words.iter().filter_map(|word| Some(word::unpack(*word)?.0)));
                self.tails.insert(block, KeptTail { entry, words });
            } else {
                // The tail's stripe is on flash, or its block is gone.
                self.keeper.write_tail(entry, None)?;
            }
        }
        self.entries = Entries::without(self.tails.values().map(|kept| kept.entry).collect());
        let count = u32::try_from(pages).unwrap_or(u32::MAX).min(u32::MAX - 1);
        self.slots = ArraySlots::new(count, used);
        Ok(())
    }

    pub(super) fn end(
        &mut self,
        id: VssdId,
        end: impl FnOnce(&mut Vssds<AnyImages>, VssdId) -> Result<(), larder_ssd::Error>,
    ) -> Result<(), Error> {
        if self.stores.contains(&id) {
            let context = format!("vSSD {}: its blocks are in use: close its store first", id.0);
            return Err(Error::new(ErrorKind::InUse, context));
        }
        let array = self.array()?;
        let blocks = array.blocks(id).map_err(|error| of_model("end of a vSSD", &error))?;
        let mut slots = Vec::new();
        for state in &blocks {
            slots.extend(slots_of(array, id, state.block, state.written_pages));
        }
        self.operate("end of a vSSD", |array| end(array, id))?;
        for state in &blocks {
            let words = self.drop_tail(state.block)?;
            slots.extend(words.iter().filter_map(|word| Some(word::unpack(*word)?.0)));
        }
        self.stats.remove(&id);
        self.load.forget(id);
        self.borrowers.remove(&id);
        self.release(&slots)
    }

    pub(super) fn power_cycle(&mut self) -> Result<Recovered, Error> {
        if !self.stores.is_empty() {
            let context = format!("power cycle: close the stores of {:?} first", self.stores);
            return Err(Error::new(ErrorKind::InUse, context));
        }
        let (mut drives, images) =
            match std::mem::replace(&mut self.power, Power::Off(Vec::new(), None)) {
                Power::On(array) => array.into_parts(),
                Power::Off(drives, Some(images)) => (drives, images),
                Power::Off(_, None) => unreachable!("images are put back"),
            };
        drives.iter_mut().for_each(RawSsd::power_loss);
        match Vssds::open(drives, images) {
            Ok((array, recovered)) => {
                self.power = Power::On(Box::new(array));
                self.broken = None;
                self.find_bytes().map_err(|error| self.broke(error))?;
                Ok(recovered)
            }
            Err(failed) => {
                let error = of_model("power cycle", failed.error());
                let (drives, images) = failed.into_parts();
                self.power = Power::Off(drives, Some(images));
                Err(error)
            }
        }
    }

    /// Marks the vSSD as having a store; fails if it has one already.
    pub(super) fn take_store(&mut self, id: VssdId) -> Result<(), Error> {
        if !self.stores.insert(id) {
            let context = format!("vSSD {}: it has a store already, which knows its blocks", id.0);
            return Err(Error::new(ErrorKind::InUse, context));
        }
        Ok(())
    }

    pub(super) fn give_store_back(&mut self, id: VssdId) {
        self.stores.remove(&id);
        self.gone.retain(|block| block.vssd() != id);
    }

    pub(super) fn has_store(&self, id: VssdId) -> bool {
        self.stores.contains(&id)
    }

    pub(super) fn media_written(&mut self, id: VssdId, bytes: u64, copied: u64) {
        let stats = self.stats.entry(id).or_default();
        *stats.media_written_bytes.get_or_insert(0) += bytes;
        *stats.copied_bytes.get_or_insert(0) += copied;
    }
}

/// The slots that pages of `block` name.
pub(super) fn slots_of(
    array: &Vssds<AnyImages>,
    id: VssdId,
    block: LogicalBlock,
    pages: u64,
) -> Vec<u32> {
    let word = |page| array.word(id, block, page).ok().flatten();
    (0..pages).filter_map(|page| Some(word::unpack(word(page)?)?.0)).collect()
}

impl Entries {
    fn without(taken: BTreeSet<u32>) -> Self {
        let end = taken.last().map_or(0, |last| last + 1);
        Self { free: (0..end).rev().filter(|entry| !taken.contains(entry)).collect(), end }
    }

    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }
}
