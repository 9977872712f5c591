//! The array engine, for people: large values under an index that lies on flash.

use indicatif::BinaryBytes;
use larder::{ArrayConfig, ArrayMemory};

/// A short description of an engine.
pub(crate) fn explained(array: &ArrayConfig) -> String {
    if array.percent == 0.0 {
        return "none".to_owned();
    }
    let from = match array.min_object_bytes {
        0 => "all values but small ones".to_owned(),
        bytes => format!("values from {} on", BinaryBytes(bytes.into())),
    };
    let index = array
        .index_bytes
        .map_or(String::new(), |bytes| format!(", index of {} in memory", BinaryBytes(bytes)));
    format!(
        "{} % of flash for {from}, {} each{index}",
        array.percent,
        BinaryBytes(array.mean_object_bytes.into())
    )
}

/// The memory of an engine, on one line.
pub(crate) fn memory(memory: &ArrayMemory) -> String {
    let lines = memory.lines().map(|(what, bytes)| format!("{what} {}", BinaryBytes(bytes)));
    format!("{} at most: {}", BinaryBytes(memory.total_bytes()), lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_described_by_what_it_takes() {
        let config = ArrayConfig {
            percent: 50.0,
            min_object_bytes: 8192,
            mean_object_bytes: 32768,
            index_bytes: Some(1 << 20),
            ..ArrayConfig::default()
        };
        assert_eq!(
            explained(&config),
            "50 % of flash for values from 8.00 KiB on, 32.00 KiB each, index of 1.00 MiB in memory"
        );
        let all = ArrayConfig { percent: 96.0, ..ArrayConfig::default() };
        assert_eq!(explained(&all), "96 % of flash for all values but small ones, 16.00 KiB each");
        assert_eq!(explained(&ArrayConfig::default()), "none");
    }
}
