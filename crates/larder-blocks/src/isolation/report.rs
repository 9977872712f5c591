//! The mechanisms by which a device can isolate tenants from each other, best first.
//!
//! Nothing is written or claimed. The report states what the kernel or the drive reports, and no more: no drive reports
//! which dies a zone or a reclaim group has.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use larder_device::nvme::node::Roots;
use larder_device::nvme::{Commands, Node, NodeKind, Silence, Survey};
use larder_device::zones::queue;
use larder_device::{Error, ErrorKind, Isolation, ZoneLimits};
use larder_ssd::nvme::PlacementId;
use larder_vssd::image::is_image;

use super::level::IsolationLevel;

const SECTOR_BYTES: u64 = 512;

/// One way to isolate tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolationMechanism {
    /// What tenants share, or that it is unknown.
    pub level: IsolationLevel,
    /// Its name: "raw model", "zoned block device", "reclaim groups", "namespaces" or "plain drive".
    pub name: &'static str,
    /// Number of parts for tenants, where they can be counted: zones, groups, namespaces.
    pub parts: Option<u64>,
    /// Details, for people.
    pub says: String,
}

/// What a path offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IsolationReport {
    /// The path as it was given.
    pub path: PathBuf,
    /// Best first; at least one.
    pub mechanisms: Vec<IsolationMechanism>,
    /// What could not be read, and what a further mechanism would need.
    pub notes: Vec<String>,
}

/// Opens a device node for commands that change nothing.
pub type Opener<'a> = &'a dyn Fn(&Path) -> io::Result<Box<dyn Commands>>;

impl IsolationReport {
    /// Inspects an image, a file, a block device, a namespace or a namespace's controller.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`] if the path leads to something else; errors of the system.
    pub fn look(path: &Path, roots: &Roots, open: Opener<'_>) -> Result<Self, Error> {
        let told = |error| Error::from_os(path.display().to_string(), error);
        let real = fs::canonicalize(path).map_err(told)?;
        let name = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut report = Self { path: path.to_owned(), mechanisms: Vec::new(), notes: Vec::new() };
        let block = name.strip_prefix("ng").map_or(name.to_owned(), |rest| format!("nvme{rest}"));
        let class = roots.sys.join("class/block").join(&block);
        let is_node = real.starts_with(fs::canonicalize(&roots.dev).unwrap_or_default());
        if is_node && class.exists() {
            report.block_device(&class, &real, roots, open)?;
        } else if is_node && roots.sys.join("class/nvme").join(name).exists() {
            report.controller(&real, roots, open)?;
        } else if real.is_file() {
            report.file(&real).map_err(told)?;
        } else {
            let what = "no image, file, block device or controller of an NVMe drive; name one";
            return Err(Error::new(ErrorKind::Setup, format!("{}: {what}", path.display())));
        }
        Ok(report)
    }

    fn add(&mut self, level: IsolationLevel, name: &'static str, parts: Option<u64>, says: String) {
        self.mechanisms.push(IsolationMechanism { level, name, parts, says });
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        // One of the two headers is enough.
        let mut first = Vec::new();
        File::open(path)?.take(8192).read_to_end(&mut first)?;
        if is_image(&first) {
            let says =
                "a model image: channels, dies or shares of dies for each (`larder vssd create`)";
            self.add(IsolationLevel::Channels, "raw model", None, says.to_owned());
        } else {
            self.plain();
        }
        Ok(())
    }

    fn plain(&mut self) {
        let says = "ranges of addresses, and a fair share of the time; dies and garbage collection are shared";
        self.add(IsolationLevel::Partition, "plain drive", None, says.to_owned());
    }

    fn block_device(
        &mut self,
        class: &Path,
        real: &Path,
        roots: &Roots,
        open: Opener<'_>,
    ) -> Result<(), Error> {
        let whole = match class.join("partition").exists() {
            true => fs::canonicalize(class).ok().and_then(|it| it.parent().map(Path::to_owned)),
            false => None,
        };
        let must_be_in_order = self.zones(&whole.unwrap_or_else(|| class.to_owned()).join("queue"));
        if let Ok(node) = Node::find(real, roots) {
            self.namespace(&node, roots, open);
        }
        if !must_be_in_order {
            self.plain();
        }
        Ok(())
    }

    /// Adds the mechanism of zones. Returns whether all writes to the device must be in order.
    fn zones(&mut self, queue: &Path) -> bool {
        let Some(model) = queue::model(queue) else { return false };
        let zones = queue::number(queue, "nr_zones");
        let bytes = queue::number(queue, "chunk_sectors").unwrap_or(0) * SECTOR_BYTES;
        let limit = |most, what| match most {
            None => format!("no limit of {what} ones"),
            Some(most) => format!("{most} {what} at a time"),
        };
        let ZoneLimits { open, active } = queue::limits(queue);
        let (open, active) = (limit(open, "open"), limit(active, "active"));
        let says = format!(
            "zones of {bytes} bytes as blocks, {model}; {open}, {active}; which dies a zone has, the drive does not say"
        );
        self.add(IsolationLevel::Unknown, "zoned block device", zones, says);
        model == "host-managed"
    }

