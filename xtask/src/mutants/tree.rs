//! The copy of the workspace in which mutants are built.
//!
//! The copy is kept between runs, and only differing files are written, so that cargo compiles only what a mutant
//! changes. The workspace itself is never touched.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use crate::files;

/// Locks the copy against a second run until the lock is dropped.
pub(super) fn lock(dir: &Path) -> Result<File, String> {
    let told = |cause: &dyn std::fmt::Display| format!("cannot lock {}: {cause}", dir.display());
    fs::create_dir_all(dir).map_err(|cause| told(&cause))?;
    let file = File::create(dir.join("lock")).map_err(|cause| told(&cause))?;
    file.try_lock().map_err(|cause| told(&cause))?;
    Ok(file)
}

/// Makes `to` contain the current files of `from` that git tracks or would track, and no others.
pub(super) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut wanted = files::tracked(from)?;
    wanted.retain(|path| from.join(path).is_file());
    fs::create_dir_all(to).map_err(|cause| told(to, &cause))?;
    let known: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    for stale in files::walk(to)?.iter().filter(|path| !known.contains(path.as_str())) {
        let path = to.join(stale);
        fs::remove_file(&path).map_err(|cause| told(&path, &cause))?;
    }
    for path in wanted {
        let (source, copy) = (from.join(&path), to.join(&path));
        let bytes = fs::read(&source).map_err(|cause| told(&source, &cause))?;
        // Skip equal files, because cargo recompiles every file that is written.
        if fs::read(&copy).is_ok_and(|there| there == bytes) {
            continue;
        }
        let dir = copy.parent().unwrap_or(to);
        fs::create_dir_all(dir).map_err(|cause| told(dir, &cause))?;
        fs::write(&copy, bytes).map_err(|cause| told(&copy, &cause))?;
    }
    Ok(())
}

fn told(path: &Path, cause: &dyn std::fmt::Display) -> String {
    format!("copying the workspace: {}: {cause}", path.display())
}

#[cfg(test)]
mod tests {
    use larder_harness::workspace;

    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let dir = workspace::target().join(format!("xtask/tree-test-{}", std::process::id()));
        let (from, to) = (workspace::root().join("xtask"), dir.join("tree"));
        let alone = lock(&dir).unwrap();
        assert!(lock(&dir).is_err(), "a second run has the lock too");
        drop(alone);
        copy(&from, &to).unwrap();
        assert!(files::walk(&to).unwrap().contains(&"src/mutants/tree.rs".to_owned()));
        let written = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let before = written("Cargo.toml");
        fs::write(to.join("src/main.rs"), "a mutant that was left").unwrap();
        fs::write(to.join("src/stale.rs"), "a file that is no more").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(written("Cargo.toml"), before);
        assert_eq!(fs::read(to.join("src/main.rs")).ok(), fs::read(from.join("src/main.rs")).ok());
        assert!(!to.join("src/stale.rs").exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
