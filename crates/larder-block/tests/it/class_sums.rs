//! The data of all IO classes of a cache always adds up to its usage.

use fastrand::Rng;
use larder_block::accounting::{Accounting, stamps};
use larder_block::cache::{Cache, Mode, Request};
use larder_block::layout::{ClassId, Span};

use super::classes::{by_chance, each_layout};
use super::loading;
use super::rig::core;

/// Sectors of a core to which requests are made: more than the cache has.
const CORE_SECTORS: u64 = 3 * 4096 * 8;

#[track_caller]
fn check(run: &Accounting<Cache>, when: &str) {
    let cache = run.layout();
    let of_classes: u64 = ClassId::all().map(|class| cache.class_sectors(class)).sum();
    assert_eq!(of_classes, cache.usage().valid_sectors, "{when}");
}

fn request(rng: &mut Rng) -> Request {
    let first = match rng.bool() {
        true => rng.u64(..CORE_SECTORS),
        false => rng.u64(..2048),
    };
    let span = Span { core: core(rng.u16(..2)), first, sectors: rng.u32(1..40) };
    match rng.u8(..32) {
        0..14 => Request::Read { span },
        14..28 => Request::Write { span, data: stamps(span, 1), durable: rng.bool() },
        28..30 => Request::Trim { span },
        30 => Request::Flush,
        _ => Request::Clean { core: span.core },
    }
}

/// Partly valid lines, failing devices, and changes of classes between requests.
#[test]
fn classes_add_up_to_the_usage_after_every_step_in_every_layout() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let mode = if rng.bool() { Mode::WriteBack } else { Mode::WriteThrough };
        each_layout(mode, "1,core_id:1,5,0.20\n2,lba:lt:512,9,0.30", |name, run| {
            let mut rng = Rng::with_seed(seed);
            let mut occupied = 0;
            for number in 0..3000 {
                let when = format!("{name}, seed {seed}, request {number}");
                match rng.u16(..500) {
                    0 => run.layout_mut().set_classes(by_chance(&mut rng)),
                    1 => run.fail_one_in(20, seed),
                    2..6 => run.fail_one_in(0, seed),
                    _ => {}
                }
                run.submit(request(&mut rng));
                for _ in 0..rng.u8(..4) {
                    run.turn();
                    check(run, &when);
                    let some = rng.usize(..8);
                    run.carry_out_all(|count| (0..count).take(some).collect());
                    check(run, &when);
                }
                occupied = occupied.max(run.layout().usage().valid_sectors);
            }
            assert!(occupied > 1000, "{name}, seed {seed}: {occupied} sectors");
        });
    }
}

#[test]
fn classes_add_up_to_the_usage_while_a_log_loads_what_it_has_found() {
    let mut run = loading::start(loading::nothing_is_cleaned());
    run.layout_mut().set_classes(super::classes::classes("1,core_id:0,5,1.00"));
    let mut rng = Rng::with_seed(1);
    let mut parts = vec![run.layout().unloaded_parts()];
    while run.layout().unloaded_parts() > 0 {
        check(&run, &format!("{} parts are not loaded", run.layout().unloaded_parts()));
        run.run(Request::Read { span: loading::line(rng.u64(..loading::LINES)) });
        parts.push(run.layout().unloaded_parts());
    }
    check(&run, "all is loaded");
    assert!(parts.iter().filter(|left| **left > 0).count() > 16, "{parts:?}");
}
