//! Segments that are filled again, with a power loss at the worst time: old data must not be taken for data that was
//! written later.

use larder_block::accounting::{Accounting, Image};
use larder_block::layout::log::{LogLayout, LogOptions};
use larder_block::layout::{Data, DeviceIo, Ending, LayoutRequest, RequestId, Span, Target};
use larder_device::DeviceInfo;

use super::rig::{core, device, start};
use super::shadow::{Kind, Shadow, ShadowRequest};

/// A log that only appends, with segments of `segment_bytes` on 12 times that size, and its expected content.
struct Life {
    device: DeviceInfo,
    options: LogOptions,
    epoch: u32,
    shadow: Shadow,
    run: Accounting<LogLayout>,
}

/// A line by its number.
fn line(number: u64) -> Span {
    Span { core: core(0), first: number * 8, sectors: 8 }
}

/// Recovers the log. Memory is torn between words.
fn started(
    device: &DeviceInfo,
    options: &LogOptions,
    epoch: u32,
    cache: Image,
) -> Accounting<LogLayout> {
    let whole_bytes = if device.block_bytes < 512 { 8 } else { 512 };
    start(device, options, epoch, cache).tearing_between(whole_bytes)
}

impl Life {
    fn new(block_bytes: u32, segment_bytes: u32) -> Self {
        let device = device(12 * u64::from(segment_bytes), block_bytes);
        let device = DeviceInfo { atomic_write_bytes: None, ..device };
        let options = LogOptions { segment_bytes, write_buffer_bytes: 0, ..LogOptions::default() };
        let run = started(&device, &options, 1, Image::default());
        Self { device, options, epoch: 1, shadow: Shadow::default(), run }
    }

    fn submit(&mut self, span: Span, kind: Kind) -> (RequestId, ShadowRequest) {
        let (known, request) = self.shadow.request(span, kind);
        (self.run.submit(request), known)
    }

    fn hear(&mut self, under_way: &mut Vec<(RequestId, ShadowRequest)>) {
        under_way.retain(|(id, known)| match self.run.take_ended(*id) {
            Some((ending, read)) => {
                assert_eq!(ending, Ending::Done);
                self.shadow.ended(known, &read);
                false
            }
            None => true,
        });
    }

    /// Writes these lines, all at once, to the end.
    fn write(&mut self, lines: impl Iterator<Item = u64>) {
        let mut under_way: Vec<_> =
            lines.map(|number| self.submit(line(number), Kind::Write)).collect();
        while !under_way.is_empty() {
            assert!(self.run.turn(), "nothing is under way, and these do not end: {under_way:?}");
            self.run.carry_out_all(|count| (0..count).collect());
            self.hear(&mut under_way);
        }
    }

    /// Loses power with these requests in flight. Of the sectors or words in flight to the cache device, those survive
    /// for which `survives` returns true, given the offset.
    fn lose_power(
        &mut self,
        under_way: &[(RequestId, ShadowRequest)],
        survives: impl Fn(u64) -> bool,
    ) {
        let lost: Vec<ShadowRequest> = under_way.iter().map(|(_, known)| known.clone()).collect();
        self.shadow.lost_power(&lost);
        let blank = started(&self.device, &self.options, 1, Image::default());
        let run = std::mem::replace(&mut self.run, blank);
        let (cache, cores) =
            run.lose_power_where(|target, offset| target == Target::Cache && survives(offset));
        self.epoch += 1;
        self.run = started(&self.device, &self.options, self.epoch, cache).with_cores(cores);
    }

    fn check(&mut self, lines: u64) {
        for number in 0..lines {
            let (_, read) = self.run.run(LayoutRequest::Read { span: line(number) });
            self.shadow.found(line(number), &read);
        }
    }
}

