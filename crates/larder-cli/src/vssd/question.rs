//! What a command asks the process that has an image, and what that says: a line of JSON each.

use larder_workload::Error;
use serde::{Deserialize, Serialize};

/// What a command asks the owner of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Question {
    /// `larder vssd list`.
    List {},
    /// `larder vssd create`.
    Create(Wanted),
    /// `larder vssd grow`.
    Grow { vssd: u32, units: u32 },
    /// `larder vssd delete`.
    Delete { vssd: u32, destroy_data: bool },
    /// `larder vssd wear`.
    Wear {},
    /// `larder vssd swap`.
    Swap { drive: u32, channels: Option<[u32; 2]>, back: bool, yes: bool },
    /// `larder vssd swap --pause` and `--resume`.
    Pause { paused: bool },
}

/// A vSSD that a user asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    /// Name of its owner; may be empty.
    pub(super) name: String,
    /// "channel", "die", "software" or "none".
    pub(super) isolation: String,
    pub(super) weight: Option<u32>,
    pub(super) mb_s: u32,
    /// Channels, dies or quarters of dies; in place of `mb_s`.
    pub(super) units: Option<u32>,
    pub(super) capacity: u64,
}

/// What the owner says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done { text: String, json: serde_json::Value },
    Refused { why: String, usage: bool },
}

impl Answer {
    /// The answer that has a result: its text and its JSON.
    pub(super) fn of(result: Result<(String, impl Serialize), Error>) -> Self {
        let done = result.map(|(text, result)| match serde_json::to_value(result) {
            Ok(json) => Self::Done { text, json },
            Err(error) => Self::Refused { why: error.to_string(), usage: false },
        });
        done.unwrap_or_else(|error| Self::Refused {
            why: error.to_string(),
            usage: matches!(error, Error::Usage(_)),
        })
    }
}
