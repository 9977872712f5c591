//! Reads and writes an image.

use larder_ssd::nand::BlockIndex;
use larder_ssd::raw::{BlockChange, BlockImage, BlockTag, RawSsd};
use larder_ssd::{Error, ErrorKind};

use super::header::{HEADER_BYTES, ImageConfig};
use super::io::ImageIo;
use super::layout::Layout;
use super::record::{
    BLOCK_BYTES, TailRecord, decode_block, decode_tail, encode_block, encode_tail,
};
use crate::images::{IMAGES, ImageFailed};

/// Block records per read.
const RECORDS_AT_ONCE: u16 = 4096;

/// An open image.
#[derive(Debug)]
pub struct ModelImage<F> {
    io: F,
    config: ImageConfig,
    layout: Layout,
    /// Offset within each catalogue image at which the next record goes; `None` until a catalogue is written. Every
    /// opening of an array writes one.
    ends: [Option<u64>; IMAGES],
}

/// Repairs of damaged copies: offset, and the bytes to write there.
type Repairs = Vec<(u64, Vec<u8>)>;

#[cold]
fn unbelievable(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Image, what)
}

#[cold]
fn failed(what: &str, ImageFailed(why): &ImageFailed) -> Error {
    unbelievable(format!("{what}: {why}"))
}

impl<F: ImageIo> ModelImage<F> {
    /// Creates an image of new drives, without its header: after creating an array on them, the caller completes it
    /// with [`Self::finish`]. Previous content is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if an image cannot hold such drives; [`ErrorKind::Image`] if `io` fails.
    pub fn format(mut io: F, config: ImageConfig) -> Result<(Self, Vec<RawSsd>), Error> {
        config.check()?;
        let layout = Layout::of(&config)?;
        let drives = (0..config.drives).map(|_| RawSsd::new(config.drive_of_image()));
        let drives = drives.collect::<Result<Vec<_>, _>>()?;
        let write = |io: &mut F| {
            // Truncate first, so that no old content is left.
            io.set_bytes(0)?;
            io.set_bytes(layout.bytes)?;
            for copy in layout.records {
                let mut records = Vec::new();
                for number in 0..layout.blocks {
                    records.extend(encode_block(&config.identity, number, &BlockImage::FRESH));
                    if records.len() >= 1 << 20 || number + 1 == layout.blocks {
                        let before = (number + 1) * BLOCK_BYTES as u64 - records.len() as u64;
                        io.write_at(copy + before, &records)?;
                        records.clear();
                    }
                }
            }
            Ok(())
        };
        write(&mut io).map_err(|error| failed("new image", &error))?;
        Ok((Self { io, config, layout, ends: [None; IMAGES] }, drives))
    }

    /// Writes the header. Only then is it a valid image.
    ///
    /// # Errors
    /// [`ErrorKind::Image`] if `io` fails.
    pub fn finish(&mut self) -> Result<(), Error> {
        let header = self.config.encode();
        let write = |io: &mut F| {
            io.sync()?;
            io.write_at(HEADER_BYTES as u64, &header)?;
            io.write_at(0, &header)?;
            io.sync()
        };
        write(&mut self.io).map_err(|error| failed("header of a new image", &error))
    }

    /// Opens an image and returns its drives, as if they had lost power after the last write to it.
    ///
    /// # Errors
    /// [`ErrorKind::Image`] if it is not an image, has another version, is truncated, or if a part is damaged in both
    /// of its copies or has an impossible value; the message names the part. Nothing is written in these cases.
    pub fn open(mut io: F) -> Result<(Self, Vec<RawSsd>), Error> {
        let bytes = io.bytes().map_err(|error| failed("length of the image", &error))?;
        let (config, mut repairs) = Self::read_header(&mut io, bytes)?;
        let layout = Layout::of(&config).map_err(|error| unbelievable(error.to_string()))?;
        if bytes < layout.bytes {
            let message = format!(
                "it is cut short: {bytes} bytes of {}: bring back the rest, or make a new image",
                layout.bytes
            );
            return Err(unbelievable(message));
        }
        let mut image = Self { io, config, layout, ends: [None; IMAGES] };
        let states = image.read_blocks(&mut repairs)?;
        image.read_tails(&mut repairs)?;
        let drives = image.restore(&states)?;
        for (at, bytes) in repairs {
            image.io.write_at(at, &bytes).map_err(|error| failed("repair of a copy", &error))?;
        }
        Ok((image, drives))
    }

