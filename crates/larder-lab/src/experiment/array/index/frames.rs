//! Pages of a table on flash that are read into DRAM on demand. The least recently used page is evicted, and is written
//! if it has changed.

use super::Access;
use super::recency::Recency;

pub(super) const PAGE_BYTES: u32 = 16 << 10;
/// The page is in no frame.
const ABSENT: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct Frames {
    /// By page number: its frame.
    frames_of: Vec<u32>,
    frames: Vec<Frame>,
    recency: Recency,
    frames_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    page: usize,
    dirty: bool,
}

impl Frames {
    /// Frames in `dram_bytes` bytes for a table of `pages` pages. At least one page is in DRAM.
    pub(super) fn new(pages: usize, dram_bytes: u64) -> Self {
        let room = usize::try_from(dram_bytes / u64::from(PAGE_BYTES)).unwrap_or(usize::MAX);
        let frames_max = room.clamp(1, pages);
        Self {
            frames_of: vec![ABSENT; pages],
            frames: Vec::new(),
            recency: Recency::new(frames_max),
            frames_max,
        }
    }

    pub(super) fn pages(&self) -> usize {
        self.frames_of.len()
    }

    pub(super) fn dram_bytes(&self) -> u64 {
        self.frames_max as u64 * u64::from(PAGE_BYTES)
    }

    /// Brings a page into DRAM.
    pub(super) fn bring(&mut self, page: usize, asked: &mut Vec<Access>) {
        match self.frames_of[page] {
            ABSENT => {
                let frame = self.room(asked);
                asked.push(Access::read(page as u64, PAGE_BYTES));
                self.frames_of[page] = frame;
                self.frames[frame as usize] = Frame { page, dirty: false };
                self.recency.add(frame);
            }
            frame => self.recency.touch(frame),
        }
    }

    /// Brings a page into DRAM, and changes it there.
    pub(super) fn change(&mut self, page: usize, asked: &mut Vec<Access>) {
        self.bring(page, asked);
        self.frames[self.frames_of[page] as usize].dirty = true;
    }

    fn room(&mut self, asked: &mut Vec<Access>) -> u32 {
        if self.frames.len() < self.frames_max {
            self.frames.push(Frame { page: 0, dirty: false });
            return u32::try_from(self.frames.len() - 1).unwrap_or(ABSENT);
        }
        let frame = self.recency.take_oldest().unwrap_or(0);
        let Frame { page, dirty } = self.frames[frame as usize];
        if dirty {
            asked.push(Access::write(page as u64, PAGE_BYTES));
        }
        self.frames_of[page] = ABSENT;
        frame
    }
}
