//! Log events (feature `tracing`), recorded by a subscriber separately for each thread.
//!
//! `cargo test -p larder --features tracing --test it events`
//!
//! There is one subscriber for the whole program, not one for each test: `tracing` caches at each place in the code
//! whether any subscriber wants its event. As long as it knows only one subscriber, it asks that of the first thread
//! that reaches the place. A test that opens a cache without listening would cache the answer "no" for all others.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Once};
use std::time::Duration;

use larder::{Config, Larder, OnChange, RealClock, Recovery, Shards, SocConfig, block_on};
use larder_device::{Device, Fault, FaultPlan, FaultRule};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::faults::faulty;
use crate::rig::{Rig, config, drive, logged};

thread_local! {
    /// What this thread has recorded since it started listening, if it does: lines "LEVEL message name=value …".
    static HEARD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Records events of the target `larder` by thread.
struct Log;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let (before, text) = match field.name() {
            "message" => (std::mem::take(&mut self.0), format!("{value:?}")),
            name => (std::mem::take(&mut self.0), format!("{name}={value:?}")),
        };
        write!(self.0, "{before} {text}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        ["larder", "larder::open"].contains(&metadata.target())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        HEARD
            .with_borrow_mut(|heard| heard.iter_mut().for_each(|lines| lines.push(line.0.clone())));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The events that `work` logs on this thread.
fn told(work: impl FnOnce()) -> Vec<String> {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| tracing::subscriber::set_global_default(Log).unwrap());
    HEARD.set(Some(Vec::new()));
    work();
    HEARD.take().unwrap()
}

fn count(lines: &[String], begin: &str) -> u64 {
    lines.iter().filter(|line| line.starts_with(begin)).count() as u64
}

#[test]
fn an_outage_is_told_from_its_first_error_to_the_last_place_that_is_back() {
    for config in [config(), logged()] {
        let device = faulty(&FaultPlan::new(1));
        let rig = Rig::open(config, &device);
        let mut now = 1000;
        let mut load = |seconds: u32, first: u32| {
            for second in 0..seconds {
                now += 1;
                rig.clock.advance_to(Duration::from_secs(now));
                for n in 0..40 {
                    rig.set(first + second * 40 + n, 1, if n % 8 == 0 { 20_000 } else { 200 });
                }
            }
        };
        assert_eq!(told(|| load(60, 0)), [""; 0], "nothing happens on a good day");
        device.set_plan(&FaultPlan::new(1).with(FaultRule::new(Fault::Error).on_writes()));
        let mut lines = told(|| load(30, 10_000));
        let during = rig.cache.stats();
        assert_eq!(count(&lines, "WARN device error error="), during.device_errors);
        assert!(lines[0].contains("device error"), "{}", lines[0]);
        assert!(lines.iter().any(|line| line == "WARN writes suspended seconds=1"));
        assert_eq!(count(&lines, "INFO"), 0);
        device.set_plan(&FaultPlan::new(1));
        lines.extend(told(|| load(200, 20_000)));
        let after = rig.cache.stats();
        for (what, retired) in [
            ("bucket", after.soc_retired_buckets),
            ("segment", after.soc_log_retired_segments),
            ("region", after.loc_retired_regions),
        ] {
            let line = format!("WARN retired what=\"{what}\" number=");
            assert_eq!(count(&lines, &line), retired, "{what}");
        }
        assert!(after.soc_retired_buckets + after.soc_log_retired_segments > 0);
        let revived = count(&lines, "INFO revived what=\"bucket\" count=1");
        assert_eq!(revived, after.soc_revived_buckets);
        assert!(
            count(&lines, "INFO revived what=\"region\"") > 0 || after.loc_revived_regions == 0
        );
        assert_eq!(count(&lines, "INFO writes resumed"), 1);
        let (lost, back) = (after.tombstone_logs_given_up, after.tombstone_logs_regained);
        assert_eq!(count(&lines, "ERROR tombstone log given up"), lost);
        assert_eq!(count(&lines, "INFO tombstone log regained"), back);
    }
}

#[test]
fn a_log_of_the_dead_that_is_given_up_and_regained_is_told() {
    let device = faulty(&FaultPlan::new(3));
    let rig = Rig::open(config(), &device);
    let set_all = |version| (0..400).for_each(|key| rig.set(key, version, 300));
    set_all(1);
    let layout = *rig.cache.layout().unwrap();
    let log = layout.metadata_bytes..layout.loc_offset;
    device.set_plan(&FaultPlan::new(3).with(FaultRule::new(Fault::Error).on_writes().within(log)));
    let lines = told(|| set_all(2));
    assert_eq!(rig.cache.stats().crash_safe, 0);
    assert_eq!(count(&lines, "ERROR tombstone log given up"), 1, "{lines:?}");
    device.set_plan(&FaultPlan::new(3));
    rig.clock.advance_to(Duration::from_secs(2000));
    let lines = told(|| set_all(3));
    assert_eq!(rig.cache.stats().crash_safe, 1);
    assert_eq!(count(&lines, "INFO tombstone log regained"), 1, "{lines:?}");
}

#[test]
fn each_opening_is_told_with_how_it_ended() {
    let drive = drive();
    let open = |config: Config| {
        let mut opened = None;
        let lines = told(|| opened = Some(Rig::try_open(config, &drive)));
        assert_eq!(lines.len(), 1, "{lines:?}");
        (opened.unwrap(), lines[0].clone())
    };
    let (rig, line) = open(config());
    assert!(line.starts_with("INFO opened") && line.ends_with("recovery=Fresh"), "{line}");
    block_on(rig.unwrap().cache.close()).unwrap();
    let (rig, line) = open(config());
    assert!(line.ends_with("recovery=Clean { large_objects: 0 }"), "{line}");
    drop(rig);
    let (rig, line) = open(config());
    assert!(line.contains("recovery=Crashed {"), "{line}");
    let (refused, line) = open(config());
    assert_eq!(line, format!("ERROR opening refused error={}", refused.err().unwrap()));
    drop(rig);
    let changed = || Config { soc: SocConfig { percent: Some(50.0), ..config().soc }, ..config() };
    let (refused, line) = open(changed());
    assert!(refused.is_err() && line.starts_with("ERROR opening refused"), "{line}");
    let (rig, line) = open(Config { on_change: OnChange::Discard, ..changed() });
    let Some(Recovery::Discarded { reason }) = rig.unwrap().cache.recovery() else { panic!() };
    assert!(line.starts_with("WARN discarded"), "{line}");
    assert!(line.ends_with(&format!("reason={reason:?}")), "{line}");
    assert!(line.contains(&drive.info().name), "{line}");
    let lines = told(|| {
        let refused = Config {
            soc: SocConfig { percent: Some(101.0), ..SocConfig::default() },
            ..Config::default()
        };
        assert!(block_on(Larder::open(refused, None, Arc::new(RealClock))).is_err());
    });
    assert!(lines[0].starts_with("ERROR opening refused error=soc.percent"), "{lines:?}");
}

#[test]
fn a_shard_without_its_device_is_told() {
    let lines = told(|| {
        let devices = vec![Some(drive() as Arc<dyn Device>), None];
        block_on(Shards::open(config(), devices, Arc::new(RealClock))).unwrap();
    });
    assert_eq!(count(&lines, "ERROR shard down"), 1, "{lines:?}");
    assert_eq!(count(&lines, "INFO opened"), 1, "{lines:?}");
}
