//! The expected bytes of every structure for known values: other drives and hosts depend on each of them.

use super::Command;
use super::command::{encode_controllers, encode_range, encode_uring};
use super::event::{Event, EventType, encode_events};
use super::fdp_log::{
    Configuration, HandleType, HandleUsage, Statistics, encode_configurations, encode_usage,
};
use super::io_management::{HandleStatus, encode_status, encode_update};
use super::namespace::{
    LbaFormat, NamespaceRequest, encode_controller, encode_namespace, encode_namespace_list,
};
use super::smart::SmartLog;

/// A 128-bit number with 16 different bytes.
const WIDE: u128 = 0x1f1e_1d1c_1b1a_1918_1716_1514_1312_1110;

/// Writes `value` at `at`.
pub(super) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Length, and each run of non-zero bytes with its offset.
fn seen(bytes: &[u8]) -> String {
    let mut text = format!("{}:", bytes.len());
    let mut zero = true;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != 0 {
            if zero {
                text.push_str(&format!(" {at}="));
            }
            text.push_str(&format!("{byte:02x}"));
        }
        zero = *byte == 0;
    }
    text
}

#[test]
fn commands() {
    let command = Command {
        opcode: 0xfe,
        nsid: 0x0102_0304,
        cdw: [0x1112_1314, 0x2122_2324, 0x3132_3334, 0x4142_4344, 0x5152_5354, 0x6162_6364],
    };
    assert_eq!(
        seen(&command.encode(0x0708)),
        "64: 0=fe 2=080704030201 40=141312112423222134333231444342415453525164636261"
    );
    assert_eq!(
        seen(&encode_uring(&command, 0x7172_7374_7576_7778, 0x8182_8384)),
        "72: 0=fe 4=04030201 24=7877767574737271 \
         36=84838281141312112423222134333231444342415453525164636261"
    );
    assert_eq!(
        seen(&encode_range(0x0102_0304_0506_0708, 0x1112_1314)),
        "16: 4=141312110807060504030201"
    );
    assert_eq!(seen(&encode_controllers(&[0x0102, 0x0304])), "4096: 0=02 2=02010403");
}

#[test]
fn logs() {
    let event = Event {
        kind: EventType::MediaReallocated,
        placement_id: Some(0x0102),
        nsid: Some(0x1112_1314),
        location: Some((0x2122, 0x3132)),
        timestamp_ms: 0x4142_4344_4546,
        moved: Some((0x5152, Some(0x6162_6364_6566_6768))),
    };
    let plain = Event { moved: None, ..Event::of(EventType::InvalidPlacementId) };
    assert_eq!(
        seen(&encode_events(&[event, plain])),
        "192: 0=02 64=80070201464544434241 76=1413121101 82=52516867666564636261 96=22213231 128=03"
    );
    let configuration = Configuration {
        rgif: 5,
        volatile_write_cache: true,
        valid: true,
        groups: 0x0102_0304,
        placement_ids_max: 0x1112,
        namespaces_max: 0x2122_2324,
        unit_bytes: 0x3132_3334_3536_3738,
        unit_time_limit_s: 0x4142_4344,
        handles: vec![
            HandleType::InitiallyIsolated,
            HandleType::PersistentlyIsolated,
            HandleType::Other(0xaa),
        ],
    };
    let configurations = [configuration.clone(), configuration];
    assert_eq!(
        seen(&encode_configurations(&configurations).unwrap()),
        "176: 0=01 4=b0 16=50 18=95 20=0403020103 26=111124232221383736353433323144434241 80=01 \
         84=02 88=aa 96=50 98=95 100=0403020103 106=111124232221383736353433323144434241 160=01 \
         164=02 168=aa"
    );
    let usage =
        [HandleUsage::Host, HandleUsage::Unused, HandleUsage::Controller, HandleUsage::Other(9)];
    assert_eq!(seen(&encode_usage(&usage).unwrap()), "40: 0=04 8=01 24=02 32=09");
    let statistics = Statistics { host_bytes: WIDE, media_bytes: !WIDE, erased_bytes: WIDE << 1 };
    assert_eq!(
        seen(&statistics.encode()),
        "64: \
         0=101112131415161718191a1b1c1d1e1fefeeedecebeae9e8e7e6e5e4e3e2e1e020222426282a2c2e303234\
         36383a3c3e"
    );
    let smart = SmartLog {
        critical_warning: 1,
        temperature_k: 0x0203,
        available_spare_percent: 4,
        spare_threshold_percent: 5,
        used_percent: 6,
        host_bytes: WIDE,
        power_cycles: WIDE,
        power_on_hours: !WIDE,
        unsafe_shutdowns: WIDE << 1,
        media_errors: WIDE << 2,
    };
    assert_eq!(
        seen(&smart.encode()),
        "512: 0=010302040506 48=4ad137ee310d57b392329da9fb03 \
         112=101112131415161718191a1b1c1d1e1fefeeedecebeae9e8e7e6e5e4e3e2e1e020222426282a2c2e3032\
         3436383a3c3e4044484c5054585c6064686c7074787c"
    );
}

#[test]
fn management() {
    let status = HandleStatus {
        placement_id: 0x0102,
        handle: 0x0304,
        time_left_s: 0x1112_1314,
        blocks_left: 0x2122_2324_2526_2728,
    };
    assert_eq!(
        seen(&encode_status(&[status, status]).unwrap()),
        "80: 14=02 16=02010403141312112827262524232221 48=02010403141312112827262524232221"
    );
    assert_eq!(seen(&encode_update(&[0x0102, 0x0304])), "4: 0=02010403");
    let request = NamespaceRequest {
        blocks: 0x0102_0304_0506_0708,
        format: 0x35,
        endurance_group: 0x1112,
        handles: vec![0x2122, 0x3132],
    };
    assert_eq!(
        seen(&request.encode().unwrap()),
        "4096: 0=08070605040302010807060504030201 26=65 102=1211 392=02 512=22213231"
    );
    assert_eq!(
        seen(&encode_controller(0x0102_0304)),
        "4096: 96=10 98=08 256=28 340=01 512=6644 516=0403020104"
    );
    assert_eq!(
        seen(&encode_namespace_list(&[0x0102_0304, 0x1112_1314])),
        "4096: 0=0403020114131211"
    );
    let namespace = encode_namespace(0x0102_0304_0506_0708, LbaFormat::Bytes512, 0x1112);
    assert_eq!(
        seen(&namespace),
        "4096: 0=080706050403020108070605040302010807060504030201100101 33=01 64=07 66=07 68=07 \
         70=07 72=07 102=1211 130=0c 134=0902"
    );
}
