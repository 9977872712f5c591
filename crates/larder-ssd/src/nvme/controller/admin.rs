//! Admin commands other than features and logs: Identify, namespace management, directives.

#![deny(clippy::indexing_slicing)]

use zerocopy::{Immutable, IntoBytes};

use super::super::command::{Command, EVERY_NAMESPACE, low};
use super::super::fdp_log::HandleUsage;
use super::super::namespace::{self, LbaFormat, NamespaceRequest, cns};
use super::super::status::Status;
use super::io::status_of;
use super::namespaces::NAMESPACES_MAX;
use super::{Answer, Controller, ENDURANCE_GROUP, answer};

/// The directives of a drive, one bit each.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Directives {
    supported: [u8; 32],
    enabled: [u8; 32],
    persistent: [u8; 32],
    reserved: [u8; 4000],
}
const _: () = assert!(size_of::<Directives>() == 4096);

impl Controller {
    pub(super) fn identify(&self, command: &Command, data: &mut [u8]) -> Answer {
        match low(command.cdw10()).to_le_bytes() {
            [cns::CONTROLLER, _] => answer(data, &namespace::encode_controller(NAMESPACES_MAX), 0),
            [cns::NAMESPACE, _] if command.nsid == EVERY_NAMESPACE => {
                let formats = namespace::encode_namespace(0, LbaFormat::default(), ENDURANCE_GROUP);
                answer(data, &formats, 0)
            }
            // Every existing namespace is attached.
            [cns::ACTIVE_NAMESPACES | cns::ALLOCATED_NAMESPACES, _] => {
                let behind = self.namespaces.behind(command.nsid);
                answer(data, &namespace::encode_namespace_list(&behind), 0)
            }
            [cns::NAMESPACE | cns::ALLOCATED_NAMESPACE, _] => {
                let namespace = self.namespaces.get(command.nsid)?;
                let (blocks, format) = (namespace.blocks, namespace.format);
                answer(data, &namespace::encode_namespace(blocks, format, ENDURANCE_GROUP), 0)
            }
            _ => Err(Status::InvalidField),
        }
    }

    pub(super) fn manage_namespaces(&mut self, command: &Command, data: &[u8]) -> Answer {
        match command.cdw10() & 0xf {
            0 => self.create_namespace(data),
            1 => self.delete_namespace(command.nsid),
            _ => Err(Status::InvalidField),
        }
    }

    /// Every namespace is already attached to the one controller. Attaching it again is an error of the host, which it
    /// may ignore.
    pub(super) fn attach_namespace(&self, command: &Command) -> Answer {
        self.namespaces.get(command.nsid)?;
        if command.cdw10() & 0xf > 1 {
            return Err(Status::InvalidField);
        }
        Err(Status::NamespaceAttached)
    }

    /// Directive receive, identify: which directives are supported and enabled.
    pub(super) fn receive_directive(&self, command: &Command, data: &mut [u8]) -> Answer {
        self.namespaces.get(command.nsid)?;
        if command.cdw11() & 0xffff != 1 {
            return Err(Status::InvalidField); // another operation or another directive type
        }
        // Bit 0: identify; bit 2: data placement.
        let mut bits = [0; 32];
        bits[0] = 1 | u8::from(self.fdp_enabled()) << 2;
        let reply =
            Directives { supported: bits, enabled: bits, persistent: bits, reserved: [0; 4000] };
        answer(data, reply.as_bytes(), 0)
    }

    fn create_namespace(&mut self, data: &[u8]) -> Answer {
        let request = NamespaceRequest::decode(data)?;
        if request.endurance_group != ENDURANCE_GROUP {
            return Err(Status::InvalidField);
        }
        let format = LbaFormat::from_index(request.format).ok_or(Status::InvalidFormat)?;
        let named = !request.handles.is_empty();
        let fdp = self.fdp_enabled();
        let handles = match (fdp, named) {
            (true, true) => self.checked_handles(request.handles)?,
            (true, false) => vec![self.handle_of_its_choice()?],
            (false, true) => return Err(Status::InvalidField),
            (false, false) => vec![0],
        };
        if fdp && self.namespaces.use_in_another_format(&handles, format) {
            return Err(Status::InvalidFormat);
        }
        self.namespaces.create(request.blocks, format, handles, named)
    }

    fn delete_namespace(&mut self, nsid: u32) -> Answer {
        let namespace = self.namespaces.get(nsid)?;
        let (start, pages) = (namespace.start, namespace.pages());
        self.ssd.deallocate(start, pages).map_err(|error| status_of(error.kind()))?;
        self.payload.discard(start, pages);
        self.namespaces.delete(nsid);
        // The next namespace that uses a handle starts with no events enabled.
        let usage = self.namespaces.usage(self.config.firmware.handles);
        self.log.disable_unused(|handle| {
            usage.get(usize::from(handle)).is_some_and(|usage| *usage != HandleUsage::Unused)
        });
        Ok(0)
    }

    /// Checks the handles that a host lists: each must exist, none may be listed twice, and none may be one that the
    /// controller has chosen for namespaces without a list.
    fn checked_handles(&self, handles: Vec<u16>) -> Result<Vec<u16>, Status> {
        let usage = self.namespaces.usage(self.config.firmware.handles);
        let may_be_named = |handle: &u16| {
            usage.get(usize::from(*handle)).is_some_and(|usage| *usage != HandleUsage::Controller)
        };
        let mut seen = handles.clone();
        seen.sort_unstable();
        seen.dedup();
        if seen.len() != handles.len() || !seen.iter().all(may_be_named) {
            return Err(Status::InvalidPlacementHandleList);
        }
        Ok(handles)
    }

    /// The handle for namespaces without a list: one for all of them, and not one that a host has listed.
    fn handle_of_its_choice(&self) -> Result<u16, Status> {
        let usage = self.namespaces.usage(self.config.firmware.handles);
        let first = |kind| usage.iter().position(|usage| *usage == kind);
        let handle = first(HandleUsage::Controller).or_else(|| first(HandleUsage::Unused));
        let handle = handle.and_then(|handle| u16::try_from(handle).ok());
        handle.ok_or(Status::InvalidPlacementHandleList)
    }
}
