//! Checks file systems on vSSDs.

use std::sync::Arc;

use larder_blocks::{BlockStore, VssdArray};
use larder_fs::fsck::{self, Fsck};
use larder_workload::Error;
use serde::Serialize;

use super::image::refused;
use super::output::count;

/// The result of checking a file system.
#[derive(Debug, Serialize)]
pub(super) struct FileSystemCheck {
    pub(super) vssd: u32,
    pub(super) inodes: u64,
    pub(super) directories: u64,
    /// Files without a name, which the next mount removes.
    pub(super) orphans: u64,
    pub(super) data_pages: u64,
    /// Batches after the last checkpoint.
    pub(super) batches: u64,
    pub(super) wrong: Vec<String>,
    /// Findings that are not listed in `wrong`.
    pub(super) more_wrong: u64,
}

impl FileSystemCheck {
    /// Checks the file system on a store, including its data.
    pub(super) fn of(vssd: u32, store: Arc<dyn BlockStore>) -> Result<Self, Error> {
        let report = match fsck::fsck(store, Fsck { data: true }) {
            // The caller has seen that the store has blocks of a file system.
            Err(error) if error.kind() == larder_fs::ErrorKind::Setup => {
                let mut report = fsck::Report::default();
                report.findings.push(format!("it does not open: {error}"));
                report
            }
            report => report.map_err(|error| Error::run(format!("vSSD {vssd}: {error}")))?,
        };
        Ok(Self {
            vssd,
            inodes: report.inodes,
            directories: report.directories,
            orphans: report.orphans,
            data_pages: report.data_pages,
            batches: report.batches,
            wrong: report.findings,
            more_wrong: report.more_findings,
        })
    }

    pub(super) fn wrong_things(&self) -> u64 {
        self.wrong.len() as u64 + self.more_wrong
    }

    pub(super) fn render(&self) -> String {
        let mut text = format!(
            "file system of vSSD {}: {} inodes, {} of them directories and {} without a name, {} pages of data, \
             {} batches behind the checkpoint\n",
            self.vssd,
            count(self.inodes),
            count(self.directories),
            count(self.orphans),
            count(self.data_pages),
            count(self.batches)
        );
        for wrong in &self.wrong {
            text += &format!("wrong: file system of vSSD {}: {wrong}\n", self.vssd);
        }
        if self.more_wrong > 0 {
            text += &format!("and {} more things of it\n", count(self.more_wrong));
        }
        text
    }
}

/// Checks the file systems of all vSSDs that have one.
pub(super) fn check_all(array: &VssdArray) -> Result<Vec<FileSystemCheck>, Error> {
    let mut all = Vec::new();
    for info in array.list() {
        let store = array.store(info.id).map_err(|error| refused("vSSD", &error))?;
        if fsck::is_on(&store) {
            all.push(FileSystemCheck::of(info.id.0, Arc::new(store))?);
        }
    }
    Ok(all)
}
