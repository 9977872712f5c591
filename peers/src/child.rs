//! A run in its own process.

use std::process::{Command, Stdio};

/// Starts this program with these arguments and waits for it. Returns the last line that it prints, because peers print
/// too. `what` describes the run in errors.
pub(crate) fn last_line(words: &[String], what: &str) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program is gone: {e}"))?;
    let output = Command::new(program)
        .args(words)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|cause| format!("cannot start a run: {cause}"))?;
    if !output.status.success() {
        return Err(format!("{what}: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().last().unwrap_or_default().to_owned())
}
