//! Arguments of `larder vssd`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::isolation::KindArg;
use super::{positive_size, size};

/// Virtual SSDs: tenants on channels and dies of their own, in a model image that outlives the command.
///
/// An image is a file with drives of the model and everything on their media. A vSSD consists of units: whole channels,
/// whole dies, or quarters of dies that it shares with others. `exercise` lets a tenant write, `wear` shows how worn
/// the channels are, and `swap` exchanges the contents of two channels.
///
/// A command that is killed leaves the image as a power loss leaves a drive: what it had acknowledged is there.
#[derive(Debug, Subcommand)]
#[command(after_help = "EXAMPLES:
  larder vssd format --image m.img --channels 8 --dies 2 --endurance 100
  larder vssd create --image m.img --isolation channel --capacity 100M
  larder vssd create --image m.img --isolation software --weight 3 --mb-s 20
  larder vssd list --image m.img
  larder vssd list --device /dev/nvme0 /dev/sdb        how far real drives keep tenants apart
  larder vssd exercise --image m.img 0 --bytes 2G      writes and frees blocks of vSSD 0
  larder vssd wear --image m.img                       which vSSDs are on which dies, and how worn these are
  larder vssd swap --image m.img                       what the pair rule would exchange
  larder vssd swap --image m.img --yes                 does it, block by block; Ctrl-C and go on later
  larder vssd swap --image m.img --channels 0,3 --yes  exchanges these two
  larder vssd mount --image m.img 0 /mnt               files on vSSD 0, until `umount /mnt` or Ctrl-C
  larder vssd fsck --image m.img
  larder vssd delete --image m.img 0 --destroy-data")]
pub(crate) enum VssdCommand {
    Format(FormatArgs),
    Create(CreateArgs),
    List(ListArgs),
    Grow(GrowArgs),
    Delete(DeleteArgs),
    Wear(LookArgs),
    Swap(SwapArgs),
    Exercise(ExerciseArgs),
    #[cfg(target_os = "linux")]
    Mount(MountArgs),
    /// Check an image: every page of every vSSD, and the file systems on them.
    Fsck(LookArgs),
}

/// Make an image of fresh drives.
#[derive(Debug, Args)]
pub(crate) struct FormatArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Number of drives, all alike
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) drives: u32,

    /// Channels of each drive
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) channels: u32,

    /// Dies of each channel
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) dies: u32,

    /// Blocks of each die; a hundredth of them, at least one, are spare
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub(crate) blocks: u32,

    /// Size of a block, which is erased as a whole
    #[arg(long, value_name = "SIZE", default_value = "512K", value_parser = positive_size)]
    pub(crate) block_size: u64,

    /// Bytes that a die programs at once
    #[arg(long, value_name = "SIZE", default_value = "32K", value_parser = positive_size)]
    pub(crate) stripe: u64,

    /// Erases that a block is rated for; it lasts at most twice as long. 0: it never fails
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub(crate) endurance: u32,

    /// Guaranteed throughput of a channel, in MB/s
    #[arg(long, value_name = "MB/S", default_value_t = 400)]
    pub(crate) channel_mb_s: u32,

    /// Guaranteed throughput of a die [default: its part of the channel's]
    #[arg(long, value_name = "MB/S")]
    pub(crate) die_mb_s: Option<u32>,

    /// Guaranteed throughput of a quarter of a die [default: a quarter of the die's]
    #[arg(long, value_name = "MB/S")]
    pub(crate) quarter_mb_s: Option<u32>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Make a vSSD with as many units as its throughput and its capacity need.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// What it shares with others
    #[arg(long, value_enum)]
    pub(crate) isolation: KindArg,

    /// Name of its owner, which has no other vSSD here; a tenant of `larder serve` finds its vSSD by it
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) name: String,

    /// Weight of the tenant on its dies: its share of their time, relative to the others, with --isolation software
    /// [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) weight: Option<u32>,

    /// Throughput to ask for, in MB/s; 0: none in particular
    #[arg(long, value_name = "MB/S", default_value_t = 0)]
    pub(crate) mb_s: u32,

    /// Channels, dies or quarters of dies to ask for [default: what throughput and capacity need]
    #[arg(long, value_name = "N", conflicts_with = "mb_s")]
    pub(crate) units: Option<u32>,

    /// Bytes to ask for [default: what the throughput needs, at least a unit]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) capacity: Option<u64>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// List the vSSDs of an image, or what real drives offer instead.
