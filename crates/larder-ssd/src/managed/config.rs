//! The configuration of a simulated drive, and the check that such a drive can work.

use super::geometry::Geometry;
use super::options::{
    GcDestination, GroupDies, InvalidPid, LazyCollection, SaveSequential, VictimPolicy, VictimScope,
};
use crate::error::{Error, ErrorKind};
use crate::nand::{DieArray, Endurance, Spans};

/// A drive and the policies of its firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedConfig {
    /// Size and division of the drive.
    pub geometry: Geometry,
    /// Reclaim groups. The units are divided among them in equal parts, in order. Each group has its own erased units,
    /// victims and frontiers. The logical space is shared: a write can put any page into any group, so a group can fill
    /// up ([`ErrorKind::NoSpace`]).
    pub groups: u16,
    /// Channels and dies. Needed by [`GroupDies`] and by a [`TimedSsd`](crate::timed::TimedSsd), which takes them from
    /// its timing if they are not set here. Write amplification does not depend on them.
    pub array: Option<DieArray>,
    /// The dies on which the units of a group lie. Dies or channels are divided among the groups in equal parts.
    pub group_dies: GroupDies,
    /// Reclaim unit handles, including the default (0).
    pub handles: u16,
    /// Whether FDP is enabled. If not, every write is forced to handle 0 and the same code runs.
    pub fdp: bool,
    /// How to treat a write with a placement that the drive does not have.
    pub invalid_pid: InvalidPid,
    /// Where garbage collection writes.
    pub gc_destination: GcDestination,
    /// Garbage collection runs while fewer units than this are erased and ready (in the group). At least 2: one to
    /// open, one to move data into.
    pub gc_reserve_units: u32,
    /// Which unit garbage collection reclaims.
    pub victim_policy: VictimPolicy,
    /// The units among which garbage collection looks for a victim.
    pub victim_scope: VictimScope,
    /// Collection ahead of need; off by default.
    pub lazy_collection: Option<LazyCollection>,
    /// Static wear levelling: when the erases of the most and the least worn unit differ by more than this, the data of
    /// the least worn full unit is moved to the most worn erased one. Off by default; dynamic wear levelling (the least
    /// worn erased unit is opened first) is always on.
    pub wear_levelling_gap: Option<u32>,
    /// When erases fail.
    pub endurance: Endurance,
    /// Keep sequential streams in separate units without FDP; off by default.
    pub save_sequential: Option<SaveSequential>,
    /// Capacity of the event log; NVMe's page 23h shows 63.
    pub event_capacity: u32,
    /// Whether each page carries out-of-band data, so that the maps can be rebuilt after a power
    /// loss. It costs 8 bytes of memory per physical page (a 1.88 TB drive in 4 KiB pages with
    /// 17 % over-provisioning: 4.3 GB on top of the 4.1 GB of the maps). Off by default.
    pub out_of_band: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

