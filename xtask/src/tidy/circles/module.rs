//! The definitions, imports and names of a module, read from the code of its file.

use std::collections::{BTreeMap, BTreeSet};

use super::tokens::{Token, tokens};
use crate::tidy::scan;

/// Names joined by `::`.
pub(super) type Path = Vec<String>;

/// A name that a module imports.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The path of the name.
    pub(super) path: Path,
    /// Its name in the module; `None` for `as _`.
    pub(super) alias: Option<String>,
    /// Whether it is re-exported, as by `pub use`, and perhaps not needed here.
    pub(super) handed_on: bool,
    /// Line of the import.
    pub(super) line: usize,
}

/// A module, either a file or an inline block. Code that exists only for tests is left out.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// Items that the module itself defines.
    pub(super) defined: BTreeSet<String>,
    /// Names that it imports.
    pub(super) imports: Vec<Import>,
    /// Modules that it glob-imports, with the lines.
    pub(super) globs: Vec<(Path, usize)>,
    /// Submodules in their own files.
    pub(super) files: Vec<String>,
    /// Inline submodules.
    pub(super) blocks: BTreeMap<String, Module>,
    /// Paths in the code, with their lines.
    pub(super) paths: Vec<(Path, usize)>,
    /// Single names in the code.
    pub(super) names: BTreeSet<String>,
}

impl Module {
    /// Parses the text of a file.
    pub(super) fn read(text: &str) -> Self {
        let code = scan::code_only(text);
        let tokens = tokens(&code);
        let mut reader = Reader { tokens: &tokens, at: 0 };
        reader.module()
    }
}

/// Keywords before the name of an item that a module defines.
const ITEMS: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

struct Reader<'a> {
    tokens: &'a [(Token<'a>, usize)],
    at: usize,
}

