//! What an open-channel drive is made of, and what of it fails.

use crate::error::{Error, ErrorKind};
use crate::nand::{BlockIndex, Division, Endurance, Medium, NandGeometry, Spans};

/// An open-channel drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawConfig {
    /// Size and division.
    pub geometry: NandGeometry,
    /// When erases fail.
    pub endurance: Endurance,
    /// Blocks that are bad from the factory.
    pub bad_blocks: Vec<BlockIndex>,
    /// Pairs of a block and a page of it: the next program of that page fails.
    pub program_failures: Vec<(BlockIndex, u32)>,
    /// Seed of the failures that are left to chance.
    pub seed: u64,
}

impl RawConfig {
    /// A drive on which nothing fails.
    pub fn new(geometry: NandGeometry) -> Self {
        Self {
            geometry,
            endurance: Endurance::Unlimited,
            bad_blocks: Vec::new(),
            program_failures: Vec::new(),
            seed: 0,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let fail = |message: String| Err(Error::new(ErrorKind::Config, message));
        self.geometry.check()?;
        self.endurance.check(self.geometry.blocks(), "block")?;
        let blocks = self.geometry.blocks();
        let programs = self.program_failures.iter().map(|(block, _)| ("program_failures", *block));
        let mut named = self.bad_blocks.iter().map(|block| ("bad_blocks", *block)).chain(programs);
        if let Some((field, block)) = named.find(|(_, block)| block.0 >= blocks) {
            return fail(format!("{field} names block {}: the drive has {blocks}", block.0));
        }
        let mut bad = self.bad_blocks.clone();
        bad.sort_unstable();
        if let Some(twice) = bad.windows(2).find(|pair| pair[0] == pair[1]) {
            return fail(format!("bad_blocks names block {} twice", twice[0].0));
        }
        Ok(())
    }

    /// The medium: each block on one die.
    pub(super) fn medium(&self) -> Medium {
        let NandGeometry { array, blocks_per_die, .. } = self.geometry;
        let spans = Spans::of_dies(array, array.dies(), blocks_per_die);
        let division = Division { spans, block_pages: self.geometry.block_pages() };
        Medium::new(division, &self.endurance, self.seed).with_tags()
    }
}
