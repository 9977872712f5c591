//! The level of the log in `larder.toml`.

use serde::Deserialize;
use tracing::level_filters::LevelFilter;

use crate::args::log_level;

/// "off", "error", "warn", "info" or "debug".
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LogLevel(pub(crate) LevelFilter);

impl TryFrom<String> for LogLevel {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        log_level(&text).map(Self)
    }
}
