//! A trace file, opened and decompressed: the source of its bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use crate::Error;

/// Bytes read from the file at a time.
const FILE_BUFFER_BYTES: usize = 128 << 10;

/// Memory that an xz stream may ask for. `xz -9` needs 65 MiB; a forged header may ask for 4 GiB.
const XZ_MEMORY_BYTES_MAX: u64 = 512 << 20;

/// How the file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compression {
    None,
    Zstd,
    Xz,
    Gzip,
}

impl Compression {
    /// Recognises the first bytes of a file: RFC 8878 section 3.1 (frames and skippable frames),
    /// the .xz file format 1.2 section 2.1.1, RFC 1952 section 2.3.1.
    fn of(head: &[u8]) -> Self {
        match head {
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [0x1f, 0x8b, ..] => Self::Gzip,
            _ => Self::None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "plain",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Gzip => "gzip",
        }
    }
}

/// The decompressed bytes of a trace file.
pub(super) struct Input {
    path: PathBuf,
    compression: Compression,
    reader: Box<dyn Read + Send>,
    /// Bytes read from the file so far. The file is deep inside `reader`, so the count is shared.
    taken_bytes: Arc<AtomicU64>,
    /// Length of the file; `None` for a pipe.
    file_bytes: Option<u64>,
}

impl Input {
    /// Opens a file or a pipe and looks at its first bytes.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |e: io::Error| Error::run(format!("{}: cannot open: {e}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            let message = "is a directory, expected a trace file";
            return Err(Error::run(format!("{}: {message}", path.display())));
        }
        let taken_bytes = Arc::new(AtomicU64::new(0));
        let counted = CountingFile { file, taken_bytes: Arc::clone(&taken_bytes) };
        let mut file = BufReader::with_capacity(FILE_BUFFER_BYTES, counted);
        let compression = Compression::of(file.fill_buf().map_err(failed)?);
        Ok(Self {
            path: path.to_owned(),
            compression,
            reader: decompressor(compression, file).map_err(failed)?,
            taken_bytes,
            file_bytes: metadata.is_file().then_some(metadata.len()),
        })
    }

    /// Reads decompressed bytes; returns 0 at the end.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.reader.read(bytes) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// Share of the file that was read, from 0 to 1.
    pub(super) fn progress(&self) -> Option<f64> {
        let file_bytes = self.file_bytes.filter(|&bytes| bytes > 0)?;
        let taken = self.taken_bytes.load(Ordering::Relaxed);
        Some((taken as f64 / file_bytes as f64).min(1.0))
    }

    /// The file, for messages.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The error of a failed read, after `offset` decompressed bytes.
    pub(super) fn read_error(&self, error: &io::Error, offset: u64) -> Error {
        let (path, name) = (self.path.display(), self.compression.name());
        if self.compression == Compression::None {
            return Error::run(format!("{path}: cannot read after byte {offset}: {error}"));
        }
        let cause = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the stream is cut short".to_owned(),
            _ => error.to_string(),
        };
        Error::run(format!(
            "{path}: cannot decompress ({name}) after byte {offset} of the content: {cause}"
        ))
    }
}

/// A file that counts the bytes read from it.
struct CountingFile {
    file: File,
    taken_bytes: Arc<AtomicU64>,
}

impl Read for CountingFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.taken_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn decompressor(
    compression: Compression,
    file: BufReader<CountingFile>,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None => Box::new(file),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file)?),
        Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        Compression::Xz => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY_BYTES_MAX, CONCATENATED)?;
            Box::new(XzDecoder::new_stream(file, stream))
        }
    })
}