impl<'a> Reader<'a> {
    fn token(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).map(|(token, _)| *token)
    }

    fn name(&self, ahead: usize) -> Option<&'a str> {
        match self.token(ahead) {
            Some(Token::Name(name)) => Some(name),
            _ => None,
        }
    }

    fn sign(&self, ahead: usize) -> Option<char> {
        match self.token(ahead) {
            Some(Token::Sign(sign)) => Some(sign),
            _ => None,
        }
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).map_or(0, |(_, line)| *line)
    }

    /// Whether the current word is part of a type or its parameters: `'static`, `*const`, `<const`.
    fn is_within_type(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        matches!(before, Some((Token::Sign('\'' | '*' | '<' | ','), _)))
    }

    /// Reads up to the closing brace of the module, or the end of the file.
    fn module(&mut self) -> Module {
        let mut module = Module::default();
        let mut depth = 0_usize;
        let mut handed_on = false;
        while let Some(token) = self.token(0) {
            match token {
                Token::Sign('#') => {
                    if self.attribute() {
                        self.skip_item();
                    }
                    continue;
                }
                Token::Sign('{') => depth += 1,
                Token::Sign('}') if depth == 0 => break,
                Token::Sign('}') => depth -= 1,
                Token::Name("pub") => handed_on = true,
                Token::Name("use") => {
                    self.import(&mut module, handed_on);
                    handed_on = false;
                }
                Token::Name("mod") if depth == 0 => {
                    self.inner(&mut module);
                    handed_on = false;
                }
                Token::Name(name) => {
                    let visibility = self.sign(1) == Some(')') || name == "in";
                    handed_on &= visibility;
                    if depth == 0 && ITEMS.contains(&name) && !self.is_within_type() {
                        let ahead = 1 + usize::from(self.sign(1) == Some('!'));
                        module.defined.extend(self.name(ahead).map(str::to_owned));
                    }
                    self.path(&mut module);
                    continue;
                }
                _ => {}
            }
            self.at += 1;
        }
        module
    }

    /// Skips an attribute. Returns whether the code that follows is only for tests.
    fn attribute(&mut self) -> bool {
        self.at += 1 + usize::from(self.sign(1) == Some('!'));
        if self.sign(0) != Some('[') {
            return false;
        }
        let begin = self.at;
        self.skip_brackets();
        let words: Vec<&str> = (self.tokens[begin..self.at].iter())
            .filter_map(|(token, _)| if let Token::Name(name) = token { Some(*name) } else { None })
            .collect();
        match words.as_slice() {
            ["cfg", "test"] => true,
            ["cfg", "all", rest @ ..] => rest.contains(&"test") && !rest.contains(&"not"),
            _ => false,
        }
    }

    /// Skips from an opening bracket to after its closing one.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.token(0) {
            match token {
                Token::Sign('(' | '[' | '{') => depth += 1,
                Token::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips an item, a statement, a field or a method.
    fn skip_item(&mut self) {
        let mut item = false;
        while let Some(token) = self.token(0) {
            match token {
                Token::Sign('}') => return,
                Token::Sign(';') => return self.at += 1,
                Token::Sign(',') if !item => return self.at += 1,
                Token::Sign('{') => {
                    let tree =
                        item && self.tokens[..self.at].last().map(|t| t.0) == Some(Token::Then);
                    self.skip_brackets();
                    if !tree {
                        return;
                    }
                }
                Token::Sign('(' | '[') => self.skip_brackets(),
                Token::Sign('#') => _ = self.attribute(),
                Token::Name(name) => {
                    item |= ITEMS.contains(&name) || ["impl", "use", "mod"].contains(&name);
                    self.at += 1;
                }
                _ => self.at += 1,
            }
        }
    }

    /// `mod name;` or `mod name { … }`; stops at its last token.
    fn inner(&mut self, module: &mut Module) {
        let Some(name) = self.name(1) else { return };
        self.at += 2;
        if self.sign(0) == Some('{') {
            self.at += 1;
            let inner = self.module();
            module.blocks.insert(name.to_owned(), inner);
        } else {
            module.files.push(name.to_owned());
        }
    }

    /// `use …;`; stops at the semicolon.
    fn import(&mut self, module: &mut Module, handed_on: bool) {
        let line = self.line();
        self.at += 1;
        if self.token(0) == Some(Token::Sign('<')) {
            return;
        }
        self.tree(&[], module, handed_on, line);
        while self.token(0).is_some_and(|token| token != Token::Sign(';')) {
            self.at += 1;
        }
    }

    /// One tree of an import, up to the comma, brace or semicolon after it.
    fn tree(&mut self, before: &[String], module: &mut Module, handed_on: bool, line: usize) {
        let mut path = before.to_vec();
        while let Some(token) = self.token(0) {
            match token {
                Token::Then => {}
                Token::Name("as") => break,
                Token::Name("self") if !path.is_empty() => {}
                Token::Name(name) => path.push(name.to_owned()),
                Token::Sign('*') => {
                    self.at += 1;
                    return module.globs.push((path, line));
                }
                Token::Sign('{') => {
                    while matches!(self.sign(0), Some('{' | ',')) {
                        self.at += 1;
                        if self.sign(0) != Some('}') {
                            self.tree(&path, module, handed_on, line);
                        }
                    }
                    return self.at += 1;
                }
                Token::Sign(_) => break,
            }
            self.at += 1;
        }
        let mut alias = path.last().cloned();
        if self.name(0) == Some("as") {
            alias = self.name(1).filter(|name| *name != "_").map(str::to_owned);
            self.at += 2;
        }
        module.imports.push(Import { path, alias, handed_on, line });
    }

    /// Reads a name, or several joined by `::`.
    fn path(&mut self, module: &mut Module) {
        let line = self.line();
        let foreign = self.at > 0 && self.tokens[self.at - 1].0 == Token::Then;
        let member = self.at > 0 && self.tokens[self.at - 1].0 == Token::Sign('.');
        let mut path = Vec::new();
        while let Some(name) = self.name(0) {
            path.push(name.to_owned());
            self.at += 1;
            if self.token(0) != Some(Token::Then) || self.name(1).is_none() {
                break;
            }
            self.at += 1;
        }
        if foreign || member {
            return;
        }
        module.names.extend(path.first().cloned());
        if path.len() > 1 {
            module.paths.push((path, line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str) -> Vec<String> {
        let module = Module::read(text);
        let show = |import: &Import| {
            let alias = import.alias.as_deref().unwrap_or("_");
            let on = if import.handed_on { " on" } else { "" };
            format!("{}:{} {alias}{on}", import.line, import.path.join("::"))
        };
        module.imports.iter().map(show).collect()
    }

    #[test]
    fn trees_of_imports_are_taken_apart() {
        let text = "use a::b;\nuse a::{self, c::{d as e, f}, g as _};\npub(crate) use super::h;";
        let expected =
            ["1:a::b b", "2:a a", "2:a::c::d e", "2:a::c::f f", "2:a::g _", "3:super::h h on"];
        assert_eq!(imports(text), expected);
        assert_eq!(Module::read("use a::{b::*};").globs, [(vec!["a".into(), "b".into()], 1)]);
    }

    #[test]
    fn what_only_tests_use_is_left_out() {
        let text = "#[cfg(test)]\nuse a::{b, c};\n#[cfg(all(test, shuttle))]\nmod t;\n\
            #[cfg(test)]\nmod u { use x::y; }\n#[cfg(test)]\n#[allow(x)]\nfn f<A, B>() { z::z() }\n\
            struct S {\n  #[cfg(test)]\n  f: q::Q,\n  g: r::R,\n}\n#[cfg(not(test))]\nuse d::e;";
        assert_eq!(imports(text), ["16:d::e e"]);
        let module = Module::read(text);
        assert_eq!(module.paths, [(vec!["r".into(), "R".into()], 13)]);
        assert_eq!((module.files.len(), module.blocks.len()), (0, 0));
        assert_eq!(module.defined.into_iter().collect::<Vec<_>>(), ["S"]);
    }

    #[test]
    fn items_modules_and_paths_are_found() {
        let text = "mod a;\npub mod b { pub fn c() { use d::e; } }\npub(crate) struct F;\n\
            fn n<const C: u8>(x: &'static X, y: *const Y) {}\n\
            macro_rules! m { () => {} }\nimpl F { fn inner(&self) { g::h(self.i::<J>()) } }";
        let module = Module::read(text);
        assert_eq!(module.files, ["a"]);
        assert_eq!(module.blocks["b"].imports[0].path, ["d", "e"]);
        assert_eq!(module.defined.into_iter().collect::<Vec<_>>(), ["F", "m", "n"]);
        assert_eq!(module.paths, [(vec!["g".into(), "h".into()], 6)]);
    }
}
