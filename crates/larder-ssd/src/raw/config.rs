//! Configuration of an open-channel drive and of its failures.

use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, DieIndex, Division, Endurance, Medium, NandGeometry, Spans};

/// An open-channel drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawConfig {
    /// Size and division.
    pub geometry: NandGeometry,
    /// When erases fail.
    pub endurance: Endurance,
    /// Blocks that are bad from the factory. They reduce the spare.
    pub bad_blocks: Vec<BlockIndex>,
    /// Pairs of a block and a page of it: the next program of that page fails.
    pub program_failures: Vec<(BlockIndex, u32)>,
    /// Seed of random failures.
    pub seed: u64,
    /// Spare blocks per thousand blocks of a die, which replace failed ones; rounded up, at least one per die.
    /// FlashBlox (FAST'17) keeps 1 %.
    pub spare_per_mille: u32,
    /// Maximum difference in erases between blocks of a die before [`RawSsd::level_step`] moves cold data; at least 1.
    ///
    /// [`RawSsd::level_step`]: super::RawSsd::level_step
    pub level_threshold: u32,
    /// Keeps a word per page, for hosts that need to know what a page holds: 8 bytes of memory each.
    pub page_words: bool,
}

/// P/E cycles that a block is assumed to withstand if the endurance does not say.
const RATED_ERASES: u32 = 3_000;

impl RawConfig {
    /// A drive without failures, with a spare of 1 %.
    pub fn new(geometry: NandGeometry) -> Self {
        Self {
            geometry,
            endurance: Endurance::Unlimited,
            bad_blocks: Vec::new(),
            program_failures: Vec::new(),
            seed: 0,
            spare_per_mille: 10,
            level_threshold: Self::level_threshold_of(RATED_ERASES),
            page_words: false,
        }
    }

    /// Sets the endurance. If it has a rated number of erases, the threshold of levelling becomes 5 % of that.
    pub fn with_endurance(self, endurance: Endurance) -> Self {
        let level_threshold = match &endurance {
            Endurance::Rated { rated, .. } => Self::level_threshold_of(*rated),
            Endurance::Unlimited | Endurance::Planned(_) => self.level_threshold,
        };
        Self { endurance, level_threshold, ..self }
    }

    /// 5 % of the rated erases of a block, at least 1.
    fn level_threshold_of(rated: u32) -> u32 {
        (rated / 20).max(1)
    }

    /// Spare blocks of a die.
    pub fn spare_blocks(&self) -> u32 {
        let thousandths = u64::from(self.geometry.blocks_per_die) * u64::from(self.spare_per_mille);
        u32::try_from(thousandths.div_ceil(1000)).map_or(u32::MAX, |spare| spare.max(1))
    }

    /// Checks that there can be such a drive.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with the parameter that is wrong.
    pub fn check(&self) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        self.geometry.check()?;
        self.endurance.check(self.geometry.blocks(), "block")?;
        if self.level_threshold == 0 {
            return fail("level_threshold of 0: at least 1, or cold data move for ever".to_owned());
        }
        let blocks = self.geometry.blocks();
        let programs = self.program_failures.iter().map(|(block, _)| ("program_failures", *block));
        let mut named = self.bad_blocks.iter().map(|block| ("bad_blocks", *block)).chain(programs);
        if let Some((field, block)) = named.find(|(_, block)| block.0 >= blocks) {
            return fail(format!("{field} names block {}: the drive has {blocks}", block.0));
        }
        self.check_spare()
    }

    /// Checks that each die has usable blocks left.
    fn check_spare(&self) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        let (spare, per_die) = (self.spare_blocks(), self.geometry.blocks_per_die);
        if spare >= per_die {
            return fail(format!(
                "spare_per_mille of {} keeps {spare} blocks of each die, which has {per_die}: \
                 lower it, or use dies of more blocks",
                self.spare_per_mille
            ));
        }
        let mut bad = self.bad_blocks.clone();
        bad.sort_unstable();
        if let Some(twice) = bad.windows(2).find(|pair| pair[0] == pair[1]) {
            return fail(format!("bad_blocks names block {} twice", twice[0].0));
        }
        for die in (0..self.geometry.array.dies()).map(DieIndex) {
            let on_die = bad.iter().filter(|&&block| self.geometry.die_of(block) == die).count();
            if on_die > spare as usize {
                return fail(format!(
                    "bad_blocks names {on_die} of die {}, whose spare is {spare}: raise \
                     spare_per_mille",
                    die.0
                ));
            }
        }
        Ok(())
    }

    /// The medium, with each block on one die.
    pub(super) fn medium(&self) -> Medium {
        let NandGeometry { array, blocks_per_die, .. } = self.geometry;
        let spans = Spans::of_dies(array, array.dies(), blocks_per_die);
        let division = Division { spans, block_pages: self.geometry.block_pages() };
        let medium = Medium::new(division, &self.endurance, self.seed).with_tags();
        if self.page_words { medium.with_words() } else { medium }
    }
}
