//! Tables of the JSON pages in `docs/`, made from the types that are printed.
//!
//! A page is prose with a table below each heading that stands for a type. A test calls [`check`] with the headings and
//! their [`Table`]s, and fails if the page has other tables. With `LARDER_WRITE_DOCS=1` it writes them instead. So a
//! key, its type and its meaning are stated once: in the type and its doc comments. Only tests use this crate.

use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The variable of the environment with which a test writes tables instead of comparing them.
const WRITE: &str = "LARDER_WRITE_DOCS";

/// The keys that a type is printed with.
#[derive(Debug)]
pub struct Table {
    type_name: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: String,
    kind: String,
    meaning: String,
    /// Name of the type of the value, or of its elements, if it is printed as an object.
    value_type: Option<String>,
}

impl Table {
    /// A row with key, JSON type and doc comment for each field of the type that is printed.
    ///
    /// # Panics
    /// If the type is not printed as an object, or a field has no doc comment.
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::default().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        let type_name = T::schema_name().into_owned();
        let fields = schema.get("properties").and_then(Value::as_object);
        let fields = fields.unwrap_or_else(|| panic!("{type_name} is not printed as an object"));
        let definitions = schema.get("$defs").and_then(Value::as_object).cloned();
        let definitions = definitions.unwrap_or_default();
        // The object of fields does not keep their order, this array does.
        let required =
            schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
        let optional = fields.keys().map(String::as_str).filter(|key| !required.contains(key));
        let row = |key: &str| {
            let field = &fields[key];
            let absent = if required.contains(&key) { "" } else { ", or absent" };
            let meaning = field.get("description").and_then(Value::as_str);
            let meaning =
                meaning.unwrap_or_else(|| panic!("{type_name}::{key} has no doc comment"));
            Row {
                key: key.to_owned(),
                kind: kind(field, &definitions) + absent,
                meaning: cell(meaning),
                value_type: value_type(field),
            }
        };
        Self { rows: required.iter().copied().chain(optional).map(row).collect(), type_name }
    }

    /// As Markdown. A value that has a table of its own refers to the heading of that.
    fn render(&self, tables: &[(&str, Self)]) -> String {
        let mut rows = vec![["key".to_owned(), "type".to_owned(), "meaning".to_owned()]];
        for Row { key, kind, meaning, value_type } in &self.rows {
            let own =
                tables.iter().find(|(_, table)| Some(&table.type_name) == value_type.as_ref());
            let heading = own.map(|(heading, _)| heading.trim_start_matches(['#', ' ']));
            let link = heading.map(|heading| format!(" See [{heading}](#{}).", anchor(heading)));
            rows.push([
                format!("`{key}`"),
                kind.clone(),
                meaning.clone() + &link.unwrap_or_default(),
            ]);
        }
        markdown(&rows)
    }
}

/// The anchor that forges give a heading.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

/// The rows as a table of Markdown, the first one as its head.
pub fn markdown<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(text, "|{}", "---|".repeat(N));
        }
    }
    text
}

/// A text as a cell of a table: on one line, its bars escaped.
pub fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "&#124;")
}

