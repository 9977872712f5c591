//! What a tenant asks for, and the names of what it gets.

use crate::error::{Error, ErrorKind};
use crate::raw::BlockTag;

/// A virtual SSD. Numbers are not used again, so that a name that outlives its vSSD names nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VssdId(pub u32);

impl VssdId {
    /// Numbers of vSSDs that there can ever be.
    pub const COUNT: u32 = 1 << 24;
}

/// A logical block: a superblock of one vSSD between its allocation and its end. Numbers are not used
/// again.
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

    /// The block of this number, which may not exist: whoever uses it is told.
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number, to keep.
    pub fn number(self) -> u64 {
        self.0
    }

    /// The vSSD that it is of.
    pub fn vssd(self) -> VssdId {
        VssdId(u32::try_from(self.0 >> 40).unwrap_or(u32::MAX))
    }

    /// Its number in that.
    pub(super) fn block(self) -> u64 {
        self.0 & (BlockTag::BLOCKS - 1)
    }
}

/// What a tenant shares with others (FlashBlox, FAST'17, §3.1 to 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Nothing of the drive: whole channels.
    Channel,
    /// Channels: whole dies.
    Die,
    /// Dies: quarters of them, *soft planes*. Whoever books operations gives each tenant of a die its
    /// share of the die's time.
    Software {
        /// Share of the time, beside the weights of the others; at least 1.
        weight: u32,
    },
    /// Dies, and nobody divides their time.
    None,
}

impl Isolation {
    /// What the unit that it is given in is called.
    pub(super) fn unit_name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Die => "die",
            Self::Software { .. } | Self::None => "soft plane",
        }
    }
}

/// What the administrator promises of each kind of unit, in MB/s (10^6 bytes): what units a throughput
/// takes. FlashBlox §3.1 has such a map for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughputs {
    /// Of a channel.
    pub channel_mb_s: u32,
    /// Of a die.
    pub die_mb_s: u32,
    /// Of a quarter of a die.
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

    /// MB/s of a unit for tenants of such isolation.
    pub(super) fn of(&self, isolation: Isolation) -> u32 {
        match isolation {
            Isolation::Channel => self.channel_mb_s,
            Isolation::Die => self.die_mb_s,
            Isolation::Software { .. } | Isolation::None => self.soft_plane_mb_s,
        }
    }
}

/// What a tenant asks for. It gets the most units that one of them takes: throughput or capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What it shares.
    pub isolation: Isolation,
    /// Throughput, in MB/s; 0 asks for none in particular.
    pub mb_s: u32,
    /// Capacity in bytes; at least 1.
    pub bytes: u64,
}
