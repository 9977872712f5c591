//! Sizes that follow from the store, and how much of it files may have.
//!
//! What is accepted in memory must find room on the blocks later, whatever happens. So part of the store is a reserve
//! that no file gets: blocks that are open, the largest batch, two victims of the cleaner with the nodes that point
//! there, the checkpoint twice, and 1/32 of all blocks so that some garbage is always left to clean.

use larder_device::StoreInfo;

use crate::address::BLOCK_PAGES_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{CHECKPOINT_HEADER_BYTES, RUN_ENTRY_BYTES, RUN_HEADER_BYTES};
use crate::formats::{INODE_HEADER_BYTES, LEAF_HEADER_BYTES, POINTER_BYTES};

/// The least bytes of a page: what the kernel's page cache has.
const PAGE_BYTES_MIN: u32 = 4096;
/// The most: larger pages would waste most of themselves on small files.
const PAGE_BYTES_MAX: u32 = 64 << 10;
/// Blocks that a store must have at least.
const BLOCKS_MIN: u64 = 24;
/// Pages that files must have at least, and nodes beside them.
const PAGES_MIN: u64 = 64;
const NODES_MIN: u64 = 16;
/// Bytes that a node takes in a checkpoint, if it is an orphan too.
const NODE_BYTES: u64 = 32;
const BLOCK_BYTES: u64 = 32;

/// Open blocks of the log: nodes, hot data, cleaned data.
pub(crate) const STREAMS: usize = 3;

/// What the store is like, in pages of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) page_bytes: usize,
    pub(crate) block_pages: u32,
    pub(crate) blocks: u64,
}

/// Dead pages of a block, on average, when the file system is full.
const DEAD_PAGES: u64 = 8;

/// Blocks with checkpoints that are not full: the newest, the one before, and one of which an append failed.
const CHECKPOINTS_OPEN: u64 = 3;

impl Geometry {
    /// What fits a store.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if no file system does.
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
        // A block is filled whole, or it stays open for ever where that is counted.
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

    /// Entries of a run: a page lists so many pages behind it.
    pub(crate) fn run_entries(&self) -> usize {
        (self.page_bytes - RUN_HEADER_BYTES) / RUN_ENTRY_BYTES
    }

    /// Pages of a file that its inode points to.
    pub(crate) fn inode_pointers(&self) -> usize {
        (self.page_bytes - INODE_HEADER_BYTES) / POINTER_BYTES
    }

    /// Pages of a file that a leaf points to.
    pub(crate) fn leaf_pointers(&self) -> usize {
        (self.page_bytes - LEAF_HEADER_BYTES) / POINTER_BYTES
    }

    /// The longest file, in bytes: offsets are signed in most interfaces, and parts have 32 bits.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        let leaves = u64::from(u32::MAX) - 8;
        let pages = (self.leaf_pointers() as u64).saturating_mul(leaves);
        pages.saturating_mul(self.page_bytes as u64).min(i64::MAX as u64)
    }

    /// Pages of the log that a batch has at most, but for the last call in it.
    pub(crate) fn batch_pages_max(&self) -> usize {
        size((self.blocks * u64::from(self.block_pages) / 32).clamp(32, 2048))
    }

    /// Pages that can be live in a block: the others list them.
    fn packed_pages(&self) -> u64 {
        let lists = u64::from(self.block_pages).div_ceil(self.run_entries() as u64 + 1);
        u64::from(self.block_pages) - lists
    }

    /// Pages of a checkpoint with so many nodes.
    pub(crate) fn checkpoint_pages(&self, nodes: u64) -> u64 {
        let bytes = 64 + nodes * NODE_BYTES + self.blocks * BLOCK_BYTES;
        bytes.div_ceil((self.page_bytes - CHECKPOINT_HEADER_BYTES) as u64)
    }

    /// Blocks of a checkpoint with so many nodes.
    pub(crate) fn checkpoint_blocks(&self, nodes: u64) -> u64 {
        self.checkpoint_pages(nodes).div_ceil(u64::from(self.block_pages))
    }

    /// Blocks that a batch takes at most, with what one call may add beyond its bound.
    fn batch_blocks(&self) -> u64 {
        (self.batch_pages_max() as u64 + 64).div_ceil(self.packed_pages()) + STREAMS as u64
    }

    /// Free blocks with which the cleaner can still move a victim and write a checkpoint.
    pub(crate) fn critical_blocks(&self, nodes: u64) -> u64 {
        self.checkpoint_blocks(nodes) + 3 + STREAMS as u64
    }

    /// Free blocks that there are before a batch is begun.
    pub(crate) fn free_blocks_min(&self, nodes: u64) -> u64 {
        self.critical_blocks(nodes) + self.batch_blocks()
    }

    /// Pages of data and nodes that the file system can have, with so many nodes.
    pub(crate) fn capacity_pages(&self, nodes: u64) -> u64 {
        let open = STREAMS as u64 + self.checkpoint_blocks(nodes) + 1;
        // Each time that the cleaner empties a block, pages that list others are written too, a few for each stream. So
        // some more pages of each block are dead, or it would turn round without end.
        let dead = (self.blocks * DEAD_PAGES / u64::from(self.block_pages))
            .clamp(self.blocks / 32, self.blocks / 4);
        let reserve = self.free_blocks_min(nodes) + open + 2 + dead;
        self.blocks.saturating_sub(reserve) * self.packed_pages()
    }
}

/// A number of bytes or pages that is in memory, or will be.
///
/// # Panics
/// On machines whose memory is smaller than what is asked for.
pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).expect("what is in memory has such sizes")
}
