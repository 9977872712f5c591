//! Prepares a file for use as a device: open, lock, set the size, reserve the space, enable direct I/O.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::buffer::{IoBuffer, PAGE_BYTES};
use crate::error::{Error, ErrorKind};
use crate::file_options::{DirectIo, FileOptions, SAFE_BLOCK_BYTES};
use crate::info::SECTOR_BYTES;
use crate::label;
use crate::private::create_private_file;
use crate::sys;

/// Pause between two attempts to get a file that is in use.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);

/// A file that is locked, large enough and, if asked for, reserved.
#[derive(Debug)]
pub(crate) struct PreparedFile {
    pub(crate) file: File,
    pub(crate) capacity_bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) direct: bool,
    pub(crate) preallocated: bool,
    /// Whether it is a block device.
    pub(super) block: bool,
}

/// Opens `path` as `options` say.
pub(crate) fn prepare(path: &Path, options: &FileOptions) -> Result<PreparedFile, Error> {
    if let Some(complaint) = options.complaint() {
        return Err(refuse(path, &complaint));
    }
    let found = std::fs::metadata(path);
    if found.is_ok_and(|metadata| sys::is_block(&metadata)) {
        return set_up_block(path, options);
    }
    let (file, fresh) = open(path, options)?;
    let prepared = set_up(path, file, options);
    if fresh && prepared.is_err() {
        // A new file that cannot be used only takes space. An error of its removal would hide the first error.
        let _ = std::fs::remove_file(path);
    }
    prepared
}

fn set_up(path: &Path, file: File, options: &FileOptions) -> Result<PreparedFile, Error> {
    lock(path, &file, options.lock_wait)?;
    let capacity_bytes = settle_size(path, &file, options)?;
    let preallocated = options.preallocate && reserve(path, &file, capacity_bytes)?;
    let (direct, block_bytes) = settle_direct(path, &file, options.direct)?;
    check_capacity(path, capacity_bytes, block_bytes)?;
    Ok(PreparedFile { file, capacity_bytes, block_bytes, direct, preallocated, block: false })
}

/// Sets up a block device: opens it exclusively. Its space exists already, and the page cache is not used by default.
fn set_up_block(path: &Path, options: &FileOptions) -> Result<PreparedFile, Error> {
    let mut file = claim(path, options.lock_wait, options.read_only)?;
    let present = file.seek(SeekFrom::End(0)).map_err(|e| os(path, "reading its size", e))?;
    let whole = present - present % u64::from(SAFE_BLOCK_BYTES);
    let capacity_bytes = options.capacity_bytes.unwrap_or(whole);
    if capacity_bytes > present {
        let complaint = format!(
            "the device has {present} bytes but {capacity_bytes} were asked for, and it cannot grow"
        );
        return Err(refuse(path, &complaint));
    }
    if capacity_bytes == 0 {
        return Err(refuse(path, &format!("the device has {present} bytes, not even one block")));
    }
    let wanted = match options.direct {
        DirectIo::Auto => DirectIo::Required,
        wanted => wanted,
    };
    let (direct, block_bytes) = settle_direct(path, &file, wanted)?;
    check_capacity(path, capacity_bytes, block_bytes)?;
    Ok(PreparedFile { file, capacity_bytes, block_bytes, direct, preallocated: true, block: true })
}

/// Opens a block device exclusively: it is not mounted, not part of another device and not used by another cache, and
/// stays so while the file is open. The kernel treats a partition and its disk as one here. Waits at most `wait` for
/// it.
pub(crate) fn claim(path: &Path, wait: Duration, read_only: bool) -> Result<File, Error> {
    let opened = patiently(wait, || match sys::open_alone(path, read_only) {
        Err(error) if sys::is_busy(&error) => Ok(None),
        opened => opened.map(Some),
    });
    let Some(file) = opened.map_err(|error| os(path, "opening the device", error))? else {
        return Err(in_use(
            path,
            "it is mounted, part of another device, or another cache has it or its disk",
            wait,
            "give the cache a device or partition of its own",
        ));
    };
    let metadata = file.metadata().map_err(|e| os(path, "looking at the device", e))?;
    if !sys::is_block(&metadata) {
        return Err(refuse(path, "not a block device any more"));
    }
    Ok(file)
}

