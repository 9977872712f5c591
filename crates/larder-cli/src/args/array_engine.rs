//! Options of the array engine, for all commands that have a cache.

use clap::Args;
use larder::ArrayConfig;
use larder_workload::Error;

use super::numbers::{percent, size};

/// Options of the array engine. The others need `--array`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub(crate) struct ArrayEngineArgs {
    /// Share of the cache's flash that the array engine gets, in percent: large objects under an index that lies on
    /// flash, so that much flash needs little memory; 0 is none
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) array: Option<f64>,

    /// Objects (key and value) of at least this size go to the array; those between it and the SOC's limit go to the
    /// LOC [default: 0, all that the SOC does not take]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_min_object: Option<u64>,

    /// Mean size of the array's objects, by which its index is laid out [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_mean_object: Option<u64>,

    /// Memory for the array's index [default: what --array-memory leaves, or 2 bytes an object]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_index: Option<u64>,

    /// Total memory of the array: index, tombstones, write buffers and its tables of regions; refused if too little
    /// [default: what they take]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_memory: Option<u64>,
}

impl ArrayEngineArgs {
    /// The options by their keys in `larder.toml`, with their texts.
    #[cfg(feature = "serve")]
    pub(crate) fn said(&self) -> [(&'static str, Option<String>); 5] {
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string());
        [
            ("array.percent", self.array.map(|percent| percent.to_string())),
            ("array.min_object", bytes(self.array_min_object)),
            ("array.mean_object", bytes(self.array_mean_object)),
            ("array.index", bytes(self.array_index)),
            ("array.memory", bytes(self.array_memory)),
        ]
    }

    /// The configuration of the engine; `None` without `--array`.
    ///
    /// # Errors
    /// If a size is not a possible size of an object.
    #[cfg(feature = "lab")]
    pub(crate) fn config(&self) -> Result<Option<ArrayConfig>, Error> {
        let Some(percent) = self.array else { return Ok(None) };
        let default = ArrayConfig::default();
        let object = |name: &str, bytes: Option<u64>, default| match bytes.map(u32::try_from) {
            None => Ok(default),
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(_)) => Err(Error::usage(format!("{name}: must be less than 4G"))),
        };
        Ok(Some(ArrayConfig {
            percent,
            min_object_bytes: object(
                "array min_object",
                self.array_min_object,
                default.min_object_bytes,
            )?,
            mean_object_bytes: object(
                "array mean_object",
                self.array_mean_object,
                default.mean_object_bytes,
            )?,
            index_bytes: self.array_index,
            memory_bytes: self.array_memory,
            ..default
        }))
    }
}
