//! Readers of recorded traces.
//!
//! A trace is read as a stream: for a trace of any length a reader holds one buffer of 256 KiB and the decompressor's
//! window. Compression and format are recognised by content, never by name.
//!
//! | module | what it is |
//! |---|---|
//! | `format` | the formats by name, and the rules by which `detect` tells them apart |
//! | `input` | a file, opened and decompressed |
//! | `buffer`, `line`, `field` | bytes, lines and fields of hostile text |
//! | `object` | splits an object's single size into key and value |
//! | `table` | the comma-separated formats: `csv`, `twitter`, `meta-kv` |
//! | `keys` | the key lists: `keys`, `keys-u32` |
//! | `oracle` | `oracle-general` |
//! | `fault` | reports of a bad line |
//!
//! Nothing here trusts a byte of the file: a lint forbids indexing in all of it.
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
    /// Size of key and value of every object, in bytes, for the formats that have no sizes (`keys`, `keys-u32`); from 1
    /// up. The key has [`KEY_BYTES`] of it, the value has the rest and at least one byte.
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
/// [`Error::Usage`] for impossible options; [`Error::Run`] for a file that cannot be read, is empty, or is in no known
/// format. The source returns the errors further down the file.
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
/// [`Error::Run`] for a file that cannot be read, is empty, or is in no known format.
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

/// All text of a file, plain or compressed like a trace: for traces that are not traces of a cache.
///
/// # Errors
/// [`Error::Run`] for a file that cannot be read, is not text, or has more than `bytes_max` bytes of it.
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
