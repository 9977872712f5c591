//! The stored events: one ring for events of the host, one for those of the controller, and the enabled event types of
//! each reclaim unit handle.
//!
//! Events remain after they are read and after a reset. They are dropped when FDP is switched on or off, or when newer
//! ones need the room. Event types are enabled per reclaim unit handle: namespaces that share a handle share the
//! setting (NVMe Base 2.1, sections 5.1.12.1.31 and 5.1.25.1.21).

#![deny(clippy::indexing_slicing)]

use std::collections::{BTreeSet, VecDeque};

use super::super::event::{EVENTS_MAX, Event, EventType};

#[derive(Debug, Default)]
pub(super) struct EventLog {
    host: VecDeque<Event>,
    controller: VecDeque<Event>,
    /// Reclaim unit handle and event type.
    enabled: BTreeSet<(u16, u8)>,
    /// Reclaim group identifier format of the drive.
    pub(super) rgif: u8,
    /// Whether its handles are persistently isolated.
    pub(super) is_persistent: bool,
    /// The time of events that are recorded from now on.
    now_ms: u64,
}

impl EventLog {
    pub(super) fn new(rgif: u8, is_persistent: bool) -> Self {
        Self { rgif, is_persistent, ..Self::default() }
    }

    /// Sets the time of events that are recorded from now on.
    pub(super) fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Stores `event` with the current time, replacing the oldest of its ring if the ring is full.
    pub(super) fn record(&mut self, event: Event) {
        let ring = if event.kind.is_host_event() { &mut self.host } else { &mut self.controller };
        if ring.len() == EVENTS_MAX {
            ring.pop_front();
        }
        ring.push_back(Event { timestamp_ms: self.now_ms, ..event });
    }

    /// The events of the host or of the controller, oldest first.
    pub(super) fn events(&self, of_host: bool) -> Vec<Event> {
        let ring = if of_host { &self.host } else { &self.controller };
        ring.iter().copied().collect()
    }

    /// Enables or disables event types for a reclaim unit handle.
    pub(super) fn enable(&mut self, handle: u16, kinds: &[u8], enabled: bool) {
        for kind in kinds {
            if enabled {
                self.enabled.insert((handle, *kind));
            } else {
                self.enabled.remove(&(handle, *kind));
            }
        }
    }

    pub(super) fn is_enabled(&self, handle: u16, kind: EventType) -> bool {
        self.enabled.contains(&(handle, kind.to_byte()))
    }

    /// Whether the type is enabled for any handle.
    pub(super) fn is_enabled_anywhere(&self, kind: EventType) -> bool {
        self.enabled.iter().any(|(_, enabled)| *enabled == kind.to_byte())
    }

    /// Disables all event types of the handles for which `in_use` is false.
    pub(super) fn disable_unused(&mut self, in_use: impl Fn(u16) -> bool) {
        self.enabled.retain(|(handle, _)| in_use(*handle));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_keeps_its_newest() {
        let mut log = EventLog::default();
        log.record(Event::of(EventType::InvalidPlacementId));
        for time in 1..=100 {
            log.set_now(time);
            log.record(Event::of(EventType::MediaReallocated));
        }
        let times = |of_host| {
            log.events(of_host).iter().map(|event| event.timestamp_ms).collect::<Vec<_>>()
        };
        assert_eq!(times(true), [0], "a flood of the controller's leaves the host's alone");
        assert_eq!(times(false), (38..=100).collect::<Vec<_>>());
    }

    #[test]
    fn types_are_enabled_by_handle() {
        let mut log = EventLog::default();
        log.enable(3, &[0x00, 0x80], true);
        log.enable(3, &[0x00], false);
        assert!(!log.is_enabled(3, EventType::UnitNotFullyWritten));
        assert!(log.is_enabled(3, EventType::MediaReallocated));
        assert!(!log.is_enabled(2, EventType::MediaReallocated));
        assert!(log.is_enabled_anywhere(EventType::MediaReallocated));
        log.disable_unused(|handle| handle != 3);
        assert!(!log.is_enabled_anywhere(EventType::MediaReallocated));
    }
}
