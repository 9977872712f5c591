//! Admission in a whole cache on a drive that collects garbage, and the resulting wear of the drive.

use std::sync::Arc;
use std::time::Duration;

use larder::{AdmissionPolicy, Config, Endurance, SocConfig, Stats};
use larder_device::{Device, ModelDevice};

use crate::rig::{Rig, config, drive};

const DAY_S: u64 = 86_400;
const BUDGET: u64 = 128 << 20;

/// Sets small objects with changing keys evenly over a day; each one writes a page. Returns the media bytes written.
fn a_day(rig: &Rig, drive: &Arc<ModelDevice>, from_s: u64, sets: u32) -> u64 {
    let media = || drive.stats().media_written_bytes.unwrap();
    let before = media();
    for set in 0..sets {
        rig.clock
            .advance_to(Duration::from_secs(from_s + u64::from(set) * DAY_S / u64::from(sets)));
        rig.set(set % 7919, set, 300);
    }
    media() - before
}

fn of_budget(bytes: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let share = bytes as f64 / BUDGET as f64;
    share
}

fn rejected(stats: &Stats) -> u64 {
    let rejected = stats.rejections().map(|(_, objects)| objects).iter().sum();
    assert_eq!(rejected, stats.rejected_by_admission_objects);
    rejected
}

/// If more arrives than the budget pays for, and the drive amplifies writes, media bytes still stay within the budget.
/// Later less arrives, and all of it is admitted.
#[test]
fn a_budget_of_media_bytes_is_held_for_a_day_and_turns_nothing_away_below() {
    let drive = drive();
    let rig = Rig::open(
        Config {
            admission: AdmissionPolicy::Budget { bytes_per_day: BUDGET },
            soc: SocConfig { percent: Some(90.0), ..config().soc },
            ..config()
        },
        &drive,
    );
    let first = of_budget(a_day(&rig, &drive, 1000, 150_000));
    assert!((0.95..1.05).contains(&first), "{first} of the budget");
    let before = rejected(&rig.cache.stats());
    assert!(before > 75_000, "{before} rejected");
    assert!(drive.stats().dlwa().unwrap() > 1.05, "the drive does not amplify");
    // An hour to pay off what was overspent.
    rig.clock.advance_to(Duration::from_secs(1000 + DAY_S + 3600));
    let second = of_budget(a_day(&rig, &drive, 1000 + DAY_S + 3600, 10_000));
    assert!((0.1..0.9).contains(&second), "{second} of the budget");
    let stats = rig.cache.stats();
    assert_eq!(rejected(&stats), before, "{stats:?}");
}

#[test]
fn only_what_was_asked_for_often_goes_to_flash() {
    let drive = drive();
    let rig =
        Rig::open(Config { admission: AdmissionPolicy::Frequency { asks: 2 }, ..config() }, &drive);
    // A look-aside client: two misses for the first hundred keys, one for all others.
    let ask = |key| {
        if rig.get(key).is_none() {
            rig.set(key, 1, 300);
        }
    };
    (0..100).for_each(ask);
    (1000..1500).for_each(ask);
    (0..100).for_each(ask);
    (2000..2500).for_each(ask);
    let stats = rig.cache.stats();
    assert!((80..140).contains(&stats.admitted_objects), "{stats:?}");
    assert_eq!(stats.rejected_as_infrequent_objects, rejected(&stats));
    assert!(stats.rejected_as_infrequent_objects > 900, "{stats:?}");
    assert!((4096..=64 << 20).contains(&stats.admission_memory_bytes));
    assert!((0..100).filter(|&key| rig.get(key).is_some()).count() > 80);
}

#[test]
fn the_life_of_a_drive_is_forecast_from_its_media_bytes() {
    let drive = drive();
    let rated = Endurance { rated_bytes: 100 << 30, written_bytes: 1 << 30 };
    let rig = Rig::open(
        Config {
            endurance: Some(rated),
            soc: SocConfig { percent: Some(90.0), ..config().soc },
            ..config()
        },
        &drive,
    );
    assert_eq!(rig.cache.stats().drive_life.unwrap().days_left, None, "nothing is known yet");
    a_day(&rig, &drive, 1000, 30_000);
    // What the opening wrote counts too.
    let written = drive.stats().media_written_bytes.unwrap();
    rig.clock.advance_to(Duration::from_secs(1000 + DAY_S));
    let life = rig.cache.stats().drive_life.unwrap();
    assert_eq!(life.written_bytes, (1 << 30) + written);
    assert_eq!(life.bytes_per_day, Some(written));
    assert_eq!(life.days_left, Some(((99 << 30) - written) / written));
    // A day without writes, read every hour: the window moves on.
    let lives = (1..=25).map(|hour| {
        rig.clock.advance_to(Duration::from_secs(1000 + DAY_S + hour * 3600));
        rig.cache.stats().drive_life.unwrap()
    });
    let after = lives.last().unwrap();
    assert_eq!((after.bytes_per_day, after.days_left), (Some(0), None));
    drop(rig);
    let without = Rig::open(Config { start_empty: true, ..config() }, &drive);
    assert_eq!(without.cache.stats().drive_life, None);
}
