//! Lists of lines: free ones, and for each IO class clean ones and dirty ones, 32 of each, in the order of use. The
//! first half of a list is its hot zone. A line in the hot zone does not move when it is used, which saves most moves.

use super::version::LISTS;
use crate::layout::ClassId;

const NONE: u32 = u32::MAX;
/// Flag next to the kind of the list of a line: the line is in the hot zone.
const HOT: u8 = 128;
const NOWHERE: u8 = 3;

/// The kind of the lines in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Free,
    Clean,
    Dirty,
}

#[derive(Clone, Copy, Debug)]
struct Links {
    /// The neighbour towards the head, which was used later.
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    /// The last line of the hot zone.
    last_hot: u32,
    lines: u32,
    hot: u32,
}

/// The lists. Each line is in one of them, except while it is being handed out.
#[derive(Debug)]
pub(super) struct Lists {
    links: Vec<Links>,
    /// The kind of the list that contains a line, and whether the line is hot.
    places: Vec<u8>,
    /// The class of a line that is not free.
    classes: Vec<ClassId>,
    /// The free lists, then the clean and the dirty lists of each class.
    lists: Vec<[List; LISTS]>,
}

impl Lists {
    /// Empty lists.
    pub(super) fn new(lines: u32) -> Self {
        let empty = List { newest: NONE, oldest: NONE, last_hot: NONE, lines: 0, hot: 0 };
        Self {
            links: vec![Links { newer: NONE, older: NONE }; lines as usize],
            places: vec![NOWHERE; lines as usize],
            classes: vec![ClassId::UNCLASSIFIED; lines as usize],
            lists: vec![[empty; LISTS]; 1 + 2 * ClassId::COUNT],
        }
    }

    pub(super) fn kind(&self, line: u32) -> Option<Kind> {
        match self.places[line as usize] & !HOT {
            0 => Some(Kind::Free),
            1 => Some(Kind::Clean),
            2 => Some(Kind::Dirty),
            _ => None,
        }
    }

    fn is_hot(&self, line: u32) -> bool {
        self.places[line as usize] & HOT != 0
    }

    pub(super) fn class(&self, line: u32) -> ClassId {
        self.classes[line as usize]
    }

    /// Sets the class of a line that is in no list.
    pub(super) fn set_class(&mut self, line: u32, class: ClassId) {
        debug_assert!(self.kind(line).is_none(), "line {line} is in a list of another class");
        self.classes[line as usize] = class;
    }

    /// The least recently used line of a list. Free lines have no class.
    pub(super) fn oldest(&self, kind: Kind, class: ClassId, list: usize) -> Option<u32> {
        some(self.lists[place_of(kind, class)][list].oldest)
    }

    /// The number of lines of a kind and class.
    pub(super) fn count(&self, kind: Kind, class: ClassId) -> u64 {
        self.lists[place_of(kind, class)].iter().map(|list| u64::from(list.lines)).sum()
    }

    /// The line of the same list that was used next after `line`.
    pub(super) fn newer(&self, line: u32) -> Option<u32> {
        some(self.links[line as usize].newer)
    }

    /// Puts a line that is in no list at the head of a list.
    ///
    /// # Panics
    /// If it is in a list.
    pub(super) fn push(&mut self, kind: Kind, list: usize, line: u32) {
        assert_eq!(self.kind(line), None, "line {line} is in a list");
        let own = &mut self.lists[place_of(kind, self.classes[line as usize])][list];
        let older = own.newest;
        own.newest = line;
        if own.oldest == NONE {
            own.oldest = line;
        }
        if own.last_hot == NONE {
            own.last_hot = line;
        }
        own.lines += 1;
        own.hot += 1;
        self.links[line as usize] = Links { newer: NONE, older };
        self.places[line as usize] = kind as u8 | HOT;
        if older != NONE {
            self.links[older as usize].newer = line;
        }
        self.balance(place_of(kind, self.class(line)), list);
    }

    /// Removes a line from its list, if it is in one.
    pub(super) fn remove(&mut self, list: usize, line: u32) {
        let Some(kind) = self.kind(line) else { return };
        let is_hot = self.is_hot(line);
        let Links { newer, older } = self.links[line as usize];
        let place = place_of(kind, self.class(line));
        let own = &mut self.lists[place][list];
        if own.last_hot == line {
            own.last_hot = newer;
        }
        if own.newest == line {
            own.newest = older;
        }
        if own.oldest == line {
            own.oldest = newer;
        }
        own.lines -= 1;
        own.hot -= u32::from(is_hot);
        if newer != NONE {
            self.links[newer as usize].older = older;
        }
        if older != NONE {
            self.links[older as usize].newer = newer;
        }
        self.places[line as usize] = NOWHERE;
        self.balance(place, list);
    }

    /// Records a use of a line.
    pub(super) fn touch(&mut self, list: usize, line: u32) {
        if let Some(kind) = self.kind(line)
            && !self.is_hot(line)
        {
            self.remove(list, line);
            self.push(kind, list, line);
        }
    }

    /// Moves the boundary of the zones until half of the lines are hot.
    fn balance(&mut self, place: usize, list: usize) {
        let own = &mut self.lists[place][list];
        while own.hot > own.lines / 2 {
            let line = own.last_hot as usize;
            self.places[line] &= !HOT;
            own.last_hot = self.links[line].newer;
            own.hot -= 1;
        }
        while own.hot < own.lines / 2 {
            let line = match own.last_hot {
                NONE => own.newest,
                last => self.links[last as usize].older,
            };
            self.places[line as usize] |= HOT;
            own.last_hot = line;
            own.hot += 1;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.links.len() * size_of::<Links>()
            + self.places.len()
            + self.classes.len()
            + self.lists.len() * size_of::<[List; LISTS]>()
    }
}

fn place_of(kind: Kind, class: ClassId) -> usize {
    match kind {
        Kind::Free => 0,
        Kind::Clean => 1 + 2 * usize::from(class.get()),
        Kind::Dirty => 2 + 2 * usize::from(class.get()),
    }
}

fn some(line: u32) -> Option<u32> {
    (line != NONE).then_some(line)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const CLASS: ClassId = ClassId::UNCLASSIFIED;

    /// Compared with a queue whose zones are counted.
    #[test]
    fn a_list_is_in_the_order_of_use_and_its_first_half_is_hot() {
        let mut lists = Lists::new(64);
        let mut model: VecDeque<u32> = VecDeque::new();
        let mut hot: Vec<u32> = Vec::new();
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let line = rng.u32(0..64);
            match lists.kind(line) {
                None => {
                    lists.push(Kind::Dirty, 5, line);
                    model.push_front(line);
                }
                Some(_) if rng.u8(..3) == 0 => {
                    lists.remove(5, line);
                    model.retain(|other| *other != line);
                }
                Some(_) => {
                    lists.touch(5, line);
                    if !hot.contains(&line) {
                        model.retain(|other| *other != line);
                        model.push_front(line);
                    }
                }
            }
            hot = model.iter().copied().take(model.len() / 2).collect();
            let mut walked = Vec::new();
            let mut next = lists.oldest(Kind::Dirty, CLASS, 5);
            while let Some(line) = next {
                walked.push(line);
                next = lists.newer(line);
            }
            assert!(walked.iter().rev().eq(&model));
            assert!(model.iter().all(|line| lists.is_hot(*line) == hot.contains(line)));
        }
        assert_eq!(lists.oldest(Kind::Dirty, CLASS, 4), None);
        assert_eq!(lists.oldest(Kind::Clean, CLASS, 5), None);
        assert_eq!(lists.count(Kind::Dirty, CLASS), model.len() as u64);
    }
}
