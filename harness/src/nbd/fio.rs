//! `fio` with verification: each block contains its position and a checksum. Requests have any length, also lengths
//! that are not multiples of the device's blocks. The data is verified after the server was restarted, cleanly or after
//! a kill.

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;

/// Four jobs, each on its own range, with flushes and trims between writes.
const WORDS: [&str; 13] = [
    "--ioengine=nbd",
    "--rw=randwrite",
    "--bsrange=512-256k",
    "--blockalign=512",
    "--iodepth=32",
    "--size=16m",
    "--offset_increment=16m",
    "--numjobs=4",
    "--fsync=32",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--random_generator=tausworthe64",
    "--group_reporting",
];

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    verify(rig, 7, &["--loops=4", "--verify_backlog=1024", "--do_verify=1"])?;
    // Each seed writes other bytes, which are verified on the next server: everything that was acknowledged is in the
    // file, however its server ended.
    for (seed, by_kill) in [(8, false), (9, true)] {
        verify(rig, seed, &["--do_verify=0"])?;
        rig.end(by_kill)?;
        rig.serve(&[])?;
        verify(rig, seed, &["--verify_only=1"])?;
    }
    let mut trims = program("fio", "fio")?;
    trims.args(["--name=trims", "--ioengine=nbd", "--rw=randtrim", "--bs=64k", "--size=64m"]);
    rig.run(trims.args(["--iodepth=16"]).arg(uri(rig)))?;
    Ok("512 bytes to 256 KiB at depth 32, verified at once, after an end and after a kill"
        .to_owned())
}

fn verify(rig: &Rig, seed: u32, words: &[&str]) -> Result<(), Problem> {
    let mut command = program("fio", "fio")?;
    command.args(["--name=verified", &format!("--randseed={seed}")]).args(WORDS).args(words);
    // fio would save its own state in the current directory, which is not part of the test.
    rig.run(command.args(["--verify_state_save=0"]).arg(uri(rig))).map(|_| ())
}

fn uri(rig: &Rig) -> String {
    format!("--uri={}", rig.uri())
}
