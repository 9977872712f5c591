//! Decisions before the first command, tested with the model's controller instead of a drive.

use super::*;
use crate::VolatileCache;
use crate::nvme::{ModelDrive, NodeKind};
use crate::placement::Isolation;

fn drive(handles: &[u16]) -> ModelDrive {
    ModelDrive::with_handles(handles).0
}

fn node() -> Node {
    Node {
        kind: NodeKind::Block,
        namespace: "nvme0n1".to_owned(),
        nsid: 1,
        block_bytes: 4096,
        namespace_bytes: 1000 * 4096,
        range: 0..1000 * 4096,
        block_path: "/dev/null".into(),
        generic_path: None,
        controller_paths: Vec::new(),
        write_streams: 0,
        write_stream_granularity: 0,
        max_transfer_bytes: 1 << 17,
        max_deallocation_bytes: 1 << 30,
        max_zeroing_bytes: 1 << 17,
        metadata_bytes: 0,
        volatile_cache: VolatileCache::Unknown,
        atomic_write_bytes: None,
        read_only: false,
        model: String::new(),
    }
}

#[test]
fn handles_are_those_of_the_namespace_in_the_order_of_their_identifiers() {
    let (info, ids) = placement(&drive(&[3, 1, 2]), &node()).unwrap().unwrap();
    assert_eq!((info.handles, info.reclaim_unit_bytes, info.path), (3, Some(256 << 10), PATH));
    assert_eq!((info.isolation, ids), (Some(Isolation::InitiallyIsolated), vec![0, 1, 2]));
    assert_eq!(placement(&drive(&[2]), &node()).unwrap(), None, "one handle is none");
    assert_eq!(placement(&drive(&[]), &node()).unwrap(), None);
}

/// What Linux allows without root: no logs and no features.
struct UnprivilegedModel(ModelDrive);

impl Commands for UnprivilegedModel {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        match command.opcode {
            0x06 => self.0.admin(command, data),
            _ => Err(CommandError::Os(std::io::ErrorKind::PermissionDenied.into())),
        }
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.0.io(command, data)
    }
}

#[test]
fn without_permission_to_read_the_configuration_placement_still_works() {
    let denied = UnprivilegedModel(drive(&[0, 1, 2]));
    let (info, ids) = placement(&denied, &node()).unwrap().unwrap();
    assert_eq!((info.handles, ids), (3, vec![0, 1, 2]));
    assert_eq!((info.reclaim_unit_bytes, info.isolation), (None, None));
}

#[test]
fn what_drive_and_kernel_say_of_the_blocks_must_agree() {
    let drive = drive(&[0, 1]);
    assert_eq!(check_format(&drive, &node()), Ok(0));
    let half = Node { block_bytes: 512, ..node() };
    assert!(check_format(&drive, &half).unwrap_err().contains("4096 bytes, the kernel's 512"));
    let beyond = Node { range: 4096..1001 * 4096, ..node() };
    assert!(check_format(&drive, &beyond).unwrap_err().contains("not inside the namespace"));
}

/// Answers like the model, except for some bytes of an Identify page.
struct AlteredModel(ModelDrive, u32, &'static [(usize, u8)]);

impl Commands for AlteredModel {
    fn admin(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        let result = self.0.admin(command, data);
        if (command.opcode, command.cdw10()) == (0x06, self.1) {
            self.2.iter().for_each(|&(at, byte)| data[at] = byte);
        }
        result
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Result<u32, CommandError> {
        self.0.io(command, data)
    }
}

/// LBA format 0 begins at byte 128 with its metadata size. Byte 26 is FLBAS, byte 29 DPS.
#[test]
fn metadata_are_accepted_when_separate_from_the_block_and_free_for_the_user() {
    let of_namespace = u32::from(cns::NAMESPACE);
    let drive = || AlteredModel(drive(&[0, 1]), of_namespace, &[(128, 64)]);
    assert_eq!(check_format(&drive(), &node()), Ok(64));
    let extended = AlteredModel(drive().0, of_namespace, &[(128, 64), (26, 1 << 4)]);
    let refused = check_format(&extended, &node()).unwrap_err();
    assert!(refused.contains("64 bytes of metadata behind them (FLBAS bit 4)"), "{refused}");
    let protected = AlteredModel(drive().0, of_namespace, &[(128, 64), (29, 2)]);
    let refused = check_format(&protected, &node()).unwrap_err();
    assert!(refused.contains("protection information of type 2 (DPS)"), "{refused}");
}

/// ONCS is at byte 520; its bit 3 is Write Zeroes.
#[test]
fn zeros_are_asked_for_where_drive_and_kernel_know_how() {
    let knows = || AlteredModel(drive(&[0, 1]), u32::from(cns::CONTROLLER), &[(520, 1 << 3)]);
    assert_eq!(zeroed_at_once_max(&knows(), &node()), 1 << 17);
    assert_eq!(zeroed_at_once_max(&drive(&[0, 1]), &node()), 0, "the drive does not");
    let quirky = Node { max_zeroing_bytes: 0, ..node() };
    assert_eq!(zeroed_at_once_max(&knows(), &quirky), 0, "the kernel does not");
    let endless = Node { max_zeroing_bytes: u64::MAX, ..node() };
    assert_eq!(zeroed_at_once_max(&knows(), &endless), 65_536 * 4096, "a command counts so far");
}

#[test]
fn what_cannot_take_commands_is_refused_with_the_reason() {
    let complaint = |node: &Node, options: &FileOptions| {
        PassthroughDevice::open(node, options, true).unwrap_err().to_string()
    };
    let options = FileOptions::default();
    assert!(complaint(&node(), &options).contains("no character device"));
    let threads = FileOptions { engine: IoEngine::Threads, ..options.clone() };
    assert!(complaint(&node(), &threads).contains("not through threads"));
    let with = Node { generic_path: Some("/dev/null".into()), ..node() };
    let only_read = Node { read_only: true, ..with.clone() };
    assert!(complaint(&only_read, &options).contains("can only be read"));
    assert!(complaint(&with, &options).contains("not a block device"));
}
