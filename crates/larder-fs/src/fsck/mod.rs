//! Consistency check of a file system on a store. Nothing is written.
//!
//! It reads the same as an opening, and then every node: pointers, counts, names. Each page must belong to one place of
//! one file; each inode must have as many names as its link count, and a path from the root; each block must have the
//! recorded number of live pages. With [`Fsck::data`] it also reads the pages of files.

mod names;
mod nodes;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_blocks::BlockStore;

use crate::error::{ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::tag::Use;
use crate::volume::recover;
use names::Names;
use nodes::Nodes;
pub use report::{Fsck, Report};

/// Whether a store has blocks of a file system, intact or not. Reads only the list of blocks.
pub fn is_on(store: &dyn BlockStore) -> bool {
    store.list().iter().any(|state| Use::of_tag(state.tag).is_some())
}

/// Checks the file system on a store. The store must not be changed during the check.
///
/// # Errors
/// [`ErrorKind::Setup`] if there is none; errors of the store. Damage is reported as a finding, not as an error.
pub fn fsck(store: Arc<dyn BlockStore>, what: Fsck) -> Result<Report> {
    let flash = Flash::new(store)?;
    let mut report = Report::default();
    let recovered = match recover::recover(&flash) {
        Err(error) if error.kind() == ErrorKind::Damaged => {
            report.found(format!("it does not open: {error}"));
            return Ok(report);
        }
        recovered => recovered?,
    };
    report.batches = recovered.batches;
    report.blocks = recovered.table.blocks.len() as u64;
    let nodes = Nodes::read(&flash, &recovered, what, &mut report)?;
    Names::read(&flash, &nodes, &mut report)?.check(&nodes, &recovered, &mut report);
    count_blocks(&nodes, &recovered, &mut report);
    report.inodes = nodes.inodes.len() as u64;
    report.orphans = recovered.orphans.len() as u64;
    report.data_pages = nodes.data_pages;
    Ok(report)
}

/// Compares the actual number of live pages of each block with the recorded one.
fn count_blocks(nodes: &Nodes, recovered: &recover::Recovered, report: &mut Report) {
    let mut live: BTreeMap<u64, u32> = BTreeMap::new();
    for address in nodes.pages.keys() {
        *live.entry(address.block().number()).or_default() += 1;
    }
    for (block, it) in &recovered.table.blocks {
        let there = live.get(block).copied().unwrap_or(0);
        if there != it.live_pages {
            let counted = it.live_pages;
            report
                .found(format!("block {block} has {there} live pages, and {counted} are counted"));
        }
    }
}
