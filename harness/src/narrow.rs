//! Pages in a narrow window: which of them are wider than it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::browser;
use crate::devtools::Browser;

const HEIGHT: u32 = 800;
const PATIENCE: Duration = Duration::from_secs(30);

/// What the page shows beyond WIDTH pixels: the first such part, or an empty text. A part within a box that scrolls is
/// where its reader finds it. `main` itself is no such box: then the page would scroll sideways as a whole.
const BEYOND: &str = "document.fonts.ready.then(() => {
    const scrolls = part => getComputedStyle(part).overflowX !== 'visible';
    const isWithin = part => {
        for (let box = part.parentElement; box.localName !== 'main'; box = box.parentElement) {
            if (scrolls(box)) return true;
        }
        return false;
    };
    const isBeyond = part => part.getBoundingClientRect().right > WIDTH + 1 && !isWithin(part);
    const found = [...document.querySelectorAll('main *')].find(isBeyond);
    if (found) return `<${found.localName}> ${found.textContent.trim().slice(0, 60)}`;
    const wide = document.documentElement.scrollWidth;
    return wide > WIDTH ? `all of it: ${wide} pixels` : '';
})";

/// Opens files of HTML in a window of `width` pixels. Returns a line for each that is wider, with its first part that
/// is; `None` without a browser. `profile` is a directory for the browser's own files.
///
/// # Errors
/// The browser does not start or answer, or a file is missing.
pub fn too_wide(
    width: u32,
    pages: &[PathBuf],
    profile: &Path,
) -> Result<Option<Vec<String>>, String> {
    let Some(program) = browser::find() else { return Ok(None) };
    let mut browser = Browser::start(&program, profile)?;
    browser.resize(width, HEIGHT)?;
    let beyond = BEYOND.replace("WIDTH", &width.to_string());
    let mut found = Vec::new();
    for page in pages {
        if !page.is_file() {
            return Err(format!("{} is missing", page.display()));
        }
        browser.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }))?;
        browser.wait_for("document.readyState === 'complete'", PATIENCE)?;
        let part = browser.evaluate(&beyond)?;
        match part.as_str() {
            Some("") => {}
            Some(part) => {
                found.push(format!("{}: {}", page.display(), part.replace('\n', " ")));
            }
            None => return Err(format!("{}: the browser does not measure it", page.display())),
        }
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_scrolls_fits_and_what_does_not_is_named() {
        let dir = std::env::temp_dir().join(format!("larder-narrow-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let wide = "<p style='width: 900px'>rye bread</p>";
        let scrolls = format!("<div style='overflow-x: auto'>{wide}</div>");
        let pages = [("fits.html", scrolls.as_str()), ("wide.html", wide)].map(|(name, body)| {
            let page = dir.join(name);
            let head = "<!DOCTYPE html><meta name=viewport content='width=device-width'>";
            fs::write(&page, format!("{head}<main>{body}</main>")).unwrap();
            page
        });
        let found = too_wide(400, &pages, &dir.join("profile"));
        let missing = too_wide(400, &[dir.join("none.html")], &dir.join("profile"));
        fs::remove_dir_all(&dir).unwrap();
        let Some(found) = found.unwrap() else { return eprintln!("skipped: no chromium") };
        assert_eq!(found, [format!("{}: <p> rye bread", pages[1].display())]);
        assert!(missing.unwrap_err().contains("none.html is missing"));
    }
}