    fn read_header(io: &mut F, bytes: u64) -> Result<(ImageConfig, Repairs), Error> {
        if bytes < 2 * HEADER_BYTES as u64 {
            return Err(unbelievable(format!("{bytes} bytes are no model image")));
        }
        let mut copies = [[0; HEADER_BYTES]; 2];
        for (at, copy) in (0..).step_by(HEADER_BYTES).zip(&mut copies) {
            io.read_at(at, copy).map_err(|error| failed("header", &error))?;
        }
        let repair = |at: usize, from: &[u8; HEADER_BYTES]| (at as u64, from.to_vec());
        match copies.each_ref().map(ImageConfig::decode) {
            [Ok(config), Ok(other)] if config != other => {
                Err(unbelievable("its headers are of two images: bring back one of them"))
            }
            [Ok(config), Ok(_)] => Ok((config, Vec::new())),
            [Ok(config), Err(_)] => Ok((config, vec![repair(HEADER_BYTES, &copies[0])])),
            [Err(_), Ok(config)] => Ok((config, vec![repair(0, &copies[1])])),
            [Err(why), Err(same)] if why == same => Err(unbelievable(why)),
            [Err(why), Err(other)] => {
                Err(unbelievable(format!("header: {why}; its copy: {other}")))
            }
        }
    }

    /// Reads the states of all blocks. Memory is allocated only as valid records are found.
    fn read_blocks(&mut self, repairs: &mut Repairs) -> Result<Vec<BlockImage>, Error> {
        let mut states = Vec::new();
        let per_drive = u64::from(self.config.drive.geometry.blocks());
        let record = BLOCK_BYTES as u64;
        for first in (0..self.layout.blocks).step_by(RECORDS_AT_ONCE.into()) {
            let count = u64::from(RECORDS_AT_ONCE).min(self.layout.blocks - first);
            let copies = self.read_copies(self.layout.records, first * record, count * record)?;
            let [one, other] = copies.each_ref().map(|copy| copy.chunks_exact(BLOCK_BYTES));
            for (number, (one, other)) in (first..).zip(one.zip(other)) {
                let decode = |bytes| decode_block(&self.config.identity, number, bytes);
                let first = decode(one);
                let Some(state) = first.or_else(|| decode(other)) else {
                    let (drive, block) = (number / per_drive, number % per_drive);
                    let message = format!(
                        "the record of block {block} of drive {drive} is damaged, and its copy: \
                         make a new image"
                    );
                    return Err(unbelievable(message));
                };
                self.compare(
                    self.layout.records,
                    number * record,
                    [one, other],
                    first.is_some(),
                    repairs,
                );
                self.check_tag(number % per_drive, &state)?;
                states.push(state);
            }
        }
        Ok(states)
    }

    /// Notes a repair if the copies differ.
    fn compare(
        &self,
        at: [u64; 2],
        offset: u64,
        copies: [&[u8]; 2],
        first_is_whole: bool,
        repairs: &mut Repairs,
    ) {
        if copies[0] != copies[1] {
            let good = usize::from(!first_is_whole);
            repairs.push((at[1 - good] + offset, copies[good].to_vec()));
        }
    }

    /// Checks that a tag is one of an array and matches the erases of its block: recovery relies on it for wear.
    fn check_tag(&self, block: u64, state: &BlockImage) -> Result<(), Error> {
        let Some(tag) = state.tag.as_ref() else { return Ok(()) };
        match BlockTag::decode(tag) {
            Some(tag) if tag.erases == BlockTag::saturated(state.erases) => Ok(()),
            tag => {
                let message = format!(
                    "block {block}: erases of {}, and its tag says {:?}",
                    state.erases,
                    tag.map(|tag| tag.erases)
                );
                Err(unbelievable(message))
            }
        }
    }

    fn read_copies(
        &mut self,
        at: [u64; 2],
        offset: u64,
        bytes: u64,
    ) -> Result<[Vec<u8>; 2], Error> {
        let mut copies = [Vec::new(), Vec::new()];
        for (at, copy) in at.into_iter().zip(&mut copies) {
            copy.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
            let read = self.io.read_at(at + offset, copy);
            read.map_err(|error| failed("image", &error))?;
        }
        Ok(copies)
    }

