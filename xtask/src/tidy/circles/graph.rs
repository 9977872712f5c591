//! Cycles of a graph.
//!
//! A cycle leads from a file back to it and passes through each other file at most once. A module and each of its parts
//! import each other, so they are cycles of two, however many the parts are. Files that belong together are found
//! without listing cycles: within a strongly connected component, all cycles of three or more files are in biconnected
//! parts, and each such part of three or more files has one. (If it had only cycles of two, every arrow would have a
//! reverse arrow, and going around the part in one direction would be a longer cycle.)

use std::collections::{BTreeMap, BTreeSet};

type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Sets of files that are tied by cycles, each sorted by path.
pub(super) fn circles<'a>(arrows: impl Iterator<Item = &'a (String, String)>) -> Vec<Vec<&'a str>> {
    let (out, reached) = drawn(arrows);
    // Arrows whose two ends reach each other, without direction.
    let mut both = Arrows::new();
    for (from, to) in out.iter().flat_map(|(from, to)| to.iter().map(|to| (*from, *to))) {
        if reached.get(to).is_some_and(|back| back.contains(from)) {
            both.entry(from).or_default().insert(to);
            both.entry(to).or_default().insert(from);
        }
    }
    let mut search = Search { arrows: Some(&both), ..Search::default() };
    for start in both.keys() {
        if !search.order.contains_key(start) {
            search.visit(start, None);
        }
    }
    search.found.sort();
    search.found
}

/// Strongly connected components of more than one member.
pub(super) fn components<'a>(
    arrows: impl Iterator<Item = &'a (String, String)>,
) -> BTreeSet<BTreeSet<&'a str>> {
    let (_, reached) = drawn(arrows);
    let back = |from: &str, to: &str| reached.get(to).is_some_and(|reached| reached.contains(from));
    let component = |(from, to): (&&'a str, &BTreeSet<&'a str>)| {
        to.iter().copied().filter(|to| back(from, to)).chain([*from]).collect::<BTreeSet<_>>()
    };
    reached.iter().map(component).filter(|component| component.len() > 1).collect()
}

/// The arrows by their beginnings, and what is reached from each beginning.
fn drawn<'a>(arrows: impl Iterator<Item = &'a (String, String)>) -> (Arrows<'a>, Arrows<'a>) {
    let mut out = Arrows::new();
    for (from, to) in arrows {
        out.entry(from).or_default().insert(to);
    }
    let reached = out.keys().map(|from| (*from, reached(&out, from))).collect();
    (out, reached)
}

/// All files that are reached from a file. The file itself is included only through a cycle.
fn reached<'a>(arrows: &Arrows<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for to in arrows.get(at).into_iter().flatten() {
            if reached.insert(*to) {
                open.push(to);
            }
        }
    }
    reached
}

/// Tarjan's search for biconnected parts, which no single file holds together.
#[derive(Default)]
struct Search<'a, 'b> {
    arrows: Option<&'b Arrows<'a>>,
    order: BTreeMap<&'a str, usize>,
    open: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    /// Visits a file. Returns the earliest visited file that can be reached from its subtree.
    fn visit(&mut self, at: &'a str, from: Option<&'a str>) -> usize {
        let own = self.order.len();
        self.order.insert(at, own);
        self.open.push(at);
        let mut lowest = own;
        for to in self.arrows.and_then(|arrows| arrows.get(at)).into_iter().flatten().copied() {
            if let Some(order) = self.order.get(to) {
                if Some(to) != from {
                    lowest = lowest.min(*order);
                }
                continue;
            }
            let below = self.visit(to, Some(at));
            lowest = lowest.min(below);
            if below >= own {
                let begin = self.open.iter().position(|open| *open == to).unwrap_or_default();
                let mut part = self.open.split_off(begin);
                part.push(at);
                part.sort_unstable();
                self.found.push(part);
            }
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(arrows: &str) -> Vec<String> {
        let arrow = |arrow: &str| (arrow[..1].to_owned(), arrow[1..].to_owned());
        let arrows: Vec<(String, String)> = arrows.split(' ').map(arrow).collect();
        circles(arrows.iter()).iter().map(|circle| circle.concat()).collect()
    }

    #[test]
    fn a_chain_is_no_circle_and_self_reference_none() {
        assert!(parts("ab bc ac").is_empty());
        assert!(parts("ab ba ac").iter().all(|part| part == "ab"));
    }

    #[test]
    fn a_module_and_its_parts_are_circles_of_two() {
        assert_eq!(parts("ma am mb bm mc cm"), ["am", "bm", "cm"]);
        assert_eq!(parts("ab ba bc cb"), ["ab", "bc"]);
    }

    #[test]
    fn longer_ways_back_are_found_wherever_they_lie() {
        assert_eq!(parts("ab bc ca"), ["abc"]);
        assert_eq!(parts("ma am mb bm ab"), ["abm"]);
        assert_eq!(parts("ab bc ca cx xc xy yz zx"), ["abc", "cx", "xyz"]);
        assert_eq!(parts("ab bc ca cd de ea"), ["abcde"]);
    }
}
