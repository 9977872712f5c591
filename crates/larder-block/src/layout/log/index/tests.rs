//! The index, compared with a map of sectors.

use super::*;

use proptest::prelude::*;

const LINE: u32 = 8;

fn core(number: u16) -> CoreId {
    CoreId::new(number).unwrap()
}

/// An extent 64 bytes after a sector of the cache device.
fn extent(sector: u64, sectors: u32, is_dirty: bool) -> Extent {
    Extent::new(sector * 512 + 64, sectors, is_dirty)
}

/// What the index should contain, sector by sector.
#[derive(Default)]
struct Shadow(BTreeMap<(u16, u64), (u64, bool)>);

impl Shadow {
    fn replace(&mut self, span: Span, with: Option<Extent>) {
        for number in 0..u64::from(span.sectors) {
            let key = (span.core.get(), span.first + number);
            match with {
                Some(extent) => {
                    self.0.insert(key, (extent.location + number * 512, extent.is_dirty))
                }
                None => self.0.remove(&key),
            };
        }
    }

    fn check(&self, index: &Index, span: Span) {
        let mut found = Vec::new();
        index.find(span, &mut found);
        let mut told = BTreeMap::new();
        for one in found {
            for number in 0..u64::from(one.span.sectors) {
                let key = (span.core.get(), one.span.first + number);
                let said = (one.extent.location + number * 512, one.extent.is_dirty);
                assert!(told.insert(key, said).is_none(), "sectors in two extents");
            }
        }
        let range = (span.core.get(), span.first)..(span.core.get(), span.end());
        let known: BTreeMap<_, _> = self.0.range(range).map(|(key, said)| (*key, *said)).collect();
        assert_eq!(told, known);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put { dirty: bool },
    Remove,
    Clean,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn it_says_of_each_sector_what_was_put_last(
        ops in prop::collection::vec(
            (0..2_u16, 0..900_u64, 0..LINE, 1..=LINE, prop_oneof![
                4 => any::<bool>().prop_map(|dirty| Op::Put { dirty }),
                1 => Just(Op::Remove),
                1 => Just(Op::Clean),
            ]),
            1..1200,
        ),
        far in any::<bool>(),
    ) {
        let (mut index, mut shadow) = (Index::new(LINE), Shadow::default());
        for (number, (of, line, from, sectors, op)) in ops.into_iter().enumerate() {
            // Also lines whose offsets do not fit into one leaf.
            let line = if far && line % 5 == 0 { line << 30 } else { line };
            let sectors = sectors.min(LINE - from);
            let first = line * u64::from(LINE) + u64::from(from);
            let span = Span { core: core(of), first, sectors };
            match op {
                Op::Put { dirty } => {
                    let new = extent(number as u64 * 100, sectors, dirty);
                    index.replace(span, Some(new), &mut Vec::new());
                    shadow.replace(span, Some(new));
                }
                Op::Remove => {
                    index.replace(span, None, &mut Vec::new());
                    shadow.replace(span, None);
                }
                Op::Clean => {
                    index.change(span, |extent| extent.is_dirty = false);
                    for number in first..span.end() {
                        if let Some(said) = shadow.0.get_mut(&(of, number)) {
                            said.1 = false;
                        }
                    }
                }
            }
            shadow.check(&index, Span { core: core(of), first, sectors: 64 });
        }
        shadow.check(&index, Span { core: core(0), first: 0, sectors: u32::MAX });
        shadow.check(&index, Span { core: core(1), first: 0, sectors: u32::MAX });
        let dirty = [0, 1].map(|number| {
            shadow.0.iter().filter(|((of, _), (_, dirty))| *of == number && *dirty).count() as u64
        });
        let told = [0, 1].map(|number| index.dirty_sectors().of(core(number)));
        prop_assert_eq!(told, dirty);
        let all = (index.valid_sectors(), index.dirty_sectors().all());
        prop_assert_eq!(all, (shadow.0.len() as u64, dirty.iter().sum()));
    }
}

#[test]
fn a_part_that_is_cleaned_leaves_its_neighbours_dirty() {
    let mut index = Index::new(LINE);
    let span = Span { core: core(0), first: 16, sectors: 8 };
    index.replace(span, Some(extent(1000, 8, true)), &mut Vec::new());
    let middle = Span { first: 18, sectors: 2, ..span };
    index.change(middle, |extent| extent.is_dirty = false);
    let mut found = Vec::new();
    index.find(span, &mut found);
    let told: Vec<_> = found
        .iter()
        .map(|f| (f.span.first, (f.extent.location - 64) / 512, f.extent.is_dirty))
        .collect();
    assert_eq!(told, [(16, 1000, true), (18, 1002, false), (20, 1004, true)]);
}
