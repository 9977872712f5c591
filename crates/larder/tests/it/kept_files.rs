//! Cache files that earlier builds wrote (`tests/kept`): they are found as they were left, or refused, and never
//! misread. `docs/versions.md` promises this.
//!
//! A file of the version that is being worked on must be found: a change of a format is a decision, never an accident.
//! After one, count the version of the structure up, and keep a file of the new format:
//! `cargo test -p larder --test it keep_files -- --ignored`.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use larder::{Config, ErrorKind, OnChange, Recovery, block_on};
use larder_device::{FileDevice, FileOptions};

use crate::restart::{expected, fill};
use crate::rig::{Rig, config, logged};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const BYTES: u64 = 8 << 20;

/// The caches of which a file is kept.
fn caches() -> [(&'static str, Config); 2] {
    [("buckets", config()), ("log", logged())]
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kept")
}

/// All kept files, each with the configuration that wrote it.
fn kept() -> Vec<(String, Config, Vec<u8>)> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (_, config) =
            caches().into_iter().find(|(kind, _)| name.ends_with(&format!("-{kind}"))).unwrap();
        let mut content = Vec::new();
        GzDecoder::new(&*fs::read(&path).unwrap()).read_to_end(&mut content).unwrap();
        kept.push((name, config, content));
    }
    kept
}

#[test]
fn files_of_earlier_versions_are_found_or_refused_and_never_misread() {
    let directory = tempfile::tempdir().unwrap();
    let mut of_this_version = 0;
    for (name, config, content) in kept() {
        let path = directory.path().join(&name);
        fs::write(&path, content).unwrap();
        let device = Arc::new(FileDevice::open(&path, &FileOptions::default()).unwrap());
        let is_of_this_version = name.starts_with(&format!("{VERSION}-"));
        of_this_version += usize::from(is_of_this_version);
        let refused = match Rig::try_open(config.clone(), &device) {
            Ok(rig) => {
                let found = rig.cache.recovery();
                assert!(matches!(found, Some(Recovery::Clean { .. })), "{name}: {found:?}");
                (0..440).for_each(|key| assert_eq!(rig.get(key), expected(key), "{name} {key}"));
                block_on(rig.cache.close()).unwrap();
                continue;
            }
            Err(error) => error,
        };
        assert!(!is_of_this_version, "{name}: the format has changed: {refused}");
        assert_eq!(refused.kind(), ErrorKind::Config, "{name}: {refused}");
        let config = Config { on_change: OnChange::Discard, ..config };
        let rig = Rig::open(config, &device);
        (0..440).for_each(|key| assert_eq!(rig.get(key), None, "{name} {key}"));
    }
    assert_eq!(of_this_version, caches().len(), "files of version {VERSION}");
}

#[test]
#[ignore = "writes the files that are kept"]
fn keep_files() {
    let scratch = tempfile::tempdir().unwrap();
    for (kind, config) in caches() {
        let path = scratch.path().join(kind);
        let device = Arc::new(FileDevice::create(&path, BYTES).unwrap());
        let rig = Rig::open(config, &device);
        fill(&rig);
        block_on(rig.cache.close()).unwrap();
        drop((rig, device));
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&fs::read(&path).unwrap()).unwrap();
        let kept = directory().join(format!("{VERSION}-{kind}.gz"));
        fs::create_dir_all(directory()).unwrap();
        fs::write(kept, packed.finish().unwrap()).unwrap();
    }
}
