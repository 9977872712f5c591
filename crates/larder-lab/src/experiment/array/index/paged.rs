//! A hash table on flash whose pages are read into DRAM on demand. Entries have 8 bytes and pages 16 KiB. The least
//! recently used page is evicted, and is written if it has changed.
//!
//! This is the smallest possible table: every slot of every page is taken, and a lookup reads only the key's own page.
//! A real table has empty slots and chains, so it reads more (`hopscotch`).

use super::frames::{Frames, PAGE_BYTES};
use super::stored::Stored;
use super::{Access, ValueIndex, spread};

const ENTRY_BYTES: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(in crate::experiment::array) struct PagedTable {
    stored: Stored,
    frames: Frames,
}

impl PagedTable {
    /// A table of `entries` entries, with `dram_bytes` bytes for pages. At least one page is in DRAM.
    pub(in crate::experiment::array) fn new(entries: u64, dram_bytes: u64) -> Self {
        let pages = (entries * ENTRY_BYTES).div_ceil(PAGE_BYTES.into()).max(1);
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        Self { stored: Stored::default(), frames: Frames::new(pages, dram_bytes) }
    }

    fn page(&self, key: u64) -> usize {
        usize::try_from(spread(key, self.frames.pages() as u64)).unwrap_or(0)
    }
}

impl ValueIndex for PagedTable {
    fn get(&mut self, key: u64, asked: &mut Vec<Access>) -> bool {
        self.frames.bring(self.page(key), asked);
        let found = self.stored.has(key);
        if found {
            asked.push(Access::value(key));
        }
        found
    }

    fn set(&mut self, key: u64, asked: &mut Vec<Access>) {
        self.frames.change(self.page(key), asked);
        self.stored.add(key);
    }

    fn dram_bytes(&self) -> u64 {
        self.frames.dram_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys in the first and in the last page.
    const FIRST: u64 = 1;
    const LAST: u64 = u64::MAX;

    #[test]
    fn a_page_comes_when_it_is_asked_for_and_is_written_if_it_has_changed() {
        let mut table = PagedTable::new(4096, PAGE_BYTES.into());
        let mut of = |key: u64, set: bool| {
            let mut asked = Vec::new();
            match set {
                true => table.set(key, &mut asked),
                false => assert!(table.get(key, &mut asked)),
            }
            asked
        };
        let page = |page| Access::read(page, PAGE_BYTES);
        assert_eq!(of(FIRST, true), [page(0)]);
        assert_eq!(of(FIRST, false), [Access::value(FIRST)]);
        assert_eq!(of(LAST, true), [Access::write(0, PAGE_BYTES), page(1)]);
        let back = [Access::write(1, PAGE_BYTES), page(0), Access::value(FIRST)];
        assert_eq!(of(FIRST, false), back);
        assert_eq!(of(LAST, false), [page(1), Access::value(LAST)], "page 0 is as it was");
    }

    #[test]
    fn a_table_with_room_for_all_pages_reads_each_once() {
        let mut table = PagedTable::new(4096, 1 << 20);
        assert_eq!(table.dram_bytes(), 2 * u64::from(PAGE_BYTES));
        let mut asked = Vec::new();
        for _ in 0..3 {
            table.set(FIRST, &mut asked);
            table.set(LAST, &mut asked);
        }
        assert_eq!(asked.len(), 2);
        assert!(!table.get(FIRST + 1, &mut asked), "its page is there, it is not in it");
        assert_eq!(asked.len(), 2);
    }
}
