//! A cache whose device is blocks on the drive, and the life of its process.

use std::sync::Arc;

use larder_blocks::{BlockStore, BlocksOnDevice, BlocksOptions, StoreInfo};
use larder_device::{Device, MemoryDevice, block_on};

use super::Scheduler;
use crate::soak::on_vssd::{BLOCK_BYTES, OnVssd};
use crate::soak::plan::{DRIVE_BYTES, Plan, Trouble};
use crate::soak::process::{Below, Division, Life, OnBlocks, Way};
use crate::soak::theme::Theme;

/// Makes these random numbers independent of those of the plan.
const APART: u64 = 0xb10c_5eed;
/// Pages of the journal's log: few, so that it often starts anew.
const LOG_PAGES: u32 = 12;
/// The end of one request in this number moves a part of a block of a virtual SSD.
const SWAP_STEP_ONE_IN: u32 = 8;

impl Plan {
    /// Puts the cache on blocks, with only those faults that such a device can detect. Silent corruption (lying drives,
    /// bit flips) is detectable only by caches, whose records identify themselves.
    pub(in crate::soak) fn put_on_blocks(&mut self, seed: u64) -> OnBlocks {
        let mut rng = fastrand::Rng::with_seed(seed ^ APART);
        let unfit = matches!(
            self.trouble,
            Trouble::HiddenTornWrites
                | Trouble::LostWrites
                | Trouble::BitFlips
                | Trouble::FailedPlaces
        );
        // These themes look for the cache's own bytes on the drive.
        let elsewhere = matches!(self.theme, Theme::Rot | Theme::FailedWrites);
        if unfit || elsewhere {
            self.trouble = Trouble::None;
            self.theme = Theme::None;
        }
        self.on_flash = true;
        // A different layout would be a different device.
        self.changing = false;
        self.config.utilization_percent = 100.0;
        if rng.u32(..3) == 0 {
            return self.put_on_vssd();
        }
        let region_bytes = self.config.loc.region_bytes.map_or(BLOCK_BYTES, u64::from);
        // A region is one block or several.
        let block_bytes = if rng.bool() { region_bytes } else { BLOCK_BYTES };
        let blocks = BlocksOptions { block_bytes, journal_log_pages: Some(LOG_PAGES) };
        let drive = MemoryDevice::holding(vec![0; usize::try_from(DRIVE_BYTES).unwrap_or(0)]);
        let store = block_on(BlocksOnDevice::format(Arc::new(drive), &blocks));
        let store = store.expect("the drive is ours");
        self.divide(store.info(), Below::Drive(blocks));
        OnBlocks::default()
    }

    /// The same on a virtual SSD, where nothing fails except the power; it may be slow.
    fn put_on_vssd(&mut self) -> OnBlocks {
        if self.trouble != Trouble::Timeouts {
            self.trouble = Trouble::None;
        }
        let vssd = OnVssd::new(DRIVE_BYTES);
        self.divide(&vssd.info().expect("nothing is wrong with it"), Below::Vssd);
        OnBlocks { vssd: self.on_blocks.map(|_| vssd), ..OnBlocks::default() }
    }

    fn divide(&mut self, store: &StoreInfo, below: Below) {
        let device = self.config.on_blocks(store).ok();
        self.on_blocks = device.map(|device| Division { below, device });
    }
}

impl Scheduler {
    /// The device for the cache. `None` if it cannot be opened, or a crash came first.
    pub(super) fn device_below(&mut self, crash_at: Option<u32>) -> Option<Arc<dyn Device>> {
        let Some(division) = self.plan.on_blocks else {
            return Some(Arc::clone(&self.device) as _);
        };
        if let Some(life) = &self.on_blocks.life {
            return Some(Arc::clone(&life.device) as _);
        }
        let way = Way::new(Arc::clone(&self.device));
        let opening = self.on_blocks.open(division, &way);
        let opened = self.drive(opening, crash_at);
        match opened {
            Some(Ok(device)) => {
                self.totals.lives_on_blocks += 1;
                self.totals.lives_on_vssds += u64::from(self.on_blocks.vssd.is_some());
                self.on_blocks.is_formatted = true;
                let device = Arc::new(device);
                self.on_blocks.life = Some(Life { way, device: Arc::clone(&device) });
                Some(device)
            }
            Some(Err(error)) => {
                self.totals.refused_openings += 1;
                self.note(format_args!("blocks refused: {error}"));
                if self.plan.trouble == Trouble::None {
                    self.complain(&format!("blocks that cannot be opened: {error}"));
                }
                while self.release() {}
                way.close();
                None
            }
            None => {
                way.close();
                self.totals.crashed_openings += 1;
                self.crash_as_ever();
                None
            }
        }
    }

    /// Ends the process in order: its requests end before the next process begins.
    pub(super) fn end_process(&mut self) {
        if self.on_blocks.life.is_some() {
            while self.release() {}
            self.cut_off_process();
        }
    }

    /// Ends the process by a crash: it submits no more requests.
    pub(super) fn cut_off_process(&mut self) {
        if let Some(life) = self.on_blocks.life.take() {
            life.way.close();
            self.totals.blocks_cleaned += life.device.counts().cleaned_blocks;
        }
    }

    /// Swaps channels below a cache on a virtual SSD.
    pub(super) fn swap_below(&mut self) {
        let Some(vssd) = &mut self.on_blocks.vssd else { return };
        if self.rng.u32(..SWAP_STEP_ONE_IN) == 0
            && let Err(error) = vssd.swap_step(&mut self.rng)
        {
            self.complain(&format!("channels that cannot change places: {error}"));
        }
    }

    /// Cuts the power of the array while its requests in flight are executed, and opens it again. Returns whether there
    /// is an array.
    pub(super) fn lose_power_below(&mut self) -> bool {
        let Some(vssd) = &self.on_blocks.vssd else { return false };
        vssd.cut_power_soon(&mut self.rng);
        self.device.cut();
        let opened = vssd.power_cycle(&mut self.rng);
        let verified = opened.map_err(|error| error.to_string()).and_then(|()| vssd.verify());
        if let Err(complaint) = verified {
            self.complain(&format!("virtual SSDs after a loss of power: {complaint}"));
        }
        true
    }

    /// Checks the state of the array below.
    pub(super) fn judge_below(&mut self) {
        let Some(vssd) = &self.on_blocks.vssd else { return };
        self.totals.vssd_parts_moved += vssd.moved_parts;
        if let Err(complaint) = vssd.verify() {
            self.complain(&format!("virtual SSDs: {complaint}"));
        }
    }

    /// Bytes that the cache has written to its device.
    pub(super) fn device_written_bytes(&self) -> u64 {
        match &self.on_blocks.life {
            Some(life) => life.device.stats().host_written_bytes,
            None => self.device.stats().host_written_bytes,
        }
    }
}
