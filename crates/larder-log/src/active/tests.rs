//! Tests of filling regions without a device: the pieces go to a vector.

use proptest::prelude::*;

use super::*;
use crate::footer::{self, Footer};
use crate::record::Record;

const REGION: usize = 512 << 10;
const PIECE: usize = 64 << 10;

fn identity(region: u32) -> RegionIdentity {
    RegionIdentity { region: RegionId::new(region), sequence: 1 + u64::from(region) }
}

fn add(regions: &mut ActiveRegions, number: u32, stream: usize) {
    regions.begin(CacheId::ZERO, identity(number), (stream, REGION));
}

fn new<'a>(hash: u64, key: &'a [u8], value: &'a [u8]) -> NewRecord<'a> {
    NewRecord { hash, key, value, expiry_s: 0, flags: 0, marks: 0, stamp: None }
}

fn parsed(bytes: &[u8], offset: u32) -> Option<Record<'_>> {
    let identity = identity(0);
    let at = RecordIdentity { cache: CacheId::ZERO, sequence: identity.sequence, offset };
    record::parse_first(bytes, at)
}

#[test]
fn closed_regions_are_written_before_open_ones() {
    let mut regions = ActiveRegions::new(RecordForm::PLAIN, BLOCK_BYTES, REGION);
    let value = vec![1; BLOCK_BYTES];
    for (number, stream) in [(0, 0), (1, 1), (2, 2)] {
        add(&mut regions, number, stream);
        regions.append(stream, &new(1, b"key", &value));
    }
    regions.get_mut(RegionId::new(1)).unwrap().close();
    let pool = BufferPool::new();
    let mut next = || regions.next_piece(&pool, 0).map(|piece| piece.identity.region.number());
    // Each region has a block of records to write; the footer waits until that is written.
    assert_eq!([next(), next(), next(), next()], [Some(1), Some(0), Some(2), None]);
}

#[test]
fn beyond_the_budget_the_fullest_is_written_first() {
    let mut regions = ActiveRegions::new(RecordForm::PLAIN, PIECE, 3 * PIECE / 2);
    let value = vec![1; PIECE / 4];
    for stream in 0..32 {
        add(&mut regions, stream, stream as usize);
    }
    let pool = BufferPool::new();
    assert_eq!(
        (0..2).filter(|_| regions.append(7, &new(1, b"key", &value)).1.length > 0).count(),
        2
    );
    for stream in 0..3 {
        regions.append(stream, &new(1, b"key", &value));
    }
    assert!(!regions.has_pieces() && regions.next_piece(&pool, 0).is_none());
    regions.append(9, &new(1, b"key", &value));
    assert!(regions.is_due(RegionId::new(9)), "all of them together");
    let piece = regions.next_piece(&pool, 0).unwrap();
    assert_eq!((piece.identity.region.number(), piece.offset), (7, 0));
    assert!(piece.buffer.len() < PIECE && regions.next_piece(&pool, 0).is_none());
}

#[test]
fn what_is_on_flash_leaves_memory() {
    let mut regions = ActiveRegions::new(RecordForm::PLAIN, PIECE, REGION);
    add(&mut regions, 0, 0);
    let (pool, value) = (BufferPool::new(), vec![1; 5000]);
    let mut most = 0;
    while regions.open(0).unwrap().has_room_for(5003) {
        regions.append(0, &new(1, b"key", &value));
        if let Some(piece) = regions.next_piece(&pool, 0) {
            assert!(!regions.piece_written(piece.identity, piece.offset));
        }
        most = most.max(regions.memory_bytes());
    }
    // A piece that is filling, a record across its start, chunks that begin before it, and the spare chunks.
    assert!(most <= 4 * PIECE, "{most} of {REGION}");
}

/// The steps of [`a_region_is_on_flash_as_it_was_in_memory`].
#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Send,
    End(prop::sample::Index),
    WantRest,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_000_usize).prop_map(Step::Append),
        2 => Just(Step::Send),
        2 => any::<prop::sample::Index>().prop_map(Step::End),
        1 => Just(Step::WantRest),
    ]
}

/// A pool whose buffers were used before.
fn used_pool() -> BufferPool {
    let pool = BufferPool::new();
    let lengths = (1..=REGION / BLOCK_BYTES).map(|blocks| blocks * BLOCK_BYTES);
    let mut buffers: Vec<IoBuffer> = lengths.map(|bytes| pool.take(bytes)).collect();
    buffers.iter_mut().for_each(|buffer| buffer.as_mut_slice().fill(0xdd));
    pool
}

