//! Power loss at any page program. Afterwards every completed write is present in its newest version, a first part of
//! the interrupted one is present, and the drive continues to work.

use larder_ssd::ErrorKind;
use larder_ssd::managed::{GcDestination, Geometry, ManagedConfig, ManagedSsd, VictimPolicy};
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Op {
    Write { lpn: u64, pages: u64, handle: u16 },
    Deallocate { lpn: u64, pages: u64 },
    UpdateHandle { handle: u16 },
    Checkpoint,
}

const LOGICAL_PAGES: u64 = 320;
const HANDLES: u16 = 3;

fn op() -> impl Strategy<Value = Op> {
    let range =
        (0..LOGICAL_PAGES).prop_flat_map(|lpn| (Just(lpn), 1..=(LOGICAL_PAGES - lpn).min(30)));
    prop_oneof![
        14 => (range.clone(), 0..HANDLES)
            .prop_map(|((lpn, pages), handle)| Op::Write { lpn, pages, handle }),
        2 => range.prop_map(|(lpn, pages)| Op::Deallocate { lpn, pages }),
        1 => (0..HANDLES).prop_map(|handle| Op::UpdateHandle { handle }),
        1 => Just(Op::Checkpoint),
    ]
}

fn config() -> impl Strategy<Value = ManagedConfig> {
    let policy = prop_oneof![
        Just(VictimPolicy::Greedy),
        Just(VictimPolicy::Fifo),
        Just(VictimPolicy::CostBenefit),
        Just(VictimPolicy::Random),
    ];
    let destination = prop_oneof![
        Just(GcDestination::HostFrontier),
        Just(GcDestination::Shared),
        Just(GcDestination::PerHandle),
        Just(GcDestination::Handle(1)),
    ];
    let gap = prop_oneof![Just(None), Just(Some(2))];
    (policy, destination, gap).prop_map(|(victim_policy, gc_destination, wear_levelling_gap)| {
        let geometry = Geometry { logical_pages: LOGICAL_PAGES, pages_per_unit: 8, units: 50 };
        ManagedConfig {
            handles: HANDLES,
            gc_destination,
            gc_reserve_units: 2,
            victim_policy,
            wear_levelling_gap,
            out_of_band: true,
            ..ManagedConfig::new(geometry)
        }
    })
}

/// The expected state of a page: the version written last, and whether it was deallocated since, durably or not yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Page {
    version: Option<u64>,
    fate: Fate,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Fate {
    #[default]
    Kept,
    /// Deallocated since the last checkpoint that the host requested: the data may come back.
    Doubtful,
}

struct Shadow {
    pages: Vec<Page>,
    written: u64,
}

impl Shadow {
    fn write(&mut self, lpn: u64, pages: u64) {
        for page in lpn..lpn + pages {
            self.written += 1;
            self.pages[page as usize] = Page { version: Some(self.written), fate: Fate::Kept };
        }
    }

    /// Applies `op` to the drive and the shadow. Returns whether the power held.
    fn apply(&mut self, ssd: &mut ManagedSsd, op: &Op) -> Result<bool, TestCaseError> {
        match *op {
            Op::Write { lpn, pages, handle } => {
                let before = ssd.stats().host_pages;
                let outcome = ssd.write(lpn, pages, handle);
                let done = ssd.stats().host_pages - before;
                self.write(lpn, done);
                if let Err(error) = outcome {
                    prop_assert_eq!(error.kind(), ErrorKind::PowerLoss, "{}", error);
                    return Ok(false);
                }
                prop_assert_eq!(done, pages);
            }
            Op::Deallocate { lpn, pages } => {
                ssd.deallocate(lpn, pages).unwrap();
                for page in &mut self.pages[lpn as usize..][..pages as usize] {
                    if page.version.is_some() {
                        page.fate = Fate::Doubtful;
                    }
                }
            }
            Op::UpdateHandle { handle } => ssd.update_handle(handle).unwrap(),
            Op::Checkpoint => {
                ssd.checkpoint();
                for page in self.pages.iter_mut().filter(|page| page.fate == Fate::Doubtful) {
                    *page = Page::default();
                }
            }
        }
        Ok(true)
    }

