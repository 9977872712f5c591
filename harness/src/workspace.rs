//! The directories of the workspace.

use std::path::{Path, PathBuf};

/// The root of the workspace. Cargo tells this crate's directory to the programs that it runs.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Cargo's build directory. Our own results are in its subdirectory `xtask`.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}
