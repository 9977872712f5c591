//! What the code must not contain: `unsafe` outside of a few files, unfinished code, meaningless names.

use super::finding::Finding;
use super::scan;
use super::tree::{SourceFile, Tree};

/// The files that may contain `unsafe`. Each block needs a comment that justifies it; clippy checks that.
const MAY_BE_UNSAFE: [&str; 27] = [
    "crates/larder-c/src/cache.rs",
    "crates/larder-export/src/ublk/kernel.rs",
    "crates/larder-device/src/transfer/piece.rs",
    "crates/larder-device/src/transfer/request.rs",
    "crates/larder-device/src/file/uring/port.rs",
    "crates/larder-device/src/heap.rs",
    "crates/larder-device/src/mapped/memory.rs",
    "crates/larder-device/src/nvme/ioctl.rs",
    "crates/larder-device/src/ring/fixed.rs",
    "crates/larder-device/src/ring/linux.rs",
    "crates/larder-device/src/ring/queues.rs",
    "crates/larder-net/src/sockets/kernel.rs",
    "crates/larder-net/src/sockets/provided.rs",
    "crates/larder-script/src/raw.rs",
    "crates/larder-script/src/stack.rs",
    "crates/larder-device/src/zones/ioctl.rs",
    "crates/larder/src/dram/memory/heap.rs",
    "crates/larder/src/dram/memory/mapping.rs",
    "crates/larder/src/dram/memory/mod.rs",
    "crates/larder/src/dram/memory/shadow.rs",
    "crates/larder/src/base/prefetch.rs",
    "crates/larder/src/dram/published.rs",
    "crates/larder/src/dram/segment.rs",
    "crates/larder/src/dram/segment/pins.rs",
    "crates/larder/src/dram/slots.rs",
    // An allocator that counts, for the counts of `cargo xtask bench-gate`.
    "harness/examples/counts/allocations.rs",
    // Buffers of Python are pointers.
    "python/src/view.rs",
];

/// Macros that mark unfinished code.
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];

/// Names that say nothing about the content.
const EMPTY_NAMES: [&str; 7] = ["common", "helper", "helpers", "manager", "misc", "util", "utils"];

/// Checks every Rust file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = scan::code_only(&file.text);
        findings.extend(unsafe_code(file, &code));
        findings.extend(unfinished(file, &code));
        findings.extend(empty_file_name(file));
        findings.extend(empty_module_names(file, &code));
    }
    findings
}

fn unsafe_code(file: &SourceFile, code: &str) -> Vec<Finding> {
    if MAY_BE_UNSAFE.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let places = scan::words(code, "unsafe").into_iter();
    places
        .map(|at| {
            let fix =
                format!("use what {} offers, or argue for a new file", MAY_BE_UNSAFE.join(", "));
            let message = "`unsafe` outside its files";
            Finding::error((&file.path, scan::line_of(code, at)), "unsafe", message, fix)
        })
        .collect()
}

fn unfinished(file: &SourceFile, code: &str) -> Vec<Finding> {
    let called = |at: usize, name: &str| code[at + name.len()..].starts_with('!');
    let mut findings = Vec::new();
    for name in UNFINISHED {
        for at in scan::words(code, name).into_iter().filter(|at| called(*at, name)) {
            let (line, message) = (scan::line_of(code, at), format!("`{name}!`"));
            let fix = "finish the code or return an error";
            findings.push(Finding::error((&file.path, line), "unfinished", message, fix));
        }
    }
    findings
}

fn empty_file_name(file: &SourceFile) -> Option<Finding> {
    let mut names = file.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let name = names.find(|name| EMPTY_NAMES.contains(name))?;
    Some(empty_name((&file.path, 1), name))
}

fn empty_module_names(file: &SourceFile, code: &str) -> Vec<Finding> {
    let modules = scan::words(code, "mod").into_iter();
    modules
        .filter_map(|at| {
            let after = code[at + "mod".len()..].trim_start();
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            let name = after.get(..end).filter(|name| EMPTY_NAMES.contains(name))?;
            Some(empty_name((&file.path, scan::line_of(code, at)), name))
        })
        .collect()
}

fn empty_name(place: (&str, usize), name: &str) -> Finding {
    let message = format!("`{name}` says nothing about what is inside");
    Finding::error(place, "name", message, "name it after its one concept")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(&'static str, usize)> {
        check(&Tree::of(&[(path, text)])).iter().map(|f| (f.rule, f.line)).collect()
    }

    #[test]
    fn unsafe_code_has_its_files() {
        let text = "//! x\nfn f() { unsafe { g() } }\n#![deny(unsafe_code)] // unsafe\n";
        assert_eq!(rules("crates/a/src/b.rs", text), [("unsafe", 2)]);
        assert!(rules(MAY_BE_UNSAFE[0], text).is_empty());
    }

    #[test]
    fn unfinished_code_is_found_and_talk_about_it_is_not() {
        let text = "fn f() { todo!() }\n// todo!()\nfn g() { dbg!(1); \"unimplemented!\" }\nlet todo = 1;\n";
        assert_eq!(rules("a.rs", text), [("unfinished", 1), ("unfinished", 3)]);
    }

    #[test]
    fn empty_names_are_found_in_paths_and_modules() {
        assert_eq!(rules("crates/a/src/utils.rs", ""), [("name", 1)]);
        assert_eq!(rules("crates/a/src/common/x.rs", ""), [("name", 1)]);
        assert_eq!(rules("crates/a/src/b.rs", "\npub mod helpers {}\nmod helpful;"), [("name", 2)]);
    }
}
