//! Tests segments under concurrent appends, overwrites, freezes, pins and marks.

use super::super::record::{encode, record_bytes};
use super::*;
use crate::base::item::{DramFields, ItemRef};
use crate::base::key::KeyHash;

const KEY: &[u8] = b"bread";

fn item(value: &[u8], version: u64) -> ItemRef<'_> {
    let dram = DramFields { version, ..DramFields::default() };
    ItemRef { dram, ..ItemRef::new(KeyHash::of(KEY), KEY, value, 0) }
}

fn append(writer: &mut Writer, value: &[u8]) -> usize {
    append_if_room(writer, value).expect("there is room")
}

fn append_if_room(writer: &mut Writer, value: &[u8]) -> Option<usize> {
    let item = item(value, 1);
    writer.append(record_bytes(&item), |room| encode(room, &item))
}

fn overwrite(segment: &Share, at: usize, value: &[u8]) -> bool {
    let item = item(value, 2);
    let locked = LockProofAlone::new();
    let fill = |room: &mut [u8]| encode(room, &item);
    segment.overwrite(at, record_bytes(&item), &locked, fill).is_some()
}

#[test]
fn what_is_appended_is_published_in_order() {
    let mut writer = Writer::allocate(60);
    assert_eq!([append(&mut writer, b"rye"), append(&mut writer, b"oat")], [0, 24]);
    assert_eq!(writer.append(16, |_| panic!("there is no room")), None);
    let segment = Frozen::new(writer.segment().clone());
    let found: Vec<_> = segment.records().map(|(at, record)| (at, record.value)).collect();
    assert_eq!(found, [(0, &b"rye"[..]), (24, &b"oat"[..])]);
}

#[test]
fn the_runs_of_a_segment_have_each_record_once() {
    let mut writer = Writer::allocate(200 << 10);
    let mut lengths = fastrand::Rng::with_seed(1);
    for _ in 0..2 {
        let value = [7; 5000];
        let appended = || append_if_room(&mut writer, &value[..lengths.usize(..5000)]);
        let wanted: Vec<usize> = std::iter::from_fn(appended).collect();
        let frozen = Frozen::new(writer.segment().clone());
        let mut runs = frozen.runs();
        assert_eq!(runs.len(), 8);
        let mut found = Vec::new();
        while !runs.is_empty() {
            for run in &mut runs {
                found.extend(frozen.take_of(run, 2).map(|(at, _)| at));
            }
            runs.retain(|run| run.at < run.end);
        }
        assert_ne!(found, wanted, "runs are followed in turn");
        found.sort_unstable();
        assert_eq!(found, wanted);
        drop(frozen);
        let Writer { segment } = writer;
        writer = Writer::recycle(Spare::new(segment).unwrap());
    }
}

#[test]
fn a_pinned_segment_is_not_reused() {
    let mut writer = Writer::allocate(64);
    let at = append(&mut writer, b"rye");
    let pin = writer.segment().pin(at);
    let Writer { segment } = writer;
    let segment = Spare::new(segment).unwrap_err();
    assert_eq!(pin.record().value, b"rye");
    drop(pin);
    let mut writer = Writer::recycle(Spare::new(segment).unwrap());
    assert_eq!(Frozen::new(writer.segment().clone()).end(), 0);
    assert_eq!(append(&mut writer, b"oat"), 0);
}

#[test]
fn a_pinned_or_frozen_segment_is_not_overwritten() {
    let mut writer = Writer::allocate(4 << 10);
    let (rye, oat) = (append(&mut writer, b"rye"), append(&mut writer, b"oat"));
    let segment = writer.segment().clone();
    assert!(overwrite(&segment, rye, b"bun"));
    let pin = segment.pin(rye);
    assert!(!overwrite(&segment, rye, b"pie") && !overwrite(&segment, oat, b"pie"));
    assert_eq!(pin.record().value, b"bun");
    drop(pin);
    let frozen = Frozen::new(segment);
    assert!(!overwrite(writer.segment(), oat, b"pie"));
    let segment = frozen.thaw();
    assert!(overwrite(&segment, oat, b"pie"));
    let version = |at: usize| segment.pin(at).record().version;
    assert_eq!([rye, oat].map(version), [2, 2]);
}