/// Opens the file. Also returns whether this call created it.
fn open(path: &Path, options: &FileOptions) -> Result<(File, bool), Error> {
    let create = options.create;
    let mut how = OpenOptions::new();
    how.read(true).write(!options.read_only);
    let file = match how.open(path) {
        Err(e) if create && e.kind() == io::ErrorKind::NotFound => create_private_file(path)
            .map(|file| (file, true))
            .map_err(|e| os(path, "creating the file", e)),
        opened => opened.map(|file| (file, false)).map_err(|e| os(path, "opening the file", e)),
    }?;
    let metadata = file.0.metadata().map_err(|e| os(path, "reading the file's size", e))?;
    if !metadata.is_file() {
        return Err(refuse(path, "neither a regular file nor a block device"));
    }
    Ok(file)
}

/// Locks the file. The lock belongs to the open file: it is released when the last descriptor is closed and, after a
/// crash, when the kernel has ended the requests that were in flight.
pub(crate) fn lock(path: &Path, file: &File, wait: Duration) -> Result<(), Error> {
    let locked = patiently(wait, || match file.try_lock() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match locked {
        Ok(Some(())) => Ok(()),
        Ok(None) => {
            Err(in_use(path, "another cache has it", wait, "give each cache a file of its own"))
        }
        Err(e) => Err(refuse(path, &format!("the file cannot be locked: {e}"))),
    }
}

/// Retries until `attempt` returns something or fails, or `wait` is over.
fn patiently<T>(
    wait: Duration,
    mut attempt: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    let begin = Instant::now();
    loop {
        let found = attempt()?;
        let waited = begin.elapsed();
        if found.is_some() || waited >= wait {
            return Ok(found);
        }
        std::thread::sleep(BETWEEN_ATTEMPTS.min(wait - waited));
    }
}

fn in_use(path: &Path, who: &str, waited: Duration, way_out: &str) -> Error {
    let seconds = waited.as_secs_f64();
    let complaint = format!("in use: {who}, still after {seconds} s (lock_wait); {way_out}");
    refuse(path, &complaint).of_kind(ErrorKind::InUse)
}

/// The capacity that the options ask for, or else the file's own. Afterwards the file is at least that large.
fn settle_size(path: &Path, file: &File, options: &FileOptions) -> Result<u64, Error> {
    let metadata = file.metadata().map_err(|e| os(path, "reading the file's size", e))?;
    let present = metadata.len();
    let Some(wanted) = options.capacity_bytes else {
        let whole = present - present % u64::from(SAFE_BLOCK_BYTES);
        if whole == 0 {
            let complaint = format!("the file has {present} bytes, not even one block");
            return Err(refuse(path, &complaint));
        }
        return Ok(whole);
    };
    if present >= wanted {
        return Ok(wanted);
    }
    if !options.create {
        return Err(refuse(
            path,
            &format!(
                "the file has {present} bytes but {wanted} were asked for; \
                 ask for less, or let it be created anew or grow"
            ),
        ));
    }
    check_content(path, file, present, wanted)?;
    if options.preallocate {
        check_space(path, file, wanted)?;
    }
    file.set_len(wanted).map_err(|e| os(path, &format!("growing it to {wanted} bytes"), e))?;
    Ok(wanted)
}

/// Refuses to grow a file that another program has written: its owner could not find its original length again.
fn check_content(path: &Path, mut file: &File, present: u64, wanted: u64) -> Result<(), Error> {
    let mut front = Vec::new();
    let read = file.take(label::FRONT_BYTES).read_to_end(&mut front);
    read.map_err(|e| os(path, "reading its beginning", e))?;
    file.rewind().map_err(|e| os(path, "going back to its beginning", e))?;
    if label::is_blank_or_ours(&front) {
        return Ok(());
    }
    let complaint = format!(
        "the file holds {present} bytes of another program and would have to grow to {wanted}; name \
         another file, or remove this one if you do not need it"
    );
    Err(refuse(path, &complaint))
}

/// Reserves the file's space. Returns `false` if the filesystem does not support that.
fn reserve(path: &Path, file: &File, bytes: u64) -> Result<bool, Error> {
    check_space(path, file, bytes)?;
    match sys::preallocate(file, bytes) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(e) => Err(os(path, &format!("reserving {bytes} bytes"), e)),
    }
}

/// Refuses a size that cannot fit. Trying it would fill the disk to its last block before failing.
fn check_space(path: &Path, file: &File, bytes: u64) -> Result<(), Error> {
    let Some((free, taken)) = sys::space(file) else { return Ok(()) };
    let missing = bytes.saturating_sub(taken);
    if missing <= free {
        return Ok(());
    }
    let context = format!(
        "file device {}: a file of {bytes} bytes needs {missing} more but its filesystem has \
         {free} free; ask for less or free space",
        path.display()
    );
    Err(Error::new(ErrorKind::NoSpace, context))
}

