//! Parses bytes into requests: arrays of bulk strings, and inline requests for people. Pure; the bytes may be hostile.
//!
//! A request comes in pieces. The parser remembers its progress, so that it looks at each byte once, however many
//! pieces there are: the caller passes the bytes of an incomplete request again, with more behind them.

mod stream;

use std::fmt;

pub(crate) use stream::{asked, walk};

use super::inline;
use super::number;

/// Longest line: an inline request, or the head of an array or string.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Longest string that a client may announce. A string longer than a value can be is discarded.
const BULK_BYTES_MAX: usize = 512 << 20;
/// Longest request: positions in it are 32-bit.
const REQUEST_BYTES_MAX: usize = 1 << 30;
/// Most arguments of a client that has not logged in; the next constant is the longest of them.
const STRANGER_ARGUMENTS_MAX: i64 = 10;
const STRANGER_BULK_BYTES_MAX: usize = 16 << 10;
/// Requests with more arguments may be passed on in parts of this number.
pub(crate) const ARGUMENTS_A_PART: usize = 128;
/// Arguments that are parsed before other connections get their turns.
pub(super) const ARGUMENTS_A_LOOK: usize = 8192;
/// Steps of work to parse an argument.
pub(super) const STEPS_AN_ARGUMENT: usize = 16;
/// The list of positions is freed after a request if it has more room than this.
const PLACES_KEPT: usize = 64;

/// The begin and the end of an argument.
type Place = (u32, u32);

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParseOutcome {
    /// A request of this number of bytes; [`Parser::arguments`] has it until [`Parser::forget`].
    Request(usize),
    /// This number of bytes without a request.
    Nothing(usize),
    /// Part of a request, which has at least this number of bytes.
    Needs(usize),
    /// Part of a request with many arguments, of which [`ARGUMENTS_A_PART`] have come. The caller can take them out
    /// ([`Parser::take_begun`]), or wait for all ([`Parser::wait_for_all`]).
    Many,
    /// Part of a request with a string that is longer than a value may be. The caller must refuse it
    /// ([`Parser::swallow`]).
    TooLong,
    /// Part of a request with very many arguments. The caller should yield to other connections, and then continue to
    /// parse.
    Rests,
    /// The bytes are not RESP. The connection cannot go on.
    Broken(ProtocolError),
}

/// What is wrong with bytes that do not begin a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    MultibulkLength,
    BulkLength,
    StrangersMultibulk,
    StrangersBulk,
    LongCount,
    LongBulkCount,
    LongInline,
    Quotes,
    /// This byte instead of `$`.
    Expected(u8),
    LongRequest,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MultibulkLength => "invalid multibulk length",
            Self::BulkLength => "invalid bulk length",
            Self::StrangersMultibulk => "unauthenticated multibulk length",
            Self::StrangersBulk => "unauthenticated bulk length",
            Self::LongCount => "too big mbulk count string",
            Self::LongBulkCount => "too big bulk count string",
            Self::LongInline => "too big inline request",
            Self::Quotes => "unbalanced quotes in request",
            Self::LongRequest => "too big request",
            Self::Expected(byte) => {
                return write!(f, "expected '$', got '{}'", byte.escape_ascii());
            }
        })
    }
}

/// Limits for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) has_logged_in: bool,
    /// Longest value, or key.
    pub(crate) value_bytes_max: usize,
}

/// The progress of an incomplete request.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    /// Bytes parsed.
    at: usize,
    /// Arguments still to come.
    left: usize,
    /// Whether it is an array whose head was parsed.
    is_array: bool,
    /// Length of the string whose head was parsed.
    bulk: Option<usize>,
    /// Whether nothing is done before the request is complete.
    waits_for_all: bool,
    places: Vec<Place>,
    /// The arguments of an inline request, without their quotes.
    line: Vec<u8>,
}

/// The rest of a refused request, to be discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swallow {
    /// Arguments still to come, behind `bytes`.
    left: usize,
    /// Bytes of a string and its end.
    bytes: usize,
}

