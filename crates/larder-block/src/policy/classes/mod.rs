//! IO classes: requests that are cached in a way of their own. As in Open CAS, by what is known of a request that comes
//! through an export: its size, place and direction, its core, whether it has to be durable, and the export.
//!
//! Each class but 0 has a rule, which is its name: conditions, joined by `&` and `|` from left to right; behind an `&`
//! that does not hold nothing counts any more. Classes are asked by ascending id, and the last whose rule holds is the
//! request's; `done` in a rule ends the search there. What no rule holds of is *unclassified*, class 0.
//!
//! | condition | holds of requests |
//! |---|---|
//! | `request_size:OP:N` | of so many bytes; `OP` is `lt`, `le`, `eq`, `ne`, `ge` or `gt`; without it `eq` is meant |
//! | `lba:OP:N` | that begin at such a sector of 512 bytes of their core |
//! | `core_id:OP:N` | of such a core |
//! | `io_class:OP:N` | that are of such a class by the rules before this one |
//! | `io_direction:read`, `io_direction:write` | that go this way |
//! | `fua` | that have to be durable when they end |
//! | `export:NAME` | that came through this export, whose name has no `,`, `&` or `|` |
//! | `done` | all |
//!
//! ```
//! use larder_block::policy::classes::IoClasses;
//!
//! let classes: IoClasses = "IO class id,IO class name,Eviction priority,Allocation
//!     0,unclassified,22,1.00
//!     1,io_direction:read&request_size:ge:1048576&done,,0.00
//!     2,export:database,0,0.50"
//!     .parse()?;
//! assert_eq!(classes.iter().count(), 3);
//! # Ok::<(), larder_block::Error>(())
//! ```

mod csv;
mod rule;

use std::fmt;

use super::Direction;
use crate::cache::Mode;
pub use crate::layout::ClassId;
use crate::layout::{Share, Shares, Span};
use rule::Rule;

/// The name of class 0.
const UNCLASSIFIED: &str = "unclassified";

/// What is known of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// Where.
    pub span: Span,
    /// Which way.
    pub direction: Direction,
    /// Whether it has to be durable when it ends.
    pub is_fua: bool,
    /// The export through which it came.
    pub export: &'a str,
}

/// A class, and how its requests are cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoClass {
    id: ClassId,
    /// `None` of class 0.
    rule: Option<Rule>,
    priority: Option<u8>,
    allocation_percent: u8,
    mode: Option<Mode>,
}

impl IoClass {
    /// Which one.
    pub fn id(&self) -> ClassId {
        self.id
    }

    /// Its name, which is its rule.
    pub fn name(&self) -> impl fmt::Display + '_ {
        let rule: &dyn fmt::Display = match &self.rule {
            None => &UNCLASSIFIED,
            Some(rule) => rule,
        };
        rule
    }

    /// 255 is evicted first, 0 last; `None` is pinned, and never evicted.
    pub fn priority(&self) -> Option<u8> {
        self.priority
    }

    /// What of the cache it may have, in percent. 0: it is not cached.
    pub fn allocation_percent(&self) -> u8 {
        self.allocation_percent
    }

    /// The cache mode of its requests; `None`: the cache's.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// What it may have of a cache, and when it gives way.
    pub fn share(&self) -> Share {
        Share { priority: self.priority, percent: self.allocation_percent }
    }
}

/// The classes of a cache. By default there is class 0 alone, which may have all and is evicted first.
///
/// From text and to text in the CSV form of Open CAS, with a column for the cache mode if wanted:
/// `IO class id,IO class name,Eviction priority,Allocation,Cache mode`. No priority: pinned. No mode: the cache's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoClasses {
    /// By ascending id, class 0 first.
    classes: Vec<IoClass>,
}

impl Default for IoClasses {
    fn default() -> Self {
        let (id, priority) = (ClassId::UNCLASSIFIED, Some(u8::MAX));
        Self {
            classes: vec![IoClass {
                id,
                rule: None,
                priority,
                allocation_percent: 100,
                mode: None,
            }],
        }
    }
}

impl IoClasses {
    /// The class of a request: one of [`iter`](Self::iter).
    pub fn classify(&self, facts: &RequestFacts) -> ClassId {
        let mut class = ClassId::UNCLASSIFIED;
        for candidate in &self.classes {
            let Some(rule) = &candidate.rule else { continue };
            let verdict = rule.judge(facts, class.get());
            if verdict.holds {
                class = candidate.id;
            }
            if verdict.is_last {
                break;
            }
        }
        class
    }

    /// What is said of a class; of one that is not there any more, what is said of class 0.
    pub fn get(&self, id: ClassId) -> &IoClass {
        let found = self.classes.binary_search_by_key(&id, |class| class.id);
        &self.classes[found.unwrap_or(0)]
    }

    /// What each may have. Those that are not there any more have what class 0 has, each of them.
    pub fn shares(&self) -> Shares {
        Shares::from_fn(|class| self.get(class).share())
    }

    /// All, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &IoClass> {
        self.classes.iter()
    }

    /// Puts one in, in place of the one of its id.
    fn set(&mut self, class: IoClass) {
        match self.classes.binary_search_by_key(&class.id, |it| it.id) {
            Ok(at) => self.classes[at] = class,
            Err(at) => self.classes.insert(at, class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::CoreId;

    fn classes(lines: &str) -> IoClasses {
        format!("IO class id,IO class name,Eviction priority,Allocation\n{lines}").parse().unwrap()
    }

    fn read(first: u64, sectors: u32) -> RequestFacts<'static> {
        let span = Span { core: CoreId::new(0).unwrap(), first, sectors };
        RequestFacts { span, direction: Direction::Read, is_fua: false, export: "" }
    }

    #[test]
    fn the_last_class_whose_rule_holds_wins_unless_one_is_done() {
        let classes = classes(
            "9,lba:ge:1000,1,1\n3,request_size:le:4096,1,1\n4,request_size:ge:65536&done,1,1\n12,io_class:3&lba:7,1,1",
        );
        let class = |first, sectors| classes.classify(&read(first, sectors)).get();
        assert_eq!(class(0, 16), 0);
        assert_eq!(class(0, 8), 3);
        assert_eq!(class(1000, 8), 9);
        assert_eq!(class(1000, 128), 4);
        assert_eq!((class(7, 8), class(7, 16)), (12, 0));
    }

    #[test]
    fn a_class_has_its_part_of_the_cache() {
        let classes = classes("1,fua,5,0.00\n2,lba:1,,0.25\n3,lba:2,7,1.00");
        let id = |number| ClassId::new(number).unwrap();
        let shares = classes.shares();
        let of = |number| shares.get(id(number)).of(1000);
        assert_eq!((of(1), of(2), of(3)), (0, 250, 1000));
        assert_eq!((classes.get(id(2)).priority(), classes.get(id(3)).priority()), (None, Some(7)));
        assert_eq!(classes.get(id(33)).id(), ClassId::UNCLASSIFIED, "of one that is not there");
        assert_eq!(shares.get(id(33)), shares.get(ClassId::UNCLASSIFIED));
    }
}
