//! The bytes of blocks: the effects of appends, reads and freeings on words, slots and tails.

use larder_device::{Error, ErrorKind, IoBuffer};
use larder_vssd::{LogicalBlock, Pages, Vssds};

use super::errors::of_model;
use super::state::{AnyImages, ArrayState, slots_of};
use super::word;

/// The result of a check of all pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Blocks that were checked.
    pub blocks: u64,
    /// Pages that were read.
    pub pages: u64,
    /// The problems found, in words: one for each bad page, and disagreements of the map and the drives.
    pub wrong: Vec<String>,
}

impl ArrayState {
    /// Pages that a die programs at once.
    fn stripe_pages(&mut self) -> Result<usize, Error> {
        let drive = self.array()?.drive(0);
        Ok(drive.map_or(1, |drive| drive.geometry().stripe_pages() as usize))
    }

    /// Number of pages of `block` on flash, and the words of its tail.
    fn ends(&mut self, block: LogicalBlock) -> Result<(u64, Vec<u64>), Error> {
        let written = self.array()?.written_pages(block.vssd(), block);
        let written = written.map_err(|error| of_model("block", &error))?;
        Ok((written, self.tails.get(&block).map_or(Vec::new(), |kept| kept.words.clone())))
    }

    /// Bytes of `block` that can be read.
    pub(super) fn written_bytes(&mut self, block: LogicalBlock) -> Result<u64, Error> {
        let (written, tail) = self.ends(block)?;
        Ok((written + tail.len() as u64) * u64::from(self.page_bytes))
    }

    /// Appends `buffer`, which is whole pages, at the end of `block`.
    ///
    /// First the bytes go to their slots, then whole stripes with their words to flash, then the rest to the protected
    /// buffer. A failure in between leaves slots that no page names.
    pub(super) fn append(&mut self, block: LogicalBlock, buffer: &IoBuffer) -> Result<(), Error> {
        if self.gone.contains(&block) {
            // What may vanish at any time has vanished at once.
            return Ok(());
        }
        let stripe = self.stripe_pages()?;
        let (written, mut words) = self.ends(block)?;
        let tail = words.len();
        let page_bytes = self.page_bytes as usize;
        let first = written + tail as u64;
        let new = self.write_pages(block, first, buffer, buffer.len() / page_bytes)?;
        words.extend(new);
        let on_flash = words.len() - words.len() % stripe;
        if on_flash > 0 {
            match self.program(block, written, &words[..on_flash], tail) {
                // It was called back in the middle: then its tail is released, and these slots are not.
                Err(_) if self.gone.contains(&block) => {
                    let slots = words.iter().skip(tail).filter_map(|word| word::unpack(*word));
                    let slots: Vec<u32> = slots.map(|(slot, _)| slot).collect();
                    return self.release(&slots);
                }
                programmed => programmed?,
            }
        }
        let rest = words.split_off(on_flash);
        if rest.is_empty() {
            self.drop_tail(block)?;
        } else {
            self.write_tail(block, written + on_flash as u64, rest)?;
        }
        let stats = self.stats.entry(block.vssd()).or_default();
        stats.host_written_bytes += buffer.len() as u64;
        Ok(())
    }

    /// Writes `count` pages to slots, and returns their words.
    fn write_pages(
        &mut self,
        block: LogicalBlock,
        first: u64,
        buffer: &IoBuffer,
        count: usize,
    ) -> Result<Vec<u64>, Error> {
        let Some(slots) = self.slots.take(count) else {
            let context = format!("append of {count} pages: no slots are left for their bytes");
            return Err(Error::new(ErrorKind::NoSpace, context));
        };
        let mut page = vec![0; self.page_bytes as usize];
        let mut words = Vec::with_capacity(count);
        for (index, slot) in slots.into_iter().enumerate() {
            buffer.copy_out(index * page.len(), &mut page);
            self.keeper.write_page(slot, &page).map_err(|error| self.broke(error))?;
            let checksum = word::checksum(block, first + index as u64, &page);
            words.push(word::pack(slot, checksum));
        }
        Ok(words)
    }

    /// Programs whole stripes. The first `tail` words were acknowledged before.
    fn program(
        &mut self,
        block: LogicalBlock,
        written: u64,
        words: &[u64],
        tail: usize,
    ) -> Result<(), Error> {
        let id = block.vssd();
        let media = |array: &mut Vssds<AnyImages>| {
            array.drives_mut().iter().map(|drive| drive.programmed_pages()).sum::<u64>()
        };
        let before = media(self.array()?);
        let done =
            self.operate("append", |array| array.append(id, block, written, Pages::Words(words)));
        let after = media(self.array()?);
        let page = u64::from(self.page_bytes);
        let asked = if done.is_ok() { words.len() as u64 } else { 0 };
        let programmed = after - before;
        self.media_written(id, programmed * page, programmed.saturating_sub(asked) * page);
        let Err(error) = done else { return Ok(()) };
        if error.kind() != ErrorKind::Gone && !self.gone.contains(&block) {
            self.keep_part(block, written, words, tail)?;
        }
        Err(error)
    }