/// A region with a stand-in for its device.
struct Bench {
    regions: ActiveRegions,
    pool: BufferPool,
    in_flight: Vec<Piece>,
    flash: Vec<u8>,
    written: Vec<(FooterEntry, u8)>,
}

impl Bench {
    fn append(&mut self, bytes: usize) {
        let tag = u8::try_from(self.written.len() % 251).unwrap();
        let value = vec![tag; bytes];
        let has_room = |active: &mut ActiveRegion| active.has_room_for(3 + bytes);
        if self.regions.open(0).is_some_and(has_room) {
            let (_, entry) = self.regions.append(0, &new(tag.into(), b"key", &value));
            self.written.push((entry, tag));
        }
    }

    fn send(&mut self) {
        let next = self.regions.next_piece(&self.pool, 0);
        self.in_flight.extend(next);
    }

    /// Ends a write. Returns whether the region is completely on flash.
    fn end(&mut self, which: usize) -> bool {
        if self.in_flight.is_empty() {
            return false;
        }
        let Piece { identity, offset, buffer, .. } = self.in_flight.swap_remove(which);
        let room = &mut self.flash[offset..offset + buffer.len()];
        assert!(room.iter().all(|&byte| byte == 0xee), "each place is written once");
        room.copy_from_slice(buffer.as_slice());
        self.regions.piece_written(identity, offset)
    }

    /// Every record is in memory or on flash.
    fn check(&self) {
        let active = self.regions.get(RegionId::new(0)).unwrap();
        for (FooterEntry { offset, length, .. }, tag) in &self.written {
            let buffer = active.in_memory(*offset, *length, &self.pool);
            let bytes = buffer.as_ref().map_or(&self.flash[*offset as usize..], IoBuffer::as_slice);
            let record = parsed(bytes, *offset).expect("it is in one of them");
            assert!(record.body[3..].iter().all(|byte| byte == tag));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_region_is_on_flash_as_it_was_in_memory(steps in prop::collection::vec(step(), 1..80)) {
        let regions = ActiveRegions::new(RecordForm::PLAIN, PIECE, REGION);
        let (pool, in_flight, written) = (used_pool(), Vec::new(), Vec::new());
        let mut bench = Bench { regions, pool, in_flight, flash: vec![0xee; REGION], written };
        add(&mut bench.regions, 0, 0);
        for step in steps {
            match step {
                Step::Append(bytes) => bench.append(bytes),
                Step::Send => bench.send(),
                Step::End(which) => {
                    let pieces = bench.in_flight.len();
                    bench.end(if pieces == 0 { 0 } else { which.index(pieces) });
                    if bench.regions.get(RegionId::new(0)).is_some_and(|it| it.in_flight.on_flash() == REGION) {
                        break;
                    }
                }
                Step::WantRest => bench.regions.want_rest(),
            }
            bench.check();
        }
        bench.regions.close_all();
        while bench.regions.get(RegionId::new(0)).unwrap().in_flight.on_flash() < REGION {
            bench.send();
            bench.end(0);
        }
        let footer = footer::parse(&bench.flash, (CacheId::ZERO, RecordForm::PLAIN), RegionId::new(0), REGION);
        let Footer { sequence, entries, .. } = footer.expect("it is sealed");
        prop_assert_eq!(sequence, identity(0).sequence);
        prop_assert!(entries.iter().eq(bench.written.iter().map(|(entry, _)| entry)));
        for (entry, tag) in &bench.written {
            let record = parsed(&bench.flash[entry.offset as usize..], entry.offset).unwrap();
            prop_assert!(record.body[3..].iter().all(|byte| byte == tag));
        }
        let records_end = entries.last().map_or(0, |entry| RecordForm::PLAIN.end_of(entry));
        let rest = &bench.flash[records_end..REGION - RecordForm::PLAIN.footer_bytes(entries.len())];
        prop_assert!(rest.iter().all(|&byte| byte == 0), "nothing of what buffers had before");
        let filled = bench.regions.remove(RegionId::new(0)).unwrap();
        prop_assert_eq!(filled.entries.len(), bench.written.len());
    }
}