    fn read_tails(&mut self, repairs: &mut Repairs) -> Result<Vec<(u32, TailRecord)>, Error> {
        let mut tails = Vec::new();
        let record = self.layout.tail_bytes;
        let at_once = (u64::from(RECORDS_AT_ONCE) * BLOCK_BYTES as u64 / record).max(1);
        let chunk = usize::try_from(record).unwrap_or(usize::MAX);
        let mut first = 0;
        while first < self.layout.blocks {
            let count = at_once.min(self.layout.blocks - first);
            let copies = self.read_copies(self.layout.tails, first * record, count * record)?;
            let [one, other] = copies.each_ref().map(|copy| copy.chunks_exact(chunk));
            for (entry, (one, other)) in (first..).zip(one.zip(other)) {
                let decode = |bytes| decode_tail(&self.config.identity, entry, bytes);
                let whole = decode(one);
                let Ok(tail) = whole.clone().or_else(|()| decode(other)) else {
                    let message = format!(
                        "entry {entry} of the protected buffer is damaged, and its copy: make a new image"
                    );
                    return Err(unbelievable(message));
                };
                self.compare(
                    self.layout.tails,
                    entry * record,
                    [one, other],
                    whole.is_ok(),
                    repairs,
                );
                let entry = u32::try_from(entry).unwrap_or(u32::MAX);
                tails.extend(tail.map(|tail| (entry, tail)));
            }
            first += count;
        }
        Ok(tails)
    }

    fn restore(&mut self, states: &[BlockImage]) -> Result<Vec<RawSsd>, Error> {
        let geometry = self.config.drive.geometry;
        let (per_drive, block_pages) =
            (geometry.blocks() as usize, u64::from(geometry.block_pages()));
        let mut drives = Vec::new();
        for (drive, states) in (0u64..).zip(states.chunks(per_drive)) {
            let first = drive * per_drive as u64;
            let mut words = Vec::new();
            let word = |block: BlockIndex, page: u32| {
                if page == 0 {
                    let written =
                        states.get(block.0 as usize).map_or(0, |state| state.written_pages);
                    words = vec![0; written as usize * 8];
                    let at = self.layout.words + (first + u64::from(block.0)) * block_pages * 8;
                    let read = self.io.read_at(at, &mut words);
                    read.map_err(|error| failed("words of pages", &error))?;
                }
                let word = words.chunks_exact(8).nth(page as usize);
                Ok(word.and_then(|word| word.first_chunk()).map_or(0, |it| u64::from_le_bytes(*it)))
            };
            let restored = RawSsd::restore(self.config.drive_of_image(), states, word);
            drives.push(restored.map_err(|error| unbelievable(format!("drive {drive}: {error}")))?);
        }
        Ok(drives)
    }

    /// The configuration of the drives.
    pub fn config(&self) -> &ImageConfig {
        &self.config
    }

    /// The offsets of all parts.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The underlying storage.
    pub fn io_mut(&mut self) -> &mut F {
        &mut self.io
    }

    /// Writes the changes of blocks of `drive`, in order.
    ///
    /// # Errors
    /// If `io` fails: the state of the image is unknown then.
    pub fn write_changes(
        &mut self,
        drive: u32,
        changes: &[BlockChange],
    ) -> Result<(), ImageFailed> {
        let geometry = &self.config.drive.geometry;
        let block_pages = u64::from(geometry.block_pages());
        let first = u64::from(drive) * u64::from(geometry.blocks());
        for BlockChange { block, image, words } in changes {
            let number = first + u64::from(block.0);
            if !words.is_empty() {
                let page = u64::from(image.written_pages).saturating_sub(words.len() as u64);
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.io.write_at(self.layout.words + (number * block_pages + page) * 8, &bytes)?;
            }
            let record = encode_block(&self.config.identity, number, image);
            for copy in self.layout.records {
                self.io.write_at(copy + number * BLOCK_BYTES as u64, &record)?;
            }
        }
        Ok(())
    }

    /// All tails in the protected buffer, by entry.
    ///
    /// # Errors
    /// If `io` fails, or an entry is damaged in both copies.
    pub fn tails(&mut self) -> Result<Vec<(u32, TailRecord)>, Error> {
        self.read_tails(&mut Repairs::new())
    }

