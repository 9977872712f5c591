//! Results, for people and as JSON.

use indicatif::{HumanBytes, HumanCount};
use larder_workload::Error;
use serde::Serialize;

use crate::args::VssdOutputArgs;
use crate::json::JsonTarget;

/// Prints a result for people on standard output, or on standard error if JSON goes to standard output, and writes the
/// JSON.
pub(super) fn deliver(json: JsonTarget, text: &str, result: &impl Serialize) -> Result<(), Error> {
    json.tell(text)?;
    json.write(result)
}

pub(super) fn json_target(output: &VssdOutputArgs) -> Result<JsonTarget, Error> {
    JsonTarget::prepare(output.json.as_deref())
}

pub(super) fn human(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

pub(super) fn count(number: u64) -> String {
    HumanCount(number).to_string()
}
