//! Names of devices on the command line.

use std::fmt;

use crate::args::numbers::size;

/// A device that can be exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetArg {
    /// A file or a device, as in `larder_device::opening`.
    Device(larder_device::Target),
    /// Memory of this number of bytes.
    Memory(u64),
    /// A simulated SSD of this number of bytes.
    Model(u64),
}

impl fmt::Display for TargetArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(target) => target.fmt(f),
            Self::Memory(bytes) => write!(f, "memory:{bytes}"),
            Self::Model(bytes) => write!(f, "model:{bytes}"),
        }
    }
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