    fn controller(&mut self, real: &Path, roots: &Roots, open: Opener<'_>) -> Result<(), Error> {
        let node = roots.dev.join(real.file_name().unwrap_or_default());
        let of_it = |it: &Node| it.controller_paths.contains(&node);
        let Some(first) = Node::all(roots).into_iter().find(of_it) else {
            let context = format!("{}: it has no namespace; make one", self.path.display());
            return Err(Error::new(ErrorKind::Setup, context));
        };
        let class = roots.sys.join("class/block").join(&first.namespace);
        self.block_device(&class, &roots.dev.join(&first.namespace), roots, open)
    }

    fn namespace(&mut self, node: &Node, roots: &Roots, open: Opener<'_>) {
        let block = roots.dev.join(&node.namespace);
        let path = node.generic_path.as_deref().unwrap_or(&block);
        let survey = match open(path) {
            Ok(drive) => Survey::read(drive.as_ref(), node.nsid),
            Err(error) => {
                let denied = error.kind() == io::ErrorKind::PermissionDenied;
                let why = format!("{}: {error}", path.display());
                Survey::without_node(&Silence { why, denied })
            }
        };
        self.reclaim_groups(&survey);
        // A partition is already one tenant's part; only a whole drive offers namespaces.
        if node.kind != NodeKind::Partition {
            self.namespaces(node, &survey, roots);
        }
    }

    fn reclaim_groups(&mut self, survey: &Survey) {
        let configuration = match (survey.enabled(), survey.configuration()) {
            (Ok(false), Ok(it)) if it.groups > 1 => {
                let note = format!("FDP is disabled; enabled, it has {} reclaim groups", it.groups);
                return self.notes.push(note);
            }
            (Ok(false), _) => return,
            (Err(silence), _) | (_, Err(silence)) => {
                return self.notes.push(format!("whether there are reclaim groups: {silence}"));
            }
            (Ok(true), Ok(configuration)) => configuration,
        };
        let ids = survey
            .handles
            .iter()
            .flatten()
            .filter_map(|handle| PlacementId::decode(handle.placement_id, configuration.rgif));
        let reached = ids.map(|id| id.group).collect::<BTreeSet<u16>>().len() as u64;
        if reached < 2 {
            let note = "FDP is enabled, with one reclaim group here: its handles keep lifetimes apart, not tenants";
            return self.notes.push(note.to_owned());
        }
        let isolation = survey.isolation().unwrap_or(Isolation::InitiallyIsolated);
        let says = format!(
            "of {} bytes a unit, {isolation} by handle; units are not shared between groups; which dies a group has, \
             the drive does not say",
            configuration.unit_bytes
        );
        self.add(IsolationLevel::ReclaimGroups, "reclaim groups", Some(reached), says);
    }

