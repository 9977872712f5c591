//! Fills the event log: converts events of the firmware into events of NVMe. Handles become placement identifiers of a
//! namespace, pages become logical blocks.
//!
//! The firmware's [`managed::Event::MovedOn`] and [`managed::Event::UnitRetired`] have no counterpart in NVMe. The
//! model does not have a time limit for reclaim units (01h).

#![deny(clippy::indexing_slicing)]

use std::collections::BTreeMap;

use super::super::event::{Event, EventType};
use super::event_log::EventLog;
use super::namespaces::Namespaces;
use crate::managed::{self, EventRecord, Placement};

/// Number of moved logical blocks of one namespace, and the first of them.
#[derive(Clone, Copy)]
struct MovedBlocks {
    blocks: u64,
    first: u64,
}

impl EventLog {
    /// The event types that the drive can report, in ascending order. "Media reallocated" exists only for initially
    /// isolated handles.
    pub(super) fn supported_events(&self) -> impl Iterator<Item = EventType> {
        let all = [
            EventType::UnitNotFullyWritten,
            EventType::ControllerReset,
            EventType::InvalidPlacementId,
            EventType::MediaReallocated,
            EventType::ImplicitlyModified,
        ];
        let persistent = self.is_persistent;
        all.into_iter().filter(move |kind| *kind != EventType::MediaReallocated || !persistent)
    }

    /// Reports those of the firmware's events during a command for namespace `nsid` that are enabled.
    pub(super) fn report(&mut self, record: EventRecord, nsid: u32, namespaces: &Namespaces) {
        let EventRecord { events, moved_pages } = record;
        let mut moved_pages = moved_pages.as_slice();
        let mut reset = false;
        for event in events {
            match event {
                managed::Event::NotFullyWritten { placement, .. } => {
                    self.report_not_fully_written(nsid, placement, namespaces);
                }
                managed::Event::ResetModified { placement, .. } => {
                    reset |= self.is_enabled(placement.handle, EventType::ControllerReset);
                }
                managed::Event::MediaReallocated { source, pages, .. } => {
                    let split = moved_pages.split_at_checked(pages as usize);
                    let (pages, rest) = split.unwrap_or((moved_pages, &[]));
                    moved_pages = rest;
                    self.report_moves(source, pages, namespaces);
                }
                managed::Event::ImplicitlyModified { placement, .. } => {
                    self.report_implicitly_modified(placement, namespaces);
                }
                _ => {}
            }
        }
        if reset {
            self.record(Event::of(EventType::ControllerReset)); // one event, however many handles
        }
    }

    /// Reports a write with a placement identifier that its namespace does not have; `chosen` is where it goes instead.
    pub(super) fn report_invalid_pid(&mut self, nsid: u32, pid: u16, chosen: Placement) {
        let kind = EventType::InvalidPlacementId;
        if self.is_enabled(chosen.handle, kind) {
            let location = Some((chosen.group, chosen.handle));
            let (placement_id, nsid) = (Some(pid), Some(nsid));
            self.record(Event { placement_id, nsid, location, ..Event::of(kind) });
        }
    }

    fn report_not_fully_written(
        &mut self,
        nsid: u32,
        placement: Placement,
        namespaces: &Namespaces,
    ) {
        let kind = EventType::UnitNotFullyWritten;
        if self.is_enabled(placement.handle, kind) {
            let event = Event { nsid: Some(nsid), ..Event::of(kind) };
            self.record(self.placed(event, placement, namespaces));
        }
    }

    fn report_implicitly_modified(&mut self, placement: Placement, namespaces: &Namespaces) {
        let kind = EventType::ImplicitlyModified;
        if self.is_enabled(placement.handle, kind) {
            let nsid = namespaces.only_user_of(placement.handle).map(|(nsid, _)| nsid);
            self.record(self.placed(Event { nsid, ..Event::of(kind) }, placement, namespaces));
        }
    }

    /// Reports one event for each namespace with data in the unit. `source` is the placement of all that data, if it
    /// was only one.
    fn report_moves(&mut self, source: Option<Placement>, pages: &[u64], namespaces: &Namespaces) {
        let kind = EventType::MediaReallocated;
        if self.is_persistent || !self.is_enabled_anywhere(kind) {
            return;
        }
        for (nsid, moved) in moved_by_namespace(pages, namespaces) {
            if !self.wants_moves_of(nsid, source, namespaces) {
                continue;
            }
            let blocks = u16::try_from(moved.blocks).unwrap_or(u16::MAX);
            let moved = Some((blocks, Some(moved.first)));
            let event = Event { nsid: Some(nsid), moved, ..Event::of(kind) };
            self.record(
                source.map_or(event, |placement| self.placed(event, placement, namespaces)),
            );
        }
    }

    /// Data that garbage collection had mixed concerns every handle of its namespace.
    fn wants_moves_of(
        &self,
        nsid: u32,
        source: Option<Placement>,
        namespaces: &Namespaces,
    ) -> bool {
        let enabled = |handle: u16| self.is_enabled(handle, EventType::MediaReallocated);
        match (source, namespaces.get(nsid)) {
            (Some(placement), _) => enabled(placement.handle),
            (None, Ok(namespace)) => namespace.handles.iter().any(|handle| enabled(*handle)),
            (None, Err(_)) => false,
        }
    }

    /// Adds the location, and the placement identifier in the event's namespace.
    fn placed(&self, event: Event, placement: Placement, namespaces: &Namespaces) -> Event {
        let namespace = event.nsid.and_then(|nsid| namespaces.get(nsid).ok());
        let placement_id = namespace.and_then(|n| n.placement_id(placement, self.rgif));
        Event { placement_id, location: Some((placement.group, placement.handle)), ..event }
    }
}

fn moved_by_namespace(pages: &[u64], namespaces: &Namespaces) -> BTreeMap<u32, MovedBlocks> {
    let mut moved: BTreeMap<u32, MovedBlocks> = BTreeMap::new();
    for page in pages {
        if let Some((nsid, namespace)) = namespaces.at_page(*page) {
            let (first, blocks) = namespace.blocks_of(*page);
            moved.entry(nsid).or_insert(MovedBlocks { blocks: 0, first }).blocks += blocks;
        }
    }
    moved
}
