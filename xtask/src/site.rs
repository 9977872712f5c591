//! `cargo xtask site`: the documents as a book of web pages (mdBook), with every link checked.
//!
//! `docs/SUMMARY.md` is the order of the pages. Pages keep the places that they have in the workspace, so that links
//! are the same in both; a link to a file that is no page goes to the file's place on the web. A browser, if one is
//! there, opens each page in the window of a phone: none may be wider.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use larder_harness::step::{self, Verdict};
use larder_harness::{narrow, tools, workspace};

const MDBOOK: &str = "mdbook@0.5.4";
const ORIGIN: &str = "https://github.com/larder-cache/larder/blob/main/";

const BOOK: &str = "[book]
title = \"Larder\"
description = \"A flash cache that shelves data by lifetime\"
language = \"en\"
src = \"src\"

[output.html]
git-repository-url = \"https://github.com/larder-cache/larder\"
no-section-label = true
additional-css = [\"site.css\"]

[output.html.fold]
enable = false
";

const CSS: &str = include_str!("site.css");

/// Width of the narrowest window that pages are made for, in pixels.
const WIDTH: u32 = 400;

/// The sources of the book, as mdBook takes them.
struct Staged {
    dir: PathBuf,
    pages: BTreeSet<String>,
}

pub(crate) fn run() -> Verdict {
    match staged().and_then(|staged| built(&staged)) {
        Ok(text) => Verdict::Passed(text),
        Err(why) => Verdict::Failed(why),
    }
}

fn built(staged: &Staged) -> Result<String, String> {
    let mdbook = tools::find(MDBOOK)?;
    let book = workspace::target().join("site");
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&staged.dir).arg("--dest-dir").arg(&book);
    if let Verdict::Failed(why) = step::run(&mut build) {
        return Err(why);
    }
    let pages: Vec<PathBuf> = staged.pages.iter().map(|page| book.join(built_as(page))).collect();
    let profile = workspace::target().join("xtask/site-profile");
    let wide = narrow::too_wide(WIDTH, &pages, &profile)?;
    let _ = fs::remove_dir_all(&profile);
    let fit = match wide {
        None => format!("skipped: pages at {WIDTH} pixels (no chromium is installed)"),
        Some(wide) if wide.is_empty() => format!("{} pages fit into {WIDTH} pixels", pages.len()),
        Some(wide) => return Err(format!("wider than {WIDTH} pixels:\n{}", wide.join("\n"))),
    };
    Ok(format!("{}; {fit}", book.join("index.html").display()))
}

/// The file that mdBook makes of a page.
fn built_as(page: &str) -> PathBuf {
    let page = Path::new(page);
    match page.file_name().is_some_and(|name| name == "README.md") {
        true => page.with_file_name("index.html"),
        false => page.with_extension("html"),
    }
}

/// A directory with the pages, their links as the book needs them.
fn staged() -> Result<Staged, String> {
    let root = workspace::root();
    let dir = workspace::target().join("xtask/site");
    let _ = fs::remove_dir_all(&dir);
    write(&dir.join("book.toml"), BOOK)?;
    write(&dir.join("site.css"), CSS)?;
    let summary = read(&root.join("docs/SUMMARY.md"))?;
    let is_page = |target: &str| target.ends_with(".md");
    let pages: BTreeSet<String> = links(&summary)
        .filter(|target| is_page(target))
        .map(|target| joined("docs/SUMMARY.md", target))
        .collect();
    let mut broken = Vec::new();
    for page in &pages {
        let text = read(&root.join(page))?;
        let text = relinked(&text, |target| web(page, target, &pages, &mut broken));
        write(&dir.join("src").join(page), &text)?;
    }
    let listed = relinked(&summary, |target| Some(joined("docs/SUMMARY.md", target)));
    write(&dir.join("src/SUMMARY.md"), &listed)?;
    match broken.is_empty() {
        true => Ok(Staged { dir, pages }),
        false => Err(format!("links to nothing:\n{}", broken.join("\n"))),
    }
}

/// What a link of a page becomes in the book; `None` if it stays.
fn web(
    page: &str,
    target: &str,
    pages: &BTreeSet<String>,
    broken: &mut Vec<String>,
) -> Option<String> {
    // The last is a link of rustdoc, in tables that are made from its text.
    let is_elsewhere = ["://", "mailto:", "::"].iter().any(|mark| target.contains(mark));
    if target.starts_with('#') || is_elsewhere {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = joined(page, file);
    if !workspace::root().join(&path).exists() {
        broken.push(format!("{page}: {target}"));
    }
    if pages.contains(&path) {
        return None;
    }
    let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
    Some(format!("{ORIGIN}{path}{anchor}"))
}

/// The path that `target` is in a page, from the root of the workspace.
fn joined(page: &str, target: &str) -> String {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// Where a link ends, for each that begins in this text: the text up to it, and from there on.
fn parts(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = Some(text);
    let mut is_code = false;
    std::iter::from_fn(move || {
        let now = rest.take()?;
        let Some(at) = now.find("](") else { return Some((now, None)) };
        let (before, behind) = now.split_at(at + 2);
        if before.matches("```").count() % 2 == 1 {
            is_code = !is_code;
        }
        let end = behind.find([')', '\n', ' ']).filter(|_| !is_code);
        let Some(end) = end.filter(|end| behind[*end..].starts_with(')')) else {
            rest = Some(behind);
            return Some((before, None));
        };
        rest = Some(&behind[end..]);
        Some((before, Some(&behind[..end])))
    })
}

fn links(text: &str) -> impl Iterator<Item = &str> {
    parts(text).filter_map(|(_, target)| target)
}

/// The text, with links that `change` names replaced.
fn relinked(text: &str, mut change: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    for (before, target) in parts(text) {
        out.push_str(before);
        if let Some(target) = target {
            out.push_str(&change(target).unwrap_or_else(|| target.to_owned()));
        }
    }
    out
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text))
        .map_err(|cause| format!("{}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_every_page_leads_somewhere() {
        staged().unwrap();
    }

    #[test]
    fn pages_are_where_mdbook_puts_them() {
        assert_eq!(built_as("docs/a/README.md"), Path::new("docs/a/index.html"));
        assert_eq!(built_as("docs/a.md"), Path::new("docs/a.html"));
    }

    #[test]
    fn links_to_files_go_to_the_web_and_others_stay() {
        let pages = BTreeSet::from(["docs/start.md".to_owned()]);
        let mut broken = Vec::new();
        let text = "[a](start.md#x) [b](../Cargo.toml) [c](#d) [e](no-such.md)\n```\n[f](g)\n```\n\
                    [h](../LICENSE)";
        let web = relinked(text, |target| web("docs/page.md", target, &pages, &mut broken));
        let wanted = format!(
            "[a](start.md#x) [b]({ORIGIN}Cargo.toml) [c](#d) [e]({ORIGIN}docs/no-such.md)\n\
             ```\n[f](g)\n```\n[h]({ORIGIN}LICENSE)"
        );
        assert_eq!(web, wanted);
        assert_eq!(broken, ["docs/page.md: no-such.md"]);
    }
}