#[test]
fn freezing_a_segment_waits_for_overwriting_threads() {
    const VALUES: [[u8; 512]; 2] = [[3; 512], [4; 512]];
    let mut writer = Writer::allocate(16 << 10);
    let places: Vec<_> = (0..16).map(|_| append(&mut writer, &VALUES[0])).collect();
    let segment = writer.segment().clone();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut overwritten = 0;
            for turn in 0..20_000 {
                let done = overwrite(&segment, places[turn % 16], &VALUES[turn / 16 % 2]);
                overwritten += u32::from(done);
            }
            overwritten
        });
        while !writing.is_finished() {
            let frozen = Frozen::new(segment.clone());
            let is_whole = |record: ItemView<'_>| VALUES.iter().any(|v| v == record.value);
            assert!(frozen.records().all(|(_, record)| is_whole(record)));
            drop(frozen);
            std::thread::yield_now();
        }
        assert!(writing.join().unwrap() > 0);
    });
}

#[test]
fn readers_see_whole_records_while_a_writer_appends() {
    let mut writer = Writer::allocate(64 << 10);
    let shared = writer.segment().clone();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = 0;
                while seen < 1024 {
                    let segment = Frozen::new(shared.clone());
                    let is_whole = |value: &[u8]| value.iter().all(|byte| *byte == value[0]);
                    assert!(segment.records().all(|(_, record)| is_whole(record.value)));
                    seen = segment.records().count();
                }
            });
        }
        for record in 0..1024_u32 {
            append(&mut writer, &[record.to_le_bytes()[0]; 45]);
        }
    });
}

/// Checks what the sanitizer is told: bytes that were not appended, or date from before the segment was reused, must
/// not be accessed.
#[test]
#[cfg(larder_asan)]
fn only_what_is_published_may_be_touched() {
    let mut writer = Writer::allocate(4 << 10);
    let may_touch = |writer: &Writer, at: usize| writer.segment().memory.is_allowed(at);
    assert!(!may_touch(&writer, 0));
    let (rye, oat) = (append(&mut writer, b"rye"), append(&mut writer, b"oat"));
    assert!(may_touch(&writer, rye) && may_touch(&writer, oat + 20) && !may_touch(&writer, 64));
    let Writer { segment } = writer;
    let mut writer = Writer::recycle(Spare::new(segment).unwrap());
    assert!(!may_touch(&writer, rye) && !may_touch(&writer, oat));
    assert_eq!(append(&mut writer, b"bun"), 0);
    assert!(may_touch(&writer, 0) && !may_touch(&writer, oat + 8));
}

#[test]
fn hits_mark_a_record_while_others_read_it() {
    let mut writer = Writer::allocate(4 << 10);
    let at = append(&mut writer, b"rye");
    let segment = writer.segment().clone();
    let wins: usize = std::thread::scope(|scope| {
        let threads = (0..4_u32).map(|thread| {
            let segment = &segment;
            scope.spawn(move || {
                let mut wins = 0;
                for second in 1..5000 {
                    let pin = segment.pin(at);
                    let before = pin.record().marks;
                    Segment::note_hit(&pin, before, Some(second));
                    assert!(thread > 0 || second == 1 || before.is_fetched());
                    assert_eq!((pin.record().key, pin.record().value), (KEY, &b"rye"[..]));
                    wins += usize::from(segment.win(at, &LockProof::new()));
                }
                wins
            })
        });
        threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(wins, 1);
    let marks = segment.pin(at).record().marks;
    assert!(marks.is_fetched() && marks.is_won());
    let mut copies = Writer::allocate(64);
    let copy = append(&mut copies, b"rye");
    copies.segment().take_marks(copy, (&segment, at), &LockProofAlone::new());
    assert_eq!(copies.segment().pin(copy).record().marks, marks);
    assert_eq!(copies.segment().pin(copy).record().value, b"rye");
}
