//! Tests of the oracle with right and wrong histories, and of values and journals.

use super::journal::{Answer, Moment, Record, Verb, Writer, read};
use super::oracle::{Kind, Oracle};
use super::value::{self, PIECE_BYTES_MIN, Piece, Reading, encode};

const SECOND_NS: u64 = 1_000_000_000;
const NOW_NS: u64 = 1000 * SECOND_NS;

fn begin(oracle: &mut Oracle, verb: Verb, version: u64, seen: u64, ttl_s: u32) -> Record {
    let record = Record {
        moment: Moment::Begin,
        verb,
        answer: Answer::None,
        key: 0,
        version,
        seen,
        time_ns: NOW_NS,
        number: ttl_s,
    };
    assert_eq!(oracle.follow(&record), Ok(None));
    record
}

fn end(oracle: &mut Oracle, begun: Record, answer: Answer) -> Option<Kind> {
    oracle.follow(&Record { moment: Moment::End, answer, ..begun }).unwrap_or(None)
}

/// A whole operation.
fn done(oracle: &mut Oracle, verb: Verb, version: u64, answer: Answer) {
    let begun = begin(oracle, verb, version, 0, 0);
    assert_eq!(end(oracle, begun, answer), None);
}

fn sees(oracle: &mut Oracle, version: u64) -> Option<Kind> {
    oracle.look(0, Answer::Seen, version, NOW_NS)
}

#[test]
fn only_the_newest_acknowledged_version_is_right() {
    let mut oracle = Oracle::new(1);
    done(&mut oracle, Verb::Set, 1, Answer::Done);
    done(&mut oracle, Verb::Set, 2, Answer::Done);
    assert_eq!(sees(&mut oracle, 2), None);
    assert_eq!(oracle.look(0, Answer::Miss, 0, NOW_NS), None);
    assert_eq!(sees(&mut oracle, 1), Some(Kind::Stale));
    assert_eq!(sees(&mut oracle, 3), Some(Kind::Unknown));
}

#[test]
fn what_was_cut_off_is_there_or_not_and_then_it_is_known() {
    for (seen, other) in [(1, 2), (2, 1)] {
        let mut oracle = Oracle::new(1);
        done(&mut oracle, Verb::Set, 1, Answer::Done);
        begin(&mut oracle, Verb::Set, 2, 0, 0);
        assert_eq!(oracle.cut_off(NOW_NS), 1);
        assert_eq!(oracle.certain(0, NOW_NS), None);
        assert_eq!(sees(&mut oracle, seen), None);
        assert_eq!(oracle.certain(0, NOW_NS), Some(seen));
        assert_eq!(sees(&mut oracle, other), Some(Kind::Stale));
    }
}

#[test]
fn a_miss_brings_no_older_version_back() {
    let mut oracle = Oracle::new(1);
    done(&mut oracle, Verb::Set, 1, Answer::Done);
    done(&mut oracle, Verb::Set, 2, Answer::Done);
    oracle.cut_off(NOW_NS);
    assert_eq!(oracle.look(0, Answer::Miss, 0, NOW_NS), None);
    assert_eq!(sees(&mut oracle, 2), None);
    assert_eq!(oracle.reappeared, 1);
    assert_eq!(sees(&mut oracle, 1), Some(Kind::Stale));
}

#[test]
fn a_deleted_value_stays_deleted_for_every_request() {
    let mut oracle = Oracle::new(1);
    done(&mut oracle, Verb::Set, 1, Answer::Done);
    done(&mut oracle, Verb::Delete, 0, Answer::Done);
    for (verb, seen, answer) in [
        (Verb::Add, 0, Answer::No),
        (Verb::Touch, 0, Answer::Yes),
        (Verb::Append, 1, Answer::Yes),
        (Verb::Cas, 1, Answer::Yes),
        (Verb::Get, 1, Answer::Seen),
    ] {
        let mut oracle = Oracle::new(1);
        done(&mut oracle, Verb::Set, 1, Answer::Done);
        done(&mut oracle, Verb::Delete, 0, Answer::Done);
        let begun = begin(&mut oracle, verb, 0, seen, 0);
        assert_eq!(end(&mut oracle, begun, answer), Some(Kind::Deleted), "{verb:?}");
    }
    assert_eq!(sees(&mut oracle, 1), Some(Kind::Deleted));
    // A delete that was interrupted allows both.
    let mut oracle = Oracle::new(1);
    done(&mut oracle, Verb::Set, 1, Answer::Done);
    begin(&mut oracle, Verb::Delete, 0, 0, 0);
    oracle.cut_off(NOW_NS);
    assert_eq!(sees(&mut oracle, 1), None);
}

