//! Read-ahead: fetches the data that a read stream will request next. As the prefetch policy of that name in Open CAS,
//! with a window that grows with the stream.
//!
//! ```text
//!   a stream of reads ───────────────►│ end of the last one
//!   ├────── threshold or more ────────┤── ahead already ──┤─── next part ───┤
//!                                     └──────────── window ─────────────────┘
//! ```
//!
//! The next part is fetched when less than half of the window is ahead. The window is as long as the stream up to now,
//! but not longer than the configured window. So a short sequence of reads causes little useless read-ahead.

use crate::layout::{Room, SECTOR_BYTES};
use crate::{Error, ErrorKind};

/// From this dirty share on, in percent, read-ahead depends on the free room.
const DIRTY_PERCENT: u8 = 50;
/// From this dirty share on, in percent, nothing is read ahead if the layout does not report its free room.
const DIRTY_PERCENT_MAX: u8 = 80;

/// Which read streams are read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAheadPolicy {
    /// No stream is read ahead.
    #[default]
    Off,
    /// Streams that have reached the threshold are read ahead.
    On(ReadAheadOptions),
}

/// Which streams are read ahead, and how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAheadOptions {
    /// Bytes that a stream must have read in order before it is read ahead: 4 KiB to 1 GiB, default 64 KiB.
    pub threshold_bytes: u64,
    /// Most bytes ahead of a stream: 4 KiB to 16 MiB, default 256 KiB. Rounded down to whole lines; at least one line.
    pub window_bytes: u64,
}

impl Default for ReadAheadOptions {
    fn default() -> Self {
        Self { threshold_bytes: 64 << 10, window_bytes: 256 << 10 }
    }
}

impl ReadAheadPolicy {
    /// Checks the options.
    ///
    /// # Errors
    /// [`ErrorKind::Setup`], naming the parameter, if it is out of its range.
    pub fn check(&self) -> Result<(), Error> {
        let Self::On(ReadAheadOptions { threshold_bytes, window_bytes }) = *self else {
            return Ok(());
        };
        let complaint = if !(4 << 10..=1 << 30).contains(&threshold_bytes) {
            format!("threshold of {threshold_bytes} bytes: give 4 KiB to 1 GiB")
        } else if !(4 << 10..=16 << 20).contains(&window_bytes) {
            format!("window of {window_bytes} bytes: give 4 KiB to 16 MiB")
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Setup, format!("read-ahead: {complaint}")))
    }

    /// The part to read ahead of a stream now, in sectors of its core, if any.
    pub(crate) fn next_part(&self, stream: &StreamFacts) -> Option<std::ops::Range<u64>> {
        let Self::On(ReadAheadOptions { threshold_bytes, window_bytes }) = *self else {
            return None;
        };
        if stream.bytes < threshold_bytes {
            return None;
        }
        let StreamFacts { end, line_sectors, .. } = *stream;
        let sector = SECTOR_BYTES as u64;
        let window = (window_bytes.min(stream.bytes) / sector).max(line_sectors);
        let from = end.max(stream.ahead);
        if (from - end) * 2 >= window {
            return None;
        }
        // Reads beyond this would bypass the cache.
        let to = end.saturating_add(window.min(stream.bytes_left / sector));
        let to = (to - to % line_sectors).min(stream.core_sectors);
        (from < to).then_some(from..to)
    }
}

/// A stream, after its last read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamFacts {
    /// The end of the last read, in sectors.
    pub(crate) end: u64,
    /// Bytes that the stream has read in order.
    pub(crate) bytes: u64,
    /// The sector up to which the stream was read ahead.
    pub(crate) ahead: u64,
    /// Bytes that it may still read before it bypasses the cache.
    pub(crate) bytes_left: u64,
    /// Length of its core, in whole blocks.
    pub(crate) core_sectors: u64,
    /// Sectors of a line.
    pub(crate) line_sectors: u64,
}