/// Segments are drained while all batches that state so are in flight, and are filled again before one of these has
/// arrived. Then power is lost: of the youngest write everything except its first sector or word arrives, of the
/// others nothing. The first segment has old data of line 0, the second has new data; `is_held`: a slow read prevents
/// the first from being filled. Returns whether anything has happened in the last turn.
fn power_is_lost_when_a_segment_is_filled_anew(
    block_bytes: u32,
    is_held: bool,
    turns: usize,
) -> bool {
    let mut life = Life::new(block_bytes, 256 << 10);
    let lines = 9 * u64::from(life.options.segment_bytes) / 4096;
    // This number of lines fills a segment with blocks of 4 KiB.
    let order: Vec<u64> = (0..61).chain([0]).chain(61..lines).collect();
    order.chunks(61).for_each(|some| life.write(some.iter().copied()));
    let mut under_way: Vec<_> =
        (lines..lines + 260).map(|number| life.submit(line(number), Kind::Write)).collect();
    let read = is_held.then(|| life.submit(line(1), Kind::Read));
    let stays = |io: &DeviceIo, is_last_turn: bool| match io {
        // In memory nothing follows a note before it is durable: all writes complete except those of the last turn.
        DeviceIo::Write { target, .. } => {
            *target == Target::Cache && (block_bytes >= 512 || is_last_turn)
        }
        DeviceIo::Read { reader, .. } => reader.is_some(),
        _ => false,
    };
    let mut has_happened = true;
    for turn in 1..=turns {
        let before = life.run.under_way().count();
        life.run.turn();
        has_happened = life.run.under_way().count() > before;
        let order: Vec<usize> = life
            .run
            .under_way()
            .enumerate()
            .filter(|(_, io)| !stays(io, turn == turns))
            .map(|(n, _)| n)
            .collect();
        life.run.carry_out_all(|_| order);
        life.hear(&mut under_way);
    }
    under_way.extend(read);
    let writes = life.run.under_way().filter_map(|io| match io {
        DeviceIo::Write { target: Target::Cache, offset, parts, .. } => {
            let bytes: usize = parts.iter().map(Data::len).sum();
            Some(*offset..*offset + bytes as u64)
        }
        _ => None,
    });
    let youngest = writes.last().unwrap_or_default();
    life.lose_power(&under_way, |offset| offset > youngest.start && offset < youngest.end);
    life.check(lines + 260);
    has_happened
}

#[test]
fn a_segment_is_void_before_it_is_filled_anew() {
    for (block_bytes, is_held) in
        [64, 512, 4096].into_iter().flat_map(|it| [(it, false), (it, true)])
    {
        let mut turns = 0;
        while power_is_lost_when_a_segment_is_filled_anew(block_bytes, is_held, turns) {
            turns += 1;
        }
        assert!(turns > 8, "segments give way and are filled anew: {turns} turns");
    }
}

/// A torn note destroys both itself and what it overwrites. So it does not overwrite the note that counts, whichever
/// start wrote that.
#[test]
fn a_note_goes_to_the_place_where_the_last_one_is_not() {
    let mut life = Life::new(64, 256 << 10);
    // Only the writes of this test are written.
    life.options.reinsert_percent = 0;
    life.lose_power(&[], |_| false);
    let mut places: Vec<Vec<u64>> = vec![Vec::new(); 12];
    for round in 0..3 {
        let mut under_way: Vec<_> =
            (0..1200).map(|number| life.submit(line(number + 100 * round), Kind::Write)).collect();
        while !under_way.is_empty() {
            life.run.turn();
            for io in life.run.under_way() {
                if let DeviceIo::Write { target: Target::Cache, offset, parts, .. } = io
                    && parts.iter().map(Data::len).sum::<usize>() == 64
                {
                    let segment = usize::try_from(offset / (256 << 10)).unwrap();
                    places[segment].push(offset % (256 << 10));
                }
            }
            life.run.carry_out_all(|count| (0..count).collect());
            life.hear(&mut under_way);
        }
        life.lose_power(&[], |_| false);
        life.check(1400);
    }
    for (segment, places) in places.iter().enumerate() {
        assert!(places.len() > 2, "segment {segment} was filled {} times", places.len());
        assert!(places.iter().all(|place| [0, 64].contains(place)), "{places:?}");
        assert!(places.windows(2).all(|pair| pair[0] != pair[1]), "segment {segment}: {places:?}");
    }
}

/// Two batches are in flight to a blank segment, and only the second arrives. The next start does not find it. It
/// begins the segment and the sequences where the first start did, with a batch of the same length.
#[test]
fn what_a_start_has_not_found_no_later_start_finds() {
    // The second batch ends the segment with a footer, or does not.
    for segment_bytes in [256 << 10, 1 << 20] {
        let mut life = Life::new(512, segment_bytes);
        let under_way: Vec<_> =
            (0..63).map(|number| life.submit(line(number), Kind::Write)).collect();
        life.run.turn();
        // A header of one sector, and 28 lines.
        life.lose_power(&under_way, |offset| offset >= (1 + 28 * 8) * 512);
        life.check(100);
        life.write(70..98);
        life.lose_power(&[], |_| false);
        life.check(100);
    }
}
