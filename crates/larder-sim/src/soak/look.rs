//! Reads every key after an opening.

use std::rc::Rc;

use larder::Larder;

use super::history::{Need, Operation};
use super::scheduler::Scheduler;
use super::value::{content_of, key_of};
use crate::any_cache::{Cache, only};

impl Scheduler {
    /// After a crash, reads every key, if objects are required: objects covered by a flush must be present, and for the
    /// others nothing void may be returned.
    pub(super) fn look_at_all(&mut self, cache: Cache) -> Option<Cache> {
        if !self.kept.follows() || self.rng.u32(..3) == 0 {
            return Some(cache);
        }
        let cache = Rc::new(cache);
        let beside = Rc::clone(&cache);
        self.drive(Box::pin(async move { beside.rebuild().await }), None)?;
        for key in 0..self.plan.keys {
            let what = format!("look at {key} after an opening at {} ns", self.now_ns);
            let begun = Operation::begun(what, self.judged_ns.get());
            let number = self.log.borrow_mut().keys[key as usize].begin(begun);
            let beside = Rc::clone(&cache);
            let get = async move { beside.get(&key_of(key)).await };
            self.issued.gets += 1;
            let value = match self.drive(Box::pin(get), None)? {
                Ok(value) => value,
                Err(error) => {
                    self.complain(&format!("key {key} cannot be looked up: {error}"));
                    return None;
                }
            };
            self.issued.hits += u64::from(value.is_some());
            let content = value.map(|value| content_of(key, &value));
            self.totals.kept_lookups += u64::from(self.kept.owed(key).is_some());
            match (&content, self.kept.owed(key)) {
                (Some(Ok(content)), Some(owed)) if content == owed => {}
                (_, Some(owed)) => {
                    let tail = self.log.borrow().keys[key as usize].tail(number, 12);
                    let recovery = only(&cache).and_then(Larder::recovery);
                    let what = format!(
                        "key {key}: a flush returned for {owed:?}, and it is {content:?}, \
                         {recovery:?}\n{tail}"
                    );
                    self.complain(&what);
                }
                _ => {}
            }
            let mut wrong = None;
            self.log.borrow_mut().keys[key as usize].end(number, |operation| {
                operation.certain = true;
                match content {
                    Some(Ok(content)) => operation.need = Need::Content(content),
                    Some(Err(complaint)) => wrong = Some(complaint),
                    None => {}
                }
            });
            if let Some(complaint) = wrong {
                self.complain(&format!("key {key}: {complaint}"));
            }
        }
        Rc::try_unwrap(cache).ok()
    }
}
