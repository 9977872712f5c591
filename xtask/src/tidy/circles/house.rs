//! The modules of a crate, and which file takes what from which.

use std::collections::BTreeMap;

use super::module::{Module, Path};
use crate::tidy::tree::{SourceFile, Tree};

/// Names that a file takes from another, with the line of the first.
#[derive(Debug, Default)]
pub(super) struct Tie {
    /// The names, in their order.
    pub(super) names: Vec<String>,
    /// Line of one of them.
    pub(super) line: usize,
}

/// Ties by the paths of the file that takes and the one that gives.
pub(super) type Ties = BTreeMap<(String, String), Tie>;

/// Re-exports of re-exports are followed so far.
const STEPS_MAX: usize = 16;

/// A module and where it hangs.
struct Room {
    module: Module,
    file: String,
    above: Option<usize>,
    below: BTreeMap<String, usize>,
}

/// What a path leads to.
enum Place {
    Room(usize),
    /// An item of this file, by name.
    Item(String, String),
}

/// The ties between the files below the root module at `root`, tests left out.
pub(super) fn ties(tree: &Tree, root: &str) -> Ties {
    let mut house = House { rooms: Vec::new() };
    if let Some(file) = tree.file(root) {
        house.add_file(tree, file, None);
    }
    let mut ties = Ties::new();
    for at in 0..house.rooms.len() {
        house.ties_of(at, &mut ties);
    }
    ties
}

/// The modules of one crate; the first is its root.
struct House {
    rooms: Vec<Room>,
}

impl House {
    fn add_file(&mut self, tree: &Tree, file: &SourceFile, above: Option<usize>) -> usize {
        self.add(tree, Module::read(&file.text), &file.path, &folder(&file.path), above)
    }

    /// Adds a module with those in it; `folder` is where its files lie.
    fn add(
        &mut self,
        tree: &Tree,
        mut module: Module,
        file: &str,
        folder: &str,
        above: Option<usize>,
    ) -> usize {
        let at = self.rooms.len();
        let (files, blocks) = (module.files.clone(), std::mem::take(&mut module.blocks));
        self.rooms.push(Room { module, file: file.to_owned(), above, below: BTreeMap::new() });
        for name in files {
            let paths = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            let found = paths.iter().find_map(|path| tree.file(path)).filter(|f| !f.is_test());
            if let Some(file) = found {
                let below = self.add_file(tree, file, Some(at));
                self.rooms[at].below.insert(name, below);
            }
        }
        for (name, block) in blocks {
            let below = self.add(tree, block, file, &format!("{folder}/{name}"), Some(at));
            self.rooms[at].below.insert(name, below);
        }
        at
    }

    /// What the room takes from other files.
    fn ties_of(&self, at: usize, ties: &mut Ties) {
        let Room { module, file, .. } = &self.rooms[at];
        let mut tie = |place: Option<Place>, line: usize| {
            let Some(Place::Item(from, name)) = place else { return };
            if from != *file {
                let tie = ties.entry((file.clone(), from)).or_default();
                if let Err(place) = tie.names.binary_search(&name) {
                    tie.names.insert(place, name);
                }
                tie.line = if tie.line == 0 { line } else { tie.line.min(line) };
            }
        };
        for import in &module.imports {
            let used = import.alias.as_ref().is_none_or(|alias| module.names.contains(alias));
            if used || !import.handed_on {
                tie(self.resolve(at, &import.path, STEPS_MAX), import.line);
            }
        }
        for (path, line) in &module.paths {
            tie(self.resolve(at, path, STEPS_MAX), *line);
        }
        for (glob, line) in &module.globs {
            let Some(Place::Room(from)) = self.resolve(at, glob, STEPS_MAX) else { continue };
            for name in module.names.iter().filter(|name| !module.defined.contains(*name)) {
                if !module.imports.iter().any(|import| import.alias.as_ref() == Some(name)) {
                    tie(self.find(from, name, true, STEPS_MAX), *line);
                }
            }
        }
    }

