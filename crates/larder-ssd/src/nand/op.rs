//! The operations of a firmware on dies, in the form that a clock needs to charge their time. Each firmware produces
//! these; [`Media`](crate::timed::Media) needs nothing else from it.

use super::index::DieIndex;

/// One operation of a die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhysicalOp {
    /// Senses a row of planes for the host, which waits for `bytes` of it.
    HostRead {
        /// The die.
        die: DieIndex,
        /// Bytes that go through the channel.
        bytes: u64,
    },
    /// Senses a row of planes for the firmware, which moves data. It is ordered with programs and erases.
    FirmwareRead {
        /// The die.
        die: DieIndex,
        /// Bytes that go through the channel.
        bytes: u64,
    },
    /// Programs a stripe (the unit that the die programs at once) or a part of it.
    Program {
        /// The die.
        die: DieIndex,
        /// Bytes that go through the channel.
        bytes: u64,
        /// Whether the host waits for it; then reads do not suspend it.
        urgent: bool,
    },
    /// Erases blocks.
    Erase {
        /// The die.
        die: DieIndex,
        /// Number of blocks, one after the other.
        blocks: u64,
        /// Later programs do not wait for the whole erase: it runs in slices between them, and not at all while there
        /// are none.
        between_programs: bool,
    },
}

impl PhysicalOp {
    /// The die that performs it.
    pub fn die(self) -> DieIndex {
        match self {
            Self::HostRead { die, .. }
            | Self::FirmwareRead { die, .. }
            | Self::Program { die, .. }
            | Self::Erase { die, .. } => die,
        }
    }
}
