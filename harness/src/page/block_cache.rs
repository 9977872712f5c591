//! A block cache for the page to show.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::hears::is_ready;

const MIB: u64 = 1 << 20;

/// Entries for the server's configuration file: this cache, and one that does not run.
pub(super) const ENTRIES: &str = "[[block]]\ncache = \"fast.img\"\ncore = [\"0=slow.img\"]\nunix = \"block\"\n\
                                  [[block]]\ncache = \"away.img\"\nunix = \"away\"\n";

/// A block cache on files, stopped on drop.
pub(super) struct BlockCache(Child);

impl BlockCache {
    /// Makes and starts the cache in `dir`, whose `larder.toml` contains [`ENTRIES`].
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
