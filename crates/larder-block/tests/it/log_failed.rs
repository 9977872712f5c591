//! Failing appends: data that is acknowledged later must not be stored after a hole.

use larder_block::accounting::{Image, stamped, stamps};
use larder_block::layout::log::LogOptions;
use larder_block::layout::{DeviceIo, Ending, LayoutRequest, PlacementClass, Span};

use super::rig::{core, device, start};

const LINES: u64 = 40;

fn line(number: u64) -> Span {
    Span { core: core(0), first: number * 8, sectors: 8 }
}

/// A batch of clean data is in flight, so that the failure of the later batch is not reported yet. Its segment must
/// take no more data nevertheless.
#[test]
fn what_is_written_behind_a_failed_append_is_found_again() {
    let device = device(16 << 20, 512);
    let options =
        LogOptions { segment_bytes: 1 << 20, write_buffer_bytes: 0, ..LogOptions::default() };
    for seed in 0..8 {
        let mut run = start(&device, &options, 1, Image::default());
        let clean = line(1000);
        run.submit(LayoutRequest::InsertClean { span: clean, data: stamps(clean, 1) });
        run.turn();
        let failing = run.submit(stamped(core(0), 2000 * 8, 8, 2));
        run.turn();
        let is_dirty =
            |io: &DeviceIo| matches!(io, DeviceIo::Write { class: PlacementClass::Dirty, .. });
        let dirty = run.under_way().position(is_dirty).unwrap();
        assert_eq!(run.under_way().count(), 2, "the clean one is before it");
        run.fail_one_in(1, seed);
        run.carry_out_all(|_| vec![dirty]);
        run.fail_one_in(0, 0);
        assert_eq!(run.take_ended(failing), None, "it is told in its turn");
        // Enough for a batch that does not wait for another one.
        let later: Vec<_> =
            (0..LINES).map(|number| run.submit(stamped(core(0), number * 8, 8, 3))).collect();
        run.settle();
        assert!(matches!(run.take_ended(failing), Some((Ending::Failed, _))));
        for id in later {
            assert!(matches!(run.take_ended(id), Some((Ending::Done, _))));
        }
        let (cache, cores) = run.lose_power(|| false);
        let mut run = start(&device, &options, 2, cache).with_cores(cores);
        for number in 0..LINES {
            let (_, read) = run.run(LayoutRequest::Read { span: line(number) });
            assert!(read == stamps(line(number), 3).bytes(), "seed {seed}: line {number} is lost");
        }
    }
}
