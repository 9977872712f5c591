//! A few real kills, and tests that the judge notices defects. For more: `cargo xtask kills --times N`.

use std::process::Command;

use larder_sim::kills::{self, Ending, InjectedBug, Kind, Options, Report};

/// This program as a victim: it runs only [`victim`].
fn victim_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["kills::victim", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

#[test]
#[ignore = "what the other tests kill; started by them"]
fn victim() {
    if let Some(served) = kills::serve() {
        served.unwrap();
    }
}

fn run(options: Options) -> Report {
    let dir = tempfile::tempdir().unwrap();
    // At least a second passes before the first value should expire; it must not be overwritten before that.
    let size_bytes = if options.bug == InjectedBug::Immortal { 256 << 20 } else { 24 << 20 };
    let small = Options {
        dir: dir.path().to_owned(),
        size_bytes,
        dram_bytes: 2 << 20,
        threads: 4,
        ..options
    };
    kills::run(&small, &victim_command, &mut |_| {}).unwrap()
}

#[test]
fn every_answer_is_right_after_kills() {
    let mut operations = 0;
    for ending in [None, Some(Ending::Opening), Some(Ending::Closing), Some(Ending::Closed)] {
        let options = Options { times: 2, load_ms: 400, ending, ..Options::default() };
        let report = run(options);
        let Report { failed, wrong, rounds, .. } = &report;
        assert!(failed.is_none() && wrong.is_empty(), "{ending:?}: {failed:?} {wrong:#?}");
        assert_eq!(rounds.len(), 2);
        operations += rounds.iter().map(|round| round.operations).sum::<u64>();
        if ending == Some(Ending::Closed) {
            // After a close, data is found again: the judge sees the content.
            let totals = report.totals(Ending::Closed);
            assert_eq!(totals.rounds, 2);
            assert!(totals.alive.found > 0, "{totals:?}");
        }
    }
    assert!(operations > 0);
}

/// The judge must notice a defective victim; otherwise a pass would prove nothing.
#[test]
fn every_lie_is_found_out() {
    for bug in InjectedBug::ALL {
        // Closed, so that the judge finds data; long enough for times to live to end.
        let load_ms = if bug == InjectedBug::Immortal { 8000 } else { 1500 };
        let ending = Some(Ending::Closed);
        let report = run(Options { times: 3, load_ms, ending, bug, ..Options::default() });
        let kinds = report.wrong_by_kind();
        let expected = match bug {
            InjectedBug::OmittedSet => Kind::Unknown,
            InjectedBug::ForgedSet | InjectedBug::OldFile => Kind::Stale,
            InjectedBug::ForgedDelete => Kind::Deleted,
            InjectedBug::Torn => Kind::Torn,
            InjectedBug::Foreign => Kind::Foreign,
            InjectedBug::Immortal => Kind::Expired,
            InjectedBug::None => unreachable!(),
        };
        assert!(kinds.contains_key(&expected), "{bug:?}: {kinds:?} {:?}", report.failed);
        let last = report.rounds.last().unwrap();
        assert_eq!(report.failed_round(), Some(last.round));
        let wrong: u64 = last.wrong.values().sum();
        assert!(last.wrong_to_judge > 0, "{bug:?}: {last:?}");
        // An old file appears only after the victim has ended; all other defects are also found by its own gets.
        assert_eq!(wrong == last.wrong_to_judge, bug == InjectedBug::OldFile, "{bug:?}: {last:?}");
        assert!(report.wrong[0].text.contains("allowed was"), "{:?}", report.wrong);
    }
}
