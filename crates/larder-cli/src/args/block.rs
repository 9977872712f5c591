//! What `larder block` can be asked.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::size;

/// Block devices: a drive, a file or a model, exported to the system.
#[derive(Debug, Subcommand)]
pub(crate) enum BlockCommand {
    Export(ExportArgs),
}

/// Export a device by NBD, the protocol of network block devices, until SIGINT or SIGTERM.
///
/// QEMU, libnbd's tools, fio and the kernel's nbd-client use such a device as a disk; clients may have several
/// connections to it. Requests need not be multiples of the device's block. Told to end, it accepts and reads nothing
/// more, answers what clients have asked for, flushes the device and ends; told a second time, it ends at once.
///
/// TARGET is a file or a device: PATH, file:PATH, block:PATH or nvme:PATH, as elsewhere; what is on it is kept. Or it
/// is memory that ends with the command: memory:SIZE, or model:SIZE for a simulated SSD.
///
/// There is no encryption and no password: whoever reaches the socket reads and writes the device. Who may open a
/// Unix socket, its directory says; a TCP address that other machines reach needs a network that can be trusted.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("place").required(true).multiple(true).args(["unix", "tcp"])))]
#[command(after_help = "EXAMPLES:
  larder block export disk.img --unix /run/larder.sock
  larder block export block:/dev/nvme0n1 --tcp 127.0.0.1:10809 --name pantry --read-only
  larder block export model:1G --unix /tmp/m.sock          a simulated SSD

  nbdinfo 'nbd+unix:///?socket=/run/larder.sock'           what it is
  nbdcopy disk.raw 'nbd+unix:///?socket=/run/larder.sock'  fills it
  qemu-img info nbd://127.0.0.1:10809/pantry
  fio --name=t --ioengine=nbd --uri='nbd+unix:///?socket=/run/larder.sock' --rw=randread
  nbd-client -unix /run/larder.sock /dev/nbd0              a disk of the kernel's (modprobe nbd)")]
pub(crate) struct ExportArgs {
    /// What is exported
    pub(crate) target: TargetArg,

    /// Unix socket to listen on; an old one that nobody serves is replaced
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Option<PathBuf>,

    /// Address to listen on, such as 127.0.0.1:10809; port 0 takes any that is free
    #[arg(long, value_name = "ADDR")]
    pub(crate) tcp: Option<SocketAddr>,

    /// Name of the export; who asks for none gets it too
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) name: String,

    /// Refuse changes
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Threads; each connection belongs to one of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,

    /// How they wait for sockets: io_uring, with epoll where the kernel refuses it, or epoll
    #[arg(long, value_name = "HOW", default_value = "io_uring", value_parser = super::sockets)]
    pub(crate) sockets: larder_server::SocketBackend,

    /// Connections at a time; each may take about 64 MiB of memory
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
}

/// What can be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetArg {
    /// A file or a device, as `larder_device::opening` has it.
    Device(larder_device::Target),
    /// So many bytes of memory.
    Memory(u64),
    /// A simulated SSD of so many bytes.
    Model(u64),
}

impl std::str::FromStr for TargetArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let made = |bytes: &str| match size(bytes)? {
            bytes if bytes > 0 && bytes.is_multiple_of(4096) => Ok(bytes),
            bytes => Err(format!("{bytes} bytes: must be a positive multiple of 4096")),
        };
        if let Some(bytes) = text.strip_prefix("memory:") {
            return made(bytes).map(Self::Memory);
        }
        if let Some(bytes) = text.strip_prefix("model:") {
            return made(bytes).map(Self::Model);
        }
        text.parse().map(Self::Device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_devices_or_made() {
        let parse = |text: &str| text.parse::<TargetArg>();
        assert_eq!(parse("memory:64M"), Ok(TargetArg::Memory(64 << 20)));
        assert_eq!(parse("model:1G"), Ok(TargetArg::Model(1 << 30)));
        assert_eq!(parse("block:/dev/x").unwrap(), parse("block:/dev/x").unwrap());
        assert!(matches!(parse("disk.img"), Ok(TargetArg::Device(_))));
        for wrong in ["", "memory:", "memory:0", "model:1000", "model:x", "file:"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
