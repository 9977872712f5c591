//! A tree of files that becomes an archive, with modes and times that do not depend on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use larder_harness::workspace;

use super::making::{Dist, ran};

/// Files below a directory, each at the place that it will have.
pub(super) struct Stage {
    root: PathBuf,
    epoch: String,
}

impl Stage {
    /// An empty tree of this name.
    pub(super) fn new(dist: &Dist, name: &str) -> Result<Self, String> {
        let root = workspace::target().join("xtask/dist").join(name);
        let _ = fs::remove_dir_all(&root);
        let stage = Self { root, epoch: dist.epoch.clone() };
        stage.directory("")?;
        Ok(stage)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// An empty directory.
    pub(super) fn directory(&self, path: &str) -> Result<PathBuf, String> {
        let mut at = self.root.clone();
        let names = path.split('/').filter(|name| !name.is_empty());
        for name in std::iter::once("").chain(names) {
            if !name.is_empty() {
                at.push(name);
            }
            fs::create_dir_all(&at).map_err(|cause| format!("{}: {cause}", at.display()))?;
            mode(&at, 0o755)?;
        }
        Ok(at)
    }

    /// A file of the workspace.
    pub(super) fn file(&self, from: &str, to: &str) -> Result<(), String> {
        self.text(&read(&workspace::root().join(from))?, to)
    }

    /// A file with this content.
    pub(super) fn text(&self, content: impl AsRef<[u8]>, to: &str) -> Result<(), String> {
        self.put(content.as_ref(), to, 0o644)
    }

    /// The same, compressed, with `.gz` behind its name.
    pub(super) fn gzip(&self, content: impl AsRef<[u8]>, to: &str) -> Result<(), String> {
        self.text(content, to)?;
        let path = self.root.join(to);
        ran(Command::new("gzip").args(["-9nf"]).arg(&path))?;
        mode(&self.root.join(format!("{to}.gz")), 0o644)
    }

    /// A file that can be run.
    pub(super) fn program(&self, from: &Path, to: &str) -> Result<(), String> {
        self.put(&read(from)?, to, 0o755)
    }

    fn put(&self, content: &[u8], to: &str, bits: u32) -> Result<(), String> {
        let (below, _) = to.rsplit_once('/').unwrap_or(("", to));
        self.directory(below)?;
        let path = self.root.join(to);
        fs::write(&path, content).map_err(|cause| format!("{}: {cause}", path.display()))?;
        mode(&path, bits)
    }

    /// An archive of what is below `path`, which the root owns.
    pub(super) fn tar(&self, path: &str, to: &Path) -> Result<(), String> {
        self.tar_of("--create", path, ("0", to))
    }

    /// Adds what is below `path` to an archive, as a user's.
    pub(super) fn tar_as(&self, owner: &str, path: &str, to: &Path) -> Result<(), String> {
        self.tar_of("--append", path, (owner, to))
    }

    fn tar_of(&self, how: &str, path: &str, (owner, to): (&str, &Path)) -> Result<(), String> {
        let mut tar = Command::new("tar");
        tar.args([how, "--format=gnu", "--sort=name", "--numeric-owner"]);
        tar.arg(format!("--mtime=@{}", self.epoch));
        tar.arg(format!("--owner={owner}")).arg(format!("--group={owner}"));
        ran(tar.arg("--directory").arg(&self.root).arg("--file").arg(to).arg(path))
    }
}

fn mode(path: &Path, bits: u32) -> Result<(), String> {
    let done = fs::set_permissions(path, fs::Permissions::from_mode(bits));
    done.map_err(|cause| format!("{}: {cause}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|cause| format!("{}: {cause}", path.display()))
}
