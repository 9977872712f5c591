//! A whole plan, on a model that is too small for meaningful results.

use std::sync::{LazyLock, Mutex};

use super::*;
use crate::replay::Workload;

fn options() -> PlanOptions {
    PlanOptions {
        requests: Some(60_000),
        dram_bytes: 60_000_000_000,
        simulated_bytes: 8 << 20,
        // They amplify the most.
        soc_layout: Some(SocLayout::Buckets),
        ..PlanOptions::of_preset("meta-kv", 1)
    }
}

fn made(options: &PlanOptions) -> Plan {
    plan(options, &Monitor::default(), &|_, _| {}).unwrap()
}

/// The plan of [`options`], shared by all tests, and the progress that was reported.
static MADE: LazyLock<(Plan, Vec<(usize, usize)>)> = LazyLock::new(|| {
    let heard = Mutex::new(Vec::new());
    let note = |done, all| heard.lock().unwrap().push((done, all));
    let plan = plan(&options(), &Monitor::default(), &note).unwrap();
    (plan, heard.into_inner().unwrap())
});

#[test]
fn an_answer_with_placement_and_one_without() {
    let plan = made(&PlanOptions { utilization_percent: 95.0, ..options() });
    let [on, off] = plan.answers.as_slice() else { panic!("two answers") };
    assert_eq!((on.placement, off.placement), ("on", "off"));
    assert!(1.0 <= on.dlwa && on.dlwa < off.dlwa, "{} {}", on.dlwa, off.dlwa);
    assert!(on.bill.life_years > off.bill.life_years);
    assert!((on.bill.life_years / off.bill.life_years - off.dlwa / on.dlwa).abs() < 1e-9);
    let utilizations: Vec<f64> = plan.sweep.iter().step_by(2).map(|p| p.utilization).collect();
    assert_eq!(utilizations, [50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 100.0]);
    assert!(
        plan.sweep.chunks(2).all(|pair| (pair[0].placement, pair[1].placement) == ("on", "off"))
    );
    assert!(plan.sweep.chunks(2).all(|pair| {
        // Placement changes the location of bytes, not what is cached.
        let load = |point: &SweepPoint| (point.hit_ratio, point.host_bytes_per_request);
        load(&pair[0]) == load(&pair[1])
    }));
    assert!(plan.model.drive_writes_before > 9.0 && plan.load.hit_ratio > 0.0);
    assert_eq!(plan.model.requests, 60_000);
    assert!(!plan.advice.is_empty() && plan.rows().len() > 5 && !plan.basis().is_empty());
}

/// The cache's own choice is simulated where the model has room for it, and compared with the other layout.
#[test]
fn both_layouts_of_small_objects_are_answered() {
    let names = |plan: &Plan| {
        let of = |it: &LayoutAnswer| (it.layout.clone(), it.is_recommended);
        plan.layouts.iter().map(of).collect::<Vec<_>>()
    };
    let (pages, buckets) = ("pages".to_owned(), "buckets".to_owned());
    assert_eq!(names(&MADE.0), [(buckets.clone(), true), (pages.clone(), false)]);
    let options = || PlanOptions { soc_layout: None, ..options() };
    let small = made(&PlanOptions { soc_percent: 1.0, ..options() });
    assert_eq!(names(&small)[0], (buckets.clone(), false));
    assert!(small.notes().iter().any(|note| note.contains("stores small objects in pages")));
    let plan = made(&PlanOptions { simulated_bytes: 24 << 20, soc_percent: 20.0, ..options() });
    assert_eq!(names(&plan), [(pages, true), (buckets.clone(), false)]);
    let [of_pages, of_buckets] = plan.layouts.as_slice() else { panic!("two layouts") };
    assert!(of_pages.alwa * 1.5 < of_buckets.alwa, "{plan:?}");
    assert!(of_pages.life_years_on > of_buckets.life_years_on * 1.5, "{plan:?}");
    assert!(of_pages.memory_bytes > of_buckets.memory_bytes, "{plan:?}");
    assert_eq!(plan.answers[0].dlwa_theory, 1.0, "pages are written in order");
    assert_eq!(plan.answers[0].bill.life_years, of_pages.life_years_on);
    assert!(plan.advice.iter().any(|it| it.starts_with("Store small objects in pages")));
    assert!(plan.larder_toml(&options()).contains("layout = \"pages\""));
    // More than 25 times memory.
    let poor = PlanOptions { dram_bytes: 2_500_000_000, ..options() };
    assert_eq!(poor.layout(), SocLayout::Buckets);
    assert_eq!(
        PlanOptions { soc_layout: Some(SocLayout::Pages), ..poor }.layout(),
        SocLayout::Pages
    );
}