///
/// With --device it lists for each path how tenants can be isolated there, best first: channels of a model image,
/// zones, reclaim groups of FDP, namespaces, or ranges of addresses; and what could not be found out. Nothing is
/// written.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The model image
    #[arg(long, value_name = "FILE")]
    #[cfg_attr(
        target_os = "linux",
        arg(required_unless_present = "device", conflicts_with = "device")
    )]
    #[cfg_attr(not(target_os = "linux"), arg(required = true))]
    pub(crate) image: Option<PathBuf>,

    /// Images, files, block devices, or controllers of NVMe drives
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(crate) device: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Add channels, dies or quarters of dies to a vSSD. Its blocks stay where they are.
///
/// A vSSD grows by as many units as it was made with, or a multiple of them, up to 16 times that. If a server or a
/// mount has the image, that process does it while its tenants go on; the vSSD's own user has the new blocks when it
/// opens it the next time.
#[derive(Debug, Args)]
pub(crate) struct GrowArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Number of the vSSD
    #[arg(value_name = "VSSD")]
    pub(crate) vssd: u32,

    /// Units to add
    #[arg(long, value_name = "N")]
    pub(crate) units: u32,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Delete a vSSD, and free its units for others.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Number of the vSSD
    #[arg(value_name = "VSSD")]
    pub(crate) vssd: u32,

    /// Accept the loss of the blocks that it still has
    #[arg(long)]
    pub(crate) destroy_data: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Exchange the contents of two channels, so that they wear out together.
///
/// Shows which pair gains most, by the pair rule, and whether its turn has come. With --yes it exchanges them, one part
/// of a block at a time. The next --yes continues an exchange that was interrupted.
///
/// If the image is in use, by a mount for example, the process that has it exchanges them, at its own pace; `larder
/// vssd wear` shows how far it is.
#[derive(Debug, Args)]
pub(crate) struct SwapArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Number of the drive
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) drive: u32,

    /// Exchange these two, whatever the rule says
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        num_args = 1..=2,
        conflicts_with = "back"
    )]
    pub(crate) channels: Vec<u32>,

    /// Give up the exchange that was begun, and move back what has moved
    #[arg(long, requires = "yes")]
    pub(crate) back: bool,

    /// Carry it out, instead of only showing it
    #[arg(long)]
    pub(crate) yes: bool,

    /// Stop all levelling of the image, until --resume
    #[arg(long, conflicts_with_all = ["channels", "back", "yes", "resume"])]
    pub(crate) pause: bool,

    /// Go on with levelling
    #[arg(long, conflicts_with_all = ["channels", "back", "yes"])]
    pub(crate) resume: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Let a tenant write: fill blocks, read them back and compare, and free the oldest.
#[derive(Debug, Args)]
pub(crate) struct ExerciseArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Number of the vSSD
    #[arg(value_name = "VSSD")]
    pub(crate) vssd: u32,

    /// Bytes to write
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = positive_size)]
    pub(crate) bytes: u64,

    /// Bytes of an append; whole pages of 4096
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = positive_size)]
    pub(crate) append: u64,

    /// Blocks to keep, in percent of those that the vSSD can have
    #[arg(long, value_name = "PCT", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) keep: u64,

    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Put every second block on dies of the other vSSDs, which lend what they have free: such blocks may vanish
    #[arg(long)]
    pub(crate) borrow: bool,

    #[command(flatten)]
    pub(crate) levelling: LevellingArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Mount the file system of a vSSD, until it is unmounted, or until SIGINT or SIGTERM.
///
/// A vSSD without blocks gets a new file system first. At a normal end everything is durable. If the process is killed,
/// it is as after a loss of power: what was synced is there.
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct MountArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    /// Number of the vSSD
    #[arg(value_name = "VSSD")]
    pub(crate) vssd: u32,

    /// Where to mount it
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Make a new file system, whatever the vSSD holds
    #[arg(long, conflicts_with_all = ["read_only", "check"])]
    pub(crate) format: bool,

    /// Check the whole file system first, and mount it only if nothing is wrong
    #[arg(long)]
    pub(crate) check: bool,

    /// Refuse changes
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Let users other than the one that mounts it use it; device files and set-user-ID bits on it take effect
    #[arg(long)]
    pub(crate) for_all: bool,

    #[command(flatten)]
    pub(crate) levelling: LevellingArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Look at an image, without changing anything that a tenant can see.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub(crate) image: ImageArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Wear levelling while the image is in use.
#[derive(Debug, Args)]
pub(crate) struct LevellingArgs {
    /// Do not exchange channels so that they wear out together
    #[arg(long)]
    pub(crate) no_levelling: bool,

    /// Bytes a second that an exchange copies into each channel. It goes down to an eighth of this while tenants notice
    /// it, and up to four times this while they do not
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = positive_size)]
    pub(crate) pace: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ImageArgs {
    /// The model image
    #[arg(long, value_name = "FILE")]
    pub(crate) image: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write the result as JSON to FILE, or to standard output for "-"
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
