//! Detects the format of a trace. The rules are on [`TraceFormat`].

use std::collections::HashSet;

use crate::Error;

use super::buffer::Buffer;
use super::fault::{Fault, shown};
use super::format::TraceFormat;
use super::keys::key_of;
use super::line::LINE_BYTES_MAX;
use super::oracle::{RECORD_BYTES, Record};
use super::table;

/// Bytes at the start of a trace that decide.
const HEAD_BYTES: usize = LINE_BYTES_MAX;

/// Records of `oracle-general` that are examined.
const ORACLE_RECORDS: usize = 256;

/// Longest key in a file that is recognised as `keys`: memcached allows no longer ones.
const KEY_TEXT_BYTES_MAX: usize = 250;

/// A shorter list of binary keys is not recognised: it is too short to tell it from anything else.
const KEYS_MIN: usize = 256;

/// Detects the format without taking any bytes.
pub(super) fn detect(buffer: &mut Buffer) -> Result<TraceFormat, Error> {
    buffer.peek(HEAD_BYTES)?;
    let whole = buffer.is_done() && buffer.ready().len() <= HEAD_BYTES;
    let head = buffer.ready();
    let head = head.get(..HEAD_BYTES).unwrap_or(head);
    let found = if is_text(head) { text_format(head, whole) } else { binary_format(head, whole) };
    found.ok_or_else(|| {
        let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
        let expected = format!("the start of a trace (formats: {})", TraceFormat::names());
        let fault = Fault::new(shown(line.trim_ascii_end()), expected);
        buffer.error("start of the file", &fault)
    })
}

/// Whether all bytes can occur in text. Keys may be in any encoding.
fn is_text(head: &[u8]) -> bool {
    head.iter().all(|&b| (b >= b' ' && b != 0x7f) || matches!(b, b'\t' | b'\n' | b'\r'))
}

fn text_format(head: &[u8], whole: bool) -> Option<TraceFormat> {
    let line_end = memchr::memchr(b'\n', head);
    // A first line that does not end within the head is no line of a trace.
    let first = head.get(..line_end.or(whole.then_some(head.len()))?)?;
    let first = first.strip_suffix(b"\r").unwrap_or(first);
    if let Some((format, _)) = table::header_columns(first).or_else(|| table::bare_columns(first)) {
        return Some(format);
    }
    // The last line may be cut off by the end of the head.
    let lines_end = if whole { head.len() } else { memchr::memrchr(b'\n', head)? };
    let lines = head.get(..lines_end)?.split(|&b| b == b'\n');
    let mut keys = 0;
    for line in lines.map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty()) {
        // Separators of columns in other formats: this is a table in a format that the reader does not know.
        let no_key = line.iter().any(|b| matches!(b, b',' | b' ' | b'\t' | b';' | b'|'));
        if no_key || line.len() > KEY_TEXT_BYTES_MAX {
            return None;
        }
        keys += 1;
    }
    (keys > 0).then_some(TraceFormat::Keys)
}

fn binary_format(head: &[u8], whole: bool) -> Option<TraceFormat> {
    if is_oracle(head, whole) {
        return Some(TraceFormat::OracleGeneral);
    }
    is_key_list(head, whole).then_some(TraceFormat::KeysU32)
}

fn is_oracle(head: &[u8], whole: bool) -> bool {
    const SIZE_BYTES_MAX: u32 = 1 << 30;
    const NEXT_MAX: i64 = 1 << 48;
    if head.len() < RECORD_BYTES || (whole && !head.len().is_multiple_of(RECORD_BYTES)) {
        return false;
    }
    let mut time_s = 0;
    head.chunks_exact(RECORD_BYTES).take(ORACLE_RECORDS).filter_map(Record::parse).all(|record| {
        let follows = record.time_s >= time_s;
        time_s = record.time_s;
        // Some writers mark "no next request" with the largest number instead of a negative one.
        let next = (-2..NEXT_MAX).contains(&record.next) || record.next == i64::MAX;
        // The next request has a number from 1 up: a 0 was not filled in. Records of only zeros are padding.
        let filled = record.next != 0 || record.size_bytes > 0;
        follows && next && filled && record.size_bytes <= SIZE_BYTES_MAX
    })
}

/// Whether the words repeat as keys do: often enough, and not because they are fields of records.
fn is_key_list(head: &[u8], whole: bool) -> bool {
    let (words, rest) = head.as_chunks();
    if (whole && !rest.is_empty()) || words.len() < KEYS_MIN {
        return false;
    }
    let words: Vec<u32> = words.iter().map(|word| key_of(*word)).collect();
    let distinct = words.iter().collect::<HashSet<_>>().len();
    let repeats = words.len() - distinct;
    repeats * 20 >= words.len() && !is_something_else(head) && !has_records_or_padding(&words)
}

/// Whether the file begins with the signature of another kind of file: program, archive, picture, database.
fn is_something_else(head: &[u8]) -> bool {
    const MAGIC: [&[u8]; 12] = [
        b"\x7fELF",
        b"MZ",
        b"\xca\xfe\xba\xbe",
        b"\xcf\xfa\xed\xfe",
        b"PK\x03\x04",
        b"!<arch>\n",
        b"\x89PNG",
        b"\xff\xd8\xff",
        b"RIFF",
        b"%PDF",
        b"SQLite format 3\0",
        b"BZh",
    ];
    MAGIC.iter().any(|magic| head.starts_with(magic))
}

fn has_records_or_padding(words: &[u32]) -> bool {
    const PADDING_WORDS: usize = 32;
    let padded = words.chunk_by(|a, b| a == b).any(|run| run.len() >= PADDING_WORDS);
    padded || has_constant_column(words)
}

fn has_constant_column(words: &[u32]) -> bool {
    const WORDS_PER_RECORD_MAX: usize = 16;
    (2..=WORDS_PER_RECORD_MAX).any(|length| {
        (0..length).any(|column| {
            let mut column = words.iter().skip(column).step_by(length);
            let first = column.next();
            column.all(|word| Some(word) == first)
        })
    })
}
