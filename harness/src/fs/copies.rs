//! Copies trees with all kinds of files by `cp -a` and `tar`, and compares them with the originals.

use std::path::Path;
use std::process::Command;

use super::rig::Rig;
use crate::problem::Problem;
use crate::workspace;

/// What source trees do not contain: other kinds of files, owners, times and attributes.
const SPECIALS: &str = "
mkdir -p specials/empty && cd specials
truncate -s 5M hole; printf end >> hole
printf one > one; ln one two; ln -s one link; ln -s nowhere dangling
mkfifo fifo; mknod null c 1 3
chmod 4755 two; chown 12:34 one
touch -d '1999-12-31 23:59:59.123456789' one
mkdir -m 1777 sticky; mkdir deep; cd deep
for i in $(seq 40); do mkdir d; cd d; done; printf bottom > file
";

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let scratch = rig.scratch();
    let tree = scratch.join("tree");
    let root = workspace::root();
    std::fs::create_dir_all(&tree).map_err(|cause| format!("{}: {cause}", tree.display()))?;
    rig.run(Command::new("sh").args(["-e", "-c", SPECIALS]).current_dir(&tree))?;
    rig.run(
        Command::new("cp")
            .args(["-a"])
            .args(["crates", "docs", "harness", "xtask"].map(|name| root.join(name)))
            .arg(&tree),
    )?;
    let original = scratch.join("tree.tar");
    rig.run(Command::new("tar").arg("cf").arg(&original).arg("-C").arg(&scratch).arg("tree"))?;

    rig.run_there(Command::new("cp").arg("-a").arg(&tree).arg("copied"))?;
    rig.run_there(Command::new("tar").args(["cf", "there.tar", "-C"]).arg(&scratch).arg("tree"))?;
    rig.run_there(Command::new("mkdir").arg("unpacked"))?;
    rig.run_there(Command::new("tar").args(["xf", "there.tar", "-C", "unpacked"]))?;
    compare(rig, &tree, &original)?;
    rig.remount()?;
    compare(rig, &tree, &original)?;
    // Delete everything again: then all space is free.
    rig.run_there(Command::new("rm").args(["-rf", "copied", "unpacked", "there.tar"]))?;
    rig.remount()?;
    let left = rig.run_there(Command::new("ls").arg("-A"))?;
    if !left.is_empty() {
        return Err(Problem::Failed(format!("after rm -rf there is {left}")));
    }
    Ok("cp -a and tar, compared before and after a new mount; rm -rf".to_owned())
}

/// Compares bytes by `diff` and `cmp`; owners, modes, times and links by `tar --compare`.
fn compare(rig: &Rig, tree: &Path, original: &Path) -> Result<(), Problem> {
    for copy in ["copied", "unpacked/tree"] {
        let mut diff = Command::new("diff");
        diff.args(["-r", "--no-dereference", "--exclude=fifo", "--exclude=null"]);
        rig.run_there(diff.arg(tree).arg(copy))?;
    }
    rig.run_there(Command::new("cmp").arg(original).arg("there.tar"))?;
    rig.run_there(Command::new("tar").args(["--compare", "-f", "there.tar", "-C", "unpacked"]))?;
    let mut renamed = Command::new("tar");
    renamed.args(["--compare", "--transform=s/^tree/copied/", "-f", "there.tar"]);
    rig.run_there(&mut renamed).map(|_| ())
}
