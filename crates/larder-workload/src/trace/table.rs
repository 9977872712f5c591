//! Traces as comma-separated tables: `csv`, `twitter` and `meta-kv`.
//!
//! They differ in where their columns are named: in a header line, or in the format. Both give a list of [`Column`]s,
//! one for each field, and each line is read by this list.

use crate::{Error, Op, Request, RequestSource};

use super::buffer::Buffer;
use super::clock::TraceClock;
use super::fault::{Fault, FaultBox, shown};
use super::field::{self, Fields};
use super::format::TraceFormat;
use super::line::Lines;
use super::object::{KEY_BYTES, split_object};
use super::op;

/// The meaning of a field of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    Time,
    Key,
    KeyBytes,
    ValueBytes,
    /// Key and value together.
    ObjectBytes,
    Op,
    /// The number of requests that the line stands for.
    Count,
    Ttl,
    Ignored,
}

use Column::{Count, Ignored, Key, KeyBytes, ObjectBytes, Time, Ttl, ValueBytes};

/// The columns that a header line names, if it names enough of them; lower and upper case are the same. A `size` in a
/// header that has `op_count` is Meta's and counts the value only.
pub(super) fn header_columns(line: &[u8]) -> Option<(TraceFormat, Vec<Column>)> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let mut columns: Vec<Column> = Fields::new(line).map(|f| named(f.trim_ascii())).collect();
    let has = |columns: &[Column], column| columns.contains(&column);
    if !has(&columns, Key) {
        return None;
    }
    if has(&columns, Count) && has(&columns, Column::Op) && has(&columns, ObjectBytes) {
        columns.iter_mut().filter(|c| **c == ObjectBytes).for_each(|c| *c = ValueBytes);
        return Some((TraceFormat::MetaKv, columns));
    }
    // Sizes come from one source: those of value and key, or else that of the object alone.
    let unused = match (has(&columns, ValueBytes), has(&columns, ObjectBytes)) {
        (true, _) => ObjectBytes,
        (false, true) => KeyBytes,
        (false, false) => return None,
    };
    columns.iter_mut().filter(|c| **c == unused).for_each(|c| *c = Ignored);
    Some((TraceFormat::Csv, columns))
}

fn named(name: &[u8]) -> Column {
    match name.to_ascii_lowercase().as_slice() {
        b"time" | b"timestamp" | b"op_time" => Time,
        b"key" | b"object" | b"id" | b"obj_id" => Key,
        b"key_size" => KeyBytes,
        b"value_size" => ValueBytes,
        b"size" => ObjectBytes,
        b"op" | b"operation" => Column::Op,
        b"op_count" => Count,
        b"ttl" => Ttl,
        _ => Ignored,
    }
}

/// The columns of a table without a header, by its first line.
pub(super) fn bare_columns(line: &[u8]) -> Option<(TraceFormat, Vec<Column>)> {
    let fields: Vec<&[u8]> = Fields::new(line).take(8).collect();
    field::seconds(fields.first()?).ok()?;
    let is_op = |index: usize| fields.get(index).is_some_and(|f| op::find(f).is_some());
    let twitter = |rest: &[Column]| {
        let columns = [&[Time, Key, KeyBytes, ValueBytes], rest].concat();
        Some((TraceFormat::Twitter, columns))
    };
    let csv = |columns: &[Column]| Some((TraceFormat::Csv, columns.to_vec()));
    match fields.len() {
        3 => csv(&[Time, Key, ObjectBytes]),
        4 if is_op(3) => csv(&[Time, Key, ObjectBytes, Column::Op]),
        5 if is_op(3) => csv(&[Time, Key, ObjectBytes, Column::Op, Ttl]),
        4 => twitter(&[]),
        5 if is_op(4) => twitter(&[Column::Op]),
        6 if is_op(4) => twitter(&[Column::Op, Ttl]),
        7 if is_op(5) => twitter(&[Ignored, Column::Op, Ttl]),
        _ => None,
    }
}

/// The content of one line, which stands for `count` requests.
#[derive(Clone, Copy, Debug)]
struct Row {
    time: u64,
    count: u32,
    /// `time_s` is not set yet.
    request: Request,
}

/// Reads a line. If the line has too many or too few columns, the fault reports that and nothing else.
#[inline]
fn parse_row(line: &[u8], columns: &[Column]) -> Result<Row, FaultBox> {
    parse_fields(line, columns).map_err(|fault| {
        if Fields::new(line).count() == columns.len() { fault } else { wrong_count(line, columns) }
    })
}

