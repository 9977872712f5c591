//! The ways of placement that a user has for a namespace, best first, and why the others are unavailable.

use super::access::Permissions;
use super::node::{Node, NodeKind};
use super::survey::Survey;
use crate::placement::PlacementPath;

/// First Linux release with write streams in the block layer.
const WRITE_STREAMS: (u32, u32) = (6, 16);
/// First Linux release with NVMe commands through `io_uring`, and first one that allows them to other users than root.
const PASSTHROUGH: (u32, u32) = (5, 19);
const PASSTHROUGH_FOR_ALL: (u32, u32) = (6, 2);

const ROOT_ONLY: &str = "; Linux before 6.2 needs root";

/// The user's permissions and the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Release of the kernel, if known.
    pub kernel: Option<(u32, u32)>,
    /// What this user may do with the block device.
    pub block: Permissions,
    /// What this user may do with the character device.
    pub generic: Permissions,
}

impl Host {
    /// The current state.
    pub fn of(node: &Node) -> Self {
        let nothing = Permissions { read: false, write: false };
        Self {
            kernel: super::access::kernel_release(),
            block: Permissions::of(&node.block_path),
            generic: node.generic_path.as_ref().map_or(nothing, Permissions::of),
        }
    }

    fn is_older_than(&self, release: (u32, u32)) -> bool {
        self.kernel.is_some_and(|kernel| kernel < release)
    }
}

/// The placement paths in the order in which they are tried, each with the reason if it cannot be used.
pub fn placement_paths(
    node: &Node,
    survey: &Survey,
    host: &Host,
) -> [(PlacementPath, Result<(), String>); 3] {
    [
        (PlacementPath::WriteStreams, write_streams(node, survey, host)),
        (PlacementPath::Passthrough, passthrough(node, survey, host)),
        (PlacementPath::None, without(node, host)),
    ]
}

/// The first path that can be used; `None` if the namespace cannot even be written to.
pub fn taken(paths: &[(PlacementPath, Result<(), String>)]) -> Option<PlacementPath> {
    paths.iter().find(|(_, verdict)| verdict.is_ok()).map(|(path, _)| *path)
}

/// An error with the reason if the drive allows no placement at all.
fn drive_can(survey: &Survey) -> Result<(), String> {
    match (survey.supported(), survey.enabled()) {
        (Ok(false), _) => Err("the drive has no FDP".to_owned()),
        (_, Ok(false)) => Err("FDP is not enabled; see `larder device prepare`".to_owned()),
        _ => Ok(()),
    }
}

fn writable(node: &Node, block: Permissions) -> Result<(), String> {
    let path = node.block_path.display();
    match (node.read_only, block.read && block.write) {
        (true, _) => Err(format!("{path} is read-only")),
        (_, false) => Err(format!("no permission to write to {path}")),
        _ => Ok(()),
    }
}

fn without(node: &Node, host: &Host) -> Result<(), String> {
    writable(node, host.block)
}

/// The write streams of a node, judged by the kernel's data alone; or why they cannot be used.
///
/// # Errors
/// The reason.
pub(crate) fn streams_of(node: &Node) -> Result<u16, String> {
    if node.kind == NodeKind::Partition {
        // Linux 6.18 shows them for partitions, but refuses such a write (EINVAL).
        return Err("Linux has write streams for whole namespaces, not for partitions".to_owned());
    }
    match node.write_streams {
        0 => Err("the kernel knows none of it (Linux 6.16 and FDP with one reclaim group needed)"
            .to_owned()),
        1 => Err("a single stream separates nothing".to_owned()),
        streams => Ok(streams),
    }
}

fn write_streams(node: &Node, survey: &Survey, host: &Host) -> Result<(), String> {
    if node.write_streams == 0 {
        if host.is_older_than(WRITE_STREAMS) {
            return Err("Linux before 6.16 has none".to_owned());
        }
        drive_can(survey)?;
        return Err(match survey.configuration() {
            Ok(it) if it.groups > 1 => {
                format!("{} reclaim groups: Linux has write streams for one only", it.groups)
            }
            _ => "the kernel offers none for this namespace".to_owned(),
        });
    }
    streams_of(node)?;
    writable(node, host.block)
}

