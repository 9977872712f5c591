//! Destages: cleaning of what a user names, so many lines at a time.
//!
//! One may overlap any request. It waits until nobody uses the lines that come next, and lets nobody else begin to
//! change them meanwhile: what was dirty when it came is on the core then, or was written over and that is, or is void.

use super::destages::Destage;
use super::state::OcfLayout;
use crate::layout::{RequestId, Span};

/// Lines that are cleaned at a time.
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

    /// Begins to clean what comes next, or waits for it. `false` if nothing is left.
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
            // What another cleaning has sent to the core is not dirty any more, and its page may not say so yet.
            let line_sectors = self.geometry.line_sectors();
            let waits =
                self.cleanings.iter().any(|(_, other)| other.has_some_of(one.span, line_sectors));
            // It may fail, and they are dirty again.
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

    /// A cleaning has ended: if it was for a destage, that goes on.
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
