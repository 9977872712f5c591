//! A block cache that the page tells of.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::hears::is_ready;

const MIB: u64 = 1 << 20;

/// Its names for a server's file: it, and one that does not run.
pub(super) const ENTRIES: &str = "[[block]]\ncache = \"fast.img\"\ncore = [\"0=slow.img\"]\nunix = \"block\"\n\
                                  [[block]]\ncache = \"away.img\"\nunix = \"away\"\n";

/// One on files, until it is dropped.
pub(super) struct BlockCache(Child);

impl BlockCache {
    /// Makes it in `dir`, where `larder.toml` has [`ENTRIES`], and starts it.
    pub(super) fn start(larder: &Path, dir: &Path) -> Result<Self, String> {
        let told = |cause: std::io::Error| format!("larder block: {cause}");
        for (name, bytes) in [("fast.img", 8 * MIB), ("slow.img", 32 * MIB)] {
            File::create(dir.join(name)).and_then(|file| file.set_len(bytes)).map_err(told)?;
        }
        let block = |arguments: &[&str]| {
            let mut command = Command::new(larder);
            command.current_dir(dir).arg("block").args(arguments);
            command.stdin(Stdio::null()).stdout(Stdio::piped());
            command
        };
        let create = ["create", "fast.img", "--core", "slow.img", "--mode", "wb"];
        let created = block(&create).output().map_err(told)?;
        if !created.status.success() {
            return Err(format!("larder block create: {}", created.status));
        }
        let start = ["start", "fast.img", "--config", "larder.toml"];
        let mut child = block(&start).spawn().map_err(told)?;
        if !is_ready(&mut child) {
            let _ = child.wait();
            return Err("larder block start: it ended before it was ready".to_owned());
        }
        Ok(Self(child))
    }
}

impl Drop for BlockCache {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