fn passthrough(node: &Node, survey: &Survey, host: &Host) -> Result<(), String> {
    if host.is_older_than(PASSTHROUGH) {
        return Err("Linux before 5.19 has none".to_owned());
    }
    let Some(path) = &node.generic_path else {
        return Err("there is no character device (/dev/ng…)".to_owned());
    };
    let path = path.display();
    if node.read_only {
        return Err(format!("{} is read-only", node.block_path.display()));
    }
    if !(host.generic.read && host.generic.write) {
        let newer = if host.is_older_than(PASSTHROUGH_FOR_ALL) { ROOT_ONLY } else { "" };
        return Err(format!("no permission to write to {path}{newer}"));
    }
    if node.kind == NodeKind::Partition && !host.block.write {
        return Err(format!("no permission to write to {}", node.block_path.display()));
    }
    drive_can(survey)?;
    match survey.handle_count() {
        Err(silence) => {
            let newer = if silence.denied && host.is_older_than(PASSTHROUGH_FOR_ALL) {
                ROOT_ONLY
            } else {
                ""
            };
            Err(format!("placement handles of {path}: {silence}{newer}"))
        }
        Ok(0 | 1) => Err("a single placement handle separates nothing".to_owned()),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VolatileCache;
    use crate::nvme::survey::Silence;
    use larder_ssd::nvme::io_management::HandleStatus;
    use larder_ssd::nvme::namespace::ControllerFacts;

    const ALL: Permissions = Permissions { read: true, write: true };

    fn node(write_streams: u16) -> Node {
        Node {
            kind: NodeKind::Block,
            namespace: "nvme0n1".to_owned(),
            nsid: 1,
            block_bytes: 4096,
            namespace_bytes: 1 << 30,
            range: 0..1 << 30,
            block_path: "/dev/nvme0n1".into(),
            generic_path: Some("/dev/ng0n1".into()),
            controller_paths: vec!["/dev/nvme0".into()],
            write_streams,
            write_stream_granularity: 0,
            max_transfer_bytes: 1 << 19,
            max_deallocation_bytes: 1 << 30,
            max_zeroing_bytes: 0,
            metadata_bytes: 0,
            volatile_cache: VolatileCache::Unknown,
            atomic_write_bytes: None,
            read_only: false,
            model: String::new(),
        }
    }

    fn survey(handles: u16) -> Survey {
        let denied = || Silence { why: "no permission".to_owned(), denied: true };
        let status = |placement_id| HandleStatus {
            placement_id,
            handle: placement_id,
            time_left_s: 0,
            blocks_left: 1,
        };
        let facts = ControllerFacts {
            controller: 0,
            fdp: true,
            manages_namespaces: true,
            writes_zeroes: false,
            endurance_groups_max: 1,
            unallocated_bytes: 0,
        };
        Survey {
            controller: Ok(facts),
            namespace: Ok((1 << 18, 4096, 1)),
            setting: Err(denied()),
            configurations: Err(denied()),
            handles: Ok((0..handles).map(status).collect()),
        }
    }

    fn host(kernel: (u32, u32)) -> Host {
        Host { kernel: Some(kernel), block: ALL, generic: ALL }
    }

    fn verdicts(node: &Node, survey: &Survey, host: &Host) -> (Option<PlacementPath>, Vec<String>) {
        let paths = placement_paths(node, survey, host);
        let reasons = paths.iter().filter_map(|(_, verdict)| verdict.clone().err());
        (taken(&paths), reasons.collect())
    }

    #[test]
    fn the_newest_interface_is_taken_first() {
        assert_eq!(
            verdicts(&node(8), &survey(8), &host((6, 18))),
            (Some(PlacementPath::WriteStreams), vec![])
        );
        let (path, reasons) = verdicts(&node(0), &survey(8), &host((6, 1)));
        assert_eq!(path, Some(PlacementPath::Passthrough));
        assert_eq!(reasons, ["Linux before 6.16 has none"]);
        let (path, reasons) = verdicts(&node(0), &survey(8), &host((5, 15)));
        assert_eq!(path, Some(PlacementPath::None));
        assert_eq!(reasons[1], "Linux before 5.19 has none");
    }

    #[test]
    fn what_is_missing_is_named() {
        let nothing = Permissions { read: true, write: false };
        let reader = Host { generic: nothing, block: nothing, ..host((6, 1)) };
        let (path, reasons) = verdicts(&node(8), &survey(8), &reader);
        assert_eq!(path, None);
        assert_eq!(reasons[0], "no permission to write to /dev/nvme0n1");
        assert!(reasons[1].contains("/dev/ng0n1; Linux before 6.2 needs root"), "{reasons:?}");
        let silence = Silence { why: "no permission".to_owned(), denied: true };
        let denied = Survey { handles: Err(silence), ..survey(0) };
        let (path, reasons) = verdicts(&node(0), &denied, &host((6, 1)));
        assert_eq!(path, Some(PlacementPath::None));
        assert!(reasons[1].ends_with("no permission; Linux before 6.2 needs root"), "{reasons:?}");
        let (path, reasons) = verdicts(&node(0), &survey(0), &host((6, 18)));
        assert_eq!(path, Some(PlacementPath::None));
        assert!(reasons[0].contains("larder device prepare"), "{reasons:?}");
        let (path, reasons) = verdicts(&node(1), &survey(1), &host((6, 18)));
        assert_eq!(path, Some(PlacementPath::None));
        assert!(reasons.iter().all(|reason| reason.contains("single")), "{reasons:?}");
        let partition = Node { kind: NodeKind::Partition, ..node(8) };
        let (path, reasons) = verdicts(&partition, &survey(8), &host((6, 18)));
        assert_eq!(path, Some(PlacementPath::Passthrough));
        assert!(reasons[0].contains("not for partitions"), "{reasons:?}");
        let read_only = Node { read_only: true, ..node(8) };
        let (path, reasons) = verdicts(&read_only, &survey(8), &host((6, 18)));
        assert_eq!((path, reasons[1].as_str()), (None, "/dev/nvme0n1 is read-only"));
    }
}