    /// Writes entry `entry` of the protected buffer; `None` empties it.
    ///
    /// # Errors
    /// If `io` fails, or there is no such entry.
    pub fn write_tail(&mut self, entry: u32, tail: Option<&TailRecord>) -> Result<(), ImageFailed> {
        let number = u64::from(entry);
        if number >= self.layout.blocks {
            return Err(ImageFailed(format!("entry {entry} of {}", self.layout.blocks)));
        }
        let bytes = usize::try_from(self.layout.tail_bytes).unwrap_or(usize::MAX);
        let record = encode_tail(&self.config.identity, number, tail, bytes);
        for copy in self.layout.tails {
            self.io.write_at(copy + number * self.layout.tail_bytes, &record)?;
        }
        Ok(())
    }

    fn slot_at(&self, slot: u32) -> Result<u64, ImageFailed> {
        if u64::from(slot) >= self.layout.slots {
            return Err(ImageFailed(format!("slot {slot} of {}", self.layout.slots)));
        }
        Ok(self.layout.slots_at + u64::from(slot) * self.layout.slot_bytes)
    }

    /// Fills `page`, which must be as long as a slot, from `slot`.
    ///
    /// # Errors
    /// If `io` fails, or there is no such slot.
    pub fn read_page(&mut self, slot: u32, page: &mut [u8]) -> Result<(), ImageFailed> {
        let at = self.slot_at(slot)?;
        self.io.read_at(at, page)
    }

    /// Writes `page`, which must be as long as a slot, to `slot`.
    ///
    /// # Errors
    /// If `io` fails, or there is no such slot.
    pub fn write_page(&mut self, slot: u32, page: &[u8]) -> Result<(), ImageFailed> {
        let at = self.slot_at(slot)?;
        self.io.write_at(at, page)
    }

    /// The content of `slots` (in ascending order) is no longer needed; releases their space.
    ///
    /// # Errors
    /// If `io` fails.
    pub fn release(&mut self, slots: &[u32]) -> Result<(), ImageFailed> {
        let runs = slots.chunk_by(|a, b| a.checked_add(1) == Some(*b));
        for run in runs {
            let at = self.slot_at(run[0])?;
            self.io.release(at, run.len() as u64 * self.layout.slot_bytes)?;
        }
        Ok(())
    }

    /// Reads the whole area of a catalogue image.
    ///
    /// # Errors
    /// If `io` fails.
    pub fn read_catalogue(&mut self, image: usize) -> Result<Vec<u8>, ImageFailed> {
        let room = usize::try_from(self.layout.catalogue_bytes);
        let mut bytes = vec![0; room.map_err(|error| ImageFailed(error.to_string()))?];
        self.io.read_at(self.layout.catalogues[image], &mut bytes)?;
        Ok(bytes)
    }

    /// Replaces a catalogue image. Records of an older one may remain after it, but they have another epoch, so they
    /// are not taken for records of the new journal.
    ///
    /// # Errors
    /// If `io` fails, or the area is too small.
    pub fn replace_catalogue(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        self.ends[image] = None;
        self.write_catalogue(image, 0, bytes)
    }

    /// Appends a record to a catalogue image.
    ///
    /// # Errors
    /// If `io` fails, the area is full, or no catalogue was written before.
    pub fn append_catalogue(&mut self, image: usize, bytes: &[u8]) -> Result<(), ImageFailed> {
        let end =
            self.ends[image].ok_or_else(|| ImageFailed("no catalogue is in front".to_owned()))?;
        self.write_catalogue(image, end, bytes)
    }

    fn write_catalogue(
        &mut self,
        image: usize,
        from: u64,
        bytes: &[u8],
    ) -> Result<(), ImageFailed> {
        let (room, end) = (self.layout.catalogue_bytes, from + bytes.len() as u64);
        if end > room {
            return Err(ImageFailed(format!("{end} bytes of catalogue: there is room for {room}")));
        }
        self.io.write_at(self.layout.catalogues[image] + from, bytes)?;
        self.ends[image] = Some(end);
        Ok(())
    }

    /// Waits until all writes are durable: they survive a power loss of the computer.
    ///
    /// # Errors
    /// If `io` fails.
    pub fn sync(&mut self) -> Result<(), ImageFailed> {
        self.io.sync()
    }
}