    /// What a path means in a room; `None` for what is outside of the crate.
    fn resolve(&self, from: usize, path: &Path, steps: usize) -> Option<Place> {
        let steps = steps.checked_sub(1)?;
        let mut at = from;
        let mut explicit = false;
        for (index, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => at = 0,
                "self" => {}
                "super" => at = self.rooms[at].above?,
                name => match self.find(at, name, index + 1 == path.len(), steps) {
                    Some(Place::Room(room)) => at = room,
                    Some(item) => return Some(item),
                    // Made by a macro.
                    None if explicit => {
                        return Some(Place::Item(self.rooms[at].file.clone(), name.to_owned()));
                    }
                    None => return None,
                },
            }
            explicit = true;
        }
        Some(Place::Room(at))
    }

    /// What a name means in a room. The last one of a path is an item rather than a module.
    fn find(&self, at: usize, name: &str, last: bool, steps: usize) -> Option<Place> {
        let steps = steps.checked_sub(1)?;
        let Room { module, file, below, .. } = &self.rooms[at];
        let room = below.get(name).map(|room| Place::Room(*room));
        let item = || Place::Item(file.clone(), name.to_owned());
        let defined = module.defined.contains(name).then(item);
        let own = if last { defined.or(room) } else { room.or(defined) };
        let imported = || {
            let named = |alias: &Option<String>| alias.as_deref() == Some(name);
            let mut imports = module.imports.iter().filter(|import| named(&import.alias));
            imports.find_map(|import| self.resolve(at, &import.path, steps))
        };
        let by_glob = || {
            module.globs.iter().find_map(|(glob, _)| match self.resolve(at, glob, steps)? {
                Place::Room(room) if room != at => self.find(room, name, last, steps),
                _ => None,
            })
        };
        own.or_else(imported).or_else(by_glob)
    }
}

/// The folder in which the modules of a file lie.
fn folder(path: &str) -> String {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    if ["mod", "lib", "main"].contains(&name) { folder.to_owned() } else { stem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(files: &[(&str, &str)]) -> Vec<String> {
        let short = |path: &str| path.trim_start_matches("c/src/").to_owned();
        let ties = ties(&Tree::of(files), "c/src/lib.rs");
        let draw = |((from, to), tie): (&(String, String), &Tie)| {
            format!("{} > {}: {}", short(from), short(to), tie.names.join(" "))
        };
        ties.iter().map(draw).collect()
    }

    #[test]
    fn names_are_followed_to_the_file_that_defines_them() {
        let files = [
            ("c/src/lib.rs", "mod a;\nmod b;\npub use b::Deep;\n"),
            ("c/src/a.rs", "use crate::Deep;\nuse crate::b::{Here, Other as O};\nuse std::fmt;"),
            ("c/src/b/mod.rs", "mod deep;\npub use self::deep::{Deep, Other};\npub struct Here;"),
            ("c/src/b/deep.rs", "use super::Here;\npub struct Deep;\npub struct Other;"),
        ];
        let expected =
            ["a.rs > b/deep.rs: Deep Other", "a.rs > b/mod.rs: Here", "b/deep.rs > b/mod.rs: Here"];
        assert_eq!(drawn(&files), expected);
    }

    #[test]
    fn what_is_handed_on_ties_only_where_it_is_used() {
        let lib = |text: &str| format!("mod a;\n{text}");
        let a = ("c/src/a.rs", "pub struct A;");
        let only = lib("pub use a::A;");
        assert!(drawn(&[("c/src/lib.rs", &only), a]).is_empty());
        let used = lib("pub use a::A;\nfn f(a: A) {}");
        assert_eq!(drawn(&[("c/src/lib.rs", &used), a]), ["lib.rs > a.rs: A"]);
        let private = lib("use a::A as _;");
        assert_eq!(drawn(&[("c/src/lib.rs", &private), a]), ["lib.rs > a.rs: A"]);
    }

    #[test]
    fn paths_modules_in_blocks_globs_and_macros_are_followed() {
        let files = [
            ("c/src/lib.rs", "mod a;\nmod b;\nmod d;"),
            ("c/src/a.rs", "use crate::b;\nfn f() { b::c::g(); crate::d::made() }"),
            ("c/src/b.rs", "pub mod c { use super::H; pub fn g() {} }\npub struct H;"),
            ("c/src/d.rs", "use crate::b::*;\nmake! { made }\nfn x(h: H) {}"),
        ];
        let expected = ["a.rs > b.rs: g", "a.rs > d.rs: made", "d.rs > b.rs: H"];
        assert_eq!(drawn(&files), expected);
    }

    #[test]
    fn what_imports_itself_ends() {
        assert!(
            drawn(&[("c/src/lib.rs", "use x::x;\nuse self::y as z;\nuse self::z as y;")])
                .is_empty()
        );
    }

    #[test]
    fn files_of_tests_are_no_rooms() {
        let files = [
            ("c/src/lib.rs", "#[cfg(test)]\nmod a;\nmod b;\nmod tests;"),
            ("c/src/a.rs", "use crate::b::B;"),
            ("c/src/tests.rs", "use crate::b::B;"),
            ("c/src/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
        ];
        assert!(drawn(&files).is_empty());
    }
}