#[test]
fn the_same_question_has_the_same_answer() {
    let form = |plan| serde_json::to_string(plan).unwrap();
    assert_eq!(form(&MADE.0), form(&made(&options())));
}

#[test]
fn size_is_a_matter_of_scale() {
    let small = options();
    let large = PlanOptions {
        flash_bytes: small.flash_bytes * 10,
        dram_bytes: small.dram_bytes * 10,
        rate: small.rate * 10.0,
        ..small.clone()
    };
    for (a, b) in MADE.0.answers.iter().zip(made(&large).answers) {
        assert!((a.dlwa / b.dlwa - 1.0).abs() < 1e-9, "{} {}", a.dlwa, b.dlwa);
        assert!((a.bill.life_years / b.bill.life_years - 1.0).abs() < 1e-6);
    }
}

#[test]
#[ignore = "plans models of several sizes: `cargo xtask all`"]
fn enough_requests_are_chosen_for_a_steady_drive() {
    let plan = made(&PlanOptions { requests: None, ..options() });
    assert!((100_000..1_000_000).contains(&plan.model.requests), "{}", plan.model.requests);
    assert!(plan.model.drive_writes_before > 11.0, "{}", plan.model.drive_writes_before);
}

#[test]
fn runs_are_counted() {
    let heard = &MADE.1;
    // Six utilisations and the other layout of small objects, with placement and without.
    assert_eq!(heard.first(), Some(&(0, 14)));
    assert_eq!(heard.last(), Some(&(14, 14)));
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let refusal = |options: &PlanOptions| {
        plan(options, &Monitor::default(), &|_, _| {}).unwrap_err().to_string()
    };
    let too_little = PlanOptions { dram_bytes: 1_000_000, ..options() };
    let refused = refusal(&too_little);
    assert!(refused.starts_with("--dram 1000000: is 4 bytes at the scale"), "{refused}");
    let no_spare = PlanOptions { op_percent: 4.0, ..options() };
    assert!(refusal(&no_spare).contains("--op 4: the drive could not work"));
    let quiet = PlanOptions {
        requests: Some(10),
        workload: Workload::Preset("uniform".to_owned()),
        ..options()
    };
    assert!(refusal(&quiet).contains("wrote nothing to flash"));
}

/// The bills of a drive at this utilisation, with placement and without.
fn bills_at(utilization: f64, options: &PlanOptions) -> Vec<Bill> {
    let model = model::Model::of(options, &Monitor::default()).unwrap();
    let runs = sweep::run(
        &model,
        &sweep::jobs(&[utilization], model.layout()),
        &Monitor::default(),
        &|_, _| {},
    )
    .unwrap();
    runs.iter().map(|run| point(options, run).unwrap().bill).collect()
}

/// A longer run has the same number of keys, so it sees the same workload. If it finds another life, that life is in
/// the range of the shorter run.
fn life_is_in_range_of(lengths: &[Option<u64>], longest: u64) {
    let lives = |requests| bills_at(100.0, &PlanOptions { requests, ..options() });
    let longest = lives(Some(longest));
    for requests in lengths {
        for (bill, longest) in lives(*requests).into_iter().zip(&longest) {
            let (low, life, high) = (bill.life_years_low, bill.life_years, bill.life_years_high);
            let longest = longest.life_years;
            let found = format!("{requests:?}: {life}, {low} to {high}; {longest}");
            // On a model this small, hardly any copies and the theoretical DLWA may differ by this factor.
            assert!(low <= life && life <= high && high < low * 6.0, "{found}");
            assert!((low..=high).contains(&longest), "{found}");
        }
    }
}

#[test]
fn life_does_not_depend_on_the_number_of_requests() {
    life_is_in_range_of(&[Some(30_000), Some(100_000)], 250_000);
}

/// Large objects are larger than a unit of a small model, so it finds too low a DLWA without placement. The results of
/// larger models are still in its range of the life.
fn life_at_sizes_is_in_range(sizes_mib: &[u64], utilization: f64) {
    let lives = |mib: u64| {
        let model = PlanOptions { simulated_bytes: mib << 20, requests: None, ..options() };
        bills_at(utilization, &model)
    };
    let found: Vec<_> = sizes_mib.iter().map(|mib| lives(*mib)).collect();
    let (largest, smaller) = found.split_last().unwrap();
    for bills in smaller {
        for (bill, largest) in bills.iter().zip(largest) {
            let range = bill.life_years_low..=bill.life_years_high;
            assert!(range.contains(&largest.life_years), "{utilization}: {found:#?}");
            assert!(bill.life_years_high < bill.life_years_low * 6.0, "{bill:?}");
        }
    }
}

