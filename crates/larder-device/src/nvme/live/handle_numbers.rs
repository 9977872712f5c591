//! Finds the placement handle of the device that an event is about.

use std::collections::BTreeMap;

use larder_ssd::nvme::event::Event;
use larder_ssd::nvme::io_management::HandleStatus;

use crate::placement::PlacementHandle;

/// The device's placement handles, by the names that events use.
#[derive(Debug, Clone)]
pub(super) struct HandleNumbers {
    nsid: u32,
    /// By placement identifier of the namespace.
    by_identifier: BTreeMap<u16, PlacementHandle>,
    /// By reclaim unit handle of the first reclaim group, which is the device's. Of several placement handles with the
    /// same reclaim unit handle, whose data the drive does not tell apart, the first.
    by_unit_handle: BTreeMap<u16, PlacementHandle>,
}

impl HandleNumbers {
    /// For a device that uses the first `count` of `handles`, which are those of namespace `nsid`.
    pub(super) fn new(handles: &[HandleStatus], nsid: u32, count: u16) -> Self {
        let (mut by_identifier, mut by_unit_handle) = (BTreeMap::new(), BTreeMap::new());
        for (number, status) in (0..count).zip(handles) {
            let handle = PlacementHandle::new(number);
            by_identifier.insert(status.placement_id, handle);
            by_unit_handle.entry(status.handle).or_insert(handle);
        }
        Self { nsid, by_identifier, by_unit_handle }
    }

    /// The handle of the device that `event` is about. `None` if the event names none, or that of another namespace.
    pub(super) fn of(&self, event: &Event) -> Option<PlacementHandle> {
        // An identifier means something only within its namespace.
        if event.nsid.is_some_and(|nsid| nsid != self.nsid) {
            return None;
        }
        match (event.placement_id, event.location) {
            (Some(identifier), _) => self.by_identifier.get(&identifier).copied(),
            (None, Some((0, unit_handle))) => self.by_unit_handle.get(&unit_handle).copied(),
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_ssd::nvme::event::EventType;

    #[test]
    fn events_name_handles_in_two_ways() {
        // Reclaim unit handles 5, 3 and 5 behind the placement handles; the last one is not used.
        let status = |(placement_id, handle)| HandleStatus {
            placement_id,
            handle,
            time_left_s: 0,
            blocks_left: 0,
        };
        let handles = [(0, 5), (1, 3), (2, 5), (4, 9)].map(status);
        let numbers = HandleNumbers::new(&handles, 1, 3);
        let event = |placement_id, location, nsid| {
            let event = Event::of(EventType::UnitNotFullyWritten);
            numbers.of(&Event { placement_id, location, nsid, ..event }).map(PlacementHandle::index)
        };
        assert_eq!(event(Some(1), Some((0, 5)), Some(1)), Some(1), "the identifier comes first");
        assert_eq!(event(Some(2), None, None), Some(2));
        assert_eq!(event(Some(4), None, Some(1)), None, "not used by the device");
        assert_eq!(event(Some(1), Some((0, 3)), Some(2)), None, "of another namespace");
        assert_eq!(event(None, Some((0, 3)), None), Some(1));
        assert_eq!(event(None, Some((0, 5)), None), Some(0));
        assert_eq!(event(None, Some((1, 3)), None), None, "of another reclaim group");
        assert_eq!(event(None, None, Some(1)), None);
    }
}
