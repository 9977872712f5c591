//! QEMU's tools: `qemu-io` writes, reads and compares patterns; `qemu-img` copies and compares images.

use std::process::Command;

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;

const PACKAGE: &str = "qemu-utils";

/// All kinds of writes, and the reads that verify them.
const COMMANDS: [&str; 20] = [
    "write -f -P 7 4k 4k",
    "read -P 7 4k 4k",
    "write -P 9 513 100",
    "read -P 9 513 100",
    "read -P 7 4k 4k",
    "write -z 8k 12345",
    "read -P 0 8k 12345",
    "write -z -f -u 6k 1k",
    "read -P 0 6k 1k",
    "read -P 7 4k 2k",
    "discard 1M 1M",
    "aio_write -P 1 2M 1M",
    "aio_write -P 2 3M 64k",
    "aio_write -P 3 5M 512",
    "aio_flush",
    "read -P 1 2M 1M",
    "read -P 2 3M 64k",
    "read -P 3 5M 512",
    "write -P 4 8M 40M",
    "read -P 4 8M 40M",
];

pub(super) fn io(rig: &mut Rig) -> Result<String, Problem> {
    let mut io = program("qemu-io", PACKAGE)?;
    io.args(["-f", "raw"]);
    COMMANDS.iter().chain(&["flush"]).for_each(|command| {
        io.args(["-c", command]);
    });
    let said = rig.run(io.arg(rig.uri()))?;
    if said.contains("verification failed") || said.contains("failed:") {
        return Err("qemu-io has read other bytes than it wrote".to_owned().into());
    }
    Ok(format!("{} commands", COMMANDS.len() + 1))
}

pub(super) fn img(rig: &mut Rig) -> Result<String, Problem> {
    let source = rig.file("source.qcow2");
    let img = || -> Result<Command, Problem> { program("qemu-img", PACKAGE) };
    rig.run(img()?.args(["create", "-q", "-f", "qcow2"]).arg(&source).arg("64M"))?;
    let mut fill = program("qemu-io", PACKAGE)?;
    fill.args(["-f", "qcow2", "-c", "write -P 5 3M 20M", "-c", "write -P 6 50M 10M"]);
    rig.run(fill.arg(&source))?;
    let raw = ["-n", "-f", "qcow2", "-O", "raw", "-W", "-m", "8"];
    rig.run(img()?.arg("convert").args(raw).arg(&source).arg(rig.uri()))?;
    rig.run(img()?.args(["compare", "-f", "qcow2", "-F", "raw"]).arg(&source).arg(rig.uri()))?;
    rig.run(img()?.args(["map", "-f", "raw", "--output=json"]).arg(rig.uri()))?;
    let bench = ["bench", "-f", "raw", "-c", "20000", "-d", "32", "-t", "none"];
    rig.run(img()?.args(bench).arg(rig.uri()))?;
    rig.run(img()?.args(bench).args(["-w", "--flush-interval=64"]).arg(rig.uri()))?;
    rig.end(false)?;
    rig.run(img()?.args(["info", "-f", "raw"]).arg(rig.disk()))?;
    Ok("converted, compared, mapped, 20,000 reads and writes at depth 32".to_owned())
}