#[test]
#[ignore = "plans models of several sizes: `cargo xtask all`"]
fn life_of_a_larger_model_is_in_the_range_of_a_smaller_one() {
    life_at_sizes_is_in_range(&[8, 32], 100.0);
}

/// `cargo test --release -p larder-lab --lib -- --ignored life_of_large_models`
#[test]
#[ignore = "takes minutes"]
fn life_of_large_models_is_in_the_range_of_small_ones() {
    for utilization in [50.0, 70.0, 100.0] {
        life_at_sizes_is_in_range(&[16, 32, 64, 128, 512], utilization);
    }
}

/// `cargo test -p larder-lab --lib -- --ignored life_of_long_runs`
#[test]
#[ignore = "takes a minute"]
fn life_of_long_runs_is_that_of_short_ones() {
    life_is_in_range_of(&[Some(50_000), Some(200_000), None], 800_000);
}

/// Errors of drive and cache are reported in terms of the command's options, with sizes that would do.
#[test]
fn what_does_not_fit_the_model_is_refused_with_what_would_do() {
    let small = PlanOptions { simulated_bytes: 8 << 20, ..options() };
    let refusal = |options: &PlanOptions| options.check().unwrap_err().to_string();
    let cases = [
        (
            PlanOptions { soc_percent: 99.0, ..small.clone() },
            "--soc 99: the engines of the model do not fit",
        ),
        (
            PlanOptions { utilization_percent: 10.0, ..small.clone() },
            "--soc 4: the engines of the model",
        ),
        (PlanOptions { op_percent: 4.0, ..small.clone() }, "--op 4: the drive could not work"),
    ];
    for (options, begin) in cases {
        let text = refusal(&options);
        assert!(text.starts_with(begin) && text.ends_with(" would do"), "{text}");
        for foreign in ["soc.percent", "--ru", "region_bytes", "dram_bytes"] {
            assert!(!text.contains(foreign), "{text}");
        }
        // The suggested size does work.
        let advice = text.rsplit_once("; ").unwrap().1.trim_end_matches(" would do");
        for advice in advice.split(" or ") {
            let (name, value) = advice.split_once(' ').unwrap();
            let percent = || value.parse().unwrap();
            let changed = match name {
                "--soc" => PlanOptions { soc_percent: percent(), ..options.clone() },
                "--op" => PlanOptions { op_percent: percent(), ..options.clone() },
                _ => PlanOptions { simulated_bytes: mebibytes(value), ..options.clone() },
            };
            changed.check().unwrap();
            if name == "--simulate" {
                let simulated_bytes = changed.simulated_bytes - (1 << 20);
                PlanOptions { simulated_bytes, ..changed }.check().unwrap_err();
            }
        }
    }
}

fn mebibytes(size: &str) -> u64 {
    size.strip_suffix("MiB").unwrap().parse::<u64>().unwrap() << 20
}

/// A drive that is too small is refused with the least size that would do: that size is accepted, and one step less is
/// not.
#[test]
fn a_drive_that_is_too_small_is_refused_with_the_least_that_would_do() {
    let drive = |mib: u64| PlanOptions { flash_bytes: mib << 20, ..options() };
    let cases = [
        PlanOptions { dram_bytes: 1 << 20, rating: Rating::Tbw(1.0), ..drive(1) },
        PlanOptions { dram_bytes: 1 << 20, op_percent: 4.0, ..drive(9) },
        PlanOptions { dram_bytes: 1 << 20, utilization_percent: 10.0, ..drive(10) },
        PlanOptions {
            dram_bytes: 1 << 20,
            soc_percent: 99.0,
            simulated_bytes: 64 << 20,
            ..drive(12)
        },
        PlanOptions { dram_bytes: 48 << 20, simulated_bytes: 64 << 20, ..drive(4) },
    ];
    for options in cases {
        let refused = options.check().unwrap_err().to_string();
        let least = refused.rsplit_once("--flash ").unwrap_or_else(|| panic!("{refused}")).1;
        let least = least.trim_end_matches(" would do");
        let (least, simulate) = least.split_once(" --simulate ").unwrap_or((least, ""));
        let with = |bytes: u64| PlanOptions {
            flash_bytes: bytes,
            simulated_bytes: if simulate.is_empty() { options.simulated_bytes } else { bytes },
            ..options.clone()
        };
        with(mebibytes(least)).check().unwrap_or_else(|error| panic!("{refused}: {error}"));
        let less = with(mebibytes(least) - (1 << 20));
        assert!(less.check().is_err(), "{refused}");
    }
}

#[test]
fn a_stopped_plan_ends_with_an_error() {
    let monitor = Monitor::default();
    monitor.stop();
    let ended = plan(&options(), &monitor, &|_, _| {});
    assert_eq!(ended.unwrap_err().to_string(), "interrupted");
}
