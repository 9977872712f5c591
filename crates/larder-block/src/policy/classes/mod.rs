//! IO classes: requests that are cached in their own way. As in Open CAS, a request is classified by what is known of
//! it when it comes through an export: size, place, direction, core, durability and the export itself.
//!
//! Each class except 0 has a rule, which is also its name: conditions joined by `&` and `|`, evaluated from left to
//! right. After an `&` whose left side is false, the rest is ignored. Classes are tried in ascending order of id. The
//! request gets the last class whose rule holds; `done` in a rule ends the search there. A request for which no rule
//! holds is *unclassified*, class 0.
//!
//! | condition | holds for requests |
//! |---|---|
//! | `request_size:OP:N` | whose size in bytes compares so to `N`; `OP`: `lt`, `le`, `eq` (default), `ne`, `ge`, `gt` |
//! | `lba:OP:N` | whose first sector of 512 bytes in the core compares so to `N` |
//! | `core_id:OP:N` | whose core number compares so to `N` |
//! | `io_class:OP:N` | whose class by the rules before this one compares so to `N` |
//! | `io_direction:read`, `io_direction:write` | in this direction |
//! | `fua` | that must be durable when they end |
//! | `export:NAME` | that came through this export; its name must not contain `,`, `&` or `|` |
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
pub use crate::layout::ClassId;
use crate::layout::{Share, Shares, Span};
use crate::mode::Mode;
use rule::Rule;

/// The name of class 0.
const UNCLASSIFIED: &str = "unclassified";

/// The facts about a request that rules use.
#[derive(Clone, Copy, Debug)]
pub struct RequestFacts<'a> {
    /// Its sectors.
    pub span: Span,
    /// Its direction.
    pub direction: Direction,
    /// Whether it must be durable when it ends.
    pub is_fua: bool,
    /// The name of the export through which it came.
    pub export: &'a str,
}

/// A class, and how its requests are cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoClass {
    id: ClassId,
    /// `None` for class 0.
    rule: Option<Rule>,
    priority: Option<u8>,
    allocation_percent: u8,
    mode: Option<Mode>,
}

impl IoClass {
    /// Its id.
    pub fn id(&self) -> ClassId {
        self.id
    }

    /// The name of the class, which is its rule.
    pub fn name(&self) -> impl fmt::Display + '_ {
        let rule: &dyn fmt::Display = match &self.rule {
            None => &UNCLASSIFIED,
            Some(rule) => rule,
        };
        rule
    }

    /// 255 is evicted first, 0 last. `None`: pinned, never evicted.
    pub fn priority(&self) -> Option<u8> {
        self.priority
    }

    /// The share of the cache that it may use, in percent. 0: its requests are not cached.
    pub fn allocation_percent(&self) -> u8 {
        self.allocation_percent
    }

    /// The cache mode for its requests; `None`: that of the cache.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Its share of the cache and its eviction priority.
    pub fn share(&self) -> Share {
        Share { priority: self.priority, percent: self.allocation_percent }
    }
}

/// The classes of a cache. By default there is only class 0, which may use the whole cache and is evicted first.
///
/// Parsed from and printed to the CSV form of Open CAS, with an optional column for the cache mode:
/// `IO class id,IO class name,Eviction priority,Allocation,Cache mode`. No priority: pinned. No mode: that of the
/// cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoClasses {
    /// Ascending by id; class 0 first.
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

    /// The settings of a class. A class that no longer exists has those of class 0.
    pub fn get(&self, id: ClassId) -> &IoClass {
        let found = self.classes.binary_search_by_key(&id, |class| class.id);
        &self.classes[found.unwrap_or(0)]
    }

    /// The share of each class. Each class that no longer exists has the share of class 0.
    pub fn shares(&self) -> Shares {
        Shares::from_fn(|class| self.get(class).share())
    }

    /// All classes, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = &IoClass> {
        self.classes.iter()
    }

    /// Inserts a class, replacing one with the same id.
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
