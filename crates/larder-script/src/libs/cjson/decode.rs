//! JSON as values of Lua.

use super::access::settings;
use crate::raw::{Raised, Results, State};

/// Most tables within tables, whatever a script sets: each takes a part of the stack.
const DEPTH_MAX: i64 = 1000;

pub(super) fn decode(state: State) -> Results {
    if state.top() != 1 {
        return state.bad_argument(1, c"expected 1 argument");
    }
    let text = state.check_bytes(1);
    if text.len() >= 2 && (text.first() == Some(&0) || text.get(1) == Some(&0)) {
        return state.fail("JSON parser does not support UTF-16 or UTF-32");
    }
    let now = settings(state, |it| *it);
    let mut parser = Parser {
        state,
        text,
        at: 0,
        begin: 0,
        depth_max: now.decode_depth_max,
        allows: now.decodes_invalid,
    };
    let first = parser.token();
    parser.value(first, 0)?;
    match parser.token() {
        Token::End => Ok(1),
        other => {
            parser.unexpected("the end", &other)?;
            Ok(1)
        }
    }
}

struct Parser<'a> {
    state: State,
    text: &'a [u8],
    at: usize,
    /// Where the last token began.
    begin: usize,
    depth_max: i64,
    /// Whether numbers that JSON does not have are allowed.
    allows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'a> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// Its bytes between the quotes, and whether there are escapes.
    String(&'a [u8], bool),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Wrong(&'static str),
}

impl Token<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String(..) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Wrong(why) => why,
        }
    }
}

impl<'a> Parser<'a> {
    fn unexpected(&self, wanted: &str, found: &Token<'_>) -> Result<(), Raised> {
        let (found, at) = (found.name(), self.begin + 1);
        let text = format_args!("Expected {wanted} but found {found} at character {at}");
        self.state.fails(text).map(|_| ())
    }

    fn token(&mut self) -> Token<'a> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let rest = self.text.get(self.at..).unwrap_or_default();
        let blanks = rest.iter().take_while(|byte| is_blank(byte)).count();
        self.at += blanks;
        self.begin = self.at;
        self.state.works(1 + blanks / 16);
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some(first) = rest.first() else { return Token::End };
        let one = match first {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            b'"' => return self.string(rest),
            0 => return Token::End,
            _ => {
                for (word, token) in [
                    (&b"true"[..], Token::Boolean(true)),
                    (b"false", Token::Boolean(false)),
                    (b"null", Token::Null),
                ] {
                    if rest.starts_with(word) {
                        self.at += word.len();
                        return token;
                    }
                }
                return self.number(rest);
            }
        };
        self.at += 1;
        one
    }

    fn string(&mut self, rest: &'a [u8]) -> Token<'a> {
        let mut at = 1;
        let mut has_escapes = false;
        loop {
            match rest.get(at) {
                None => return Token::Wrong("unterminated string"),
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    at += 2;
                }
                Some(_) => at += 1,
            }
        }
        self.state.works(at / 16);
        self.at += at + 1;
        let inner = rest.get(1..at).unwrap_or_default();
        if has_escapes && let Err(why) = check_escapes(inner) {
            return Token::Wrong(why);
        }
        Token::String(inner, has_escapes)
    }

    fn number(&mut self, rest: &'a [u8]) -> Token<'a> {
        let is_part =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let end = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        self.state.works(word.len() / 4);
        let Some(first) = word.first() else { return Token::Wrong("invalid token") };
        if !matches!(first, b'-' | b'+' | b'0'..=b'9' | b'i' | b'I' | b'n' | b'N') {
            return Token::Wrong("invalid token");
        }
        let digits = word.strip_prefix(b"-").unwrap_or(word);
        let is_plain =
            matches!(digits, [b'0'] | [b'0', b'.' | b'e' | b'E', ..] | [b'1'..=b'9', ..]);
        if !is_plain && !self.allows {
            return Token::Wrong("invalid number");
        }
        let number = std::str::from_utf8(word).ok().and_then(parse);
        match number {
            Some(number) => {
                self.at += end;
                Token::Number(number)
            }
            None => Token::Wrong("invalid number"),
        }
    }

    /// Pushes the value that begins with `token`.
    fn value(&mut self, token: Token<'a>, depth: i64) -> Result<(), Raised> {
        let state = self.state;
        match token {
            Token::String(bytes, has_escapes) => self.push_string(bytes, has_escapes),
            Token::Number(number) => state.push_number(number),
            Token::Boolean(is) => state.push_boolean(is),
            Token::Null => state.push_null_pointer(),
            Token::ObjectBegin | Token::ArrayBegin => {
                if depth >= self.depth_max.min(DEPTH_MAX) || !state.has_room(8) {
                    let (depth, at) = (depth + 1, self.at);
                    let text = format_args!(
                        "Found too many nested data structures ({depth}) at character {at}"
                    );
                    return state.fails(text).map(|_| ());
                }
                state.push_table(0, 0);
                if token == Token::ObjectBegin {
                    self.object(depth + 1)?;
                } else {
                    self.array(depth + 1)?;
                }
            }
            other => self.unexpected("value", &other)?,
        }
        Ok(())
    }

    fn object(&mut self, depth: i64) -> Result<(), Raised> {
        let mut token = self.token();
        if token == Token::ObjectEnd {
            return Ok(());
        }
        loop {
            match token {
                Token::String(bytes, has_escapes) => self.push_string(bytes, has_escapes),
                other => self.unexpected("object key string", &other)?,
            }
            match self.token() {
                Token::Colon => {}
                other => self.unexpected("colon", &other)?,
            }
            let first = self.token();
            self.value(first, depth)?;
            self.state.raw_set(-3);
            match self.token() {
                Token::ObjectEnd => return Ok(()),
                Token::Comma => token = self.token(),
                other => self.unexpected("comma or object end", &other)?,
            }
        }
    }

    fn array(&mut self, depth: i64) -> Result<(), Raised> {
        let mut token = self.token();
        if token == Token::ArrayEnd {
            return Ok(());
        }
        let mut index = 1;
        loop {
            self.value(token, depth)?;
            self.state.raw_set_at(-2, index);
            index += 1;
            match self.token() {
                Token::ArrayEnd => return Ok(()),
                Token::Comma => token = self.token(),
                other => self.unexpected("comma or array end", &other)?,
            }
        }
    }

    fn push_string(&self, bytes: &[u8], has_escapes: bool) {
        if !has_escapes {
            self.state.push_bytes(bytes);
            return;
        }
        let from = self.state.with(|data| {
            let from = data.scratch.len();
            add_unescaped(bytes, &mut data.scratch);
            from
        });
        self.state.push_scratch(from);
    }
}

