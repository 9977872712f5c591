//! Rust source without text that only looks like code: comments, strings and characters are blanked.
//!
//! Blanked text keeps its length and its lines, so that positions are the same in both texts.

/// What a piece of source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece {
    Code,
    Comment,
    /// A string or a character.
    Literal,
}

/// `source` with the content of comments, strings and characters replaced by spaces.
pub(super) fn code_only(source: &str) -> String {
    only(Piece::Code, source)
}

/// `source` with everything but its comments replaced by spaces.
pub(super) fn comments_only(source: &str) -> String {
    only(Piece::Comment, source)
}

fn only(wanted: Piece, source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let (mut rest, mut before) = (source, None);
    while !rest.is_empty() {
        let (kind, length) = next_piece(rest, before);
        let (piece, after) = rest.split_at(length);
        if kind == wanted {
            out.push_str(piece);
        } else {
            out.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        before = (kind == Piece::Code).then(|| piece.chars().next_back()).flatten();
        rest = after;
    }
    out
}

/// The next piece of source, and its length in bytes. `before`: the character in front of it, if that is code.
fn next_piece(rest: &str, before: Option<char>) -> (Piece, usize) {
    let within_name = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return (Piece::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Piece::Comment, block_comment(rest));
    }
    if rest.starts_with('"') {
        return (Piece::Literal, string(rest));
    }
    if !within_name && let Some(length) = raw_string(rest) {
        return (Piece::Literal, length);
    }
    if rest.starts_with('\'')
        && let Some(length) = character(rest)
    {
        return (Piece::Literal, length);
    }
    (Piece::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// Length of a block comment. Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..).filter(|tail| !tail.is_empty()) {
        if tail.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += tail.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of a string with escapes, including its quotes.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of a raw string such as `r#"…"#` or `br"…"`; `None` if this is not one.
fn raw_string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    let hashes = after.chars().take_while(|c| *c == '#').count();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = prefix.len() + hashes + 1;
    Some(body.find(&end).map_or(rest.len(), |at| begin + at + end.len()))
}

/// Length of a character literal; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut chars = rest.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The character after the backslash may itself be a quote.
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    chars.next().filter(|(_, c)| *c == '\'').map(|(at, _)| at + 1)
}

/// Line of a position in a text, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Positions of `word` as a whole word.
pub(super) fn words(code: &str, word: &str) -> Vec<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let alone = |at: &usize| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    };
    code.match_indices(word).map(|(at, _)| at).filter(alone).collect()
}

/// The part of blanked code before its first inline test module.
pub(super) fn before_tests(code: &str) -> &str {
    let inline = |at: &usize| {
        let mut after = code[at + "#[cfg(test)]".len()..].trim_start();
        while let Some(attribute) = after.strip_prefix("#[") {
            let Some(end) = attribute.find(']') else { return false };
            after = attribute[end + 1..].trim_start();
        }
        after.starts_with("mod ")
            && after.find('{') < after.find(';').or(Some(usize::MAX))
            && after.contains('{')
    };
    let first = code.match_indices("#[cfg(test)]").map(|(at, _)| at).find(inline);
    first.map_or(code, |at| &code[..at])
}

/// Start and end of every function that has a body.
pub(super) fn functions(code: &str) -> Vec<(usize, usize)> {
    words(code, "fn").into_iter().filter_map(|at| Some((at, body_end(code, at)?))).collect()
}

/// The closing brace of the function whose `fn` is at `begin`. A type such as `fn(u8)` has none.
fn body_end(code: &str, begin: usize) -> Option<usize> {
    let name = code[begin + 2..].trim_start().chars().next()?;
    if !(name.is_alphabetic() || name == '_') {
        return None;
    }
    let (mut braces, mut brackets) = (0_usize, 0_usize);
    for (at, byte) in code.bytes().enumerate().skip(begin) {
        match byte {
            b'(' | b'[' if braces == 0 => brackets += 1,
            b')' | b']' if braces == 0 => brackets = brackets.saturating_sub(1),
            b';' if braces == 0 && brackets == 0 => return None,
            b'{' if brackets == 0 => braces += 1,
            b'}' if braces == 1 => return Some(at),
            b'}' => braces = braces.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_blanked() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"x("{ \" }") y"#, r"x(        ) y"),
            (r###"r#"{"# z"###, "       z"),
            ("br\"x\\\" y", "       y"),
            ("'{' '\\'' 'a: &'b", "         'a: &'b"),
            ("'\\u{7f}' x", "         x"),
            ("for\"x\"", "for   "),
        ];
        for (source, code) in cases {
            assert_eq!(code_only(source), code, "{source}");
        }
    }

    #[test]
    fn comments_are_told_from_strings() {
        let cases = [
            ("a(\"é // x\"); // y", "             // y"),
            ("r#\"\n// x\"# /* y\nz */ '/'", "   \n       /* y\nz */    "),
            ("for\"//\" //", "        //"),
        ];
        for (source, comments) in cases {
            assert_eq!(comments_only(source), comments, "{source}");
        }
    }

    #[test]
    fn unfinished_pieces_end_with_the_file() {
        for source in ["\"abc", "/* abc", "r#\"abc", "'", "'\\", "// é"] {
            let code = code_only(source);
            assert_eq!(code.chars().count(), source.chars().count());
        }
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(words("fn f() { unsafe {} } unsafe_code un_unsafe", "unsafe"), [9]);
        assert!(words("", "x").is_empty());
    }

    #[test]
    fn tests_at_the_end_are_left_out_but_test_files_are_only_named() {
        assert_eq!(before_tests("a\n#[cfg(test)]\nmod tests {\n}"), "a\n");
        assert_eq!(before_tests("#[cfg(test)]\n#[allow(x)]\nmod tests {\n}"), "");
        let named = "#[cfg(test)]\nmod tests;\nfn f() {}";
        assert_eq!(before_tests(named), named);
    }

    #[test]
    fn braces_in_text_and_functions_without_body_do_not_count() {
        let code = code_only("trait T { fn a(&self); }\nfn b() { \"{\"; '{'; }\ntype F = fn(u8);");
        let lines: Vec<_> = functions(&code)
            .iter()
            .map(|(a, b)| (line_of(&code, *a), line_of(&code, *b)))
            .collect();
        assert_eq!(lines, [(2, 2)]);
    }
}
