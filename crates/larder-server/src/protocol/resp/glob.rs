//! Patterns of names: `*`, `?`, `[a-c]`, `[^x]`, `\*`.

/// Whether `text` is one of those that `pattern` describes. It takes time in proportion to the product of their
/// lengths at most: of several stars only the last one is tried again.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on if what follows the last star does not fit: behind it, one byte later.
    let mut again: Option<(&[u8], &[u8])> = None;
    loop {
        match pattern {
            [b'*', rest @ ..] => {
                again = Some((rest, text));
                pattern = rest;
                continue;
            }
            [] if text.is_empty() => return true,
            _ => {}
        }
        if let [byte, behind @ ..] = text
            && let Some(rest) = step(pattern, *byte)
        {
            (pattern, text) = (rest, behind);
            continue;
        }
        match again {
            Some((rest, [_, behind @ ..])) => {
                again = Some((rest, behind));
                (pattern, text) = (rest, behind);
            }
            _ => return false,
        }
    }
}

/// What is left of the pattern if its beginning, which is no star, describes this byte.
fn step(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', escaped, rest @ ..] => (*escaped == byte).then_some(rest),
        [own, rest @ ..] => (*own == byte).then_some(rest),
    }
}

/// What is behind a class if `byte` is in it. A class without an end goes to the end of the pattern.
fn class(rest: &[u8], byte: u8) -> Option<&[u8]> {
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
    (found == wanted).then_some(rest)
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
}