    /// Compares all pages. A doubtful page may be back, but only with its last written version; from then on the shadow
    /// follows the drive.
    fn check(&mut self, ssd: &ManagedSsd) -> Result<(), TestCaseError> {
        for (lpn, page) in (0..).zip(&mut self.pages) {
            let version = ssd.version_of(lpn);
            if page.fate == Fate::Doubtful && version.is_none() {
                *page = Page::default();
            }
            prop_assert_eq!(version, page.version, "page {}", lpn);
            page.fate = Fate::Kept;
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_completed_write_survives_a_power_loss_at_any_program(
        config in config(),
        ops in prop::collection::vec(op(), 1..300),
        cuts in prop::collection::vec(0..400u64, 1..12),
    ) {
        let mut ssd = ManagedSsd::new(config).unwrap();
        let mut shadow = Shadow { pages: vec![Page::default(); 320], written: 0 };
        let mut cuts = cuts.into_iter();
        if let Some(programs) = cuts.next() {
            ssd.cut_power_after(programs).unwrap();
        }
        for op in &ops {
            if shadow.apply(&mut ssd, op)? {
                continue;
            }
            prop_assert_eq!(ssd.write(0, 1, 0).unwrap_err().kind(), ErrorKind::PowerLoss);
            let recovery = ssd.power_on().unwrap();
            ssd.audit().map_err(TestCaseError::fail)?;
            shadow.check(&ssd)?;
            let mapped = shadow.pages.iter().filter(|page| page.version.is_some()).count();
            prop_assert_eq!(recovery.mapped_pages, mapped as u64);
            if let Some(programs) = cuts.next() {
                ssd.cut_power_after(programs).unwrap();
            }
        }
        ssd.power_loss().unwrap();
        ssd.power_on().unwrap();
        ssd.audit().map_err(TestCaseError::fail)?;
        shadow.check(&ssd)?;
    }
}

#[test]
fn a_cut_at_every_single_program_of_a_collection_is_survived() {
    let geometry = Geometry { logical_pages: 320, pages_per_unit: 8, units: 47 };
    for gc_destination in [GcDestination::HostFrontier, GcDestination::Shared] {
        for programs in 0..200 {
            let config = ManagedConfig {
                handles: 1,
                gc_destination,
                gc_reserve_units: 2,
                out_of_band: true,
                ..ManagedConfig::new(geometry)
            };
            let mut ssd = ManagedSsd::new(config).unwrap();
            let mut rng = fastrand::Rng::with_seed(7);
            let mut versions = vec![None; 320];
            let mut write = |ssd: &mut ManagedSsd| {
                let lpn = rng.u64(..320);
                let outcome = ssd.write(lpn, 1, 0);
                if outcome.is_ok() {
                    versions[lpn as usize] = Some(ssd.stats().host_pages);
                }
                outcome
            };
            (0..2_000).for_each(|_| write(&mut ssd).unwrap());
            ssd.cut_power_after(programs).unwrap();
            while write(&mut ssd).is_ok() {}
            ssd.power_on().unwrap();
            (0..500).for_each(|_| write(&mut ssd).unwrap());
            ssd.audit().unwrap();
            assert!((0..320).all(|lpn| ssd.version_of(lpn) == versions[lpn as usize]));
        }
    }
}

#[test]
fn a_deallocation_lasts_from_the_checkpoint_on() {
    let geometry = Geometry { logical_pages: 320, pages_per_unit: 8, units: 56 };
    let config = ManagedConfig { out_of_band: true, handles: 2, ..ManagedConfig::new(geometry) };
    let mut ssd = ManagedSsd::new(config).unwrap();
    ssd.write(0, 10, 0).unwrap();
    ssd.deallocate(0, 4).unwrap();
    ssd.checkpoint();
    ssd.deallocate(4, 4).unwrap();
    ssd.power_loss().unwrap();
    let recovery = ssd.power_on().unwrap();
    assert_eq!(recovery.mapped_pages, 6, "pages 4 to 9, of which 4 to 7 came back");
    assert!(!ssd.is_mapped(3) && ssd.is_mapped(4));
}

#[test]
fn without_out_of_band_data_a_drive_cannot_lose_its_power() {
    let geometry = Geometry { logical_pages: 320, pages_per_unit: 8, units: 60 };
    let mut ssd = ManagedSsd::new(ManagedConfig::new(geometry)).unwrap();
    let error = ssd.power_loss().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("set out_of_band"), "{error}");
    let bytes_per_page = |out_of_band| {
        let config = ManagedConfig { out_of_band, ..ManagedConfig::new(geometry) };
        ManagedSsd::new(config).unwrap().map_memory_bytes() / 480
    };
    assert!(bytes_per_page(true) >= bytes_per_page(false) + 8);
}
