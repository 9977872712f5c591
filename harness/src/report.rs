//! Checks that a real replay makes a report that a real browser can draw.

use std::fs;
use std::path::Path;

use crate::step::{self, Verdict};
use crate::{browser, png, workspace};

const WIDTH: u32 = 1280;
const HEIGHT: u32 = 2400;
/// Smallest size of a screenshot. A blank one of these dimensions takes a fifth of this.
const PICTURE_BYTES_MIN: usize = 60_000;

/// Replays a short workload, and takes a screenshot of its report.
pub fn run() -> Verdict {
    let Some(browser) = browser::find() else {
        return Verdict::Skipped("no chromium is installed".to_owned());
    };
    let dir = workspace::target().join("xtask/report");
    // Remove the report of an earlier run, so that it cannot pass for this run's.
    if dir.exists()
        && let Err(cause) = fs::remove_dir_all(&dir)
    {
        return Verdict::Failed(format!("cannot clear {}: {cause}", dir.display()));
    }
    let arguments = ["run", "--release", "-p", "larder-cli", "--", "replay"];
    let mut replay = step::cargo(&arguments);
    replay.args(["--requests", "200000", "--report"]).arg(&dir);
    match step::run(&mut replay) {
        Verdict::Passed(_) => match drawn(&browser, &dir) {
            Ok(text) => Verdict::Passed(text),
            Err(text) => Verdict::Failed(text),
        },
        other => other,
    }
}

fn drawn(browser: &Path, dir: &Path) -> Result<String, String> {
    let picture = dir.join("report.png");
    let profile = dir.join("profile");
    let size = (WIDTH, HEIGHT);
    browser::screenshot(browser, &dir.join("index.html"), &picture, &profile, size)?;
    // Remove the browser's own files. The page and its screenshot stay for inspection.
    let _ = fs::remove_dir_all(&profile);
    let file = fs::read(&picture).map_err(|cause| format!("{}: {cause}", picture.display()))?;
    judged(&file)
}

/// Whether a screenshot has the requested dimensions and is not blank.
fn judged(file: &[u8]) -> Result<String, String> {
    match png::dimensions(file) {
        None => Err("the browser's picture is no PNG".to_owned()),
        Some((WIDTH, HEIGHT)) if file.len() >= PICTURE_BYTES_MIN => {
            Ok(format!("{WIDTH} x {HEIGHT} pixels, {} bytes", file.len()))
        }
        Some((WIDTH, HEIGHT)) => Err(format!("the picture is all but blank: {} bytes", file.len())),
        Some((width, height)) => {
            Err(format!("the picture has {width} x {height} pixels, not {WIDTH} x {HEIGHT}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_broken_pictures_are_refused() {
        let mut file = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x05\0\0\0\x09\x60".to_vec();
        assert!(judged(&file).unwrap_err().contains("blank"));
        file.resize(PICTURE_BYTES_MIN, 0);
        assert!(judged(&file).is_ok());
        file[19] = 1;
        assert!(judged(&file).unwrap_err().contains("not 1280"));
        assert!(judged(b"").is_err());
    }
}
