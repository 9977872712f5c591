//! The files of a run: those of the cores, which can be read and changed without the cache, and that of the cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Mutex;

use fastrand::Rng;

use super::content::{self, SECTOR_BYTES};
use super::draw::{Chooser, Crowd, Verb};
use super::end::End;
use super::shadow::Shadow;
use super::{Options, lock};

/// Sectors per read; short enough that the shadow is not locked for long.
const PIECE_SECTORS: u64 = 2048;
/// Maximum number of changes to a file while it is not in the cache.
const PAST_MAX: usize = 60;

/// The files of a run.
#[derive(Clone, Copy)]
pub(super) struct Files<'a> {
    options: &'a Options,
    shadow: &'a Mutex<Shadow>,
}

impl<'a> Files<'a> {
    pub(super) fn new(options: &'a Options, shadow: &'a Mutex<Shadow>) -> Self {
        Self { options, shadow }
    }

    /// Path of a permanent core or of a visitor file.
    pub(super) fn path(&self, file: u64) -> PathBuf {
        let cores = self.options.cores;
        let name = match file.checked_sub(cores) {
            None => format!("core{file}"),
            Some(visitor) => format!("visitor{visitor}"),
        };
        self.options.dir.join(name)
    }

    pub(super) fn cache_path(&self) -> PathBuf {
        self.options.dir.join("cache")
    }

    /// The cache as named on the command line.
    pub(super) fn cache(&self) -> String {
        let kind = if self.options.layout == "dax" { "dax" } else { "file" };
        format!("{kind}:{}", self.cache_path().display())
    }

    /// Checks that the file alone holds the expected data: the cache must have nothing dirty for it.
    pub(super) fn compare(&self, file: u64) -> Result<(), End> {
        let path = self.path(file);
        let failed = |error: io::Error| End::Failed(format!("{}: {error}", path.display()));
        let opened = File::open(&path).map_err(failed)?;
        let bytes = opened.metadata().map_err(failed)?.len();
        let sectors = self.options.core_sectors();
        if bytes != sectors * SECTOR_BYTES as u64 {
            return Err(End::Failed(format!("{}: {bytes} bytes", path.display())));
        }
        let mut data = Vec::new();
        for first in (0..sectors).step_by(usize::try_from(PIECE_SECTORS).unwrap_or(1)) {
            let some = usize::try_from(PIECE_SECTORS.min(sectors - first)).unwrap_or(0);
            data.resize(some * SECTOR_BYTES, 0);
            opened.read_exact_at(&mut data, first * SECTOR_BYTES as u64).map_err(failed)?;
            let found =
                lock(self.shadow).found(file * sectors + first, &data, "a read of the file itself");
            found.map_err(End::Wrong)?;
        }
        Ok(())
    }

    /// Changes a file while it is not a core: old cached data of it must not be seen again. Returns the number of
    /// changes.
    pub(super) fn write_past(&self, file: u64, mut rng: Rng) -> Result<u64, End> {
        let path = self.path(file);
        let failed = |error: io::Error| End::Failed(format!("{}: {error}", path.display()));
        let opened = OpenOptions::new().write(true).open(&path).map_err(failed)?;
        let sectors = self.options.core_sectors();
        let begin = file * sectors;
        let times = rng.usize(1..=PAST_MAX);
        let crowd = Crowd::drawn(&mut rng, sectors);
        let mut chooser = Chooser::new(rng, begin, sectors, crowd);
        let requests = std::iter::repeat_with(|| chooser.next());
        let is_kept = |verb| matches!(verb, Verb::Write | Verb::WriteZeroes);
        for request in requests.filter(|request| is_kept(request.verb)).take(times) {
            let known = lock(self.shadow).begin(request);
            let version = if request.verb == Verb::Write { known.version } else { 0 };
            let mut data = vec![0; request.bytes()];
            content::fill(self.options.seed, request.first, version, &mut data);
            let at = (request.first - begin) * SECTOR_BYTES as u64;
            opened.write_all_at(&data, at).map_err(failed)?;
            lock(self.shadow).ended(&known, &[]).map_err(End::Wrong)?;
        }
        Ok(times as u64)
    }
}
