//! Predefined drives. Each number has its source; assumptions are marked as such.

use super::service::DieService;
use super::timing::{DriveTiming, NandTiming};

/// 176-layer TLC: tR 50 us and 168 MB/s per die with four planes (ISSCC 2021, SK hynix), which gives 1.17 ms for a
/// one-shot stripe of 192 KiB. Assumed: erase and suspend times (sources give 2 to 5 ms for an erase), and a block of
/// 94 MB on its four planes.
const TLC_176: NandTiming = NandTiming {
    page_bytes: 16 << 10,
    planes: 4,
    bits: 3,
    read_ns: 50_000,
    program_ns: 1_170_000,
    erase_ns: 5_000_000,
    suspend_ns: Some(50_000),
    block_stripes: 488,
};

/// Bytes that a die programs at once. A write buffer holds two stripes per die, as NVMeVirt's drives do
/// (`GLOBAL_WB_SIZE`): one in programming and one that waits.
const STRIPE_BYTES: u64 = 3 * 4 * (16 << 10);

/// An enterprise drive: 16 channels of 4 dies at 1.6 GB/s (ONFI 1600 MT/s), PCIe 4.0 x4. The command overhead is
/// assumed, and chosen to give the 4 KiB read latency of drives of this class.
pub fn enterprise_tlc() -> DriveTiming {
    DriveTiming {
        name: "enterprise TLC, PCIe 4.0 x4",
        channels: 16,
        dies_per_channel: 4,
        nand: TLC_176,
        service: DieService::ReadsSuspend,
        channel_bytes_per_s: 1_600_000_000,
        link_bytes_per_s: 7_000_000_000,
        command_ns: 8_000,
        write_buffer_bytes: 2 * 64 * STRIPE_BYTES,
        buffer_ns: 4_000,
    }
}

/// A drive of the class of the FDP paper's: 1.88 TB, PCIe 5.0 x4. Its 2048 GB of flash are 16 dies of 1 Tb, as in the
/// NAND of the PM9D3 (Samsung V8, 236 layers). Assumed: 8 channels of 2 dies, and the rates of channels and link.
pub fn pm9d3_like() -> DriveTiming {
    DriveTiming {
        name: "FDP drive, 1.88 TB, PCIe 5.0 x4",
        channels: 8,
        dies_per_channel: 2,
        link_bytes_per_s: 13_000_000_000,
        channel_bytes_per_s: 2_000_000_000,
        write_buffer_bytes: 2 * 16 * STRIPE_BYTES,
        ..enterprise_tlc()
    }
}

/// A small drive for tests: 2 channels of 2 dies, the same NAND.
pub fn small() -> DriveTiming {
    DriveTiming {
        name: "small",
        channels: 2,
        dies_per_channel: 2,
        write_buffer_bytes: 2 * 4 * STRIPE_BYTES,
        ..enterprise_tlc()
    }
}

/// An open-channel drive of FlashBlox's class: 16 channels of 4 dies of 4 planes, 16 KiB pages, blocks of 4 MiB on each
/// plane (FAST'17, §3.1 and Table 1). The paper does not give flash timings. Assumed: 60 us to sense, 700 us to
/// program, 5 ms to erase and 40 us to transfer a page; these give the 78.9 MB/s from die to die of its §4.4. Dies work
/// in order, and there is no buffer: an append ends when it is programmed.
pub fn open_channel() -> DriveTiming {
    DriveTiming {
        name: "open-channel, 16 channels of 4 dies",
        channels: 16,
        dies_per_channel: 4,
        nand: NandTiming {
            page_bytes: 16 << 10,
            planes: 4,
            bits: 1,
            read_ns: 60_000,
            program_ns: 700_000,
            erase_ns: 5_000_000,
            suspend_ns: Some(50_000),
            block_stripes: 256,
        },
        service: DieService::InOrder,
        channel_bytes_per_s: 409_600_000,
        link_bytes_per_s: 4_000_000_000,
        command_ns: 8_000,
        write_buffer_bytes: 64 * (64 << 10),
        buffer_ns: 0,
    }
}
