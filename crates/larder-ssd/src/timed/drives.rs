//! Ready-made drives. Each number with its source; what is assumed is called assumed.

use super::service::DieService;
use super::timing::{DriveTiming, NandTiming};

/// 176-layer TLC: tR 50 us and 168 MB/s per die with four planes (ISSCC 2021, SK hynix), which
/// makes 1.17 ms for a one-shot stripe of 192 KiB. Erase and suspend times are assumed (sources
/// give 2 to 5 ms for an erase), and a block of 94 MB on its four planes.
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

/// What a die programs at once. A write buffer holds two of them a die, as NVMeVirt's drives do
/// (`GLOBAL_WB_SIZE`): one that is programmed and one that waits.
const STRIPE_BYTES: u64 = 3 * 4 * (16 << 10);

/// An enterprise drive: 16 channels of 4 dies at 1.6 GB/s (ONFI 1600 MT/s), PCIe 4.0 x4. Command
/// overhead is assumed so that a 4 KiB read takes what drives of this class take.
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

/// A drive of the class of the FDP paper's: 1.88 TB, PCIe 5.0 x4. Its 2048 GB of flash are 16 dies of
/// 1 Tb, as the PM9D3's NAND (Samsung V8, 236 layers) has them; 8 channels of 2 dies and the rates of
/// channels and link are assumed.
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
/// plane (FAST'17, §3.1 and Table 1). It does not say what its flash takes: 60 us to sense, 700 us to program, 5 ms
/// to erase and 40 us to transfer a page are assumed, which moves the 78.9 MB/s of its §4.4 from die to die. Dies in
/// order, and no buffer: an append is done when it is programmed.
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