/// The types of a field's value, as JSON names them.
fn kind(field: &Value, definitions: &Map<String, Value>) -> String {
    if let Some(name) = field.get("$ref").and_then(Value::as_str) {
        let name = name.trim_start_matches("#/$defs/");
        return kind(&definitions[name], definitions);
    }
    if let Some(either) = field.get("anyOf").and_then(Value::as_array) {
        return either.iter().map(|one| kind(one, definitions)).collect::<Vec<_>>().join(" or ");
    }
    match &field["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

/// The name of the type that a value, or each of its elements, refers to.
fn value_type(field: &Value) -> Option<String> {
    if let Some(name) = field.get("$ref").and_then(Value::as_str) {
        return Some(name.trim_start_matches("#/$defs/").to_owned());
    }
    if let Some(either) = field.get("anyOf").and_then(Value::as_array) {
        return either.iter().find_map(value_type);
    }
    field.get("items").and_then(value_type)
}

/// Checks that `docs/{page}` has these tables below these headings (with their `#`), or writes them there if
/// `LARDER_WRITE_DOCS` is set. `command` is the part of `cargo test` that writes them.
///
/// # Panics
/// If a table differs, a heading is missing, or the page cannot be read or written.
pub fn check(page: &str, command: &str, tables: &[(&str, Table)]) {
    let rendered = tables.iter().map(|(heading, table)| (*heading, table.render(tables)));
    check_rendered(page, command, &rendered.collect::<Vec<_>>());
}

/// The same with tables that do not come from types.
///
/// # Panics
/// As [`check`] does.
pub fn check_rendered(page: &str, command: &str, tables: &[(&str, String)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let shown = path.display();
    let old = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let mut new = old.clone();
    for (heading, table) in tables {
        new = with_table(&new, heading, table);
    }
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, new).unwrap_or_else(|error| panic!("{shown}: {error}"));
        return;
    }
    let differs = old.lines().zip(new.lines()).find(|(old, new)| old != new);
    assert!(
        old == new,
        "docs/{page} differs from the types; write it anew with `{WRITE}=1 cargo test {command}`: {differs:?}"
    );
}

/// The page with this table in place of those below the heading, or after the heading's prose if there are none.
fn with_table(page: &str, heading: &str, table: &str) -> String {
    let line = format!("\n{heading}\n");
    let Some((before, section)) = page.split_once(&line) else { panic!("no heading {heading:?}") };
    let section_end = section.find("\n#").map_or(section.len(), |at| at + 1);
    let (section, after) = section.split_at(section_end);
    let start = section.find("\n|").map_or(section.len(), |at| at + 1);
    let (prose, rows) = section.split_at(start);
    let is_table = |row: &&str| row.starts_with('|') || row.trim().is_empty();
    let length: usize = rows.split_inclusive('\n').take_while(is_table).map(str::len).sum();
    let (old, rest) = rows.split_at(length);
    let gap = &old[old.trim_end().len()..];
    let gap = gap.strip_prefix('\n').unwrap_or(gap);
    format!("{before}{line}{prose}{table}{gap}{rest}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A type with each kind of field.
    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Sample {
        /// A count, |n|
        /// of pages.
        pages: u64,
        /// A share.
        share: Option<f64>,
        /// Parts.
        parts: Vec<String>,
        /// Another object.
        inner: Option<Inner>,
        /// For some.
        #[serde(skip_serializing_if = "Option::is_none")]
        sometimes: Option<bool>,
    }

    #[derive(schemars::JsonSchema)]
    #[expect(dead_code, reason = "only its schema is used")]
    struct Inner {
        /// A name.
        name: &'static str,
    }

    #[test]
    fn a_row_has_key_type_and_meaning() {
        let expected = "| key | type | meaning |\n\
                        |---|---|---|\n\
                        | `pages` | integer | A count, &#124;n&#124; of pages. |\n\
                        | `share` | number or null | A share. |\n\
                        | `parts` | array | Parts. |\n\
                        | `inner` | object or null | Another object. See [The inner](#the-inner). |\n";
        let found = Table::of::<Sample>().render(&[("## The inner", Table::of::<Inner>())]);
        assert!(found.starts_with(expected), "{found}");
        assert!(
            found.contains("| `sometimes` | boolean or null, or absent | For some. |"),
            "{found}"
        );
    }

    #[test]
    fn a_table_takes_the_place_of_the_old_one_below_its_heading_alone() {
        let page = "# P\n\n## A\n\nprose\n\n| old |\n| row |\n\nmore\n\n## B\n\n| other |\n";
        let expected = page.replace("| old |\n| row |\n", "| new |\n");
        assert_eq!(with_table(page, "## A", "| new |\n"), expected);
        assert_eq!(with_table(&expected, "## A", "| new |\n"), expected);
        let last = with_table(page, "## B", "| new |\n");
        assert!(last.ends_with("## B\n\n| new |\n") && last.contains("| old |"), "{last}");
        let two = with_table("# P\n\n## A\n\n| x |\n\n| y |\n\n## B\n", "## A", "| p |\n\n| q |\n");
        assert_eq!(two, "# P\n\n## A\n\n| p |\n\n| q |\n\n## B\n");
    }

    #[test]
    #[should_panic(expected = "no heading \"## C\"")]
    fn a_heading_that_is_missing_is_an_error() {
        with_table("# P\n\n## A\n", "## C", "");
    }
}
