//! The memory of an array engine, for people.

use indicatif::BinaryBytes;
use larder::ArrayMemory;

/// The memory of an engine, on one line.
pub(crate) fn memory(memory: &ArrayMemory) -> String {
    let lines = memory.lines().map(|(what, bytes)| format!("{what} {}", BinaryBytes(bytes)));
    format!("{} at most: {}", BinaryBytes(memory.total_bytes()), lines.join(", "))
}
