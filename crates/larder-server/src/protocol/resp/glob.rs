//! Glob patterns: `*`, `?`, `[a-c]`, `[^x]`, `\*`.

/// Longest pattern of a request: a comparison takes steps in proportion to the product of the lengths of pattern and
/// key.
pub(super) const PATTERN_BYTES_MAX: usize = 4096;

/// Compares a text with a pattern, a limited number of steps at a time. Only the last star is retried.
pub(super) struct Matcher<'a> {
    pattern: &'a [u8],
    text: &'a [u8],
    /// Where to continue if the text behind the last star does not match: behind the star, one byte later.
    again: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(pattern: &'a [u8], text: &'a [u8]) -> Self {
        Self { pattern, text, again: None }
    }

    /// Runs for about `steps` steps, and subtracts the steps used. `None`: not finished.
    pub(super) fn run(&mut self, steps: &mut usize) -> Option<bool> {
        while *steps > 0 {
            *steps -= 1;
            match self.pattern {
                [b'*', rest @ ..] => {
                    self.again = Some((rest, self.text));
                    self.pattern = rest;
                    continue;
                }
                [] if self.text.is_empty() => return Some(true),
                _ => {}
            }
            if let [byte, behind @ ..] = self.text {
                let (fits, rest) = step(self.pattern, *byte);
                // A class is compared byte by byte.
                *steps = steps.saturating_sub(self.pattern.len() - rest.len());
                if fits {
                    (self.pattern, self.text) = (rest, behind);
                    continue;
                }
            }
            match self.again {
                Some((rest, [_, behind @ ..])) => {
                    self.again = Some((rest, behind));
                    (self.pattern, self.text) = (rest, behind);
                }
                _ => return Some(false),
            }
        }
        None
    }
}

/// Whether a short `text` matches `pattern`.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    Matcher::new(pattern, text).run(&mut { usize::MAX }).unwrap_or(false)
}

/// Whether the first element of the pattern, which is no star, matches `byte`; and the rest of the pattern.
fn step(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [] => (false, pattern),
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte, rest),
        [own, rest @ ..] => (*own == byte, rest),
    }
}

/// Whether `byte` is in a class, and the rest of the pattern behind it. A class without an end extends to the end of
/// the pattern.
fn class(rest: &[u8], byte: u8) -> (bool, &[u8]) {
    let (wanted, mut rest) = match rest {
        [b'^', rest @ ..] => (false, rest),
        _ => (true, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => break,
            [b']', behind @ ..] => {
                rest = behind;
                break;
            }
            [b'\\', escaped, behind @ ..] => {
                found |= *escaped == byte;
                behind
            }
            [from, b'-', to, behind @ ..] => {
                found |= (*from.min(to)..=*from.max(to)).contains(&byte);
                behind
            }
            [own, behind @ ..] => {
                found |= *own == byte;
                behind
            }
        };
    }
    (found == wanted, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let fits = |pattern: &str, text: &str| matches(pattern.as_bytes(), text.as_bytes());
        for (pattern, text) in [
            ("*", ""),
            ("h?llo", "hello"),
            ("h*llo", "heeeello"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hbllo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("a\\*b", "a*b"),
            ("[\\]]", "]"),
            ("a*b*c", "axxbyybzc"),
            ("key[12", "key1"),
            ("foo*", "foobar"),
        ] {
            assert!(fits(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("h?llo", "hllo"),
            ("h[ae]llo", "hillo"),
            ("h[^e]llo", "hello"),
            ("a\\*b", "axb"),
            ("a*b*c", "axxbyybz"),
            ("[a", "b"),
            ("foo", "foobar"),
        ] {
            assert!(!fits(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "a*".repeat(1000) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(10_000).as_bytes()));
    }

    #[test]
    fn a_comparison_stops_after_its_steps_and_goes_on_where_it_was() {
        for (pattern, text) in [
            (format!("*{}b", "a".repeat(500)), "a".repeat(2000)),
            (format!("*[{}]", "bc".repeat(500)), "a".repeat(2000)),
            (format!("*{}", "a".repeat(500)), format!("{}b{}", "a".repeat(100), "a".repeat(600))),
        ] {
            let mut matcher = Matcher::new(pattern.as_bytes(), text.as_bytes());
            let mut rounds = 1;
            let fits = loop {
                let mut steps = 10_000;
                match matcher.run(&mut steps) {
                    Some(fits) => break fits,
                    None => assert_eq!(steps, 0),
                }
                rounds += 1;
            };
            assert_eq!(fits, matches(pattern.as_bytes(), text.as_bytes()));
            // A class of 1,000 bytes is 1,000 steps for each of 2,000 bytes.
            assert!(rounds > 20 || fits, "{rounds} rounds");
        }
    }
}
