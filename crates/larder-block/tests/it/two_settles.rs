//! Two requests that settle the same sectors: as soon as either has ended, a power loss leaves nothing dirty. One of
//! them does not have to mark sectors that the other is about to mark.

use fastrand::Rng;
use larder_block::accounting::{Accounting, Image, stamps};
use larder_block::layout::{Ending, Layout, LayoutRequest, Span};

use super::rig::core;
use super::subject::{Log, Ocf, Subject};

/// Each request is submitted after `before` I/Os of the previous one. After the last one, I/Os end in the order that
/// `newest_first` gives.
fn settle_twice<S: Subject>(seed: u64, before: [usize; 2], newest_first: bool) {
    let mut subject = S::draw(&mut Rng::with_seed(seed));
    let mut run =
        Accounting::new(subject.create(), Image::default()).tearing_between(subject.whole_bytes());
    let span = Span { core: core(1), first: 8, sectors: 16 };
    let all = Span { first: 0, sectors: 512, ..span };
    assert_eq!(run.run(LayoutRequest::Write { span, data: stamps(span, 1) }).0, Ending::Done);
    let mut settles = Vec::new();
    for (number, ios) in (1..).zip(before) {
        // Other writes are in flight, so that a marker is not written at once.
        for place in 0..8 {
            let other = Span { core: core(0), first: (number * 8 + place) * 16, sectors: 16 };
            run.submit(LayoutRequest::Write { span: other, data: stamps(other, 2) });
            run.turn();
        }
        settles.push(run.submit(LayoutRequest::Settle { span: all }));
        for _ in 0..ios {
            run.turn();
            run.carry_out_all(|count| (0..count).take(1).collect());
        }
    }
    for _ in 0..1000 {
        let has_ended = settles.iter().any(|id| {
            let ended = run.take_ended(*id);
            ended.is_some_and(|(ending, _)| ending == Ending::Done)
        });
        if has_ended {
            let (cache, _) = run.lose_power(|| false);
            let mut layout = subject.recover(&mut Rng::with_seed(seed), &cache);
            layout.load_all();
            let dirty = layout.dirty_after(span.core, 0);
            assert_eq!(dirty, None, "seed {seed}, {before:?} I/Os, newest first: {newest_first}");
            return;
        }
        run.turn();
        run.carry_out_all(|count| match (count, newest_first) {
            (0, _) => Vec::new(),
            (_, false) => vec![0],
            (_, true) => vec![count - 1],
        });
    }
    panic!("neither ends");
}

fn in_every_order<S: Subject>() {
    for seed in 0..8 {
        for (first, second) in (0..8).flat_map(|first| (0..4).map(move |second| (first, second))) {
            settle_twice::<S>(seed, [first, second], false);
            settle_twice::<S>(seed, [first, second], true);
        }
    }
}

#[test]
fn a_log_has_nothing_dirty_behind_the_first_that_ends() {
    in_every_order::<Log>();
}

#[test]
fn lines_have_nothing_dirty_behind_the_first_that_ends() {
    in_every_order::<Ocf<0>>();
    in_every_order::<Ocf<1>>();
}
