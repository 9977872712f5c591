//! The lines that were written to a segment, and their IO classes.

use crate::layout::ClassId;

/// A line of a filling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) generation: u64,
    /// The index of the line in its filling.
    pub(super) line: usize,
}

/// Lines in the order in which they were written. Lines that a start has found are of class 0.
#[derive(Debug, Default)]
pub(super) struct WrittenLines {
    /// Core lines, packed into numbers.
    lines: Vec<u64>,
    /// Where lines of another class begin. Lines before the first run are of class 0.
    runs: Vec<ClassRun>,
    /// Bit set of the classes for which lines were written.
    classes: u64,
    /// Bit set of the classes with data that was written for another class or arrived later, in any line.
    changed: u64,
}

#[derive(Clone, Copy, Debug)]
struct ClassRun {
    /// The first line of the run.
    from: u32,
    class: ClassId,
}

impl WrittenLines {
    pub(super) fn of_no_class(lines: Vec<u64>) -> Self {
        Self { lines, classes: ClassId::UNCLASSIFIED.bit(), ..Self::default() }
    }

    /// Data of a line was written for a class.
    pub(super) fn push(&mut self, line: u64, class: ClassId) {
        let last = self.runs.last().map_or(ClassId::UNCLASSIFIED, |run| run.class);
        if self.lines.last() == Some(&line) {
            if class != last {
                self.has_changed_class(class);
            }
            return;
        }
        if class != last {
            let from = u32::try_from(self.lines.len()).expect("lines of a segment");
            self.runs.push(ClassRun { from, class });
        }
        self.lines.push(line);
        self.classes |= class.bit();
    }

    /// Some data here is of this class, whatever class it was written for.
    pub(super) fn has_changed_class(&mut self, class: ClassId) {
        self.changed |= class.bit();
    }

    /// The number of the next line that may have data of a class, from number `from` on.
    pub(super) fn next_of(&self, class: ClassId, from: usize) -> Option<usize> {
        if from >= self.lines.len() || (self.classes | self.changed) & class.bit() == 0 {
            return None;
        }
        if self.changed & class.bit() != 0 {
            return Some(from);
        }
        let behind = self.runs.partition_point(|run| run.from as usize <= from);
        let here = behind.checked_sub(1).map_or(ClassId::UNCLASSIFIED, |run| self.runs[run].class);
        if here == class {
            return Some(from);
        }
        self.runs[behind..].iter().find(|run| run.class == class).map(|run| run.from as usize)
    }

    pub(super) fn lines(&self) -> &[u64] {
        &self.lines
    }

    pub(super) fn into_lines(self) -> Vec<u64> {
        self.lines
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.lines.shrink_to_fit();
        self.runs.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<u64>() + self.runs.capacity() * size_of::<ClassRun>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(number: u8) -> ClassId {
        ClassId::new(number).unwrap()
    }

    fn lines_of(written: &WrittenLines, number: u8) -> Vec<u64> {
        let (mut from, mut lines) = (0, Vec::new());
        while let Some(next) = written.next_of(class(number), from) {
            lines.push(written.lines()[next]);
            from = next + 1;
        }
        lines
    }

    #[test]
    fn a_class_is_led_to_its_own_lines() {
        let mut written = WrittenLines::default();
        for (line, of) in [(9, 0), (8, 0), (7, 33), (6, 2), (5, 2), (4, 33), (4, 33), (3, 0)] {
            written.push(line, class(of));
        }
        assert_eq!(written.lines(), [9, 8, 7, 6, 5, 4, 3]);
        assert_eq!(lines_of(&written, 0), [9, 8, 3]);
        assert_eq!((lines_of(&written, 2), lines_of(&written, 33)), (vec![6, 5], vec![7, 4]));
        assert_eq!(lines_of(&written, 1), []);
        // After a change of class, each line may contain it.
        written.has_changed_class(class(1));
        written.push(3, class(2));
        assert_eq!((lines_of(&written, 1).len(), lines_of(&written, 2).len()), (7, 7));
        let found = WrittenLines::of_no_class(vec![1, 2]);
        assert_eq!((lines_of(&found, 0), lines_of(&found, 1)), (vec![1, 2], vec![]));
    }
}
