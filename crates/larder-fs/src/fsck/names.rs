//! Checks every name: its inode, and the link count of each inode.

use std::collections::{BTreeMap, BTreeSet};

use super::nodes::Nodes;
use super::report::Report;
use crate::attributes::{Kind, ROOT};
use crate::error::{ErrorKind, Result};
use crate::flash::Flash;
use crate::formats::directory::{Name, decode};
use crate::volume::recover::Recovered;

/// The names of all directories.
#[derive(Default)]
pub(super) struct Names {
    by_directory: BTreeMap<u64, Vec<Name>>,
}

impl Names {
    pub(super) fn read(flash: &Flash, nodes: &Nodes, report: &mut Report) -> Result<Self> {
        let mut names = Self::default();
        for (&(ino, index), &pointer) in &nodes.names {
            let page = match flash.read_checked(pointer) {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    report.found(format!("directory {ino} page {index}: {error}"));
                    continue;
                }
                page => page?,
            };
            match decode(&page) {
                Some(found) => names.by_directory.entry(ino).or_default().extend(found),
                None => report.found(format!("page {index} of directory {ino} has no names")),
            }
        }
        Ok(names)
    }

    pub(super) fn check(&self, nodes: &Nodes, recovered: &Recovered, report: &mut Report) {
        let mut links: BTreeMap<u64, u32> = BTreeMap::new();
        for (&directory, names) in &self.by_directory {
            self.check_directory((directory, names), nodes, report);
            for name in names {
                *links.entry(name.ino).or_default() += 1;
                if name.kind == Kind::Directory {
                    *links.entry(directory).or_default() += 1;
                }
            }
        }
        let reached = self.reached();
        for (&ino, inode) in &nodes.inodes {
            let is_orphan = recovered.orphans.contains(&ino);
            let named = links.get(&ino).copied().unwrap_or(0);
            let is_directory = inode.kind == Kind::Directory;
            report.directories += u64::from(is_directory);
            // A directory counts as a name of itself; the root has no other name.
            let itself = u32::from(is_directory && !is_orphan) + u32::from(ino == ROOT);
            if inode.links != named + itself {
                let (says, has) = (inode.links, named + itself);
                report.found(format!("inode {ino} says that it has {says} links, and has {has}"));
            }
            if is_orphan != (inode.links == 0) {
                report
                    .found(format!("inode {ino} is an orphan with a name, or the other way round"));
            }
            if !is_orphan && !reached.contains(&ino) {
                report.found(format!("no way leads from the root to inode {ino}"));
            }
        }
        for orphan in recovered.orphans.iter().filter(|ino| !nodes.inodes.contains_key(ino)) {
            report.found(format!("orphan {orphan} is not there"));
        }
    }

    fn check_directory(&self, (ino, names): (u64, &[Name]), nodes: &Nodes, report: &mut Report) {
        let next_cookie = nodes.inodes.get(&ino).map_or(0, |inode| inode.next_cookie);
        let (mut seen, mut cookies) = (BTreeSet::new(), BTreeSet::new());
        for name in names {
            let shown = String::from_utf8_lossy(&name.name);
            if !seen.insert(&name.name) || !cookies.insert(name.cookie) {
                report.found(format!("directory {ino} has {shown} twice, or its cookie"));
            }
            if name.cookie >= next_cookie {
                report.found(format!("directory {ino} gives the cookie of {shown} again"));
            }
            let Some(inode) = nodes.inodes.get(&name.ino) else {
                report.found(format!("{shown} in {ino} leads to {}, which is not there", name.ino));
                continue;
            };
            if inode.kind != name.kind {
                report.found(format!("{shown} in {ino} is another kind than inode {}", name.ino));
            }
            if inode.kind == Kind::Directory && (inode.parent != ino || name.ino == ROOT) {
                let above = inode.parent;
                report.found(format!("{shown} is in directory {ino}, and says it is in {above}"));
            }
        }
    }

    /// Inodes that are reachable from the root.
    fn reached(&self) -> BTreeSet<u64> {
        let mut reached = BTreeSet::from([ROOT]);
        let mut waiting = vec![ROOT];
        while let Some(directory) = waiting.pop() {
            let names = self.by_directory.get(&directory).map(Vec::as_slice).unwrap_or_default();
            let new = names.iter().map(|name| name.ino).filter(|ino| reached.insert(*ino));
            waiting.extend(new);
        }
        reached
    }
}
