//! Every magic number of an on-flash format must be listed in the page of formats, with the file that writes it.

use super::finding::Finding;
use super::scan;
use super::tree::{SourceFile, Tree};

/// The page.
const PAGE: &str = "docs/formats.md";
/// The directory of the formats.
const SOURCES: &str = "crates/larder/src/";
const RULE: &str = "formats";

/// A constant such as `const BUCKET_MAGIC: [u8; 4] = *b"LBKT";`.
#[derive(Debug, PartialEq, Eq)]
struct Magic {
    name: String,
    literal: String,
    line: usize,
}

/// Compares the magic numbers with the page, and the page with the tree.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let page = tree.file(PAGE);
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.path.starts_with(SOURCES)) {
        for magic in magics(file) {
            findings.extend(missing(file, &magic, page));
        }
    }
    findings.extend(page.map(|page| lost_files(tree, page)).unwrap_or_default());
    findings
}

fn missing(file: &SourceFile, magic: &Magic, page: Option<&SourceFile>) -> Option<Finding> {
    let Magic { name, literal, line } = magic;
    let place = (file.path.as_str(), *line);
    let Some(page) = page else {
        let message = format!("{name} is a format, but there is no {PAGE}");
        return Some(Finding::error(place, RULE, message, format!("draw its bytes in {PAGE}")));
    };
    if !page.text.contains(literal.as_str()) {
        let message = format!("{PAGE} does not mention {name} = {literal}");
        return Some(Finding::error(place, RULE, message, "draw the bytes of this format there"));
    }
    if !page.text.contains(&file.path) {
        let message = format!("{PAGE} does not name this file, which declares {name}");
        return Some(Finding::error(place, RULE, message, format!("write `{}` there", file.path)));
    }
    None
}

/// Constants outside of tests with MAGIC in their names and a literal value.
fn magics(file: &SourceFile) -> Vec<Magic> {
    let code = scan::code_only(&file.text);
    let code = scan::before_tests(&code);
    // Blanking keeps characters, not bytes, so find the place again by its line.
    let lines: Vec<&str> = file.text.lines().collect();
    scan::words(code, "const")
        .into_iter()
        .filter_map(|at| {
            let line = scan::line_of(code, at);
            let declaration = lines.get(line - 1..)?.join("\n");
            let declaration = declaration.split_once("const ")?.1.split_once(";\n")?.0.to_owned();
            let (left, value) = declaration.split_once('=')?;
            let name = left.split(':').next()?.trim();
            name.contains("MAGIC").then(|| literal(value)).flatten().map(|literal| Magic {
                name: name.to_owned(),
                literal,
                line,
            })
        })
        .collect()
}

/// The text in `*b"…"`, or a number as written.
fn literal(value: &str) -> Option<String> {
    let value = value.trim();
    if let Some(text) = value.strip_prefix("*b\"").or_else(|| value.strip_prefix("b\"")) {
        return text.split('"').next().map(str::to_owned);
    }
    value.starts_with(|c: char| c.is_ascii_digit()).then(|| value.to_owned())
}

/// Files that the page names but that do not exist.
fn lost_files(tree: &Tree, page: &SourceFile) -> Vec<Finding> {
    let outside = |c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c));
    let mut findings = Vec::new();
    for (line, text) in page.lines() {
        let named = text.split(outside).map(|word| word.trim_start_matches("../"));
        for path in named.filter(|path| path.starts_with("crates/") && path.ends_with(".rs")) {
            if tree.file(path).is_none() {
                let message = format!("{path} does not exist");
                let fix = "name the file that writes this format now";
                findings.push(Finding::error((PAGE, line), RULE, message, fix));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! é\npub const A_MAGIC: [u8; 4] = *b\"LARA\";\n\
        pub(crate) const B_MAGIC: u32 =\n    0x1234_5678;\nconst OTHER: u32 = 1;\n\
        #[cfg(test)]\nmod tests {\n const MAGIC: u32 = 1;\n}\n";

    fn messages(page: Option<&str>) -> Vec<String> {
        let mut files = vec![("crates/larder/src/a.rs", SOURCE)];
        files.extend(page.map(|text| (PAGE, text)));
        check(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn magics_are_read() {
        let tree = Tree::of(&[("a.rs", SOURCE)]);
        let magics = magics(&tree.files()[0]);
        let found: Vec<_> =
            magics.iter().map(|m| (m.name.as_str(), m.literal.as_str(), m.line)).collect();
        assert_eq!(found, [("A_MAGIC", "LARA", 2), ("B_MAGIC", "0x1234_5678", 3)]);
    }

    #[test]
    fn a_page_that_names_everything_is_fine() {
        let page = "`LARA`, `0x1234_5678`: see `crates/larder/src/a.rs`";
        assert!(messages(Some(page)).is_empty());
        assert_eq!(messages(None).len(), 2);
        assert_eq!(messages(Some("LARA in crates/larder/src/a.rs")).len(), 1);
        assert_eq!(messages(Some("LARA 0x1234_5678")).len(), 2);
    }

    #[test]
    fn files_that_are_gone_are_found() {
        let page =
            "`LARA`, `0x1234_5678`: (../crates/larder/src/a.rs)\nand crates/larder/src/b.rs.";
        let page = page.replace("b.rs.", "b.rs");
        let found = messages(Some(&page));
        assert!(found[0].starts_with("docs/formats.md:2: error: formats: crates/larder/src/b.rs"));
        assert_eq!(found.len(), 1);
    }
}
