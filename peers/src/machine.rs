//! A description of the machine.

use std::path::Path;
use std::process::Command;

/// Lines `name: text` about this machine, the disk under `dir` and the versions of the peers.
pub(crate) fn describe(dir: &Path) -> Vec<String> {
    let mut lines = larder_workload::machine::describe(dir);
    lines.extend([
        larder_workload::machine::describe_memory_latency(),
        format!("compiler: {}", compiler()),
        format!("allocator: of the C library, for every system; versions: {}", versions()),
    ]);
    lines
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Versions of the peers, from cargo's lock file.
fn versions() -> String {
    let lock = include_str!("../Cargo.lock");
    let version = |name: &str| {
        let (_, after) = lock.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some(format!("{name} {}", after.split('"').next()?))
    };
    let names = ["foyer", "quick_cache", "moka", "tokio"];
    names.into_iter().filter_map(version).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_from_the_lock_file() {
        for name in ["foyer 0.", "quick_cache 0.", "moka 0."] {
            assert!(versions().contains(name), "{}", versions());
        }
        assert_eq!(describe(Path::new(".")).len(), 8);
    }
}
