//! `fio` with verification: each block contains its position and a checksum.

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;

const PACKAGE: &str = "fio";
/// Two jobs for each way of writing: by calls with syncs, mapped, and sequential.
const JOBS: [(&str, &[&str]); 3] = [
    ("calls", &["--ioengine=psync", "--rw=randwrite", "--bsrange=4k-64k", "--fsync=64"]),
    ("mapped", &["--ioengine=mmap", "--rw=randwrite", "--bs=4k"]),
    ("in-order", &["--ioengine=psync", "--rw=write", "--bs=128k", "--end_fsync=1"]),
];

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    for (name, words) in JOBS {
        job(rig, name, words, "--do_verify=1")?;
    }
    rig.remount()?;
    for (name, words) in JOBS {
        job(rig, name, words, "--verify_only=1")?;
    }
    Ok("written by calls, mapped and in order, verified before and after a new mount".to_owned())
}

fn job(rig: &Rig, name: &str, words: &[&str], verify: &str) -> Result<(), Problem> {
    let mut command = program("fio", PACKAGE)?;
    command.arg(format!("--name={name}")).args(["--directory=.", "--size=48m", "--numjobs=2"]);
    command.args(words).args(["--verify=crc32c", "--verify_fatal=1", "--randseed=7", verify]);
    // fio would save its own state in the current directory, which is not part of the test.
    command.args(["--verify_state_save=0", "--group_reporting", "--fallocate=none"]);
    rig.run_there(&mut command).map(|_| ())
}
