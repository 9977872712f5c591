//! Source packages of the distribution, for the tests they contain.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step;

/// The source directory of a package below `dir`. Fetches it if it is missing.
pub(super) fn find(package: &str, dir: &Path) -> Result<PathBuf, String> {
    if let Some(there) = unpacked(package, dir) {
        return Ok(there);
    }
    for program in ["apt-get", "dpkg-source"] {
        if step::find_program(&[program]).is_none() {
            return Err(format!("{program} is not there"));
        }
    }
    fetch(package, dir).map_err(|cause| format!("the source cannot be fetched: {cause}"))?;
    unpacked(package, dir).ok_or_else(|| "the source cannot be fetched: see above".to_owned())
}

fn unpacked(package: &str, dir: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(dir).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_it = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let version = name.as_ref().and_then(|name| name.strip_prefix(package)?.strip_prefix('-'));
        version.is_some() && path.is_dir()
    };
    entries.find(is_it)
}

/// Source packages need their own package lists. They are stored next to what is fetched, so the system is not changed.
fn fetch(package: &str, dir: &Path) -> io::Result<()> {
    let state = dir.join("apt/lists");
    fs::create_dir_all(state.join("partial"))?;
    let mut sources = String::new();
    for entry in fs::read_dir("/etc/apt/sources.list.d")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sources") {
            let text = fs::read_to_string(path)?;
            sources.push_str(&text.replace("Types: deb\n", "Types: deb-src\n"));
            sources.push('\n');
        }
    }
    let list = dir.join("apt/source.sources");
    fs::write(&list, sources)?;
    for words in [&["update"][..], &["source", package]] {
        let mut command = Command::new("apt-get");
        command.current_dir(dir);
        for (option, path) in [("Dir::Etc::sourcelist", &list), ("Dir::State::Lists", &state)] {
            command.arg("-o").arg(format!("{option}={}", path.display()));
        }
        step::run(command.args(["-o", "Dir::Etc::sourceparts=/dev/null"]).args(words));
    }
    Ok(())
}
