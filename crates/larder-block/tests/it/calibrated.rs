//! Calibration measures what the devices do, and stores it in the label.

use std::sync::Arc;
use std::time::Duration;

use larder_block::calibration::{MeasureOptions, Point, Profile, measure};
use larder_block::layout::log::LogOptions;
use larder_block::manage::{
    CalibrateOptions, Core, CreateOptions, LayoutOptions, OpenOptions, calibrate, create, look,
    open, store_profile,
};
use larder_block::policy::Direction;
use larder_device::model::virtual_time::{Shape, shapes};
use larder_device::{Device, Io, IoBuffer, Payload, PlacementHandle, VirtualClock, block_on};

use super::rig::core;
use super::running::{memory, shaped};

const BYTES: u64 = 64 << 20;

fn timed(shape: Shape, clock: &Arc<VirtualClock>) -> Arc<dyn Device> {
    shaped(shape, BYTES, Payload::Memory, clock)
}

/// Bytes per second for `point` of a shape without a disk arm.
fn expected(shape: &Shape, point: &Point) -> f64 {
    let transfer = if point.direction == Direction::Read { shape.read } else { shape.write };
    let link = transfer.bytes_per_s.value as f64;
    let bytes = f64::from(point.bytes);
    let alone = transfer.latency_ns.value as f64 * 1e-9 + bytes / link;
    let at_a_time = u64::from(point.depth).min(shape.channels.value) as f64;
    (at_a_time * bytes / alone).min(link)
}

#[test]
fn bandwidth_and_latency_are_those_of_the_shape() {
    for shape in [shapes::SATA_SSD, shapes::NVME_TLC] {
        let clock = Arc::new(VirtualClock::default());
        let device = timed(shape, &clock);
        let time = Duration::from_millis(10);
        let options = MeasureOptions { writes: true, time, ..MeasureOptions::default() };
        let profile = block_on(measure(&device, &options, &*clock)).unwrap();
        assert_eq!(profile.points.len(), 12);
        for point in &profile.points {
            let part = point.bytes_per_second as f64 / expected(&shape, point);
            assert!((0.97..1.03).contains(&part), "{part} {point:?}");
            let latency = f64::from(point.depth) * f64::from(point.bytes)
                / point.bytes_per_second as f64
                / point.latency.as_secs_f64();
            assert!((0.97..1.03).contains(&latency), "{latency} {point:?}");
        }
    }
}

#[test]
fn a_disk_takes_longer_and_not_for_ever() {
    let clock = Arc::new(VirtualClock::default());
    let disk = timed(shapes::HDD, &clock);
    let time = Duration::from_millis(5);
    let options = MeasureOptions { time, ..MeasureOptions::default() };
    let profile = block_on(measure(&disk, &options, &*clock)).unwrap();
    let alone = profile.reads(4096, 1).unwrap();
    assert!(alone.latency > Duration::from_millis(4), "{alone:?}");
    assert!(alone.latency < Duration::from_millis(19), "{alone:?}");
    // Six points, each at most sixteen times as long, plus the end of the requests in flight.
    let spent = larder_device::Clock::monotonic(&*clock);
    assert!(spent < 6 * (16 * time + 33 * Duration::from_millis(21)), "{spent:?}");
}

fn short() -> CalibrateOptions {
    let measure = MeasureOptions { time: Duration::from_millis(5), ..MeasureOptions::default() };
    CalibrateOptions { measure, ..CalibrateOptions::default() }
}

fn calibrated(device: &Arc<dyn Device>, cores: &[Core], clock: &VirtualClock) -> Profile {
    block_on(calibrate(device, cores, &short(), clock)).unwrap()
}

#[test]
fn the_label_keeps_it_over_starts() {
    let clock = Arc::new(VirtualClock::default());
    let device = timed(shapes::SATA_SSD, &clock);
    let cores = [Core { id: core(0), name: "slow".to_owned(), device: timed(shapes::HDD, &clock) }];
    let log = LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() };
    let options = CreateOptions { layout: LayoutOptions::Log(log), ..CreateOptions::default() };
    block_on(create(&device, &cores, &options)).unwrap();
    let before = block_on(look(&device)).unwrap();
    assert_eq!(before.stored.profile, None);

    let profile = calibrated(&device, &cores, &clock);
    assert_eq!(block_on(look(&device)).unwrap(), before, "reads alone");
    let known = profile.routing().unwrap();
    assert!(known.cache_bytes_per_second > 20 * known.core_bytes_per_second, "{known:?}");
    assert_eq!(known.cache_latency.as_micros(), 76);
    block_on(store_profile(&device, profile.clone())).unwrap();
    for _ in 0..2 {
        let opened = block_on(open(&device, &cores, &OpenOptions::default())).unwrap();
        assert_eq!(opened.stored().profile.as_ref(), Some(&profile));
        block_on(opened.stop(true)).unwrap();
    }
    assert_eq!(block_on(look(&device)).unwrap().stored.profile.as_ref(), Some(&profile));

    let mut of_another = profile;
    of_another.cores[0].core = core(5);
    let error = block_on(store_profile(&device, of_another)).unwrap_err().to_string();
    assert!(error.contains("other cores"), "{error}");
}

#[test]
fn only_a_device_with_nothing_is_written() {
    let clock = Arc::new(VirtualClock::default());
    let device = timed(shapes::SATA_SSD, &clock);
    let cores =
        [Core { id: core(0), name: "slow".to_owned(), device: timed(shapes::SATA_SSD, &clock) }];
    let writes = CalibrateOptions { writes_cache: true, ..short() };
    let profile = block_on(calibrate(&device, &cores, &writes, &*clock)).unwrap();
    let written = |points: &[Point]| points.iter().any(|it| it.direction == Direction::Write);
    assert!(written(&profile.cache.points) && !written(&profile.cores[0].device.points));
    assert_eq!(cores[0].device.stats().host_written_bytes, 0);

    let before = device.stats().host_written_bytes;
    let mut buffer = IoBuffer::zeroed(4096);
    buffer.as_mut_slice().fill(1);
    block_on(device.submit(Io::write(0, buffer, PlacementHandle::DEFAULT))).unwrap();
    let error = block_on(calibrate(&device, &cores, &writes, &*clock)).unwrap_err().to_string();
    assert!(error.contains("must have nothing"), "{error}");
    assert_eq!(device.stats().host_written_bytes, before + 4096);
}

#[test]
fn what_cannot_be_measured_is_named() {
    let clock = VirtualClock::default();
    let small: Arc<dyn Device> = memory(256 << 10);
    let device: Arc<dyn Device> = memory(1 << 20);
    let of = |device: &Arc<dyn Device>, options: MeasureOptions| {
        block_on(measure(device, &options, &clock)).unwrap_err().to_string()
    };
    let default = MeasureOptions::default;
    let error = of(&small, default());
    assert!(error.contains("of 262144 bytes: give 524288 bytes of it"), "{error}");
    for range in [1..1 << 20, 0..2 << 20, 1 << 19..1 << 19] {
        let error = of(&device, MeasureOptions { range: Some(range.clone()), ..default() });
        assert!(error.contains(&format!("range {range:?}")), "{error}");
    }
    let error = of(&device, MeasureOptions { time: Duration::ZERO, ..default() });
    assert!(error.contains("time of 0ns: give 1 ms to 10 s"), "{error}");
}
