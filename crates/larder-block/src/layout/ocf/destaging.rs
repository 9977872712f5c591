//! Destages: cleans the lines that a request names, at most [`LINES_AT_ONCE`] at a time.
//!
//! A destage may overlap any request. It waits until the next lines are not in use, and prevents new changes of them
//! while it waits. At its end, each sector that was dirty at its start is on the core, or was overwritten and the new
//! data is on the core, or is void.

use super::destages::Destage;
use super::state::OcfLayout;
use crate::layout::{RequestId, Span};

/// Number of lines that are cleaned at a time.
const LINES_AT_ONCE: usize = 128;

impl OcfLayout {
    pub(super) fn destage(&mut self, request: RequestId, span: Span) {
        self.requests.add_part(request);
        let next = self.core_line(span);
        let destage = Destage { request, span, next, claimed: Vec::new(), cleaning: None };
        self.destages.push(destage);
        self.has_changed = true;
    }

    pub(super) fn go_on_destaging(&mut self) {
        for mut one in std::mem::take(&mut self.destages) {
            if one.cleaning.is_some() || self.clean_next(&mut one) {
                self.destages.push(one);
            } else {
                self.requests.end_part(one.request, true);
                self.has_changed = true;
            }
        }
    }

    /// Begins to clean the next lines, or waits for them. `false` if nothing is left.
    fn clean_next(&mut self, one: &mut Destage) -> bool {
        for line in one.claimed.drain(..) {
            self.locks.end_claim(line);
        }
        let (mut lines, mut next) = (Vec::new(), one.next);
        while lines.len() < LINES_AT_ONCE
            && let Some(of) = self.lines.dirty_lines.next(next)
            && self.span_of(of).first < one.span.end()
        {
            let line = self.lines.find(of).expect("it is dirty");
            let all = self.span_of(of);
            let first = all.first.max(one.span.first);
            let sectors = u32::try_from(all.end().min(one.span.end()) - first).expect("a line");
            if self.lines.table.dirty(line) & self.mask(Span { first, sectors, ..all }) != 0 {
                lines.push(line);
            }
            next = of;
            next.number += 1;
        }
        if lines.is_empty() {
            // Data that another cleaning has sent to the core is no longer dirty, but its page may not say so yet.
            let line_sectors = self.geometry.line_sectors();
            let waits =
                self.cleanings.iter().any(|(_, other)| other.has_some_of(one.span, line_sectors));
            // That cleaning may fail, and the lines are then dirty again: start over.
            one.next = self.core_line(one.span);
            return waits;
        }
        if lines.iter().any(|line| !self.locks.is_idle(*line)) {
            lines.iter().for_each(|line| self.locks.claim(*line));
            one.claimed = lines;
            return true;
        }
        one.next = next;
        one.cleaning = Some(self.begin_cleaning(&lines));
        true
    }

    /// A cleaning has ended: if it ran for a destage, continues the destage.
    pub(super) fn destage_went_on(&mut self, number: usize, is_well: bool) {
        let Some(at) = self.destages.iter().position(|one| one.cleaning == Some(number)) else {
            return;
        };
        if is_well {
            self.destages[at].cleaning = None;
        } else {
            let one = self.destages.swap_remove(at);
            self.requests.end_part(one.request, false);
        }
    }
}
