//! Commands through the kernel: `NVME_IOCTL_ADMIN_CMD` and `NVME_IOCTL_IO_CMD`
//! (`linux/nvme_ioctl.h`), both with `struct nvme_passthru_cmd` of 72 bytes.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::Path;

use larder_ssd::nvme::command::encode_uring;
use larder_ssd::nvme::{Command, Status};
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use super::commands::{CommandError, Commands};

const COMMAND_BYTES: usize = 72;
/// Offset of dword 0 of the completion.
const RESULT_AT: usize = 68;

/// `_IOWR('N', …, struct nvme_passthru_cmd)`.
const ADMIN: Opcode = ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x41);
const IO: Opcode = ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x43);

/// `BLKDISCARD`, `_IO(0x12, 119)` (`linux/fs.h`).
const DISCARD: Opcode = ioctl::opcode::none(0x12, 119);

/// Tells a block device that a range of bytes is no longer needed. The range may then read as zeros, or as before.
///
/// # Errors
/// Those of the operating system; [`io::ErrorKind::Unsupported`] if the device cannot discard.
pub fn discard(device: &File, range: Range<u64>) -> io::Result<()> {
    let bytes = range.end.saturating_sub(range.start);
    // SAFETY: `DISCARD` reads two 64-bit numbers, first byte and length, which is what it gets, and writes nothing to
    // this process's memory.
    let request = unsafe { ioctl::Setter::<DISCARD, [u64; 2]>::new([range.start, bytes]) };
    // SAFETY: as above. The change of the device's content is what the caller asks for.
    unsafe { ioctl::ioctl(device, request) }.map_err(io::Error::from)
}

/// A device node that takes commands: of a controller (`/dev/nvme0`), which takes only admin commands, or of a
/// namespace (`/dev/ng0n1`, `/dev/nvme0n1`).
#[derive(Debug)]
pub struct DriveFile {
    file: File,
}

impl DriveFile {
    /// Opens a node, for commands that change nothing or, with `write`, for all commands.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(path: impl AsRef<Path>, write: bool) -> io::Result<Self> {
        OpenOptions::new().read(true).write(write).open(path).map(|file| Self { file })
    }

    fn send(
        &self,
        opcode: Opcode,
        command: &Command,
        data: &mut [u8],
    ) -> Result<u32, CommandError> {
        let bytes =
            u32::try_from(data.len()).map_err(|_| CommandError::Malformed("data length"))?;
        let address =
            if data.is_empty() { 0 } else { data.as_mut_ptr().expose_provenance() as u64 };
        let request = IoctlRequest { opcode, entry: encode_uring(command, address, bytes) };
        // SAFETY: `opcode` is one of the two above, which take the 72 bytes of an `IoctlRequest`. The kernel reads and
        // writes at most `bytes` at `address`, which `data` holds for the whole call.
        let (status, entry) = unsafe { ioctl::ioctl(&self.file, request) }
            .map_err(|error| CommandError::Os(error.into()))?;
        let status = u16::try_from(status).map_err(|_| CommandError::Malformed("status"))?;
        match Status::from_bits(status) {
            Status::Success => {
                let result = entry[RESULT_AT..].first_chunk().expect("72 bytes end behind it");
                Ok(u32::from_le_bytes(*result))
            }
            status => Err(CommandError::Status(status)),
        }
    }
}

impl Commands for DriveFile {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.send(ADMIN, command, data)
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.send(IO, command, data)
    }
}

struct IoctlRequest {
    opcode: Opcode,
    entry: [u8; COMMAND_BYTES],
}

// SAFETY: the opcodes expect a pointer to 72 bytes that they read and write, which `as_ptr` gives. The kernel changes
// the result field, for which any number is valid.
unsafe impl Ioctl for IoctlRequest {
    /// The return value of the call (the NVMe status), and the entry with its result.
    type Output = (IoctlOutput, [u8; COMMAND_BYTES]);

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.entry.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        output: IoctlOutput,
        entry: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        // SAFETY: the pointer is that of `as_ptr`.
        let entry = unsafe { *entry.cast::<[u8; COMMAND_BYTES]>() };
        Ok((output, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_opcodes_are_those_of_the_kernel() {
        assert_eq!((ADMIN, IO), (0xC048_4E41, 0xC048_4E43));
        assert_eq!(DISCARD, 0x1277);
    }

    #[test]
    fn a_file_cannot_be_discarded() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        assert!(discard(&file, 0..4096).is_err());
    }

    #[test]
    fn a_file_that_is_no_drive_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let drive = DriveFile::open(file.path(), false).unwrap();
        let error = drive.admin(&Command::identify(0, 1), &mut [0; 4096]).unwrap_err();
        assert!(matches!(error, CommandError::Os(_)), "{error}");
    }
}
