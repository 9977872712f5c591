//! The files that belong to the workspace.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Directories that are skipped if git cannot list the files.
const NOT_OURS: [&str; 3] = [".git", "target", "node_modules"];

/// Files below `root` that git tracks or would track, as relative paths with `/` between names. May include files that
/// were just deleted.
pub(crate) fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = git.output().map_err(|cause| format!("git ls-files: {cause}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let list =
        String::from_utf8(output.stdout).map_err(|cause| format!("git ls-files: {cause}"))?;
    Ok(list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// Every file below `root` except build output, as relative paths.
pub(crate) fn walk(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    walk_below(root, "", &mut paths)?;
    Ok(paths)
}

fn walk_below(root: &Path, below: &str, paths: &mut Vec<String>) -> Result<(), String> {
    let dir = root.join(below);
    let told = |cause: std::io::Error| format!("cannot list {}: {cause}", dir.display());
    for entry in fs::read_dir(&dir).map_err(told)? {
        let entry = entry.map_err(told)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(told)?;
        if kind.is_dir() && !NOT_OURS.contains(&name.as_str()) {
            walk_below(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}