impl ManagedConfig {
    /// A drive with FDP, one group, eight initially isolated handles, a reserve of three units and greedy collection;
    /// every other option is off.
    pub fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            groups: 1,
            array: None,
            group_dies: GroupDies::All,
            handles: 8,
            fdp: true,
            invalid_pid: InvalidPid::default(),
            gc_destination: GcDestination::Shared,
            gc_reserve_units: 3,
            victim_policy: VictimPolicy::default(),
            victim_scope: VictimScope::default(),
            lazy_collection: None,
            wear_levelling_gap: None,
            endurance: Endurance::default(),
            save_sequential: None,
            event_capacity: 63,
            out_of_band: false,
            seed: 0,
        }
    }

    /// Handles that have a write frontier of their own.
    pub fn active_handles(&self) -> u16 {
        if self.fdp { self.handles } else { 1 }
    }

    /// Minimum units for a drive that cannot get stuck: its capacity and, in every group, an open unit per frontier and
    /// the reserve. With this many and one group, some full unit holds at least one dead page whenever garbage
    /// collection runs.
    pub fn units_required(&self) -> u64 {
        self.data_units() + u64::from(self.groups) * self.group_overhead_units()
    }

    /// Units that hold the whole logical capacity.
    fn data_units(&self) -> u64 {
        self.geometry.logical_pages.div_ceil(u64::from(self.geometry.pages_per_unit).max(1))
    }

    /// Units of one group that hold no settled data: open units of the frontiers, and the reserve.
    pub(crate) fn group_overhead_units(&self) -> u64 {
        (self.streams() + self.gc_frontiers()) as u64 + u64::from(self.reserve_units())
    }

    /// Units of one group.
    pub(crate) fn units_per_group(&self) -> u32 {
        self.geometry.units / u32::from(self.groups)
    }

    /// The dies on which the units lie.
    pub(crate) fn spans(&self) -> Spans {
        let array = self.array.unwrap_or(DieArray::ONE);
        let groups = u32::from(self.groups);
        match self.group_dies {
            GroupDies::All => Spans::over_all(array, self.geometry.units),
            GroupDies::Dies => Spans::of_dies(array, groups, self.units_per_group()),
            GroupDies::Channels => Spans::of_channels(array, groups, self.units_per_group()),
        }
    }

    /// Collection runs while a group has fewer erased units than this.
    pub(crate) fn reserve_units(&self) -> u32 {
        // If an erase fails during collection, the units that the collection took are not replaced.
        let extra = match self.endurance {
            Endurance::Unlimited => 0,
            Endurance::Rated { .. } | Endurance::Planned(_) => 2,
        };
        self.gc_reserve_units.saturating_add(extra)
    }

    /// Host frontiers of one group.
    pub(crate) fn streams(&self) -> usize {
        usize::from(self.active_handles()) + usize::from(self.save_sequential.is_some())
    }

    /// Collection frontiers of one group.
    pub(crate) fn gc_frontiers(&self) -> usize {
        match self.gc_destination {
            GcDestination::HostFrontier | GcDestination::Handle(_) => 0,
            GcDestination::Shared => 1,
            GcDestination::PerHandle => self.streams(),
        }
    }

    /// Refuses a drive that could not work. The message says why.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_geometry()?;
        self.check_placement()?;
        self.check_dies()?;
        self.check_collection()?;
        self.check_wear()?;
        self.check_units()
    }

    fn check_geometry(&self) -> Result<(), Error> {
        let geometry = &self.geometry;
        if geometry.pages_per_unit < 2 {
            return fail(format!(
                "a reclaim unit of {} pages: at least 2 are needed",
                geometry.pages_per_unit
            ));
        }
        if geometry.logical_pages == 0 || geometry.physical_pages() >= u64::from(u32::MAX) {
            return fail(format!(
                "{} logical and {} physical pages: must be 1 to 2^32 - 2",
                geometry.logical_pages,
                geometry.physical_pages()
            ));
        }
        Ok(())
    }

    fn check_placement(&self) -> Result<(), Error> {
        if self.handles == 0 || self.handles > 128 {
            return fail(format!("{} placement handles: must be 1 to 128", self.handles));
        }
        if self.groups == 0 {
            return fail("0 reclaim groups: at least 1 is needed".to_owned());
        }
        if self.groups > 1 && !self.fdp {
            return fail(format!(
                "{} reclaim groups without FDP, which alone can name them: set fdp, or groups to 1",
                self.groups
            ));
        }
        let groups = u32::from(self.groups);
        if !self.geometry.units.is_multiple_of(groups) {
            return fail(format!(
                "{} reclaim units do not divide into {groups} groups: use {} or {}",
                self.geometry.units,
                self.geometry.units / groups * groups,
                u64::from(self.geometry.units / groups + 1) * u64::from(groups),
            ));
        }
        if let GcDestination::Handle(handle) = self.gc_destination
            && handle >= self.active_handles()
        {
            return fail(format!(
                "gc_destination: handle {handle} is not one of the {} that are active",
                self.active_handles()
            ));
        }
        if let Some(save) = self.save_sequential
            && (self.fdp || save.streams == 0)
        {
            return fail(format!(
                "save_sequential with {} streams and fdp {}: it is a habit of drives without FDP \
                 and follows at least 1 stream",
                save.streams, self.fdp
            ));
        }
        Ok(())
    }

    /// Checks that the dies or channels can be divided among the groups.
    fn check_dies(&self) -> Result<(), Error> {
        let Some(array) = self.array else {
            if self.group_dies == GroupDies::All {
                return Ok(());
            }
            return fail(format!(
                "group_dies {:?} on a drive whose dies are not said: set array to its channels and \
                 dies, or group_dies to All",
                self.group_dies
            ));
        };
        array.check()?;
        let (parts, what) = match self.group_dies {
            GroupDies::All => return Ok(()),
            GroupDies::Dies => (array.dies(), "dies"),
            GroupDies::Channels => (array.channels, "channels"),
        };
        let groups = u32::from(self.groups);
        if !parts.is_multiple_of(groups) {
            let fitting: Vec<String> = (1..=parts.min(u32::from(u16::MAX)))
                .filter(|&groups| parts.is_multiple_of(groups))
                .map(|groups| groups.to_string())
                .collect();
            return fail(format!(
                "group_dies {:?}: {parts} {what} do not divide among {groups} reclaim groups: set \
                 groups to one of {}, or group_dies to All",
                self.group_dies,
                fitting.join(", ")
            ));
        }
        Ok(())
    }

    fn check_collection(&self) -> Result<(), Error> {
        if self.gc_reserve_units < 2 {
            return fail(format!(
                "a garbage collection reserve of {} units: at least 2 are needed",
                self.gc_reserve_units
            ));
        }
        if let VictimPolicy::DChoices(0) | VictimPolicy::Windowed(0) = self.victim_policy {
            return fail(format!(
                "victim_policy {:?} looks at no unit: at least 1 is needed",
                self.victim_policy
            ));
        }
        if let Some(lazy) = self.lazy_collection
            && (lazy.below_erased_units <= self.reserve_units() || lazy.live_percent_max >= 100)
        {
            return fail(format!(
                "lazy_collection below {} erased units, up to {} % live: must be above the reserve \
                 of {} and below 100 %",
                lazy.below_erased_units,
                lazy.live_percent_max,
                self.reserve_units()
            ));
        }
        Ok(())
    }

    fn check_wear(&self) -> Result<(), Error> {
        if self.wear_levelling_gap == Some(0) {
            return fail("wear_levelling_gap of 0 would never rest: use at least 1".to_owned());
        }
        self.endurance.check(self.geometry.units, "unit")
    }

    fn check_units(&self) -> Result<(), Error> {
        let units = u64::from(self.geometry.units);
        let (required, overhead) = (self.units_required(), self.group_overhead_units());
        if units < required {
            return fail(format!(
                "{units} reclaim units are too few: {} of data and, in each of {} groups, {} write \
                 frontiers and a reserve of {} need {required}; use more over-provisioning, \
                 smaller units or fewer handles",
                self.data_units(),
                self.groups,
                overhead - u64::from(self.reserve_units()),
                self.reserve_units(),
            ));
        }
        if u64::from(self.units_per_group()) <= overhead {
            return fail(format!(
                "{} reclaim units in each of {} groups are too few: frontiers and reserve take \
                 {overhead}; use fewer groups, smaller units or fewer handles",
                self.units_per_group(),
                self.groups,
            ));
        }
        Ok(())
    }
}

