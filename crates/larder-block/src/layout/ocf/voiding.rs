//! Writes around, discards and flushes.
//!
//! A crash loses clean data, so only dirty data must be made void on the device: through its page of the table, after
//! the core durably has the new data, because the old data was durable.

use super::change::{ChangeKind, Piece};
use super::pages::Waiter;
use super::state::{OcfLayout, Purpose};
use crate::layout::line::by_line;
use crate::layout::{Class, Data, DeviceIo, RequestId, Span, Target};

impl OcfLayout {
    /// Writes around the cache. Returns `false` if the write has to wait.
    pub(super) fn bypass(
        &mut self,
        request: RequestId,
        span: Span,
        data: &Data,
        durable: bool,
    ) -> bool {
        let may = self.may_change(span);
        if may {
            self.write_around(request, span, data, durable);
        }
        may
    }

    /// Writes the core, then makes cached data void. If some of it was dirty, and therefore durable, the write is
    /// durable too.
    pub(super) fn write_around(
        &mut self,
        request: RequestId,
        span: Span,
        data: &Data,
        durable: bool,
    ) {
        let pieces = self.cached(span);
        let covers_dirty =
            pieces.iter().any(|one| self.lines.table.dirty(one.line) & one.mask != 0);
        let number = self.begin_change(request, ChangeKind::Void, pieces, 1);
        self.cores.insert(span.core);
        let io = DeviceIo::Write {
            target: Target::Core(span.core),
            offset: span.offset(),
            parts: vec![data.clone()],
            beside: None,
            class: Class::Clean,
            metadata_bytes: 0,
            durable: durable || covers_dirty,
        };
        self.issue(io, Purpose::Change { number });
    }

    /// Discards cached data. Returns `false` if the discard has to wait.
    pub(super) fn discard(&mut self, request: RequestId, span: Span) -> bool {
        let may = self.may_change(span);
        if may {
            let pieces = self.cached(span);
            let number = self.begin_change(request, ChangeKind::Void, pieces, 0);
            self.data_arrived(number);
        }
        may
    }

    fn cached(&self, span: Span) -> Vec<Piece> {
        let piece = |part: Span| {
            let line = self.lines.find(self.core_line(part))?;
            Some(Piece { line, mask: self.mask(part) })
        };
        by_line(span, self.geometry.line_sectors()).filter_map(piece).collect()
    }

    /// Flushes the cache device and every core that was written, as Open CAS does.
    pub(super) fn flush(&mut self, request: RequestId) {
        let cores: Vec<Target> = self.cores.iter().copied().map(Target::Core).collect();
        for target in cores.into_iter().chain([Target::Cache]) {
            self.requests.add_part(request);
            self.issue(DeviceIo::Flush { target }, Purpose::Flush { request });
        }
        for page in self.pages.doubtful().clone() {
            self.requests.add_part(request);
            self.pages.want(page, Some(Waiter::Flush(request)), true);
        }
    }
}
