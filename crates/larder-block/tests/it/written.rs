//! The statistics of the bytes that are written to the cache device: metadata, dirty data and clean data.

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::cache::{Cache, CacheOptions, CacheShape, Mode, Request};
use larder_block::layout::{Ending, Layout, Span};
use larder_block::policy::CutOffPolicy;

use super::rig::core;
use super::subject::{Log, Ocf, Subject};

const LINES: u64 = 24;

/// Writes some lines in write-back, then other lines in write-through, and reads further lines; each once.
fn counts_what_the_device_is_sent<S: Subject>(seed: u64)
where
    S::Layout: Layout + 'static,
{
    let subject = S::draw(&mut Rng::with_seed(seed));
    let options = CacheOptions {
        cut_off: CutOffPolicy::Never,
        mode: Mode::WriteBack,
        ..CacheOptions::default()
    };
    let shape = CacheShape { capacity_bytes: 768 << 10, line_bytes: 4096 };
    let cache = Cache::new(Box::new(subject.create()), shape, options).unwrap();
    let mut run = Accounting::new(cache, Image::default()).tearing_between(subject.whole_bytes());
    let span = |number: u64| Span { core: core(0), first: number * 128, sectors: 8 };
    let write = |number| {
        let data = stamps(span(number), 1);
        Request::Write { span: span(number), data, durable: false }
    };
    let mut done = [0, 0];
    for number in 0..LINES {
        assert_eq!(run.run(write(number)).0, Ending::Done);
    }
    run.settle();
    done[0] += LINES * 4096;
    let check = |run: &Accounting<Cache>, [dirty, clean]: [u64; 2]| {
        let (said, counted) = (run.layout().statistics(), run.counts());
        assert_eq!(said.cache_written_bytes, counted.cache_written_bytes, "seed {seed}");
        assert_eq!(said.metadata_bytes, counted.cache_written_metadata_bytes, "seed {seed}");
        assert_eq!(said.beside_bytes, counted.cache_beside_bytes, "seed {seed}");
        assert_eq!((said.dirty_bytes, said.clean_bytes), (dirty, clean), "seed {seed}");
        assert_eq!(said.metadata_bytes + dirty + clean, counted.cache_written_bytes, "seed {seed}");
    };
    check(&run, done);
    run.layout_mut().set_mode(Mode::WriteThrough);
    for number in LINES..LINES + 6 {
        assert_eq!(run.run(write(number)).0, Ending::Done);
        assert_eq!(run.run(Request::Read { span: span(number + 100) }).0, Ending::Done);
    }
    run.settle();
    done[1] += 12 * 4096;
    check(&run, done);
}

#[test]
fn statistics_say_what_was_written_as_metadata_dirty_and_clean() {
    for seed in 0..8 {
        counts_what_the_device_is_sent::<Log>(seed);
        counts_what_the_device_is_sent::<Ocf<0>>(seed);
        counts_what_the_device_is_sent::<Ocf<1>>(seed);
        counts_what_the_device_is_sent::<Ocf<2>>(seed);
    }
}