fn fail(message: String) -> Result<(), Error> {
    Err(Error::new(ErrorKind::Config, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_overprovisioning_for_the_handles_is_refused() {
        let geometry = Geometry::with_overprovisioning(64 << 20, 1 << 20, 7.0).unwrap();
        let error = ManagedConfig::new(geometry).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("69 reclaim units are too few"), "{error}");
    }

    fn refused(change: impl FnOnce(&mut ManagedConfig)) -> String {
        let geometry = Geometry { logical_pages: 640, pages_per_unit: 16, units: 120 };
        let mut config = ManagedConfig::new(geometry);
        config.check().unwrap();
        change(&mut config);
        let error = config.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn each_refusal_names_the_field_and_the_fix() {
        assert!(refused(|c| c.groups = 7).contains("use 119 or 126"));
        assert!(refused(|c| c.groups = 8).contains("in each of 8 groups"));
        assert!(refused(|c| (c.groups, c.fdp) = (2, false)).contains("set fdp, or groups to 1"));
        assert!(refused(|c| c.gc_destination = GcDestination::Handle(8)).contains("handle 8"));
        assert!(refused(|c| c.victim_policy = VictimPolicy::DChoices(0)).contains("DChoices(0)"));
        assert!(refused(|c| c.wear_levelling_gap = Some(0)).contains("wear_levelling_gap of 0"));
        assert!(
            refused(|c| c.endurance = Endurance::Rated { rated: 5, certain: 5 })
                .contains("over at 5")
        );
        assert!(refused(|c| c.endurance = Endurance::Planned(vec![(120, 1)])).contains("unit 120"));
        let lazy = LazyCollection { below_erased_units: 3, live_percent_max: 10 };
        assert!(refused(|c| c.lazy_collection = Some(lazy)).contains("above the reserve of 3"));
        let array = Some(DieArray { channels: 4, dies_per_channel: 3 });
        let dies = |c: &mut ManagedConfig, group_dies, groups| {
            (c.array, c.group_dies, c.groups, c.handles) = (array, group_dies, groups, 1);
        };
        let error = refused(|c| dies(c, GroupDies::Channels, 3));
        assert!(error.contains("group_dies Channels: 4 channels do not divide among 3"), "{error}");
        assert!(error.contains("set groups to one of 1, 2, 4"), "{error}");
        let error = refused(|c| dies(c, GroupDies::Dies, 5));
        assert!(error.contains("12 dies do not divide among 5"), "{error}");
        assert!(refused(|c| c.group_dies = GroupDies::Dies).contains("set array"));
        let none = Some(DieArray { channels: 0, dies_per_channel: 3 });
        assert!(refused(|c| c.array = none).contains("0 channels of 3 dies"));
        let save = SaveSequential { streams: 1, pages_min: 8 };
        assert!(refused(|c| c.save_sequential = Some(save)).contains("without FDP"));
    }
}
