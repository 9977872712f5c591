//! Which paths an option applies to.

use std::fmt;

/// Paths that begin with something, end with something, or have a directory or file of a name.
///
/// ```
/// use larder_object_store::PathRule;
///
/// assert!(PathRule::prefix("a/b").matches("a/b/c") && !PathRule::prefix("a/b").matches("a/bc"));
/// assert!(PathRule::suffix(".parquet").matches("a/b.parquet"));
/// assert!(PathRule::name("_delta_log").matches("table/_delta_log/7.json"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathRule {
    kind: Kind,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Prefix,
    Suffix,
    Name,
}

impl PathRule {
    /// The object at this path, and all below it. Slashes at its ends do not count; the empty prefix is refused by
    /// [`Options::check`](crate::Options::check).
    pub fn prefix(text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self { kind: Kind::Prefix, text: text.trim_matches('/').to_owned() }
    }

    /// All paths that end with this text.
    pub fn suffix(text: impl Into<String>) -> Self {
        Self { kind: Kind::Suffix, text: text.into() }
    }

    /// All paths with a directory or a file of exactly this name.
    pub fn name(text: impl Into<String>) -> Self {
        Self { kind: Kind::Name, text: text.into() }
    }

    /// Whether the rule applies to a path, which has no slash at its ends.
    pub fn matches(&self, path: &str) -> bool {
        let text = self.text.as_str();
        match self.kind {
            Kind::Prefix => {
                let rest = path.strip_prefix(text);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Kind::Suffix => path.ends_with(text),
            Kind::Name => path.split('/').any(|part| part == text),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Prefix => write!(f, "{:?} and below", self.text),
            Kind::Suffix => write!(f, "*{:?}", self.text),
            Kind::Name => write!(f, "a part {:?}", self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_end_at_slashes_and_names_are_whole() {
        let cases = [
            (PathRule::prefix("/a/b/"), "a/b", true),
            (PathRule::prefix("a/b"), "a/b/c/d", true),
            (PathRule::prefix("a/b"), "a/bc", false),
            (PathRule::prefix("a/b"), "x/a/b", false),
            (PathRule::suffix("log"), "a/_delta_log", true),
            (PathRule::name("log"), "a/_delta_log", false),
            (PathRule::name("log"), "log", true),
            (PathRule::name("a/b"), "a/b", false),
        ];
        for (rule, path, expected) in cases {
            assert_eq!(rule.matches(path), expected, "{rule} of {path}");
        }
    }
}
