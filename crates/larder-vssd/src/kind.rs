//! The request of a tenant, and the names of vSSDs and blocks.

use larder_ssd::raw::BlockTag;
use larder_ssd::{Error, ErrorKind};

/// Longest name of a vSSD's owner, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// A virtual SSD. Numbers are not reused, so the name of a destroyed vSSD stays invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VssdId(pub u32);

impl VssdId {
    /// Number of vSSDs that an array can ever create.
    pub const COUNT: u32 = 1 << 24;
}

/// A logical block: a superblock of one vSSD. Numbers are not reused.
///
/// ```text
///  63       40 39                  0
///  ├──────────┼────────────────────┤
///  │ vSSD     │ block of that vSSD │
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalBlock(u64);

impl LogicalBlock {
    pub(super) fn new(vssd: VssdId, block: u64) -> Self {
        assert!(vssd.0 < VssdId::COUNT && block < BlockTag::BLOCKS, "block {block} of {vssd:?}");
        Self(u64::from(vssd.0) << 40 | block)
    }

    /// The block with this number. It may not exist; an operation on it then fails.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number, for storage.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The vSSD of the block.
    pub fn vssd(self) -> VssdId {
        VssdId(u32::try_from(self.0 >> 40).unwrap_or(u32::MAX))
    }

    /// The number within the vSSD.
    pub(super) fn block(self) -> u64 {
        self.0 & (BlockTag::BLOCKS - 1)
    }
}

/// What a tenant shares with others (FlashBlox, FAST'17, §3.1 to 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Shares nothing of the drive: whole channels.
    Channel,
    /// Shares channels: whole dies.
    Die,
    /// Shares dies: quarters of them, *soft planes*. The caller that books operations gives each tenant of a die its
    /// share of the die's time.
    Software {
        /// Share of the time, relative to the weights of the others; at least 1.
        weight: u32,
    },
    /// Shares dies, without any division of their time.
    None,
}

impl Isolation {
    /// Its name in settings and commands: "channel", "die", "software" or "none".
    pub fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Die => "die",
            Self::Software { .. } => "software",
            Self::None => "none",
        }
    }

    /// The name of the unit of this isolation.
    pub(super) fn unit_name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Die => "die",
            Self::Software { .. } | Self::None => "soft plane",
        }
    }
}

/// Throughput that the administrator promises for each kind of unit, in MB/s (10^6 bytes). It determines how many units
/// a throughput needs. FlashBlox §3.1 has such a map for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughputs {
    /// MB/s of a channel.
    pub channel_mb_s: u32,
    /// MB/s of a die.
    pub die_mb_s: u32,
    /// MB/s of a quarter of a die.
    pub soft_plane_mb_s: u32,
}

impl Throughputs {
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { channel_mb_s, die_mb_s, soft_plane_mb_s } = *self;
        if [channel_mb_s, die_mb_s, soft_plane_mb_s].contains(&0) {
            let message = format!("{self:?}: each unit has some throughput, at least 1 MB/s");
            return Err(Error::new(ErrorKind::Config, message));
        }
        Ok(())
    }

    /// MB/s of a unit of this isolation.
    pub fn of(&self, isolation: Isolation) -> u32 {
        match isolation {
            Isolation::Channel => self.channel_mb_s,
            Isolation::Die => self.die_mb_s,
            Isolation::Software { .. } | Isolation::None => self.soft_plane_mb_s,
        }
    }
}

/// The request of a tenant. It gets enough units for both its throughput and its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What the tenant shares.
    pub isolation: Isolation,
    /// Throughput in MB/s; 0 for no requirement.
    pub mb_s: u32,
    /// Capacity in bytes; at least 1.
    pub bytes: u64,
}
