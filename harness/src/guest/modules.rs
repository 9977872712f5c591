//! Modules of a guest's kernel with their dependencies, in the order in which they are loaded. The dependencies come
//! from the modules themselves, because Debian's packages contain no list of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module to load in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

/// The modules of these names and their dependencies, for the kernel image at `kernel`.
pub(super) fn of(kernel: &Path, names: &[String]) -> Result<Vec<Module>, String> {
    let mut found = Vec::new();
    if names.is_empty() {
        return Ok(found);
    }
    let tree = tree_of(kernel)?;
    for name in names {
        add(&tree, &plain(name), &mut found)?;
    }
    Ok(found)
}

/// Adds the dependencies of `name`, then `name` itself.
fn add(tree: &Path, name: &str, found: &mut Vec<Module>) -> Result<(), String> {
    if found.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let Some(path) = find(tree, name) else {
        return Err(format!("the kernel has no module {name} in {}", tree.display()));
    };
    let content = read(&path)?;
    for needed in needs(&content) {
        add(tree, &needed, found)?;
    }
    found.push(Module { name: name.to_owned(), content });
    Ok(())
}

/// The module directory of an unpacked kernel.
fn tree_of(kernel: &Path) -> Result<PathBuf, String> {
    let version = kernel.file_name().map(|name| name.to_string_lossy().into_owned());
    let version = version.as_deref().and_then(|name| name.strip_prefix("vmlinuz-"));
    let home = kernel.parent().and_then(Path::parent);
    let (Some(version), Some(home)) = (version, home) else {
        return Err(format!("{}: no kernel of a package", kernel.display()));
    };
    let trees = ["usr/lib/modules", "lib/modules"].map(|tree| home.join(tree).join(version));
    let tree = trees.into_iter().find(|tree| tree.exists());
    tree.ok_or_else(|| format!("{}: there are no modules of {version}", home.display()))
}

/// Module files have `-` in their names where modules have `_`.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?.filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.into_iter().find_map(|path| {
        if path.is_dir() && !path.is_symlink() {
            return find(&path, name);
        }
        let file = path.file_name()?.to_str()?;
        let stem = [".ko", ".ko.xz"].into_iter().find_map(|end| file.strip_suffix(end))?;
        (plain(stem) == name).then_some(path)
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let told = |cause: String| format!("{}: {cause}", path.display());
    if path.extension().is_some_and(|extension| extension == "ko") {
        return fs::read(path).map_err(|cause| told(cause.to_string()));
    }
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(path).output();
    let output = output.map_err(|cause| told(format!("xz: {cause}")))?;
    if !output.status.success() {
        return Err(told(format!("xz: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(output.stdout)
}

/// The names after `depends=` in a module's information section.
fn needs(content: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = content.windows(KEY.len()).position(|bytes| bytes == KEY) else {
        return Vec::new();
    };
    let rest = &content[at + KEY.len()..];
    let said = rest.split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(said);
    names.split(',').filter(|name| !name.is_empty()).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_comes_behind_those_that_it_needs_once() {
        let home = std::env::temp_dir().join(format!("larder-modules-{}", std::process::id()));
        let tree = home.join("lib/modules/6.1/kernel");
        fs::create_dir_all(tree.join("drivers")).unwrap();
        let module = |path: &str, needs: &str| {
            fs::write(tree.join(path), format!("ELF\0license=GPL\0depends={needs}\0name=x\0"))
        };
        module("drivers/nd_pmem.ko", "nd-btt,libnvdimm").unwrap();
        module("drivers/nd-btt.ko", "libnvdimm").unwrap();
        module("libnvdimm.ko", "").unwrap();
        let kernel = home.join("boot/vmlinuz-6.1");
        let names = ["nd_pmem".to_owned(), "libnvdimm".to_owned()];
        let found = of(&kernel, &names).unwrap();
        let names: Vec<&str> = found.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["libnvdimm", "nd_btt", "nd_pmem"]);
        let missing = of(&kernel, &["dax".to_owned()]).unwrap_err();
        assert!(missing.contains("no module dax"), "{missing}");
        assert!(of(&home.join("boot/vmlinuz-7"), &["x".to_owned()]).is_err());
        assert_eq!(of(&home.join("boot/vmlinuz-7"), &[]), Ok(Vec::new()));
        fs::remove_dir_all(&home).unwrap();
    }
}
