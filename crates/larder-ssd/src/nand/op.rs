//! What a firmware does to dies, in the terms of whoever books it under a clock. Each firmware
//! yields these; [`Media`](crate::timed::Media) knows nothing else of it.

use super::index::DieIndex;

/// One operation of a die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhysicalOp {
    /// A row of planes is sensed for the host, which waits for `bytes` of it.
    HostRead {
        /// Where.
        die: DieIndex,
        /// Bytes that go through the channel.
        bytes: u64,
    },
    /// A row of planes is sensed for the firmware, which moves data. It goes in the order of
    /// programs and erases.
    FirmwareRead {
        /// Where.
        die: DieIndex,
        /// Bytes that go through the channel.
        bytes: u64,
    },
    /// A stripe is programmed: what the die programs at once, or less of it.
    Program {
        /// Where.
        die: DieIndex,
        /// Bytes that go through the channel.
        bytes: u64,
        /// The host waits for it, and reads do not suspend it.
        urgent: bool,
    },
    /// Blocks are erased.
    Erase {
        /// Where.
        die: DieIndex,
        /// How many, one after the other.
        blocks: u64,
        /// Programs that come later do not wait for the whole of it: it is done in slices between
        /// them, and not at all while there are none.
        between_programs: bool,
    },
}

impl PhysicalOp {
    /// The die that does it.
    pub fn die(self) -> DieIndex {
        match self {
            Self::HostRead { die, .. }
            | Self::FirmwareRead { die, .. }
            | Self::Program { die, .. }
            | Self::Erase { die, .. } => die,
        }
    }
}
