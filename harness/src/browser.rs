//! A headless browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::step;

const PROGRAMS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const LIMIT: Duration = Duration::from_secs(120);

/// Finds the browser of this machine.
pub(crate) fn find() -> Option<PathBuf> {
    step::find_program(&PROGRAMS)
}

/// Takes a screenshot of a page. `profile` is a directory for the browser's own files.
pub(crate) fn screenshot(
    browser: &Path,
    page: &Path,
    picture: &Path,
    profile: &Path,
    (width, height): (u32, u32),
) -> Result<(), String> {
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()));
    step::run_within(&mut command, LIMIT)
}
