//! Restores a drive from the saved state of its media.

use super::RawSsd;
use super::config::RawConfig;
use super::die::DieState;
use super::image::BlockImage;
use crate::error::{Error, ErrorKind};
use crate::nand::{Block, BlockIndex, Health};

/// Highest valid erase count of a block. No flash endures a thousandth of it. The limit bounds the size of tables by
/// erase count.
const ERASES_MAX: u32 = 1 << 22;

impl RawSsd {
    /// A drive of `config` with the saved states of its blocks, in order, and without power: call [`Self::power_on`]
    /// first. `word` returns the word of a page of a block, for all programmed pages. Random failures are drawn anew.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if no such drive could work, or if it lists blocks that are bad from the factory (their
    /// states say so). [`ErrorKind::Image`] for impossible states, by block and field. Also any error of `word`. The
    /// input is not trusted: memory use depends on `config` alone.
    pub fn restore(
        config: RawConfig,
        blocks: &[BlockImage],
        mut word: impl FnMut(BlockIndex, u32) -> Result<u64, Error>,
    ) -> Result<Self, Error> {
        if !config.bad_blocks.is_empty() {
            let message = "bad_blocks of a drive that is restored: its blocks say which are bad";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let erases: u64 = blocks.iter().map(|image| u64::from(image.erases)).sum();
        // Use another seed than in the previous life, or the same blocks would fail again and again.
        let seed = config.seed ^ erases.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut drive = Self::new(RawConfig { seed, ..config })?;
        if blocks.len() != drive.geometry.blocks() as usize {
            let message =
                format!("{} blocks of a drive of {}", blocks.len(), drive.geometry.blocks());
            return Err(Error::new(ErrorKind::Image, message));
        }
        for (block, image) in (0..).map(BlockIndex).zip(blocks) {
            drive.check_image(block, image)?;
            let BlockImage { erases, written_pages, health, tag, .. } = *image;
            drive.medium.restore(block, Block { written: written_pages, erases, health }, tag);
            for page in 0..if drive.keeps_words() { written_pages } else { 0 } {
                let word = word(block, page)?;
                if word != 0 {
                    drive.medium.write_word(drive.page_of(block, page), word);
                }
            }
            let die = &mut drive.dies[drive.geometry.die_of(block).at()];
            die.failed += u32::from(matches!(health, Health::ReadOnly | Health::Bad));
            let counters = &mut die.counters;
            counters.erases += u64::from(erases);
            counters.appended_pages = counters.appended_pages.max(image.die_appended_pages);
            counters.migrated_pages = counters.migrated_pages.max(image.die_migrated_pages);
        }
        drive.programmed_pages = drive.dies.iter().map(DieState::programmed_pages).sum();
        drive.power_loss();
        Ok(drive)
    }

    /// Checks that the state of a block is possible.
    fn check_image(&self, block: BlockIndex, image: &BlockImage) -> Result<(), Error> {
        let fail =
            |what: String| Err(Error::new(ErrorKind::Image, format!("block {}: {what}", block.0)));
        let (block_pages, stripe) = (self.geometry.block_pages(), self.geometry.stripe_pages());
        let BlockImage { erases, written_pages, tag, .. } = *image;
        if erases > ERASES_MAX {
            return fail(format!("erases of {erases}: at most {ERASES_MAX} are believed"));
        }
        if written_pages > block_pages || !written_pages.is_multiple_of(stripe) {
            return fail(format!(
                "written_pages of {written_pages}: it has {block_pages}, programmed {stripe} at once"
            ));
        }
        if tag.is_some() != (written_pages > 0) {
            let has = if tag.is_some() { "a tag" } else { "no tag" };
            return fail(format!(
                "written_pages of {written_pages} and {has}: the tag comes with them"
            ));
        }
        // Counters are added to: leave room below the end of 64 bits.
        if image.die_appended_pages.max(image.die_migrated_pages) >> 56 != 0 {
            return fail(format!(
                "pages of its die of {} and {}: at most 2^56 are believed",
                image.die_appended_pages, image.die_migrated_pages
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::{DieArray, DieIndex, Endurance, NandGeometry};
    use crate::raw::BlockTag;
    use crate::rng::Rng;

    const GEOMETRY: NandGeometry = NandGeometry {
        array: DieArray { channels: 2, dies_per_channel: 2 },
        planes: 1,
        bits: 2,
        blocks_per_die: 8,
        pages_per_block: 4,
        page_bytes: 4096,
        mapping_bytes: 4096,
    };

    fn config() -> RawConfig {
        let endurance = Endurance::Rated { rated: 3, certain: 9 };
        let config =
            RawConfig { page_words: true, spare_per_mille: 200, ..RawConfig::new(GEOMETRY) };
        config.with_endurance(endurance)
    }

    fn restored(drive: &RawSsd, blocks: &[BlockImage]) -> RawSsd {
        let word = |block, page| Ok(drive.word(block, page).unwrap_or(0));
        RawSsd::restore(config(), blocks, word).unwrap()
    }

    fn images(drive: &RawSsd) -> Vec<BlockImage> {
        (0..GEOMETRY.blocks()).map(|block| drive.block_image(BlockIndex(block)).unwrap()).collect()
    }

    /// After any history, a drive restored from its media has the same state; the recorded changes, in order, lead to
    /// it.
    #[test]
    fn a_drive_is_restored_as_its_media_were_left() {
        for seed in 0..50 {
            let (mut drive, mut rng) = (RawSsd::new(config()).unwrap(), Rng::new(seed));
            drive.record_changes(true);
            let mut followed = images(&drive);
            let mut held: Vec<BlockIndex> = Vec::new();
            for step in 0..400 {
                let die = DieIndex(rng.below(4));
                let tag = BlockTag { die: 1, block: 2, erases: 0, stamp: step };
                let at = rng.below(u32::try_from(held.len()).unwrap().max(1)) as usize;
                match (rng.below(10), held.get(at).copied()) {
                    (0..3, _) => held.extend(drive.allocate(die, tag.encode())),
                    (3..8, Some(block)) => {
                        let at = drive.block(block).unwrap().written_pages;
                        let _ = drive.program_words(block, at, &[step + 1, step + 2]);
                    }
                    (_, Some(block)) => {
                        let _ = drive.erase(block);
                        held.swap_remove(at);
                    }
                    _ => {}
                }
            }
            drive.cut_power_after(1);
            while held.iter().any(|&block| match drive.erase(block) {
                Err(error) => error.kind() == ErrorKind::PowerLoss,
                Ok(()) => false,
            }) && drive.check_power().is_ok()
            {}
            for change in drive.take_changes() {
                followed[change.block.0 as usize] = change.image;
            }
            // The counters of a die are as recent as the newest record on it.
            let without = |images: &[BlockImage]| -> Vec<BlockImage> {
                let plain = |image: &BlockImage| BlockImage {
                    die_appended_pages: 0,
                    die_migrated_pages: 0,
                    ..*image
                };
                images.iter().map(plain).collect()
            };
            assert_eq!(without(&followed), without(&images(&drive)), "seed {seed}");
            let mut again = restored(&drive, &followed);
            drive.power_loss();
            assert_eq!(drive.power_on(), again.power_on(), "seed {seed}");
            for die in (0..4).map(DieIndex) {
                assert_eq!(drive.die(die), again.die(die), "seed {seed}");
            }
            assert_eq!(images(&drive), images(&again));
            assert_eq!(drive.programmed_pages(), again.programmed_pages(), "seed {seed}");
            let words = |drive: &RawSsd| -> Vec<_> {
                let blocks = (0..GEOMETRY.blocks()).map(BlockIndex);
                blocks
                    .flat_map(|block| (0..4).map(move |page| (block, page)))
                    .map(|(b, p)| drive.word(b, p))
                    .collect()
            };
            assert_eq!(words(&drive), words(&again));
        }
    }

    #[test]
    fn states_that_no_drive_comes_to_are_refused_by_block_and_field() {
        let tag = Some([1; 16]);
        let good = BlockImage { written_pages: 4, tag, erases: 1, ..BlockImage::FRESH };
        for (image, says) in [
            (BlockImage { written_pages: 6, ..good }, "written_pages of 6"),
            (BlockImage { written_pages: 3, ..good }, "written_pages of 3"),
            (BlockImage { written_pages: u32::MAX - 1, ..good }, "written_pages of 4294967294"),
            (BlockImage { tag: None, ..good }, "no tag"),
            (BlockImage { written_pages: 0, ..good }, "a tag"),
            (BlockImage { erases: u32::MAX, ..good }, "erases of 4294967295"),
            (BlockImage { die_appended_pages: u64::MAX, ..good }, "2^56"),
        ] {
            let mut blocks = vec![BlockImage::FRESH; 32];
            blocks[5] = image;
            let error = RawSsd::restore(config(), &blocks, |_, _| Ok(1)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Image);
            assert!(
                error.to_string().contains("block 5: ") && error.to_string().contains(says),
                "{error}"
            );
        }
        let short = RawSsd::restore(config(), &[good; 31], |_, _| Ok(1)).unwrap_err();
        assert!(short.to_string().contains("31 blocks of a drive of 32"), "{short}");
    }
}
