//! States by free room, and decisions by measured costs.

use super::*;
use crate::layout::{Data, PlacementClass, Target};

const MIB: u64 = 1 << 20;

fn facts(bytes: u64, room_bytes: u64, dirty_percent: u8) -> WriteFacts {
    WriteFacts {
        core: CoreId::new(0).unwrap(),
        bytes,
        is_stream: false,
        has_cached: false,
        room: Room { bytes: room_bytes, step_bytes: MIB },
        dirty_percent,
    }
}

/// 200 writes to the core, one after the other, each of which takes `each`.
fn writes(
    pressure: &mut Pressure,
    class: PlacementClass,
    bytes: usize,
    each: Duration,
    now: &mut Duration,
) {
    writes_of(pressure, CoreId::new(0).unwrap(), class, (bytes, each), now);
}

fn writes_of(
    pressure: &mut Pressure,
    core: CoreId,
    class: PlacementClass,
    (bytes, each): (usize, Duration),
    now: &mut Duration,
) {
    for number in 0..200 {
        let io = DeviceIo::Write {
            target: Target::Core(core),
            offset: number * (1 << 30),
            parts: vec![Data::copy_of(&vec![0; bytes])],
            beside: None,
            class,
            metadata_bytes: 0,
            durable: false,
        };
        let io = pressure.begins(&io, *now).unwrap();
        *now += each;
        pressure.ended(&io, *now);
    }
}

#[test]
fn states_follow_the_room_and_do_not_swing() {
    let mut pressure = Pressure::new(BypassPolicy::Cost);
    let mut state = |room_bytes, dirty_percent| {
        pressure.passes(&facts(4096, room_bytes, dirty_percent));
        pressure.state()
    };
    assert_eq!(state(2 * MIB - 1, 49), PressureState::Absorb, "clean data give way at once");
    assert_eq!(state(2 * MIB, 90), PressureState::Absorb);
    assert_eq!(state(2 * MIB - 1, 50), PressureState::Pressure);
    assert_eq!(state(3 * MIB - 1, 40), PressureState::Pressure);
    assert_eq!(state(4096 + MIB / 8, 90), PressureState::Pressure);
    assert_eq!(state(4095 + MIB / 8, 90), PressureState::Saturated);
    assert_eq!(state(4095 + MIB / 4, 90), PressureState::Saturated);
    assert_eq!(state(4096 + MIB / 4, 90), PressureState::Pressure);
    assert_eq!(state(3 * MIB, 90), PressureState::Absorb);
    assert_eq!(state(0, 90), PressureState::Saturated);
    assert_eq!(state(0, 39), PressureState::Absorb);
}

#[test]
fn what_the_core_takes_for_less_passes_by() {
    let mut pressure = Pressure::new(BypassPolicy::Cost);
    assert!(!pressure.passes(&facts(1 << 17, 0, 100)), "nothing is known of what destaging costs");
    let mut now = Duration::ZERO;
    writes(&mut pressure, PlacementClass::Dirty, 4096, Duration::from_millis(4), &mut now);
    // A disk: 128 KiB in lines take 128 ms; the guess for one write is 8 ms.
    assert!(pressure.passes(&facts(1 << 17, 0, 100)));
    assert!(!pressure.passes(&facts(4096, 0, 100)));
    assert!(!pressure.passes(&WriteFacts { has_cached: true, ..facts(1 << 17, 0, 100) }));
    // Under pressure: long writes and streams.
    assert!(pressure.passes(&facts(1 << 17, MIB, 100)));
    assert!(!pressure.passes(&facts(32 << 10, MIB, 100)));
    assert!(pressure.passes(&WriteFacts { is_stream: true, ..facts(32 << 10, MIB, 100) }));
    // Bypassing takes 120 ms: no longer a fifth less. These writes still bypass the cache, until they cost more.
    writes(&mut pressure, PlacementClass::Clean, 1 << 17, Duration::from_millis(120), &mut now);
    assert!(pressure.passes(&facts(1 << 17, 0, 100)));
    assert!(!pressure.passes(&facts(1 << 17, 0, 90)), "a tenth of the room is made for nothing");
    assert!(!pressure.passes(&facts(1 << 17, 0, 100)), "what was refused has to gain a fifth");
    writes(&mut pressure, PlacementClass::Clean, 1 << 17, Duration::from_millis(90), &mut now);
    assert!(pressure.passes(&facts(1 << 17, 0, 100)));
    // After many refusals the cost is measured again.
    writes(&mut pressure, PlacementClass::Clean, 1 << 17, Duration::from_millis(500), &mut now);
    assert!((1..ASKED_AGAIN).all(|_| !pressure.passes(&facts(1 << 17, 0, 100))));
    assert!(!pressure.passes(&facts(1 << 17, 0, 100)) && pressure.passes(&facts(1 << 17, 0, 100)));
}

