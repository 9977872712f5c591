//! Get features and set features: 1Dh (Flexible Data Placement) and 1Eh (FDP events).
//!
//! The drive has no separate saved values of features (ONCS bit 4 is clear), so the bits that select or save a value
//! are ignored.

#![deny(clippy::indexing_slicing)]

use super::super::command::{Command, FEATURE_FDP, FEATURE_FDP_EVENTS, high, low};
use super::super::status::Status;
use super::{Answer, Controller, ENDURANCE_GROUP, answer};

impl Controller {
    pub(super) fn get_features(&self, command: &Command, data: &mut [u8]) -> Answer {
        match feature(command) {
            FEATURE_FDP => {
                check_group(command)?;
                Ok(u32::from(self.fdp_enabled()))
            }
            FEATURE_FDP_EVENTS => self.get_event_types(command, data),
            _ => Err(Status::InvalidField),
        }
    }

    pub(super) fn set_features(&mut self, command: &Command, data: &[u8]) -> Answer {
        match feature(command) {
            FEATURE_FDP => self.set_fdp(command),
            FEATURE_FDP_EVENTS => self.set_event_types(command, data),
            _ => Err(Status::InvalidField),
        }
    }

    /// FDP can be switched only while there is no namespace; the drive is reset to its initial state.
    fn set_fdp(&mut self, command: &Command) -> Answer {
        check_group(command)?;
        let [flags, configuration, ..] = command.cdw12().to_le_bytes();
        if configuration != 0 {
            return Err(Status::InvalidField); // there is one configuration
        }
        let enable = flags & 1 == 1;
        if enable == self.fdp_enabled() {
            return Ok(0);
        }
        if !self.namespaces.is_empty() {
            return Err(Status::CommandSequenceError);
        }
        // A configuration that the log reports as invalid cannot be enabled.
        self.switch_fdp(enable).map(|()| 0).map_err(|_| Status::InvalidField)
    }

    fn get_event_types(&self, command: &Command, data: &mut [u8]) -> Answer {
        let (handle, room) = self.event_selection(command)?;
        let supported: Vec<_> = self.log.supported_events().collect();
        let entries = supported.iter().take(room);
        let reply: Vec<u8> = entries
            .flat_map(|kind| [kind.to_byte(), u8::from(self.log.is_enabled(handle, *kind))])
            .collect();
        answer(data, &reply, 0)?;
        u32::try_from(supported.len()).map_err(|_| Status::InternalError)
    }

    fn set_event_types(&mut self, command: &Command, data: &[u8]) -> Answer {
        let (handle, count) = self.event_selection(command)?;
        let kinds = data.get(..count).ok_or(Status::DataTransferError)?;
        let supported = |kind: &u8| self.log.supported_events().any(|s| s.to_byte() == *kind);
        if !kinds.iter().all(supported) {
            return Err(Status::InvalidField);
        }
        self.log.enable(handle, kinds, command.cdw12() & 1 == 1);
        Ok(0)
    }

    /// The reclaim unit handle behind the placement handle in feature 1Eh, and the number of event types in the
    /// command.
    fn event_selection(&self, command: &Command) -> Result<(u16, usize), Status> {
        let namespace = self.namespaces.get(command.nsid)?;
        if !self.fdp_enabled() {
            return Err(Status::FdpDisabled);
        }
        let [types, _] = high(command.cdw11()).to_le_bytes();
        let handle = namespace.handles.get(usize::from(low(command.cdw11())));
        Ok((*handle.ok_or(Status::InvalidField)?, usize::from(types)))
    }
}

fn feature(command: &Command) -> u8 {
    let [feature, ..] = command.cdw10().to_le_bytes();
    feature
}

fn check_group(command: &Command) -> Result<(), Status> {
    if low(command.cdw11()) == ENDURANCE_GROUP { Ok(()) } else { Err(Status::InvalidField) }
}
