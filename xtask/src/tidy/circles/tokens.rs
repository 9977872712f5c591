//! Splits blanked code into names and signs, which is all that imports need.

/// A token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, a keyword or a number.
    Name(&'a str),
    /// `::`.
    Then,
    /// Any other character.
    Sign(char),
}

/// The tokens of code without comments and strings, each with its line, counted from 1.
pub(super) fn tokens(code: &str) -> Vec<(Token<'_>, usize)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        let length = if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            let name = &rest[..end.unwrap_or(rest.len())];
            tokens.push((Token::Name(name), line));
            name.len()
        } else if rest.starts_with("::") {
            tokens.push((Token::Then, line));
            2
        } else {
            line += usize::from(c == '\n');
            if !c.is_whitespace() {
                tokens.push((Token::Sign(c), line));
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::Token::{Name, Sign, Then};
    use super::*;

    #[test]
    fn names_and_signs_are_told_apart_with_their_lines() {
        let found = tokens("use a::b_2;\n'x");
        let expected = [
            (Name("use"), 1),
            (Name("a"), 1),
            (Then, 1),
            (Name("b_2"), 1),
            (Sign(';'), 1),
            (Sign('\''), 2),
            (Name("x"), 2),
        ];
        assert_eq!(found, expected);
    }
}