    fn namespaces(&mut self, node: &Node, survey: &Survey, roots: &Roots) {
        let beside = |it: &&Node| {
            it.controller_paths.iter().any(|path| node.controller_paths.contains(path))
        };
        let all = Node::all(roots);
        let count = all.iter().filter(beside).count() as u64;
        let more = survey.controller.as_ref().is_ok_and(|facts| facts.manages_namespaces);
        if count < 2 && !more {
            return;
        }
        let more = if more { "can" } else { "cannot" };
        let says = format!(
            "sizes of their own; the drive {more} make others; dies and garbage collection are shared as far as it says"
        );
        self.add(IsolationLevel::Namespace, "namespaces", Some(count), says);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_device::nvme::ModelDrive;
    use larder_ssd::managed::{Geometry, ManagedConfig};
    use larder_ssd::nvme::namespace::NamespaceRequest;
    use larder_ssd::nvme::{Command, Controller, ControllerConfig};

    fn no_drive(_: &Path) -> io::Result<Box<dyn Commands>> {
        Err(io::Error::from(io::ErrorKind::PermissionDenied))
    }

    /// A sysfs with a disk and its queue attributes.
    fn disk(folder: &Path, name: &str, queue: &[(&str, &str)]) -> Roots {
        let roots = Roots { sys: folder.join("sys"), dev: folder.join("dev") };
        let class = roots.sys.join("class/block").join(name);
        fs::create_dir_all(class.join("queue")).unwrap();
        fs::create_dir_all(&roots.dev).unwrap();
        for (key, value) in queue {
            fs::write(class.join("queue").join(key), format!("{value}\n")).unwrap();
        }
        fs::write(roots.dev.join(name), "").unwrap();
        roots
    }

    /// Makes a disk a namespace.
    fn namespace(roots: &Roots, name: &str, nsid: u32) {
        let class = roots.sys.join("class/block").join(name);
        let controller = roots.sys.join("class/nvme/nvme0");
        fs::create_dir_all(&controller).unwrap();
        fs::create_dir_all(class.join("device")).unwrap();
        fs::create_dir_all(class.join("device/nvme0")).unwrap();
        fs::write(class.join("nsid"), format!("{nsid}\n")).unwrap();
        fs::write(class.join("size"), "8000\n").unwrap();
        fs::write(class.join("queue/logical_block_size"), "4096\n").unwrap();
        fs::write(roots.dev.join("nvme0"), "").unwrap();
    }

    fn names(report: &IsolationReport) -> Vec<(&str, IsolationLevel)> {
        report.mechanisms.iter().map(|it| (it.name, it.level)).collect()
    }

    #[test]
    fn files_are_images_or_plain() {
        let folder = tempfile::tempdir().unwrap();
        let roots = disk(folder.path(), "vda", &[("zoned", "none")]);
        let look = |path: &Path| IsolationReport::look(path, &roots, &no_drive);
        let file = folder.path().join("file");
        fs::write(&file, vec![0; 9000]).unwrap();
        let plain = [("plain drive", IsolationLevel::Partition)];
        assert_eq!(names(&look(&file).unwrap()), plain);
        assert_eq!(names(&look(&roots.dev.join("vda")).unwrap()), plain);
        // The second header is enough.
        let mut image = vec![0; 9000];
        image[4096..4104].copy_from_slice(b"LARDERVI");
        fs::write(&file, image).unwrap();
        assert_eq!(names(&look(&file).unwrap()), [("raw model", IsolationLevel::Channels)]);
        let refused = look(folder.path()).unwrap_err();
        assert!(refused.to_string().contains("name one"), "{refused}");
        assert!(look(&folder.path().join("nothing")).is_err());
    }

    #[test]
    fn zones_are_blocks_of_unknown_isolation() {
        let folder = tempfile::tempdir().unwrap();
        let limits = [("nr_zones", "32"), ("chunk_sectors", "8192"), ("max_open_zones", "8")];
        let of = |model| {
            let mut queue = limits.to_vec();
            queue.push(("zoned", model));
            let roots = disk(folder.path(), "sda", &queue);
            IsolationReport::look(&roots.dev.join("sda"), &roots, &no_drive).unwrap()
        };
        let managed = of("host-managed");
        assert_eq!(names(&managed), [("zoned block device", IsolationLevel::Unknown)]);
        let IsolationMechanism { parts, says, .. } = &managed.mechanisms[0];
        assert_eq!(*parts, Some(32));
        assert!(says.contains("4194304 bytes") && says.contains("8 open at a time"), "{says}");
        assert!(says.contains("no limit of active ones"), "{says}");
        assert_eq!(of("host-aware").mechanisms.len(), 2, "such a one takes writes anywhere, too");
    }

    /// A drive with FDP and a namespace with two handles, and the number of the namespace.
    fn drive_with_handles() -> (ModelDrive, u32) {
        let geometry = Geometry::with_overprovisioning(64 << 20, 256 << 10, 17.0).unwrap();
        let config = ManagedConfig { fdp: true, handles: 4, ..ManagedConfig::new(geometry) };
        let mut drive = Controller::new(ControllerConfig::new(config)).unwrap();
        let handles = vec![0, 1];
        let request = NamespaceRequest { blocks: 1000, format: 0, endurance_group: 1, handles };
        let created = drive.admin(&Command::create_namespace(), &mut request.encode().unwrap());
        assert!(created.status.is_success(), "{}", created.status);
        (ModelDrive::new(drive), created.result)
    }

    #[test]
    fn a_drive_without_groups_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let roots = disk(folder.path(), "nvme0n1", &[]);
        let (drive, nsid) = drive_with_handles();
        namespace(&roots, "nvme0n1", nsid);
        let drive = std::cell::RefCell::new(Some(drive));
        let open = |_: &Path| {
            let drive = drive.borrow_mut().take().ok_or(io::ErrorKind::NotFound)?;
            Ok(Box::new(drive) as Box<dyn Commands>)
        };
        let report = IsolationReport::look(&roots.dev.join("nvme0n1"), &roots, &open).unwrap();
        let last = report.mechanisms.last().map(|it| it.name);
        assert_eq!(last, Some("plain drive"));
        assert!(report.mechanisms.iter().all(|it| it.level != IsolationLevel::ReclaimGroups));
        assert!(report.notes[0].contains("one reclaim group"), "{:?}", report.notes);
    }

    #[test]
    fn what_may_not_be_asked_is_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let roots = disk(folder.path(), "nvme0n1", &[]);
        namespace(&roots, "nvme0n1", 1);
        let report = IsolationReport::look(&roots.dev.join("nvme0n1"), &roots, &no_drive).unwrap();
        assert_eq!(names(&report), [("plain drive", IsolationLevel::Partition)]);
        assert!(report.notes[0].contains("whether there are reclaim groups"), "{:?}", report.notes);
    }
}
