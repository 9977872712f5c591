//! Sibling modules that import each other, at every level of a crate.
//!
//! Readers import modules, so the parts of a module have one direction too: a tie between two files is a tie between
//! the two siblings that contain them, in the deepest module that contains both. A module and its own parts may import
//! each other: an item of the parent's file ties no siblings.

use std::collections::{BTreeMap, BTreeSet};

use super::graph;
use super::house::Ties;

/// A set of sibling modules in which each imports, directly or through others, each other one.
pub(super) struct Circle<'a> {
    /// The names of the modules.
    pub(super) modules: Vec<String>,
    /// The ties of files between them.
    pub(super) ties: Vec<&'a (String, String)>,
}

/// Ties of files by the siblings that they tie.
type Arrows<'a> = BTreeMap<(String, String), Vec<&'a (String, String)>>;

/// The cycles of siblings in a crate whose sources are in `folder`, such as `crates/larder/src/`.
pub(super) fn circles<'a>(folder: &str, ties: &'a Ties) -> Vec<Circle<'a>> {
    let mut levels: BTreeMap<Vec<&str>, Arrows<'_>> = BTreeMap::new();
    for tie in ties.keys() {
        let (importer, origin) = (module(folder, &tie.0), module(folder, &tie.1));
        let shared = importer.iter().zip(&origin).take_while(|(a, b)| a == b).count();
        if let (Some(one), Some(other)) = (importer.get(shared), origin.get(shared)) {
            let level = levels.entry(importer[..shared].to_vec()).or_default();
            level.entry(((*one).to_owned(), (*other).to_owned())).or_default().push(tie);
        }
    }
    levels.values().flat_map(circles_of_level).collect()
}

fn circles_of_level<'a>(level: &Arrows<'a>) -> Vec<Circle<'a>> {
    let circle = |modules: &BTreeSet<&str>| {
        let inside = |(from, to): &(String, String)| {
            modules.contains(from.as_str()) && modules.contains(to.as_str())
        };
        let within = level.iter().filter(|(arrow, _)| inside(arrow));
        Circle {
            ties: within.flat_map(|(_, ties)| ties.iter().copied()).collect(),
            modules: modules.iter().map(|name| (*name).to_owned()).collect(),
        }
    };
    graph::components(level.keys()).iter().map(circle).collect()
}

/// The modules on the way from the crate's root to a file; none for the root itself.
fn module<'a>(folder: &str, path: &'a str) -> Vec<&'a str> {
    let inner = path.strip_prefix(folder).unwrap_or(path);
    let inner = inner.strip_suffix(".rs").unwrap_or(inner);
    let mut names: Vec<&str> = inner.split('/').collect();
    if names.last().is_some_and(|name| ["mod", "lib", "main"].contains(name)) {
        names.pop();
    }
    names
}