/// Whether client writes need the free room. `room` is `None` if the layout does not know it.
pub(crate) fn is_short_of_room(room: Option<Room>, dirty_percent: u8) -> bool {
    match room {
        Some(Room { bytes, step_bytes }) => {
            dirty_percent >= DIRTY_PERCENT && bytes < step_bytes.saturating_mul(2)
        }
        None => dirty_percent >= DIRTY_PERCENT_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 2;
    const DEFAULT: ReadAheadPolicy = ReadAheadPolicy::On(ReadAheadOptions {
        threshold_bytes: 64 << 10,
        window_bytes: 256 << 10,
    });

    /// A stream that began at the first sector of its core, with lines of 4 KiB.
    fn stream(kib: u64) -> StreamFacts {
        StreamFacts {
            end: kib * KIB,
            bytes: kib << 10,
            ahead: 0,
            bytes_left: u64::MAX,
            core_sectors: 1 << 30,
            line_sectors: 4 * KIB,
        }
    }

    #[test]
    fn it_begins_with_the_read_that_makes_a_stream_as_long_as_the_threshold() {
        assert_eq!(DEFAULT.next_part(&stream(60)), None);
        assert_eq!(DEFAULT.next_part(&stream(64)), Some(64 * KIB..128 * KIB));
        assert_eq!(ReadAheadPolicy::Off.next_part(&stream(64)), None);
    }

    #[test]
    fn the_window_grows_with_the_stream_and_is_filled_when_half_of_it_is_read() {
        let (mut ahead, mut parts) = (0, Vec::new());
        for kib in (4..=1024).step_by(4) {
            if let Some(part) = DEFAULT.next_part(&StreamFacts { ahead, ..stream(kib) }) {
                assert!(part.start == ahead || ahead == 0, "without holes");
                ahead = part.end;
                parts.push((kib, (part.start / KIB, part.end / KIB)));
            }
        }
        let expected = [(64, (64, 128)), (88, (128, 176)), (120, (176, 240)), (164, (240, 328))];
        assert_eq!(parts[..4], expected, "{parts:?}");
        let last = &parts[parts.len() - 2..];
        assert_eq!(last[1].0 - last[0].0, 132, "every half window: {parts:?}");
        assert_eq!(last[1].1, (last[0].1.1, last[1].0 + 256));
    }

    #[test]
    fn it_ends_with_the_core_and_where_the_stream_would_pass_by() {
        let to = |facts| DEFAULT.next_part(&facts).map(|part| part.end / KIB);
        let of_core = |kib: u64| StreamFacts { core_sectors: kib * KIB, ..stream(512) };
        assert_eq!(
            [1024, 600, 513, 512].map(|kib| to(of_core(kib))),
            [Some(768), Some(600), Some(513), None]
        );
        let left = |bytes_left| StreamFacts { bytes_left, ..stream(512) };
        let lefts = [1 << 20, 100 << 10, (100 << 10) + 4095, 4095, 0].map(|bytes| to(left(bytes)));
        assert_eq!(lefts, [Some(768), Some(612), Some(612), None, None]);
    }

    #[test]
    fn parts_end_with_lines_and_are_a_line_at_least() {
        let long = StreamFacts { line_sectors: 64 * KIB, ..stream(100) };
        assert_eq!(DEFAULT.next_part(&long), Some(100 * KIB..192 * KIB));
        let few =
            ReadAheadPolicy::On(ReadAheadOptions { threshold_bytes: 4096, window_bytes: 4096 });
        assert_eq!(few.next_part(&long), Some(100 * KIB..128 * KIB));
        assert_eq!(few.next_part(&stream(100)), Some(100 * KIB..104 * KIB));
    }

    #[test]
    fn dirty_data_and_writes_that_need_room_go_first() {
        let room = |bytes| Some(Room { bytes, step_bytes: 100 });
        assert!(is_short_of_room(room(199), 50) && !is_short_of_room(room(200), 50));
        assert!(!is_short_of_room(room(0), 49), "what is clean gives way");
        assert!(is_short_of_room(None, 80) && !is_short_of_room(None, 79));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let on = |threshold_bytes, window_bytes| {
            ReadAheadPolicy::On(ReadAheadOptions { threshold_bytes, window_bytes })
        };
        for (policy, part) in [
            (on(4095, 4096), "threshold of 4095 bytes: give 4 KiB to 1 GiB"),
            (on((1 << 30) + 1, 4096), "threshold of"),
            (on(4096, 4095), "window of 4095 bytes: give 4 KiB to 16 MiB"),
            (on(4096, (16 << 20) + 1), "window of"),
        ] {
            let error = policy.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        for policy in [DEFAULT, on(4096, 4096), on(1 << 30, 16 << 20), ReadAheadPolicy::Off] {
            policy.check().unwrap();
        }
    }
}