/// Switches direct I/O on, if wanted and allowed. Returns whether it is on, and the block size in bytes. A filesystem
/// may accept the flag and refuse the transfers, so a trial read checks it.
fn settle_direct(path: &Path, file: &File, wanted: DirectIo) -> Result<(bool, u32), Error> {
    // A block device has its own block size, which writes through the page cache must respect too.
    let logical = sys::logical_block_bytes(file);
    let buffered = (false, logical.unwrap_or(SECTOR_BYTES));
    if wanted == DirectIo::Off {
        return Ok(buffered);
    }
    let said = direct_block_bytes(file, logical);
    let tried = said.and_then(|block_bytes| {
        sys::set_direct(file, true)?;
        match try_read(file, block_bytes) {
            Err(_) if block_bytes < SAFE_BLOCK_BYTES => try_read(file, SAFE_BLOCK_BYTES),
            outcome => outcome,
        }
    });
    match tried {
        Ok(block_bytes) => Ok((true, block_bytes)),
        Err(e) if wanted == DirectIo::Required => {
            Err(refuse(path, &format!("direct I/O was required but is refused: {e}")))
        }
        Err(_) => {
            sys::set_direct(file, false).map_err(|e| os(path, "switching direct I/O off", e))?;
            Ok(buffered)
        }
    }
}

/// The block size that direct I/O on this file needs.
fn direct_block_bytes(file: &File, logical: Option<u32>) -> io::Result<u32> {
    if let Some(block_bytes) = logical {
        return Ok(block_bytes);
    }
    let Some(needs) = sys::direct_needs(file) else { return Ok(SAFE_BLOCK_BYTES) };
    if needs.offset_bytes == 0 {
        return Err(io::Error::other("the filesystem says that it has none"));
    }
    if needs.memory_bytes as usize > PAGE_BYTES || !needs.offset_bytes.is_power_of_two() {
        let sys::DirectNeeds { memory_bytes, offset_bytes } = needs;
        return Err(io::Error::other(format!(
            "it needs memory aligned to {memory_bytes} bytes and blocks of {offset_bytes}"
        )));
    }
    Ok(needs.offset_bytes.max(SECTOR_BYTES))
}

/// Reads the first `block_bytes` bytes.
fn try_read(file: &File, block_bytes: u32) -> io::Result<u32> {
    debug_assert!(block_bytes > 0, "a read of nothing proves nothing");
    let mut trial = IoBuffer::zeroed(block_bytes as usize);
    sys::read_at(file, trial.as_mut_slice(), 0).map(|_| block_bytes)
}

fn check_capacity(path: &Path, capacity_bytes: u64, block_bytes: u32) -> Result<(), Error> {
    let block = u64::from(block_bytes);
    if capacity_bytes.is_multiple_of(block) {
        return Ok(());
    }
    let whole = (capacity_bytes - capacity_bytes % block).max(block);
    let complaint = format!(
        "capacity_bytes of {capacity_bytes}: must be a multiple of the {block}-byte block that it has here; \
         ask for {whole}"
    );
    Err(refuse(path, &complaint))
}

fn refuse(path: &Path, complaint: &str) -> Error {
    Error::new(ErrorKind::Setup, format!("file device {}: {complaint}", path.display()))
}

/// A full disk stays [`ErrorKind::NoSpace`]; other errors here become [`ErrorKind::Setup`].
fn os(path: &Path, doing: &str, source: io::Error) -> Error {
    let context = format!("file device {}: {doing}", path.display());
    match Error::from_os(context, source) {
        error if matches!(error.kind(), ErrorKind::Io | ErrorKind::Gone) => {
            Error::new(ErrorKind::Setup, error.to_string())
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_of_half_a_block_is_refused_with_what_would_do() {
        let check = |capacity, block| check_capacity(Path::new("/cache"), capacity, block);
        assert!(check(8192, 4096).is_ok() && check(4608, 512).is_ok());
        let refused = check(4608, 4096).unwrap_err().to_string();
        assert!(refused.contains("capacity_bytes of 4608: must be a multiple of the 4096-byte"));
        assert!(refused.ends_with("ask for 4096"), "{refused}");
        assert!(check(512, 4096).unwrap_err().to_string().ends_with("ask for 4096"));
    }
}
