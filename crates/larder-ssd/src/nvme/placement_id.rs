//! Placement identifiers: reclaim group and placement handle in one number.
//!
//! The identifier has 16 bits; the reclaim group takes the upper RGIF of them (RGIF: reclaim group
//! identifier format, 0 to 15, from the FDP configuration). A placement handle is an index into the
//! namespace's list of reclaim unit handles, not a reclaim unit handle itself.

/// Bits needed for `groups` reclaim groups (1 or more): the smallest RGIF for them.
pub fn rgif_for(groups: u16) -> u8 {
    let bits = u16::BITS - groups.saturating_sub(1).leading_zeros();
    u8::try_from(bits).unwrap_or(u8::MAX)
}

/// Reclaim group and placement handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PlacementId {
    /// Reclaim group.
    pub group: u16,
    /// Index into the namespace's list of handles.
    pub handle: u16,
}

impl PlacementId {
    /// Encodes the identifier. `None` if group or handle need more bits than `rgif` leaves for them.
    pub fn encode(self, rgif: u8) -> Option<u16> {
        let handle_bits = handle_bits(rgif)?;
        let group = u32::from(self.group) << handle_bits;
        let fits = group <= 0xffff && u32::from(self.handle) < 1 << handle_bits;
        fits.then(|| u16::try_from(group).ok().map(|group| group | self.handle))?
    }

    /// Decodes an identifier. `None` for an impossible `rgif`.
    pub fn decode(pid: u16, rgif: u8) -> Option<Self> {
        let handle_bits = handle_bits(rgif)?;
        let (group, mask) = (u32::from(pid) >> handle_bits, (1_u32 << handle_bits) - 1);
        Some(Self {
            group: u16::try_from(group).ok()?,
            handle: u16::try_from(u32::from(pid) & mask).ok()?,
        })
    }
}

fn handle_bits(rgif: u8) -> Option<u32> {
    (rgif <= 15).then(|| 16 - u32::from(rgif))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_come_back() {
        for rgif in 0..=15 {
            for pid in [0, 1, 3, 0x7fff, 0x8000, 0xffff] {
                let decoded = PlacementId::decode(pid, rgif).unwrap();
                assert_eq!(decoded.encode(rgif), Some(pid), "pid {pid:x} rgif {rgif}");
            }
        }
    }

    /// QEMU uses the bit length of the number of groups, which is one too many for powers of two.
    #[test]
    fn groups_are_numbered_with_as_few_bits_as_they_need() {
        let expected = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (256, 8), (0x8001, 16)];
        for (groups, bits) in expected {
            assert_eq!(rgif_for(groups), bits, "{groups} groups");
        }
    }

    #[test]
    fn without_groups_the_identifier_is_the_handle() {
        assert_eq!(PlacementId { group: 0, handle: 7 }.encode(0), Some(7));
        assert_eq!(PlacementId { group: 1, handle: 7 }.encode(0), None);
        assert_eq!(PlacementId { group: 1, handle: 2 }.encode(4), Some(0x1002));
        assert_eq!(PlacementId { group: 2, handle: 1 }.encode(2), Some(0x8001));
        assert_eq!(PlacementId { group: 16, handle: 2 }.encode(4), None);
        assert_eq!(PlacementId { group: 1, handle: 0x1000 }.encode(4), None);
        assert_eq!(PlacementId::decode(5, 16), None);
    }
}
