//! Command status: status code type and status code (NVMe Base 2.1, "Status Field").

use std::fmt;

/// A status that a drive can report. Generic command statuses (type 0) unless named otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// 00h.
    Success,
    /// 01h: the opcode is unknown.
    InvalidOpcode,
    /// 02h: a field has an invalid value.
    InvalidField,
    /// 04h: the data could not be transferred.
    DataTransferError,
    /// 06h: the drive failed.
    InternalError,
    /// 0Bh: the namespace or its format is invalid.
    InvalidNamespace,
    /// 0Ch: the command is invalid in the current state.
    CommandSequenceError,
    /// 20h: the namespace is read-only.
    NamespaceWriteProtected,
    /// 29h: Flexible Data Placement is not enabled.
    FdpDisabled,
    /// 2Ah: the list of placement handles is invalid.
    InvalidPlacementHandleList,
    /// 80h: a logical block is beyond the namespace.
    LbaOutOfRange,
    /// 81h: there is no capacity left.
    CapacityExceeded,
    /// Type 1, 09h: the log page is unknown.
    InvalidLogPage,
    /// Type 1, 0Ah: the drive does not have the LBA format, or it is not allowed here.
    InvalidFormat,
    /// Type 1, 18h: the namespace is already attached.
    NamespaceAttached,
    /// Any other status, unchanged.
    Other {
        /// Status code type.
        kind: u8,
        /// Status code.
        code: u8,
    },
}

const KNOWN: [(Status, u8, u8); 15] = [
    (Status::Success, 0, 0x00),
    (Status::InvalidOpcode, 0, 0x01),
    (Status::InvalidField, 0, 0x02),
    (Status::DataTransferError, 0, 0x04),
    (Status::InternalError, 0, 0x06),
    (Status::InvalidNamespace, 0, 0x0b),
    (Status::CommandSequenceError, 0, 0x0c),
    (Status::NamespaceWriteProtected, 0, 0x20),
    (Status::FdpDisabled, 0, 0x29),
    (Status::InvalidPlacementHandleList, 0, 0x2a),
    (Status::LbaOutOfRange, 0, 0x80),
    (Status::CapacityExceeded, 0, 0x81),
    (Status::InvalidLogPage, 1, 0x09),
    (Status::InvalidFormat, 1, 0x0a),
    (Status::NamespaceAttached, 1, 0x18),
];

impl Status {
    /// Status code type (3 bits) and status code (8 bits), as in bits 10:0 of the status field.
    pub fn to_bits(self) -> u16 {
        let known = KNOWN.iter().find(|(status, ..)| *status == self);
        let (kind, code) = match (self, known) {
            (Self::Other { kind, code }, _) => (kind, code),
            (_, Some((_, kind, code))) => (*kind, *code),
            (_, None) => (0, 0x06),
        };
        u16::from(kind & 7) << 8 | u16::from(code)
    }

    /// The status with these bits; higher bits (retry, more) are ignored.
    pub fn from_bits(bits: u16) -> Self {
        let [code, high] = bits.to_le_bytes();
        let kind = high & 7;
        let known = KNOWN.iter().find(|(_, k, c)| (*k, *c) == (kind, code));
        known.map_or(Self::Other { kind, code }, |(status, ..)| *status)
    }

    /// Whether the command succeeded.
    pub fn is_success(self) -> bool {
        self == Self::Success
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Success => "success",
            Self::InvalidOpcode => "invalid command opcode",
            Self::InvalidField => "invalid field in command",
            Self::DataTransferError => "data transfer error",
            Self::InternalError => "internal error",
            Self::InvalidNamespace => "invalid namespace or format",
            Self::CommandSequenceError => "command sequence error",
            Self::NamespaceWriteProtected => "namespace is write protected",
            Self::FdpDisabled => "FDP disabled",
            Self::InvalidPlacementHandleList => "invalid placement handle list",
            Self::LbaOutOfRange => "LBA out of range",
            Self::CapacityExceeded => "capacity exceeded",
            Self::InvalidLogPage => "invalid log page",
            Self::InvalidFormat => "invalid format",
            Self::NamespaceAttached => "namespace is attached already",
            Self::Other { .. } => "status",
        };
        let bits = self.to_bits();
        write!(f, "{name} (SCT {:x}h, SC {:02x}h)", bits >> 8, bits & 0xff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_names_agree() {
        for bits in 0..0x800 {
            assert_eq!(Status::from_bits(bits).to_bits(), bits);
        }
        assert_eq!(Status::from_bits(0x4029), Status::FdpDisabled, "higher bits do not count");
        assert_eq!(Status::FdpDisabled.to_string(), "FDP disabled (SCT 0h, SC 29h)");
    }
}