/// The progress of discarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscardProgress {
    /// The request ends after this number of bytes.
    All(usize),
    /// This number of bytes, and it goes on.
    Part(usize),
    /// More bytes are needed to continue.
    Needs(usize),
    Broken(ProtocolError),
}

/// The arguments of a request, its name first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arguments<'a> {
    bytes: &'a [u8],
    places: &'a [Place],
    /// Places behind `bytes` are in here.
    names: &'a [u8],
}

impl Parser {
    /// Parses `input`, which begins with the first byte that is not answered.
    pub(crate) fn parse(&mut self, input: &[u8], limits: Limits) -> ParseOutcome {
        if !self.is_array {
            match input.first() {
                None => return ParseOutcome::Needs(1),
                Some(b'*') => {}
                Some(_) => return self.parse_line(input),
            }
            match head(input, 1, ProtocolError::LongCount) {
                Head::Broken(broken) => return ParseOutcome::Broken(broken),
                Head::Needs => return ParseOutcome::Needs(input.len() + 1),
                Head::Of(digits, end) => match count(digits, limits) {
                    Err(broken) => return ParseOutcome::Broken(broken),
                    Ok(0) => return ParseOutcome::Nothing(end),
                    Ok(count) => (self.left, self.at, self.is_array) = (count, end, true),
                },
            }
        }
        let rests_at = self.places.len() + ARGUMENTS_A_LOOK;
        while self.left > 0 {
            if self.places.len() >= rests_at {
                return ParseOutcome::Rests;
            }
            if self.places.len() >= ARGUMENTS_A_PART && !self.waits_for_all {
                return ParseOutcome::Many;
            }
            if let Err(parsed) = self.parse_bulk(input, limits) {
                return parsed;
            }
        }
        ParseOutcome::Request(self.at)
    }

    fn parse_bulk(&mut self, input: &[u8], limits: Limits) -> Result<(), ParseOutcome> {
        let bytes = match self.bulk {
            Some(bytes) => bytes,
            None => {
                let (bytes, end) = bulk_head(input, self.at, limits)?;
                (self.bulk, self.at) = (Some(bytes), end);
                bytes
            }
        };
        if bytes > limits.value_bytes_max {
            return Err(ParseOutcome::TooLong);
        }
        // As in other servers, the two bytes behind a string are not checked.
        let (end, next) = (self.at + bytes, self.at + bytes + 2);
        let (Ok(begin), Ok(stop)) = (u32::try_from(self.at), u32::try_from(end)) else {
            return Err(ParseOutcome::Broken(ProtocolError::LongRequest));
        };
        if next > REQUEST_BYTES_MAX {
            return Err(ParseOutcome::Broken(ProtocolError::LongRequest));
        }
        if input.len() < next {
            return Err(ParseOutcome::Needs(next));
        }
        self.places.push((begin, stop));
        (self.at, self.bulk, self.left) = (next, None, self.left - 1);
        Ok(())
    }

    fn parse_line(&mut self, input: &[u8]) -> ParseOutcome {
        let Some(end) = input.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n') else {
            if input.len() >= LINE_BYTES_MAX {
                return ParseOutcome::Broken(ProtocolError::LongInline);
            }
            return ParseOutcome::Needs(input.len() + 1);
        };
        let line = input.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        (self.line, self.places) = match inline::split(line) {
            Some(split) => split,
            None => return ParseOutcome::Broken(ProtocolError::Quotes),
        };
        if self.places.is_empty() {
            ParseOutcome::Nothing(end + 1)
        } else {
            ParseOutcome::Request(end + 1)
        }
    }

    /// The parsed request, in the `input` that it was parsed from.
    pub(crate) fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        let bytes = if self.is_array { input } else { &self.line };
        Arguments::new(bytes, &self.places)
    }

    /// Arguments of the request that were not taken out, whether they have come or not.
    pub(crate) fn arguments_left(&self) -> usize {
        self.left + self.places.len()
    }

    /// Memory for the state of an incomplete request, without the request itself.
    pub(crate) fn places_bytes(&self) -> usize {
        match self.places.capacity() {
            0..=PLACES_KEPT => 0,
            places => 2 * places * size_of::<Place>(),
        }
    }

    /// Takes out the arguments that have come, after they were answered. Returns the number of bytes that are done
    /// with.
    pub(crate) fn take_begun(&mut self) -> usize {
        let done = self.places.last().map_or(0, |(_, end)| *end as usize + 2);
        self.places.clear();
        self.at -= done;
        done
    }

    /// This request is not passed on in parts.
    pub(crate) fn wait_for_all(&mut self) {
        self.waits_for_all = true;
    }

    /// Resets the parser for the next request.
    pub(crate) fn forget(&mut self) {
        self.places.clear();
        if self.places.capacity() > PLACES_KEPT {
            self.places = Vec::new();
        }
        (self.at, self.left, self.is_array, self.bulk) = (0, 0, false, None);
        self.waits_for_all = false;
        self.line = Vec::new();
    }

    /// Gives up an incomplete request. Returns the state to discard the rest of it, and the position where the rest
    /// begins.
    pub(crate) fn swallow(&mut self) -> (Swallow, usize) {
        let swallow = match self.bulk {
            Some(bytes) => Swallow { left: self.left.saturating_sub(1), bytes: bytes + 2 },
            None => Swallow { left: self.left, bytes: 0 },
        };
        let at = self.at;
        self.forget();
        (swallow, at)
    }
}

