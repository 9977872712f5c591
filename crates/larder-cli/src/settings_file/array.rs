//! `[array]` of `larder.toml`, for all tenants or for one: large values under an index that lies on flash.

use indicatif::BinaryBytes;
use larder::{ArrayConfig, ArrayMemory};
use serde::Deserialize;

use super::size::Size;
use crate::args::ArrayEngineArgs;

/// The settings of the engine in the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArrayEntry {
    percent: f64,
    min_object: Option<Size>,
    mean_object: Option<Size>,
    index: Option<Size>,
    memory: Option<Size>,
}

impl ArrayEntry {
    /// The configuration of the engine, or what is wrong with it.
    pub(crate) fn config(&self) -> Result<ArrayConfig, String> {
        let bytes = |size: Option<Size>| size.map(|size| size.0);
        let told = ArrayEngineArgs {
            array: Some(self.percent),
            array_min_object: bytes(self.min_object),
            array_mean_object: bytes(self.mean_object),
            array_index: bytes(self.index),
            array_memory: bytes(self.memory),
        };
        let config = told.config().map_err(|error| error.to_string())?;
        Ok(config.unwrap_or_default())
    }
}

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
    fn a_section_says_what_options_say() {
        let read = |text| toml::from_str::<ArrayEntry>(text).unwrap().config();
        let config =
            read("percent = 50\nmin_object = \"8K\"\nmean_object = 32768\nindex = \"1M\"\nmemory = \"8M\"").unwrap();
        let expected = ArrayConfig {
            percent: 50.0,
            min_object_bytes: 8192,
            mean_object_bytes: 32768,
            index_bytes: Some(1 << 20),
            memory_bytes: Some(8 << 20),
            ..ArrayConfig::default()
        };
        assert_eq!(config, expected);
        assert_eq!(
            explained(&config),
            "50 % of flash for values from 8.00 KiB on, 32.00 KiB each, index of 1.00 MiB in memory"
        );
        assert_eq!(
            explained(&read("percent = 96").unwrap()),
            "96 % of flash for all values but small ones, 16.00 KiB each"
        );
        assert_eq!(explained(&ArrayConfig::default()), "none");
        assert!(read("percent = 50\nmin_object = \"4G\"").unwrap_err().contains("min_object"));
        assert!(toml::from_str::<ArrayEntry>("min_object = 5").is_err(), "a share is needed");
    }
}
