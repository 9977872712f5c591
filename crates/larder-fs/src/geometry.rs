//! Sizes derived from the store, and the capacity for files.
//!
//! Changes accepted in memory must find room on the blocks later in all cases. So part of the store is a reserve that
//! files cannot use: open blocks, the largest batch, two victims of the cleaner with the nodes that point to them, the
//! checkpoint twice, and 1/32 of all blocks so that the cleaner always has some garbage to clean.

use larder_blocks::StoreInfo;

use crate::address::BLOCK_PAGES_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{CHECKPOINT_HEADER_BYTES, RUN_ENTRY_BYTES, RUN_HEADER_BYTES};
use crate::formats::{INODE_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES};

/// Minimum bytes of a page: the page size of the kernel's page cache.
const PAGE_BYTES_MIN: u32 = 4096;
/// Maximum bytes of a page: larger pages would be mostly empty for small files.
const PAGE_BYTES_MAX: u32 = 64 << 10;
/// Minimum number of blocks of a store.
const BLOCKS_MIN: u64 = 24;
/// Minimum number of pages for files, and of nodes in addition.
const PAGES_MIN: u64 = 64;
const NODES_MIN: u64 = 16;
/// Bytes of a node in a checkpoint, including its entry if it is an orphan.
const NODE_BYTES: u64 = 32;
const BLOCK_BYTES: u64 = 32;

/// Open blocks of the log: nodes, hot data, cleaned data.
pub(crate) const STREAMS: usize = 3;

/// The geometry of the store, in pages of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) page_bytes: usize,
    pub(crate) block_pages: u32,
    pub(crate) blocks: u64,
}

/// Average number of dead pages per block when the file system is full.
const DEAD_PAGES: u64 = 8;

/// Checkpoint blocks that are not full: the newest, the previous one, and one with a failed append.
const CHECKPOINTS_OPEN: u64 = 3;

impl Geometry {
    /// The geometry for a store.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no file system fits.
    pub(crate) fn of(info: &StoreInfo) -> Result<Self> {
        let refuse = |why: String| {
            Err(Error::new(ErrorKind::Setup, format!("file system on {}: {why}", info.name)))
        };
        let page = info.page_bytes.max(PAGE_BYTES_MIN);
        if page > PAGE_BYTES_MAX {
            return refuse(format!("pages of {page} bytes; {PAGE_BYTES_MAX} at most"));
        }
        let block_pages = info.block_bytes / u64::from(page);
        if !(8..=BLOCK_PAGES_MAX).contains(&block_pages) {
            return refuse(format!("blocks of {block_pages} pages; 8 to {BLOCK_PAGES_MAX} may be"));
        }
        // A block that cannot be filled completely would stay open permanently on stores that count open blocks.
        if !info.block_bytes.is_multiple_of(u64::from(page)) {
            let block = info.block_bytes;
            return refuse(format!("blocks of {block} bytes are no whole pages of {page}"));
        }
        let block_pages = u32::try_from(block_pages).unwrap_or(u32::MAX);
        let page_bytes = size(u64::from(page));
        let it = Self { page_bytes, block_pages, blocks: info.blocks };
        // All blocks of a batch are allocated before the first is written.
        let open = it.batch_blocks() + STREAMS as u64 + CHECKPOINTS_OPEN;
        if let Some(most) = info.open_blocks_max.map(u64::from).filter(|&most| most < open) {
            return refuse(format!("{most} blocks may be open, and {open} are at a time"));
        }
        if !it.is_enough() {
            let enough = (BLOCKS_MIN..).find(|&blocks| Self { blocks, ..it }.is_enough());
            let enough = enough.unwrap_or(u64::MAX);
            return refuse(format!("{} blocks are too few; give it {enough}", info.blocks));
        }
        Ok(it)
    }

    fn is_enough(&self) -> bool {
        self.blocks >= BLOCKS_MIN && self.capacity_pages(NODES_MIN) >= PAGES_MIN
    }

    /// Maximum entries of a run, which is the number of pages that its page can list.
    pub(crate) fn run_entries(&self) -> usize {
        (self.page_bytes - RUN_HEADER_BYTES) / RUN_ENTRY_BYTES
    }

    /// Number of pages of a file that its inode points to.
    pub(crate) fn inode_pointers(&self) -> usize {
        (self.page_bytes - INODE_HEADER_BYTES) / POINTER_BYTES
    }

    /// Number of pages of a file that a leaf points to.
    pub(crate) fn leaf_pointers(&self) -> usize {
        (self.page_bytes - LEAF_HEADER_BYTES) / POINTER_BYTES
    }

    /// The maximum length of a file in bytes: offsets are signed in most interfaces, and parts have 32 bits.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        let leaves = u64::from(u32::MAX) - 8;
        let pages = (self.leaf_pointers() as u64).saturating_mul(leaves);
        pages.saturating_mul(self.page_bytes as u64).min(i64::MAX as u64)
    }

    /// Maximum pages of a batch in the log, not counting those of its last call.
    pub(crate) fn batch_pages_max(&self) -> usize {
        size((self.blocks * u64::from(self.block_pages) / 32).clamp(32, 2048))
    }

    /// Maximum live pages of a block: the other pages list them.
    fn packed_pages(&self) -> u64 {
        let lists = u64::from(self.block_pages).div_ceil(self.run_entries() as u64 + 1);
        u64::from(self.block_pages) - lists
    }

    /// Pages of a checkpoint with `nodes` nodes.
    pub(crate) fn checkpoint_pages(&self, nodes: u64) -> u64 {
        let bytes = 64 + nodes * NODE_BYTES + self.blocks * BLOCK_BYTES;
        bytes.div_ceil((self.page_bytes - CHECKPOINT_HEADER_BYTES) as u64)
    }

    /// Blocks of a checkpoint with `nodes` nodes.
    pub(crate) fn checkpoint_blocks(&self, nodes: u64) -> u64 {
        self.checkpoint_pages(nodes).div_ceil(u64::from(self.block_pages))
    }

    /// Maximum blocks of a batch, including what one call may add beyond its bound.
    fn batch_blocks(&self) -> u64 {
        (self.batch_pages_max() as u64 + 64).div_ceil(self.packed_pages()) + STREAMS as u64
    }

    /// Free blocks with which the cleaner can still move a victim and write a checkpoint.
    pub(crate) fn critical_blocks(&self, nodes: u64) -> u64 {
        self.checkpoint_blocks(nodes) + 3 + STREAMS as u64
    }

    /// Minimum free blocks before a batch is begun.
    pub(crate) fn free_blocks_min(&self, nodes: u64) -> u64 {
        self.critical_blocks(nodes) + self.batch_blocks()
    }

    /// Capacity in pages of data and nodes, with `nodes` nodes.
    pub(crate) fn capacity_pages(&self, nodes: u64) -> u64 {
        let open = STREAMS as u64 + self.checkpoint_blocks(nodes) + 1;
        // Each time the cleaner empties a block, it also writes a few run pages for each stream. Allow for some more
        // dead pages per block, or the cleaner would never finish.
        let dead = (self.blocks * DEAD_PAGES / u64::from(self.block_pages))
            .clamp(self.blocks / 32, self.blocks / 4);
        let reserve = self.free_blocks_min(nodes) + open + 2 + dead;
        self.blocks.saturating_sub(reserve) * self.packed_pages()
    }
}

/// Converts a number of bytes or pages in memory.
///
/// # Panics
/// On machines whose address space is too small.
pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).expect("what is in memory has such sizes")
}
