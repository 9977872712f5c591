//! Loss of power at any moment, including during an opening. `LARDER_CRASH_POINTS` is the number of losses (default
//! 1,500).

use std::sync::Arc;

use larder_blocks::ZonedBlocks;
use larder_device::{Error, ZonedDevice};

use super::super::crash::{Power, Trial, finish};
use super::SHAPE;
use super::emulated::{EmulatedZones, Shape};

impl Power for EmulatedZones {
    fn is_down(&self) -> bool {
        EmulatedZones::is_down(self)
    }

    fn release(&self) {
        EmulatedZones::release(self);
    }
}

fn open(device: &Arc<EmulatedZones>) -> Result<ZonedBlocks, Error> {
    finish(&**device, ZonedBlocks::open(Arc::clone(device) as Arc<dyn ZonedDevice>))
}

/// Returns the number of power losses.
fn lives(seed: u64) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let active = seed.is_multiple_of(3).then_some(5);
    let device = Arc::new(EmulatedZones::new(Shape { active, ..SHAPE }, seed));
    device.hold(true);
    let format = ZonedBlocks::format(Arc::clone(&device) as Arc<dyn ZonedDevice>);
    let mut store = finish(&*device, format).unwrap();
    let mut trial = Trial::new(&device, seed);
    let mut losses = 0;
    for loss in 0..4 {
        device.lose_power_after(rng.u64(1..120));
        device.fail_one_in(if rng.bool() { 0 } else { 30 });
        trial.work(&store);
        drop(store);
        losses += 1;
        let at = format!("seed {seed}, loss {loss}");
        store = loop {
            device.restart();
            device.fail_one_in(0);
            if rng.u32(..3) == 0 {
                device.lose_power_after(rng.u64(1..6));
            }
            match open(&device) {
                Ok(store) if !device.is_down() => break store,
                _ if device.is_down() => losses += 1,
                Ok(_) => unreachable!("it is up"),
                Err(error) => panic!("{at}: {error}"),
            }
        };
        device.lose_power_after(u64::MAX);
        trial.judge(&store, &at);
    }
    assert!(active.is_none_or(|most| device.most_active() <= most as usize), "seed {seed}");
    losses
}

#[test]
fn what_was_acknowledged_survives_losses_of_power() {
    let points = std::env::var("LARDER_CRASH_POINTS");
    let points = points.map_or(1500, |points| points.parse().unwrap());
    let (mut lost, mut seed) = (0, 0);
    while lost < points {
        lost += lives(seed);
        seed += 1;
    }
    println!("{lost} losses of power");
}