    /// Handles stripes that failed half-way: what is on flash stays, and so does the old tail if it is not on flash.
    fn keep_part(
        &mut self,
        block: LogicalBlock,
        written: u64,
        words: &[u64],
        tail: usize,
    ) -> Result<(), Error> {
        let now = self.array()?.written_pages(block.vssd(), block);
        let now = now.map_err(|error| of_model("block", &error))?;
        let done = usize::try_from(now - written).unwrap_or(usize::MAX);
        if done > 0 {
            self.drop_tail(block)?;
        }
        let lost = words.get(done.max(tail)..).unwrap_or_default();
        let slots: Vec<u32> = lost.iter().filter_map(|word| Some(word::unpack(*word)?.0)).collect();
        self.release(&slots)
    }

    /// Fills `buffer`, which is whole pages, from page `first` of `block` on.
    pub(super) fn read(
        &mut self,
        block: LogicalBlock,
        first: u64,
        buffer: &mut IoBuffer,
    ) -> Result<(), Error> {
        self.check_there(block)?;
        let id = block.vssd();
        let (written, tail) = self.ends(block)?;
        let page_bytes = self.page_bytes as usize;
        let end = first + (buffer.len() / page_bytes) as u64;
        if first < written {
            let count = end.min(written) - first;
            self.operate("read", |array| array.read(id, block, first, count))?;
        }
        let mut page = vec![0; page_bytes];
        for (index, number) in (first..end).enumerate() {
            let word = match number.checked_sub(written) {
                None => self.array()?.word(id, block, number),
                Some(behind) => {
                    Ok(tail.get(usize::try_from(behind).unwrap_or(usize::MAX)).copied())
                }
            };
            let word = word.map_err(|error| of_model("read", &error))?;
            self.read_page(block, number, word, &mut page)?;
            buffer.copy_in(index * page_bytes, &page);
        }
        let stats = self.stats.entry(id).or_default();
        stats.host_read_bytes += buffer.len() as u64;
        Ok(())
    }

    /// Fills `page` with the bytes that `word` names, if they are those of page `number` of `block`.
    fn read_page(
        &mut self,
        block: LogicalBlock,
        number: u64,
        word: Option<u64>,
        page: &mut [u8],
    ) -> Result<(), Error> {
        let damaged = || {
            let context = format!(
                "read of page {number} of block {}: its bytes are not those that were written",
                block.number()
            );
            Error::new(ErrorKind::Io, context)
        };
        let (slot, checksum) = word.and_then(word::unpack).ok_or_else(damaged)?;
        self.keeper.read_page(slot, page)?;
        if word::checksum(block, number, page) == checksum { Ok(()) } else { Err(damaged()) }
    }

    /// Frees `block` and releases its slots.
    pub(super) fn free(&mut self, block: LogicalBlock) -> Result<(), Error> {
        if self.gone.remove(&block) {
            return Ok(());
        }
        let id = block.vssd();
        let (written, tail) = self.ends(block)?;
        let mut slots = slots_of(self.array()?, id, block, written);
        slots.extend(tail.iter().filter_map(|word| Some(word::unpack(*word)?.0)));
        self.operate("freeing", |array| array.free_block(id, block))?;
        self.drop_tail(block)?;
        let page = u64::from(self.page_bytes);
        let stats = self.stats.entry(id).or_default();
        stats.deallocated_bytes += (written + tail.len() as u64) * page;
        self.release(&slots)
    }

    pub(super) fn verify(&mut self) -> Result<Verified, Error> {
        let mut found = Verified::default();
        let array = self.array()?;
        found.wrong.extend(array.audit().err());
        let ids: Vec<_> = array.list().map(|info| info.id).collect();
        let mut blocks = Vec::new();
        for id in ids {
            blocks.extend(array.blocks(id).map_err(|error| of_model("blocks", &error))?);
        }
        let shared = self.slots.shared();
        if shared > 0 {
            found.wrong.push(format!("{shared} slots are named by more than one page"));
        }
        for state in blocks {
            found.blocks += 1;
            let (written, tail) = self.ends(state.block)?;
            for number in 0..written + tail.len() as u64 {
                found.pages += 1;
                let mut page = IoBuffer::zeroed(self.page_bytes as usize);
                if let Err(error) = self.read(state.block, number, &mut page) {
                    found.wrong.push(error.to_string());
                }
            }
        }
        Ok(found)
    }
}
