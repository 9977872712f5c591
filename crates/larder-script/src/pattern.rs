//! Lua's patterns (Lua 5.1, manual 5.4.1), matched in a bounded number of steps at a time.
//!
//! A pattern like `.-.-.-x` takes time that grows with a power of the text's length. The matcher tells [`Steps`] of
//! each step, which may let others run and may end the script.

/// Most captures of a pattern.
pub(crate) const CAPTURES_MAX: usize = 32;
/// Most nested calls of the matcher. Lua 5.1 has no limit but that of its stack.
const DEPTH_MAX: usize = 200;
const ESCAPE: u8 = b'%';

/// Is told of the matcher's steps.
pub(crate) trait Steps {
    /// The matcher has done this number of steps, of about 10 ns each.
    fn works(&mut self, steps: usize);
}

/// What is wrong with a pattern, in Lua's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// A part of the text that a pattern has captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    Part(usize, usize),
    /// `()`: a position, from 0.
    Position(usize),
    /// It was not closed yet.
    Open(usize),
}

/// A pattern on its way through a text.
pub(crate) struct Matcher<'a, S> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    depth: usize,
    pub(crate) steps: S,
}

type Found = Result<Option<usize>, Malformed>;

impl<'a, S: Steps> Matcher<'a, S> {
    /// Matches `pattern`, which is without its anchor, in `text`.
    pub(crate) fn new(text: &'a [u8], pattern: &'a [u8], steps: S) -> Self {
        let captures = [Capture::Position(0); CAPTURES_MAX];
        Self { text, pattern, captures, level: 0, depth: 0, steps }
    }

    /// The end of the match that begins at `at`, if there is one.
    pub(crate) fn match_at(&mut self, at: usize) -> Found {
        (self.level, self.depth) = (0, 0);
        self.matches(at, 0)
    }

    /// The captures of the last match.
    pub(crate) fn captures(&self) -> &[Capture] {
        &self.captures[..self.level]
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.pattern.get(at).copied()
    }

    fn matches(&mut self, at: usize, place: usize) -> Found {
        if self.depth >= DEPTH_MAX {
            return Err(Malformed("pattern too complex"));
        }
        self.depth += 1;
        let found = self.matches_here(at, place);
        self.depth -= 1;
        found
    }

