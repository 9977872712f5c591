//! Circles of a graph.
//!
//! A circle leads from a file back to it and passes each other file once, so that a module and each
//! of its parts, which know each other, are circles of two however many the parts are. What
//! belongs together is found without listing circles: within files that reach each other, all
//! circles of three and more lie in parts that stay connected without any one file, and each such
//! part of three files or more has one. (If it had circles of two alone, every arrow would have one
//! back, and going round the part in one direction would be a longer one.)

use std::collections::{BTreeMap, BTreeSet};

type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Sets of files that are tied by circles, each in the order of paths.
pub(super) fn circles<'a>(arrows: impl Iterator<Item = &'a (String, String)>) -> Vec<Vec<&'a str>> {
    let mut out = Arrows::new();
    for (from, to) in arrows {
        out.entry(from).or_default().insert(to);
    }
    let reached: Arrows<'_> = out.keys().map(|from| (*from, reached(&out, from))).collect();
    // Arrows both of whose ends reach each other, without direction.
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

/// All that is reached from a file, itself only by a circle.
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

/// Tarjan's search for the parts that no single file holds together.
#[derive(Default)]
struct Search<'a, 'b> {
    arrows: Option<&'b Arrows<'a>>,
    order: BTreeMap<&'a str, usize>,
    open: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    /// Visits a file; returns the first in order that is reached from below it.
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