#[test]
fn what_a_write_costs_is_its_cores_matter_and_what_room_costs_that_of_whose_data_leave() {
    let [disk, flash] = [0, 1].map(|number| CoreId::new(number).unwrap());
    let long = |core| WriteFacts { core, ..facts(1 << 17, 0, 100) };
    let (mut pressure, mut now) = (Pressure::new(BypassPolicy::Cost), Duration::ZERO);
    pressure.passes(&long(flash));
    // The cache is full of lines of the disk: destaging 128 KiB of them takes 128 ms, whichever core is written.
    let line = |micros| (4096, Duration::from_micros(micros));
    writes_of(&mut pressure, disk, PlacementClass::Dirty, line(4000), &mut now);
    assert!(pressure.passes(&long(flash)));
    writes_of(
        &mut pressure,
        flash,
        PlacementClass::Clean,
        (1 << 17, Duration::from_millis(1)),
        &mut now,
    );
    assert!(pressure.passes(&long(flash)));
    // Then of lines of the flash device, 3.2 ms. A write takes 8 ms on the disk and 1 ms on the flash device.
    writes_of(&mut pressure, flash, PlacementClass::Dirty, line(100), &mut now);
    assert!(!pressure.passes(&long(disk)));
    assert!(pressure.passes(&long(flash)));
}

#[test]
fn what_goes_on_is_tried_before_it_is_known_and_left_if_it_is_no_cheaper() {
    let (mut pressure, mut now) = (Pressure::new(BypassPolicy::Cost), Duration::ZERO);
    let line = facts(4096, 0, 100);
    pressure.passes(&line);
    writes(&mut pressure, PlacementClass::Dirty, 4096, Duration::from_millis(4), &mut now);
    let stream = WriteFacts { is_stream: true, ..line };
    assert!(!pressure.passes(&line) && pressure.passes(&stream));
    let io = |sector: u64| DeviceIo::Write {
        target: Target::Core(CoreId::new(0).unwrap()),
        offset: (1 << 40) + sector * 512,
        parts: vec![Data::copy_of(&[0; 4096])],
        beside: None,
        class: PlacementClass::Clean,
        metadata_bytes: 0,
        durable: false,
    };
    for number in 0..4 {
        let io = pressure.begins(&io(number * 8), now).unwrap();
        now += Duration::from_micros(4500);
        pressure.ended(&io, now);
    }
    assert!(!pressure.passes(&stream), "it is as dear as what would leave");
}

#[test]
fn each_state_is_left_later_than_it_is_entered() {
    let mut pressure = Pressure::new(BypassPolicy::Cost);
    let mut states = |rooms: [(u64, u8); 2]| {
        rooms.map(|(room_bytes, dirty_percent)| {
            pressure.passes(&facts(4096, room_bytes, dirty_percent));
            pressure.state()
        })
    };
    let (absorb, under) = (PressureState::Absorb, PressureState::Pressure);
    // Between two and three segments of room, and between 40 and 50 % dirty, the state does not change.
    assert_eq!(states([(2 * MIB, 90), (2 * MIB, 90)]), [absorb; 2]);
    assert_eq!(states([(2 * MIB - 1, 90), (2 * MIB, 90)]), [under; 2]);
    assert_eq!(states([(3 * MIB, 90), (MIB, 49)]), [absorb; 2]);
    assert_eq!(states([(MIB, 50), (MIB, 49)]), [under; 2]);
    // Nor between an eighth and a quarter of a segment.
    assert_eq!(states([(MIB / 5, 90), (MIB / 5, 90)]), [under; 2]);
    assert_eq!(states([(0, 90), (MIB / 5, 90)]), [PressureState::Saturated; 2]);
}

#[test]
fn several_at_a_time_cost_what_the_core_is_busy() {
    let mut pressure = Pressure::new(BypassPolicy::Cost);
    pressure.passes(&facts(4096, 0, 100));
    let io = |class| DeviceIo::Write {
        target: Target::Core(CoreId::new(0).unwrap()),
        offset: 0,
        parts: vec![Data::copy_of(&[0; 4096])],
        beside: None,
        class,
        metadata_bytes: 0,
        durable: false,
    };
    let begun: Vec<CoreIo> = (0..32)
        .map(|_| pressure.begins(&io(PlacementClass::Dirty), Duration::from_millis(1)).unwrap())
        .collect();
    for (number, io) in begun.iter().enumerate() {
        pressure.ended(io, Duration::from_millis(2 + number as u64));
    }
    let core = CoreId::new(0).unwrap();
    assert_eq!(pressure.costs.of_destaging(4096), Some(1_000_000));
    // Without an I/O in flight, time is not charged.
    let late = pressure.begins(&io(PlacementClass::Clean), Duration::from_millis(500)).unwrap();
    pressure.ended(&late, Duration::from_millis(503));
    assert_eq!(pressure.costs.of_writing(core, Kind::of(4096, false), 4096), Some(3_000_000));
}

#[test]
fn policies_are_read_as_they_are_written() {
    for (policy, name) in POLICIES {
        assert_eq!(policy.to_string(), name);
        assert_eq!(name.parse::<BypassPolicy>().unwrap(), policy);
    }
    let error = "always".parse::<BypassPolicy>().unwrap_err().to_string();
    assert!(error.contains("always") && error.contains("never, cost or full"), "{error}");
    let mut full = Pressure::new(BypassPolicy::Full);
    assert!(!full.passes(&facts(1 << 17, MIB, 100)) && full.passes(&facts(1 << 17, 0, 100)));
    assert!(!Pressure::new(BypassPolicy::Never).passes(&facts(1 << 17, 0, 100)));
}
