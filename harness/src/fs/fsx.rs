//! `fsx`: random operations on one file; each read is compared with the expected content.

use std::fs;
use std::process::Command;

use super::rig::Rig;
use crate::problem::Problem;
use crate::tools;

const CRATE: &str = "fsx@0.3.2";
const OPERATIONS: u64 = 100_000;
const SEEDS: u64 = 5;
/// Every operation that fsx knows, including reads and writes of mappings.
const CONFIG: &str = "\
flen = 1048576
[opsize]
max = 131072
[weights]
close_open = 1.0
invalidate = 1.0
mapread = 10.0
mapwrite = 10.0
read = 10.0
write = 10.0
truncate = 5.0
fsync = 0.5
fdatasync = 0.5
posix_fallocate = 2.0
punch_hole = 5.0
sendfile = 2.0
posix_fadvise = 1.0
copy_file_range = 5.0
";

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let program = tools::find(CRATE).map_err(Problem::Missing)?;
    let config = rig.scratch().join("fsx.toml");
    fs::write(&config, CONFIG).map_err(|cause| format!("{}: {cause}", config.display()))?;
    for seed in 1..=SEEDS {
        let mut command = Command::new(&program);
        command.arg("-f").arg(&config).arg("-P").arg(rig.scratch());
        command.args(["-N", &OPERATIONS.to_string(), "-S", &seed.to_string()]);
        rig.run_there(command.arg(format!("file-{seed}")))?;
        rig.remount()?;
    }
    Ok(format!("{OPERATIONS} operations x {SEEDS} seeds"))
}
