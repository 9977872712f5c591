//! `cargo xtask hits`: lists the source files of the workspace that a hit passes through, that is, the files that a
//! reader must open to follow it.
//!
//! The example `one_hit`, built without optimisation, makes one hit in DRAM and one of a large object in a
//! file, which stays out of DRAM. Callgrind records every function that runs on the calling thread between the call and
//! its return. An earlier hit has already done all one-time work.

mod profile;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use self::profile::Profile;
use crate::step::{self, Verdict};
use crate::workspace;

/// A kind of hit: the argument of the example, and the function that is measured.
const HITS: [(&str, &str); 2] = [("dram", "one_hit::hit_in_dram"), ("loc", "one_hit::hit_in_loc")];

/// Measures both kinds of hits, and prints the files of each.
pub fn run() -> Verdict {
    if !cfg!(target_os = "linux") {
        return Verdict::Skipped("valgrind is asked on Linux alone".to_owned());
    }
    let Some(valgrind) = step::find_program(&["valgrind"]) else {
        return Verdict::Skipped("valgrind is not installed".to_owned());
    };
    let dir = workspace::target().join("xtask/hits");
    let mut build = step::cargo(&[
        "build",
        "--quiet",
        "--locked",
        "-p",
        "larder-harness",
        "--example",
        "one_hit",
    ]);
    build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_TARGET_DIR", &dir);
    let built = step::run(&mut build);
    if built != Verdict::passed() {
        return built;
    }
    let example = dir.join("debug/examples/one_hit");
    let flash = dir.join("flash");
    let filled = step::run(Command::new(&example).arg("fill").arg(&flash));
    if filled != Verdict::passed() {
        return filled;
    }
    let mut said = Vec::new();
    for (hit, counted) in HITS {
        match profiled(&valgrind, (&example, &flash), (hit, counted), &dir) {
            Ok(profile) => said.push(told(hit, &profile)),
            Err(why) => return Verdict::Failed(format!("{hit}: {why}")),
        }
    }
    let _ = fs::remove_file(flash); // the next run creates it again
    Verdict::Passed(said.join("; "))
}

/// The functions that run in a hit.
fn profiled(
    valgrind: &Path,
    (example, flash): (&Path, &Path),
    (hit, counted): (&str, &str),
    dir: &Path,
) -> Result<Profile, String> {
    let out: PathBuf = dir.join(format!("{hit}.callgrind"));
    let mut command = Command::new(valgrind);
    command.args(["--quiet", "--tool=callgrind", &format!("--toggle-collect={counted}")]);
    command.arg(format!("--callgrind-out-file={}", out.display())).arg(example).arg(hit);
    if hit == "loc" {
        command.arg(flash);
    }
    if let Verdict::Failed(why) = step::run(&mut command) {
        return Err(why);
    }
    let text = fs::read_to_string(&out).map_err(|cause: io::Error| cause.to_string())?;
    let root = format!("{}/crates/", workspace::root().display());
    let profile = Profile::read(&text, &root);
    if profile.files(false).is_empty() {
        Err("nothing was counted".to_owned())
    } else {
        Ok(profile)
    }
}

/// Prints the files of a hit, and returns their number.
fn told(hit: &str, profile: &Profile) -> String {
    let (all, followed) = (profile.files(false), profile.files(true));
    println!(
        "\n{hit}: functions that run, by source file; in brackets: nothing but drops, clones and accessors"
    );
    for (file, functions) in &all {
        let is_followed = followed.contains_key(file);
        let [open, close] = if is_followed { ["", ""] } else { ["[", "]"] };
        println!("  {open}{file}{close} {functions}");
    }
    let by_crate = |files: &BTreeMap<String, usize>| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for file in files.keys() {
            *counts.entry(file.split('/').next().unwrap_or_default()).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        counts.join(", ")
    };
    println!("  all: {}", by_crate(&all));
    println!("  without those in brackets: {}", by_crate(&followed));
    format!("{hit} {} files, {} of them to follow it", all.len(), followed.len())
}
