//! The owner of a device. The driver stores 64 bits of the server as long as the device exists. So a restarted server
//! recognizes its own device, and leaves others alone.

use xxhash_rust::xxh3::xxh3_64;

/// In the upper 16 bits: "LR". Documented in docs/formats.md.
const MARK: u64 = 0x4c52;
const NAME_BITS: u32 = 48;

/// The owner of a device: one export of one cache, or one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// The owner with a name that identifies the export permanently: the UUID of a cache and the number of a core, or
    /// the path of a file.
    pub fn named(name: &str) -> Self {
        Self(MARK << NAME_BITS | xxh3_64(name.as_bytes()) & ((1 << NAME_BITS) - 1))
    }

    /// The owner in the flags that the driver stores; `None` if it is not Larder.
    pub(super) fn of(flags: u64) -> Option<Self> {
        (flags >> NAME_BITS == MARK).then_some(Self(flags))
    }

    /// The flags for the driver.
    pub(super) fn flags(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_told_apart_and_known_again() {
        let [one, other] = ["cache x core 0", "cache x core 1"].map(Owner::named);
        assert_ne!(one, other);
        assert_eq!(Owner::of(one.flags()), Some(one));
        // It must not change: devices outlive the program that made them.
        assert_eq!(Owner::named("pantry").flags(), 0x4c52_1d2d_3d57_7698);
        for of_others in [0, 1, u64::MAX, one.flags() ^ 1 << 63] {
            assert_eq!(Owner::of(of_others), None, "{of_others:x}");
        }
    }
}
