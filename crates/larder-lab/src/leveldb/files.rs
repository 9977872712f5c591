//! The store and the directory together: blocks of removed files are freed on the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use larder_blocks::{BlockId, BlockStore};
use rusty_leveldb::{Status, StatusCode};

use super::directory::{Change, Directory};
use super::pages::{Piece, Result, of_store};

/// Files on a store.
pub(super) struct Files {
    store: Arc<dyn BlockStore>,
    pub(super) directory: Directory,
    pub(super) locked: BTreeSet<String>,
}

impl Files {
    pub(super) fn new(store: Arc<dyn BlockStore>, directory: Directory) -> Self {
        Self { store, directory, locked: BTreeSet::new() }
    }

    pub(super) fn store(&self) -> Arc<dyn BlockStore> {
        Arc::clone(&self.store)
    }

    /// Changes the directory, and frees the blocks of a removed file.
    pub(super) fn change(&mut self, change: &Change) -> Result<()> {
        let gone = self.directory.change(change)?;
        let blocks: BTreeSet<u64> = gone.iter().map(|piece| piece.block).collect();
        for block in blocks {
            let freed = self.store.free(BlockId::new(block)).wait();
            freed.map_err(|failure| of_store(&failure.error))?;
        }
        Ok(())
    }

    pub(super) fn pieces(&self, name: &str) -> Result<Vec<Piece>> {
        let pieces = self.directory.table.pieces(name);
        pieces.cloned().ok_or_else(|| Status::new(StatusCode::NotFound, name))
    }
}
