//! Options of the array engine, of whichever command has a cache.

use clap::Args;
use larder::ArrayConfig;
use larder_lab::Error;

use super::numbers::{percent, size};

/// What is said of the engine. Without a share nothing else may be said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub(crate) struct ArrayEngineArgs {
    /// Share of the cache's flash that the array engine gets, in percent: large objects under an index that lies on
    /// flash, so that little memory is enough for much flash; 0 is none
    #[arg(long, value_name = "PCT", value_parser = percent)]
    pub(crate) array: Option<f64>,

    /// Objects (key and value) from this size on go to the array, those between to the LOC [default: 0, all that the
    /// SOC does not take]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_min_object: Option<u64>,

    /// Mean size of the array's objects, by which its index is laid out [default: 16K]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_mean_object: Option<u64>,

    /// Memory for the array's index [default: what --array-memory leaves, or 2 bytes an object]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_index: Option<u64>,

    /// All memory of the array: index, tombstones, write buffers and what it knows of tables and regions; refused if
    /// that is too little [default: what they take]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "array")]
    pub(crate) array_memory: Option<u64>,
}

impl ArrayEngineArgs {
    /// The engine that is meant; `None` if nothing is said of one.
    ///
    /// # Errors
    /// If a size is none of an object.
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
