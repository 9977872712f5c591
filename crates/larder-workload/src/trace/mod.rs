//! Readers of recorded traces.
//!
//! A trace is read as a stream: whatever its length, a reader holds one buffer of
//! 256 KiB and the decompressor's window. Compression and format are recognised
//! by content, never by name.
//!
//! | module | what it is |
//! |---|---|
//! | `format` | the formats by name, and the rules by which `detect` tells them apart |
//! | `input` | a file, opened and decompressed |
//! | `buffer`, `line`, `field` | bytes, lines and fields of hostile text |
//! | `object` | key and value of an object that has one size |
//! | `table` | the comma-separated formats: `csv`, `twitter`, `meta-kv` |
//! | `keys` | the key lists: `keys`, `keys-u32` |
//! | `oracle` | `oracle-general` |
//! | `fault` | how a bad line is reported |
//!
//! Nothing here trusts a byte of the file: indexing is denied in all of it.
#![deny(clippy::indexing_slicing)]

mod buffer;
mod clock;
mod detect;
mod fault;
mod field;
mod format;
mod input;
mod keys;
mod line;
mod object;
mod op;
mod oracle;
mod table;

use std::path::Path;

use crate::{Error, RequestSource};
use buffer::Buffer;
use input::Input;

pub use format::TraceFormat;
pub use object::KEY_BYTES;

/// How to read a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceOptions {
    /// The format; `None` to detect it (see [`TraceFormat`] for the rules).
    pub format: Option<TraceFormat>,
    /// Size of key and value of every object, in bytes, for the formats that have no sizes (`keys`,
    /// `keys-u32`); from 1 up. [`KEY_BYTES`] of it are the key's, the value has the rest and at
    /// least one byte.
    pub object_bytes: u32,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { format: None, object_bytes: 1024 }
    }
}

/// Opens a trace: plain, or compressed with zstd, xz or gzip (any number of frames or members).
///
/// # Errors
/// [`Error::Usage`] for options that make no sense; [`Error::Run`] for a file that cannot be read,
/// is empty, or is in no format known here. Errors further down the file come out of the source.
pub fn open(path: &Path, options: &TraceOptions) -> Result<Box<dyn RequestSource>, Error> {
    if options.object_bytes == 0 {
        return Err(Error::usage("the size of an object must be at least 1 byte, not 0"));
    }
    let mut buffer = open_buffer(path)?;
    let format = match options.format {
        Some(format) => format,
        None => detect::detect(&mut buffer)?,
    };
    let source: Box<dyn RequestSource> = match format {
        TraceFormat::Csv | TraceFormat::Twitter | TraceFormat::MetaKv => {
            Box::new(table::TableSource::new(buffer, format)?)
        }
        TraceFormat::OracleGeneral => Box::new(oracle::OracleSource::new(buffer)),
        TraceFormat::Keys => Box::new(keys::TextKeys::new(buffer, options.object_bytes)),
        TraceFormat::KeysU32 => Box::new(keys::BinaryKeys::new(buffer, options.object_bytes)),
    };
    Ok(source)
}

/// The format that [`open`] would detect.
///
/// # Errors
/// [`Error::Run`] for a file that cannot be read, is empty, or is in no format known here.
pub fn format_of(path: &Path) -> Result<TraceFormat, Error> {
    detect::detect(&mut open_buffer(path)?)
}

fn open_buffer(path: &Path) -> Result<Buffer, Error> {
    let mut buffer = Buffer::new(Input::open(path)?);
    if buffer.peek(1)?.is_empty() {
        return Err(Error::run(format!("{}: is empty, expected a trace", path.display())));
    }
    Ok(buffer)
}

/// All text of a file, plain or compressed as a trace: for forms of traces that are not of a cache.
///
/// # Errors
/// [`Error::Run`] for a file that cannot be read, is no text, or has more than `bytes_max` bytes of it.
pub fn read_text(path: &Path, bytes_max: usize) -> Result<String, Error> {
    let mut input = Input::open(path)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let count = input.read(&mut piece);
        let count = count.map_err(|error| input.read_error(&error, bytes.len() as u64))?;
        if count == 0 {
            break;
        }
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        if bytes.len() > bytes_max {
            let message = format!("{}: more than {bytes_max} bytes of text", path.display());
            return Err(Error::run(message));
        }
    }
    String::from_utf8(bytes).map_err(|_| Error::run(format!("{}: is no text", path.display())))
}