    fn matches_here(&mut self, mut at: usize, mut place: usize) -> Found {
        loop {
            self.steps.works(1);
            let Some(first) = self.byte(place) else { return Ok(Some(at)) };
            match (first, self.byte(place + 1)) {
                (b'(', Some(b')')) => {
                    return self.opens(at, place + 2, Capture::Position(at));
                }
                (b'(', _) => return self.opens(at, place + 1, Capture::Open(at)),
                (b')', _) => return self.closes(at, place + 1),
                (ESCAPE, Some(b'b')) => match self.balanced(at, place + 2)? {
                    Some(end) => (at, place) = (end, place + 4),
                    None => return Ok(None),
                },
                (ESCAPE, Some(b'f')) => match self.frontier(at, place + 2)? {
                    Some(next) => place = next,
                    None => return Ok(None),
                },
                (ESCAPE, Some(digit)) if digit.is_ascii_digit() => match self.again(at, digit)? {
                    Some(end) => (at, place) = (end, place + 2),
                    None => return Ok(None),
                },
                (b'$', None) => return Ok((at == self.text.len()).then_some(at)),
                _ => {
                    let end = self.end_of_class(place)?;
                    match self.byte(end) {
                        Some(b'?') => {
                            if self.is_one(at, place, end)
                                && let Some(found) = self.matches(at + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            place = end + 1;
                        }
                        Some(b'*') => return self.most(at, place, end, 0),
                        Some(b'+') => return self.most(at, place, end, 1),
                        Some(b'-') => return self.least(at, place, end),
                        _ if self.is_one(at, place, end) => (at, place) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// As many as there are of the class from `place` to `end`, then fewer.
    fn most(&mut self, at: usize, place: usize, end: usize, least: usize) -> Found {
        let mut count = 0;
        while self.is_one(at + count, place, end) {
            count += 1;
            self.steps.works(1);
        }
        while count >= least {
            if let Some(found) = self.matches(at + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    /// As few as possible of the class from `place` to `end`, then more.
    fn least(&mut self, mut at: usize, place: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.matches(at, end + 1)? {
                return Ok(Some(found));
            }
            if !self.is_one(at, place, end) {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn opens(&mut self, at: usize, place: usize, capture: Capture) -> Found {
        if self.level >= CAPTURES_MAX {
            return Err(Malformed("too many captures"));
        }
        self.captures[self.level] = capture;
        self.level += 1;
        let found = self.matches(at, place)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn closes(&mut self, at: usize, place: usize) -> Found {
        let open = self.captures().iter().rposition(|it| matches!(it, Capture::Open(_)));
        let Some(level) = open else { return Err(Malformed("invalid pattern capture")) };
        let Capture::Open(begin) = self.captures[level] else { return Ok(None) };
        self.captures[level] = Capture::Part(begin, at);
        let found = self.matches(at, place)?;
        if found.is_none() {
            self.captures[level] = Capture::Open(begin);
        }
        Ok(found)
    }

    /// `%bxy`, whose two bytes are at `place`.
    fn balanced(&mut self, at: usize, place: usize) -> Found {
        let (Some(open), Some(close)) = (self.byte(place), self.byte(place + 1)) else {
            return Err(Malformed("unbalanced pattern"));
        };
        if self.text.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (place, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.steps.works(1);
            if *byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(place + 1));
                }
            } else if *byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// `%f[set]`, whose set is at `place`: where it ends, if the frontier is here.
    fn frontier(&mut self, at: usize, place: usize) -> Found {
        if self.byte(place) != Some(b'[') {
            return Err(Malformed("missing '[' after '%f' in pattern"));
        }
        let end = self.end_of_class(place)?;
        let before = at.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or(0);
        let now = self.text.get(at).copied().unwrap_or(0);
        let is_here =
            !self.is_in_set(before, place, end - 1) && self.is_in_set(now, place, end - 1);
        Ok(is_here.then_some(end))
    }

    /// `%1`: the text of a capture again.
    fn again(&mut self, at: usize, digit: u8) -> Found {
        let level = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let (begin, end) = match self.captures().get(level) {
            Some(Capture::Part(begin, end)) => (*begin, *end),
            // As Lua: a position is a part of such a length that it fits nowhere.
            Some(Capture::Position(_)) => return Ok(None),
            _ => return Err(Malformed("invalid capture index")),
        };
        let part = self.text.get(begin..end).unwrap_or_default();
        self.steps.works(part.len() / 16 + 1);
        let rest = self.text.get(at..).unwrap_or_default();
        Ok(rest.starts_with(part).then_some(at + part.len()))
    }

    /// Where the class that begins at `place` ends.
    fn end_of_class(&mut self, place: usize) -> Result<usize, Malformed> {
        match self.byte(place) {
            Some(ESCAPE) if self.byte(place + 1).is_none() => {
                Err(Malformed("malformed pattern (ends with '%')"))
            }
            Some(ESCAPE) => Ok(place + 2),
            Some(b'[') => {
                let mut at = place + 1;
                if self.byte(at) == Some(b'^') {
                    at += 1;
                }
                // A bracket that is first is one of the set.
                loop {
                    self.steps.works(1);
                    let byte = self.byte(at);
                    at += 1;
                    match byte {
                        None => return Err(Malformed("malformed pattern (missing ']')")),
                        Some(ESCAPE) if self.byte(at).is_some() => at += 1,
                        _ => {}
                    }
                    if self.byte(at) == Some(b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(place + 1),
        }
    }

    /// Whether the byte at `at` is of the class from `place` to `end`.
    fn is_one(&mut self, at: usize, place: usize, end: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match self.byte(place) {
            Some(b'.') => true,
            Some(ESCAPE) => self.byte(place + 1).is_some_and(|class| is_of_class(byte, class)),
            Some(b'[') => self.is_in_set(byte, place, end - 1),
            first => first == Some(byte),
        }
    }

    /// Whether `byte` is in the set whose brackets are at `place` and `close`.
    fn is_in_set(&mut self, byte: u8, place: usize, close: usize) -> bool {
        let is_complement = self.byte(place + 1) == Some(b'^');
        let mut at = place + 1 + usize::from(is_complement);
        while at < close {
            self.steps.works(1);
            let Some(first) = self.byte(at) else { break };
            if first == ESCAPE {
                if self.byte(at + 1).is_some_and(|class| is_of_class(byte, class)) {
                    return !is_complement;
                }
                at += 2;
            } else if self.byte(at + 1) == Some(b'-') && at + 2 < close {
                if self.byte(at + 2).is_some_and(|last| (first..=last).contains(&byte)) {
                    return !is_complement;
                }
                at += 3;
            } else if first == byte {
                return !is_complement;
            } else {
                at += 1;
            }
        }
        is_complement
    }
}

fn is_of_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}