impl Swallow {
    /// Discards the part of the rest that has come.
    pub(crate) fn swallow(&mut self, input: &[u8], limits: Limits) -> DiscardProgress {
        let mut at = 0;
        loop {
            let now = self.bytes.min(input.len() - at);
            (self.bytes, at) = (self.bytes - now, at + now);
            match () {
                () if self.bytes > 0 => return DiscardProgress::Part(at),
                () if self.left == 0 => return DiscardProgress::All(at),
                () => {}
            }
            match bulk_head(input, at, limits) {
                Ok((bytes, end)) => {
                    (self.left, self.bytes, at) = (self.left - 1, bytes + 2, end);
                }
                Err(ParseOutcome::Broken(broken)) => return DiscardProgress::Broken(broken),
                Err(_) if at > 0 => return DiscardProgress::Part(at),
                Err(_) => return DiscardProgress::Needs(input.len() + 1),
            }
        }
    }
}

/// Places of arguments of which some lie elsewhere: the names of keys in the cache.
#[derive(Debug)]
pub(crate) struct RenamedKeys {
    places: Vec<Place>,
    names: Vec<u8>,
}

impl<'a> Arguments<'a> {
    /// Arguments whose begins and ends in `bytes` are `places`.
    pub(crate) fn new(bytes: &'a [u8], places: &'a [(u32, u32)]) -> Self {
        Self { bytes, places, names: &[] }
    }

    /// Number of arguments, including the name.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// The argument at `at`; empty if there is none, which the arity of a command rules out.
    pub(crate) fn get(&self, at: usize) -> &'a [u8] {
        self.places.get(at).map_or(&[], |place| self.at(*place))
    }

    /// All arguments from `at` on.
    pub(crate) fn from(&self, at: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let all = *self;
        self.places.get(at..).unwrap_or_default().iter().map(move |place| all.at(*place))
    }

    /// The arguments from `at` on, as if the first of them were the name.
    pub(crate) fn behind(&self, at: usize) -> Self {
        Self { places: self.places.get(at..).unwrap_or_default(), ..*self }
    }

    fn at(&self, (begin, end): Place) -> &'a [u8] {
        let (begin, end) = (begin as usize, end as usize);
        match begin.checked_sub(self.bytes.len()) {
            None | Some(0) if self.names.is_empty() => self.bytes.get(begin..end),
            None => self.bytes.get(begin..end),
            Some(begin) => self.names.get(begin..end - self.bytes.len()),
        }
        .unwrap_or_default()
    }

    /// The request with other names for the arguments at `places`: `rename` appends the name and returns true, or
    /// returns false for an argument that keeps its own. `None` if all do.
    pub(crate) fn renamed(
        &self,
        places: impl Iterator<Item = usize>,
        mut rename: impl FnMut(&[u8], &mut Vec<u8>) -> bool,
    ) -> Option<RenamedKeys> {
        let mut renamed: Option<RenamedKeys> = None;
        let mut names = Vec::new();
        for place in places.filter(|place| *place < self.len()) {
            let begin = names.len();
            if !rename(self.get(place), &mut names) {
                continue;
            }
            // It came from an input with 32-bit positions, and a name is a key with a few bytes more.
            let at = |offset: usize| u32::try_from(self.bytes.len() + offset).unwrap_or(u32::MAX);
            let all = renamed.get_or_insert_with(|| RenamedKeys {
                places: self.places.to_vec(),
                names: Vec::new(),
            });
            all.places[place] = (at(begin), at(names.len()));
        }
        renamed.map(|renamed| RenamedKeys { names, ..renamed })
    }

    /// This request with those names.
    pub(crate) fn with_names<'b>(&self, renamed: &'b RenamedKeys) -> Arguments<'b>
    where
        'a: 'b,
    {
        Arguments { bytes: self.bytes, places: &renamed.places, names: &renamed.names }
    }

    /// A copy without spare capacity.
    pub(crate) fn to_owned(self) -> OwnedArguments {
        let bytes: usize = self.from(0).map(<[u8]>::len).sum();
        let mut own = OwnedArguments {
            bytes: Vec::with_capacity(bytes),
            places: Vec::with_capacity(self.len()),
        };
        self.from(0).for_each(|argument| own.push(argument));
        own
    }
}