/// A number of JSON, or one of those that `strtod` takes besides.
fn parse(word: &str) -> Option<f64> {
    let (is_negative, plain) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word.strip_prefix('+').unwrap_or(word)),
    };
    let number = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(digits) if !digits.is_empty() => digits
            .chars()
            .try_fold(0.0_f64, |sum, digit| Some(sum * 16.0 + f64::from(digit.to_digit(16)?)))?,
        _ if plain.starts_with(['+', '-']) => return None,
        _ => plain.parse().ok()?,
    };
    Some(if is_negative { -number } else { number })
}

fn check_escapes(mut rest: &[u8]) -> Result<(), &'static str> {
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        rest = rest.get(at + 1..).unwrap_or_default();
        let Some((kind, after)) = rest.split_first() else { return Err("unterminated string") };
        rest = after;
        match kind {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
            b'u' => {
                let (_, bytes) = unicode(rest).ok_or("invalid unicode escape code")?;
                rest = rest.get(bytes..).unwrap_or_default();
            }
            _ => return Err("invalid escape code"),
        }
    }
    Ok(())
}

/// The character of the digits behind `\u`, which may be two with a `\u` between them, and their number of bytes.
fn unicode(rest: &[u8]) -> Option<(char, usize)> {
    let digits = |at: usize| {
        let four = std::str::from_utf8(rest.get(at..at + 4)?).ok()?;
        four.bytes()
            .all(|byte| byte.is_ascii_hexdigit())
            .then(|| u32::from_str_radix(four, 16).ok())?
    };
    let first = digits(0)?;
    if first & 0xfc00 != 0xd800 {
        return Some((char::from_u32(first)?, 4));
    }
    if rest.get(4..6) != Some(b"\\u") {
        return None;
    }
    let second = digits(6)?;
    if second & 0xfc00 != 0xdc00 {
        return None;
    }
    let whole = 0x1_0000 + ((first & 0x3ff) << 10 | second & 0x3ff);
    Some((char::from_u32(whole)?, 10))
}

fn add_unescaped(mut rest: &[u8], to: &mut Vec<u8>) {
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        to.extend_from_slice(rest.get(..at).unwrap_or_default());
        let kind = rest.get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match kind {
            b'b' => to.push(8),
            b'f' => to.push(12),
            b'n' => to.push(b'\n'),
            b'r' => to.push(b'\r'),
            b't' => to.push(b'\t'),
            b'u' => {
                let Some((character, bytes)) = unicode(rest) else { continue };
                to.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = rest.get(bytes..).unwrap_or_default();
            }
            other => to.push(other),
        }
    }
    to.extend_from_slice(rest);
}