#[test]
fn nothing_is_right_after_its_time() {
    let mut oracle = Oracle::new(1);
    let begun = begin(&mut oracle, Verb::Set, 1, 0, 2);
    end(&mut oracle, begun, Answer::Done);
    assert_eq!(oracle.look(0, Answer::Seen, 1, NOW_NS + 2 * SECOND_NS), None);
    let late_ns = NOW_NS + 3 * SECOND_NS;
    assert_eq!(oracle.certain(0, late_ns), None);
    assert_eq!(oracle.look(0, Answer::Seen, 1, late_ns), Some(Kind::Expired));
    // A touch extends the life, and an interrupted one may have.
    let mut oracle = Oracle::new(1);
    let begun = begin(&mut oracle, Verb::Set, 1, 0, 2);
    end(&mut oracle, begun, Answer::Done);
    begin(&mut oracle, Verb::Touch, 0, 0, 4);
    oracle.cut_off(NOW_NS);
    assert_eq!(oracle.look(0, Answer::Seen, 1, late_ns), None);
}

#[test]
fn what_is_appended_continues_what_was_there() {
    let mut oracle = Oracle::new(1);
    done(&mut oracle, Verb::Set, 1, Answer::Done);
    let begun = begin(&mut oracle, Verb::Append, 2, 1, 0);
    assert_eq!(end(&mut oracle, begun, Answer::Yes), None);
    assert_eq!(sees(&mut oracle, 2), None);
    let begun = begin(&mut oracle, Verb::Append, 3, 1, 0);
    assert_eq!(end(&mut oracle, begun, Answer::Yes), Some(Kind::Stale));
}

#[test]
fn a_journal_that_cannot_be_is_refused() {
    let mut oracle = Oracle::new(1);
    let begun = begin(&mut oracle, Verb::Set, 1, 0, 0);
    assert!(oracle.follow(&begun).is_err());
    assert!(oracle.follow(&Record { key: 1, ..begun }).is_err());
    assert!(oracle.follow(&Record { moment: Moment::End, version: 2, ..begun }).is_err());
}

#[test]
fn values_say_whose_they_are() {
    let piece = |version, after| encode(Piece { run: 7, key: 3, version, after }, 100);
    let chain = [piece(1, 0), piece(4, 1), piece(9, 4)].concat();
    assert_eq!(value::read(7, 3, &chain), Reading::Whole { version: 9, pieces: 3 });
    assert_eq!(value::read(7, 4, &chain), Reading::Foreign);
    assert_eq!(value::read(8, 3, &chain), Reading::Foreign);
    let gap = [piece(1, 0), piece(9, 4)].concat();
    assert_eq!(value::read(7, 3, &gap), Reading::Torn);
    assert_eq!(value::read(7, 3, &[]), Reading::Torn);
    assert_eq!(encode(Piece { run: 7, key: 3, version: 1, after: 0 }, 0).len(), PIECE_BYTES_MIN);
    for at in 0..chain.len() {
        let mut changed = chain.clone();
        changed[at] ^= 0x10;
        assert_eq!(value::read(7, 3, &changed), Reading::Torn, "byte {at}");
        assert_eq!(
            value::read(7, 3, &chain[..at]) == Reading::Torn,
            !at.is_multiple_of(100) || at == 0
        );
    }
}

#[test]
fn a_journal_loses_its_last_record_at_most() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("journal");
    assert_eq!(read(&path)?, []);
    let mut oracle = Oracle::new(1);
    let record = begin(&mut oracle, Verb::Touch, 5, 6, 7);
    let mut writer = Writer::create(&path)?;
    for _ in 0..3 {
        writer.write(&record)?;
    }
    assert_eq!(read(&path)?, [record; 3]);
    let mut bytes = std::fs::read(&path)?;
    bytes.truncate(150);
    std::fs::write(&path, &bytes)?;
    assert_eq!(read(&path)?, [record; 2]);
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes)?;
    assert!(read(&path).is_err());
    Ok(())
}
