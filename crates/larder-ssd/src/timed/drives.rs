//! Ready-made drives. Each number with its source; what is assumed is called assumed.

use super::timing::{DriveTiming, NandTiming};

/// 176-layer TLC: tR 50 us and 168 MB/s per die with four planes (ISSCC 2021, SK hynix), which
/// makes 1.17 ms for a one-shot stripe of 192 KiB. Erase and suspend times are assumed (sources
/// give 2 to 5 ms for an erase). A block is what a reclaim unit of 6 GB, as the FDP paper's, has on
/// each of 64 dies.
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

/// An enterprise drive: 16 channels of 4 dies at 1.6 GB/s (ONFI 1600 MT/s), PCIe 4.0 x4. Command
/// overhead and buffer are assumed so that a 4 KiB read takes what drives of this class take.
pub fn enterprise_tlc() -> DriveTiming {
    DriveTiming {
        name: "enterprise TLC, PCIe 4.0 x4",
        channels: 16,
        dies_per_channel: 4,
        nand: TLC_176,
        channel_bytes_per_s: 1_600_000_000,
        link_bytes_per_s: 7_000_000_000,
        command_ns: 8_000,
        write_buffer_bytes: 32 << 20,
        buffer_ns: 4_000,
    }
}

/// A drive of the class of the FDP paper's: 1.88 TB, PCIe 5.0 x4, 8 channels of 8 dies (the number
/// of dies and the link are assumed; the paper gives the reclaim unit, 6 GB, and the handles, 8).
pub fn pm9d3_like() -> DriveTiming {
    DriveTiming {
        name: "FDP drive, 1.88 TB, PCIe 5.0 x4",
        channels: 8,
        dies_per_channel: 8,
        link_bytes_per_s: 13_000_000_000,
        channel_bytes_per_s: 2_000_000_000,
        ..enterprise_tlc()
    }
}

/// A small drive for tests: 2 channels of 2 dies, the same NAND.
pub fn small() -> DriveTiming {
    DriveTiming {
        name: "small",
        channels: 2,
        dies_per_channel: 2,
        write_buffer_bytes: 4 << 20,
        ..enterprise_tlc()
    }
}
