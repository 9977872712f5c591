//! Destages a whole core on request, a few chunks at a time.

use super::op::{Clean, Op, Step, What};
use super::state::Cache;
use crate::layout::{CoreId, Request, RequestId, SECTOR_BYTES, Span};

/// Length of a chunk, in sectors: 4 MiB. Chunks are long enough for long runs, and short enough for the data to fit in
/// memory.
const CHUNK_SECTORS: u64 = (4 << 20) / SECTOR_BYTES as u64;
/// Chunks of a core that are destaged at the same time.
const CHUNKS_MAX: usize = 4;

impl Cache {
    /// Begins with the first chunk, even if it is clean: with this request the layout makes durable on the core what
    /// it had destaged by itself before.
    pub(super) fn begin_cleaning(&mut self, key: usize) {
        if self.layout.unloaded_parts() > 0 {
            return self.clean_when_loaded(key);
        }
        let What::Clean(clean) = &mut self.ops[key].what else { unreachable!("it cleans") };
        let first = first_chunk(clean.core);
        (clean.next, clean.outstanding) = (Some(first.end()), 1);
        let request = clean.request(first);
        self.destage_as(request, Some(key));
        self.go_on_cleaning(key);
    }

    /// Begins the next chunks, or ends. Pauses while requests are held back, because the holder waits for all I/Os to
    /// end.
    fn go_on_cleaning(&mut self, key: usize) {
        let pauses = self.held.is_some();
        loop {
            let What::Clean(clean) = &mut self.ops[key].what else { unreachable!("it cleans") };
            let dirty = clean.next.filter(|_| clean.outstanding < CHUNKS_MAX && !pauses);
            let dirty = dirty.map(|from| match clean.settles {
                true => self.layout.looks_dirty_after(clean.core, from),
                false => self.layout.dirty_after(clean.core, from),
            });
            match dirty {
                None => break,
                Some(None) => {
                    clean.next = None;
                    if std::mem::take(&mut clean.closes) {
                        clean.outstanding += 1;
                        let request = clean.request(first_chunk(clean.core));
                        self.destage_as(request, Some(key));
                    }
                }
                Some(Some(dirty)) => {
                    let chunk = chunk_of(dirty);
                    (clean.next, clean.outstanding) = (Some(chunk.end()), clean.outstanding + 1);
                    let request = clean.request(chunk);
                    self.destage_as(request, Some(key));
                }
            }
        }
        let What::Clean(clean) = &self.ops[key].what else { unreachable!("it cleans") };
        if clean.outstanding == 0 && !(pauses && clean.next.is_some()) {
            let is_well = !clean.has_failed;
            self.end(key, is_well);
        }
    }

    /// Continues the cleanings that had paused ([`Cache::is_quiet`]).
    pub(super) fn resume_cleaning(&mut self) {
        let is_paused = |what: &What| match what {
            What::Clean(clean) => clean.next.is_some() && clean.outstanding == 0,
            _ => false,
        };
        let paused = self.ops.iter().filter(|(_, op)| is_paused(&op.what));
        for key in paused.map(|(key, _)| key).collect::<Vec<_>>() {
            self.go_on_cleaning(key);
        }
    }

    pub(super) fn destage(&mut self, span: Span) {
        self.destage_as(Request::Destage { span }, None);
    }

    fn destage_as(&mut self, request: Request, of: Option<usize>) {
        let span = request.span().expect("a chunk");
        // No client waits for this op.
        let key = self.ops.insert(Op::of(RequestId(u64::MAX), What::Destage { span, of }));
        self.step(key, Step::Destage);
        self.ask_layout(key, request);
    }

    pub(super) fn destage_ended(&mut self, key: usize, is_well: bool) {
        let What::Destage { span, of } = self.ops.remove(key).what else {
            unreachable!("it destages")
        };
        let Some(of) = of else { return self.cleaning.destaged(span, is_well, self.now) };
        let What::Clean(clean) = &mut self.ops[of].what else { unreachable!("it cleans") };
        clean.outstanding -= 1;
        clean.has_failed |= !is_well;
        self.go_on_cleaning(of);
    }
}

impl Clean {
    fn request(&self, span: Span) -> Request {
        if self.settles { Request::Settle { span } } else { Request::Destage { span } }
    }
}

fn first_chunk(core: CoreId) -> Span {
    chunk_of(Span { core, first: 0, sectors: 1 })
}

/// The chunk that contains the beginning of a span.
fn chunk_of(span: Span) -> Span {
    let sectors = u32::try_from(CHUNK_SECTORS).expect("a few MiB");
    Span { first: span.first - span.first % CHUNK_SECTORS, sectors, ..span }
}
