//! Inline requests, as a person types them: words, some of them quoted.

/// The words of a line in one buffer, and the begin and end of each.
pub(super) type Words = (Vec<u8>, Vec<(u32, u32)>);

/// Splits a line. `None`: a quote is not closed, or text follows it without a space.
pub(super) fn split(line: &[u8]) -> Option<Words> {
    let (mut words, mut places) = (Vec::new(), Vec::new());
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        let begin = u32::try_from(words.len()).ok()?;
        rest = word(rest, &mut words)?;
        places.push((begin, u32::try_from(words.len()).ok()?));
        rest = rest.trim_ascii_start();
    }
    Some((words, places))
}

/// Appends the first word, and returns the rest of the line.
fn word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] => return Some(rest),
            [space, ..] if space.is_ascii_whitespace() || *space == 0 => {
                return rest.get(1..);
            }
            [b'"', quoted @ ..] => return closed(double_quoted(quoted, words)?),
            [b'\'', quoted @ ..] => return closed(single_quoted(quoted, words)?),
            [byte, behind @ ..] => {
                words.push(*byte);
                rest = behind;
            }
        }
    }
}

/// A closing quote must be followed by a space or the end.
fn closed(rest: &[u8]) -> Option<&[u8]> {
    match rest {
        [] => Some(rest),
        [space, behind @ ..] if space.is_ascii_whitespace() => Some(behind),
        _ => None,
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] => return None,
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'x', high, low, behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                words.push(hex(*high) << 4 | hex(*low));
                behind
            }
            [b'\\', byte, behind @ ..] => {
                words.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                behind
            }
            [byte, behind @ ..] => {
                words.push(*byte);
                behind
            }
        };
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        rest = match rest {
            [] => return None,
            [b'\'', behind @ ..] => return Some(behind),
            [b'\\', b'\'', behind @ ..] => {
                words.push(b'\'');
                behind
            }
            [byte, behind @ ..] => {
                words.push(*byte);
                behind
            }
        };
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => digit.to_ascii_lowercase() - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        let (words, places) = split(line)?;
        Some(places.iter().map(|(a, b)| words[*a as usize..*b as usize].to_vec()).collect())
    }

    #[test]
    fn words_and_quotes() {
        let of = |all: &[&[u8]]| Some(all.iter().map(|word| word.to_vec()).collect());
        assert_eq!(words(b"  set  a\tb "), of(&[b"set", b"a", b"b"]));
        assert_eq!(words(b""), of(&[]));
        assert_eq!(words(br#"set "a b" 'c "d'"#), of(&[b"set", b"a b", b"c \"d"]));
        assert_eq!(words(br#"x "\x41\n\"\q" 'it\'s' "" "#), of(&[b"x", b"A\n\"q", b"it's", b""]));
        assert_eq!(words(br#"pre"fix""#), of(&[b"prefix"]));
    }

    #[test]
    fn quotes_that_do_not_end_are_refused() {
        for line in [&br#"set "a"#[..], b"set 'a", br#"set "a"b"#, b"set 'a'b", b"\"a\\", b"'a\\'"]
        {
            assert_eq!(words(line), None, "{}", line.escape_ascii());
        }
    }
}
