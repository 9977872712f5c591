//! Draws the sample of mutants.
//!
//! The rank of a mutant follows from the seed and from its content, not from its position in the list. So a change of
//! the source moves no other mutant into the sample, and a larger sample of the same seed begins with a smaller one.

use super::Mutant;

/// Draws `count` mutants, the same number from each folder: first one from each, then the next.
pub(super) fn draw<'a>(
    all: &'a [Mutant],
    folders: &[&str],
    count: usize,
    seed: u64,
) -> Vec<&'a Mutant> {
    let of = |folder: &str| {
        let mut ranked: Vec<(u64, &Mutant)> =
            ranks(all, seed).filter(|(_, mutant)| mutant.folder() == folder).collect();
        ranked.sort();
        ranked
    };
    let folders: Vec<Vec<(u64, &Mutant)>> = folders.iter().map(|folder| of(folder)).collect();
    let rounds = folders.iter().map(Vec::len).max().unwrap_or(0);
    let nth = |round| folders.iter().filter_map(move |folder| folder.get(round));
    (0..rounds).flat_map(nth).take(count).map(|(_, mutant)| *mutant).collect()
}

/// If several mutants are the same change of equal lines, each gets a different rank.
fn ranks(all: &[Mutant], seed: u64) -> impl Iterator<Item = (u64, &Mutant)> {
    let mut before = std::collections::BTreeMap::new();
    all.iter().map(move |mutant| {
        let nth: &mut u64 = before.entry((&mutant.file, &mutant.change, &mutant.line)).or_default();
        *nth += 1;
        let text = format!("{seed} {nth} {} {} {}", mutant.file, mutant.change, mutant.line);
        (hash(text.as_bytes()), mutant)
    })
}

/// FNV-1a with final mixing, so that texts that differ only in their last characters have very different ranks.
fn hash(bytes: &[u8]) -> u64 {
    let folded = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    let mixed = (folded ^ folded >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::super::mutant::tests::mutant;
    use super::*;

    const FOLDERS: [&str; 2] = ["few", "many"];

    fn all() -> Vec<Mutant> {
        let of = |folder: &str, count: u32| {
            let file = format!("{folder}/x.rs");
            (0..count).map(move |n| mutant(&file, &format!("change {n}"))).collect::<Vec<_>>()
        };
        [of("few", 3), of("many", 50), of("other", 50)].concat()
    }

    #[test]
    fn a_larger_sample_has_the_smaller_one_and_both_folders() {
        let all = all();
        let small = draw(&all, &FOLDERS, 4, 1);
        let large = draw(&all, &FOLDERS, 9, 1);
        assert_eq!((small.len(), large.len()), (4, 9));
        assert_eq!(small.iter().filter(|mutant| mutant.folder() == "few").count(), 2);
        assert_eq!(large.iter().filter(|mutant| mutant.folder() == "few").count(), 3);
        assert_eq!(small, large[..4]);
        assert_ne!(draw(&all, &FOLDERS, 9, 2), large);
        assert_eq!(draw(&all, &FOLDERS, 1000, 1).len(), 53);
    }

    #[test]
    fn what_else_is_in_the_list_changes_nothing() {
        let mut all = all();
        let before: Vec<Mutant> = draw(&all, &FOLDERS, 8, 1).into_iter().cloned().collect();
        let gone = all.iter().position(|mutant| !before.contains(mutant)).unwrap();
        all.remove(gone);
        let after: Vec<Mutant> = draw(&all, &FOLDERS, 8, 1).into_iter().cloned().collect();
        assert_eq!(before, after);
    }

    #[test]
    fn the_same_change_twice_on_a_line_is_two_mutants() {
        let twice = [mutant("few/x.rs", "change"), mutant("few/x.rs", "change")];
        let ranks: Vec<u64> = ranks(&twice, 1).map(|(rank, _)| rank).collect();
        assert_ne!(ranks[0], ranks[1]);
    }
}