/// Arguments that are kept for later.
#[derive(Debug)]
pub(crate) struct OwnedArguments {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl OwnedArguments {
    fn push(&mut self, argument: &[u8]) {
        // It came from an input with 32-bit positions.
        let begin = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(argument);
        let end = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.places.push((begin, end));
    }

    pub(crate) fn as_arguments(&self) -> Arguments<'_> {
        Arguments::new(&self.bytes, &self.places)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.places)
    }
}

/// The digits behind a `*` or `$`, and the end of their line.
enum Head<'a> {
    Of(&'a [u8], usize),
    Needs,
    Broken(ProtocolError),
}

fn head(input: &[u8], begin: usize, too_long: ProtocolError) -> Head<'_> {
    let rest = input.get(begin..).unwrap_or_default();
    match rest.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\r') {
        Some(end) if rest.len() >= end + 2 => {
            Head::Of(rest.get(..end).unwrap_or_default(), begin + end + 2)
        }
        None if rest.len() >= LINE_BYTES_MAX => Head::Broken(too_long),
        _ => Head::Needs,
    }
}

/// The number of arguments of an array; 0 for an empty or negative array, which is skipped.
fn count(digits: &[u8], limits: Limits) -> Result<usize, ProtocolError> {
    let count = number::integer(digits).filter(|count| *count <= i64::from(i32::MAX));
    let count = count.ok_or(ProtocolError::MultibulkLength)?;
    if count > STRANGER_ARGUMENTS_MAX && !limits.has_logged_in {
        return Err(ProtocolError::StrangersMultibulk);
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The length of the string whose head is at `at`, and where the string begins.
fn bulk_head(input: &[u8], at: usize, limits: Limits) -> Result<(usize, usize), ParseOutcome> {
    match input.get(at) {
        None => return Err(ParseOutcome::Needs(at + 1)),
        Some(b'$') => {}
        Some(other) => return Err(ParseOutcome::Broken(ProtocolError::Expected(*other))),
    }
    let (digits, end) = match head(input, at + 1, ProtocolError::LongBulkCount) {
        Head::Of(digits, end) => (digits, end),
        Head::Needs => return Err(ParseOutcome::Needs(input.len() + 1)),
        Head::Broken(broken) => return Err(ParseOutcome::Broken(broken)),
    };
    let bytes = number::integer(digits).and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| *bytes <= BULK_BYTES_MAX);
    let bytes = bytes.ok_or(ParseOutcome::Broken(ProtocolError::BulkLength))?;
    if bytes > STRANGER_BULK_BYTES_MAX && !limits.has_logged_in {
        return Err(ParseOutcome::Broken(ProtocolError::StrangersBulk));
    }
    Ok((bytes, end))
}

#[cfg(test)]
mod tests;