#[inline]
fn parse_fields(line: &[u8], columns: &[Column]) -> Result<Row, FaultBox> {
    let request =
        Request { time_s: 0, key: 0, key_bytes: KEY_BYTES, value_bytes: 0, op: Op::Get, ttl_s: 0 };
    let mut row = Row { time: 0, count: 1, request };
    let mut fields = Fields::new(line);
    for column in columns {
        let Some(bytes) = fields.next() else { return Err(wrong_count(line, columns)) };
        match column {
            Time => row.time = field::seconds(bytes)?,
            Key => row.request.key = field::key(bytes)?,
            KeyBytes => row.request.key_bytes = field::number_u32(bytes, "the size of a key")?,
            ValueBytes => {
                row.request.value_bytes = field::number_u32(bytes, "the size of a value")?;
            }
            ObjectBytes => {
                let size = field::number_u32(bytes, "the size of an object")?;
                (row.request.key_bytes, row.request.value_bytes) = split_object(size);
            }
            Column::Op => row.request.op = op::parse(bytes)?,
            Count => row.count = field::number_u32(bytes, "a number of requests")?,
            Ttl => row.request.ttl_s = field::number_u32(bytes, "a time to live in seconds")?,
            Ignored => {}
        }
    }
    if fields.next().is_some() {
        return Err(wrong_count(line, columns));
    }
    Ok(row)
}

#[cold]
fn wrong_count(line: &[u8], columns: &[Column]) -> FaultBox {
    let count = Fields::new(line).count();
    let found = format!("{count} columns in {}", shown(line));
    Fault::new(found, format!("{} columns", columns.len()))
}

/// The requests of a table.
pub(super) struct TableSource {
    lines: Lines,
    columns: Vec<Column>,
    clock: TraceClock,
    /// The last request of the last row, and how many times it is still to be returned.
    repeated: Request,
    repeats: u32,
    /// The first row, which was read when the trace was opened.
    first: Option<Row>,
}

impl TableSource {
    /// Reads the first line, which is a header if it names columns and a row otherwise, and the first row.
    pub(super) fn new(buffer: Buffer, format: TraceFormat) -> Result<Self, Error> {
        let mut lines = Lines::new(buffer);
        let (columns, first) = match lines.next_line()? {
            None => (Vec::new(), None),
            Some(line) => match first_line(line, format) {
                Ok(read) => read,
                Err(fault) => return Err(lines.error(&fault)),
            },
        };
        let repeated =
            Request { time_s: 0, key: 0, key_bytes: 0, value_bytes: 0, op: Op::Get, ttl_s: 0 };
        let clock = TraceClock::default();
        let mut source = Self { lines, columns, clock, repeated, repeats: 0, first };
        source.first = match source.next_row()? {
            Some(row) => Some(row),
            None => {
                let fault = Fault::new("a header and no line behind it".to_owned(), "requests");
                return Err(source.lines.error(&fault));
            }
        };
        Ok(source)
    }

    fn next_row(&mut self) -> Result<Option<Row>, Error> {
        if let Some(row) = self.first.take() {
            return Ok(Some(row));
        }
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        match parse_row(line, &self.columns) {
            Ok(row) => Ok(Some(row)),
            Err(fault) => Err(self.lines.error(&fault)),
        }
    }
}

/// The columns of a table in `format` that begins with this line, and the row if the line is one.
fn first_line(line: &[u8], format: TraceFormat) -> Result<(Vec<Column>, Option<Row>), FaultBox> {
    let header = header_columns(line).filter(|(found, _)| *found == format);
    // A table with three bare columns is the same under either name.
    let bare = bare_columns(line)
        .filter(|(found, columns)| *found == format || columns.len() == 3)
        .filter(|_| format != TraceFormat::MetaKv);
    match (format, header, bare) {
        (TraceFormat::Csv | TraceFormat::MetaKv, Some((_, columns)), _) => Ok((columns, None)),
        (TraceFormat::Csv | TraceFormat::Twitter, _, Some((_, columns))) => {
            let row = parse_row(line, &columns)?;
            Ok((columns, Some(row)))
        }
        _ => Err(Fault::field(line, first_line_expected(format))),
    }
}

fn first_line_expected(format: TraceFormat) -> &'static str {
    match format {
        TraceFormat::Csv => "a header with time, object and size, or a row in that order",
        TraceFormat::MetaKv => "a header with at least key, op, op_count and size",
        _ => "timestamp, key, key size, value size, client, operation and TTL, or a short form",
    }
}

impl RequestSource for TableSource {
    fn next_request(&mut self) -> Result<Option<Request>, Error> {
        if self.repeats > 0 {
            self.repeats -= 1;
            return Ok(Some(self.repeated));
        }
        while let Some(row) = self.next_row()? {
            let time_s = self.clock.seconds(row.time);
            if let Some(repeats) = row.count.checked_sub(1) {
                self.repeats = repeats;
                self.repeated = Request { time_s, ..row.request };
                return Ok(Some(self.repeated));
            }
        }
        Ok(None)
    }

    fn progress(&self) -> Option<f64> {
        self.lines.progress()
    }
}
