//! The versions that each sector may hold: a slow model of a cache before cores of zeros.

use std::collections::HashMap;

use larder_block::accounting::stamps;
use larder_block::layout::{CoreId, LayoutRequest, Span};

use super::owed::Owed;

#[derive(Default)]
pub(crate) struct Shadow {
    sectors: HashMap<(CoreId, u64), Allowed>,
    next_version: u64,
    last: Option<Span>,
    /// The sectors that a crash may leave dirty.
    owed: Owed,
}

/// The newest version of each sector.
pub(crate) type Newest = Vec<((CoreId, u64), u64)>;

/// Versions that a sector may have. Version 0 stands for zeros: the sector was never written.
#[derive(Clone, Debug)]
struct Allowed {
    /// Oldest first. Without a power loss the sector has the last one.
    versions: Vec<u64>,
    /// A discard, or a write that failed: any version up to this one may appear until the sector is overwritten.
    any_up_to: Option<u64>,
}

impl Allowed {
    fn only(version: u64) -> Self {
        Self { versions: vec![version], any_up_to: None }
    }

    fn has(&self, version: u64) -> bool {
        self.versions.contains(&version) || self.any_up_to.is_some_and(|any| version <= any)
    }
}

/// A request as the shadow sees it.
#[derive(Clone, Debug)]
pub(crate) struct ShadowRequest {
    pub(crate) span: Span,
    pub(crate) kind: Kind,
    pub(crate) version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    PassThroughRead,
    Destage,
    Settle,
    /// Data that was read, or written around, is inserted.
    Insert,
    Write,
    Bypass,
    DurableBypass,
    Discard,
}

impl Kind {
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Bypass | Self::DurableBypass | Self::Discard)
    }

    pub(crate) fn reads(self) -> bool {
        matches!(self, Self::Read | Self::PassThroughRead)
    }
}

impl Shadow {
    /// The span of the last request.
    pub(crate) fn last(&self) -> Option<Span> {
        self.last
    }

    /// A request of this kind, with its own version.
    pub(crate) fn known(&mut self, span: Span, kind: Kind) -> ShadowRequest {
        self.next_version += 1;
        self.last = Some(span);
        ShadowRequest { span, kind, version: self.next_version }
    }

    pub(crate) fn request(&mut self, span: Span, kind: Kind) -> (ShadowRequest, LayoutRequest) {
        let known = self.known(span, kind);
        let version = known.version;
        let request = match kind {
            Kind::Read => LayoutRequest::Read { span },
            Kind::PassThroughRead => LayoutRequest::PassThroughRead { span },
            Kind::Destage => LayoutRequest::Destage { span },
            Kind::Settle => LayoutRequest::Settle { span },
            Kind::Insert => unreachable!("it has the data of another request"),
            Kind::Write => {
                self.owed.begins(span, version);
                LayoutRequest::Write { span, data: stamps(span, version) }
            }
            Kind::Bypass | Kind::DurableBypass => {
                let durable = kind == Kind::DurableBypass;
                LayoutRequest::Bypass { span, data: stamps(span, version), durable }
            }
            Kind::Discard => LayoutRequest::Discard { span },
        };
        (known, request)
    }

    fn of(&mut self, core: CoreId, sector: u64) -> &mut Allowed {
        self.sectors.entry((core, sector)).or_insert_with(|| Allowed::only(0))
    }

    /// The request has ended successfully; `read` is the data of a read.
    pub(crate) fn ended(&mut self, known: &ShadowRequest, read: &[u8]) {
        match known.kind {
            Kind::Settle => {
                let span = known.span;
                let is_of =
                    |core, sector| span.core == core && (span.first..span.end()).contains(&sector);
                self.owed.settled(is_of, known.version);
            }
            _ if known.kind.writes() => self.owed.ended(known.version, self.next_version),
            _ => {}
        }
        for (number, sector) in (known.span.first..known.span.end()).enumerate() {
            let allowed = self.of(known.span.core, sector);
            match known.kind {
                Kind::Write | Kind::DurableBypass => *allowed = Allowed::only(known.version),
                // The write is durable when the core is flushed.
                Kind::Bypass => allowed.versions.push(known.version),
                Kind::Discard => {
                    *allowed = Allowed { versions: Vec::new(), any_up_to: Some(known.version) }
                }
                Kind::Destage | Kind::Settle | Kind::Insert => {}
                Kind::Read | Kind::PassThroughRead => {
                    let version = version_of(known.span, sector, &read[number * 512..][..512]);
                    if allowed.versions.is_empty() && allowed.has(version) {
                        allowed.versions.push(version);
                    }
                    let is_newest = allowed.versions.last() == Some(&version);
                    assert!(is_newest, "{known:?}: sector {sector} is {version}, not {allowed:?}");
                }
            }
        }
    }

    /// The request has failed. Each sector of a failed write is written or not, and a crash may bring back its
    /// previous content.
    pub(crate) fn failed(&mut self, known: &ShadowRequest) {
        if known.kind.writes() {
            // The data that the write should have replaced may have come back, and may be dirty.
            self.owed.begins(known.span, known.version);
            for sector in known.span.first..known.span.end() {
                let any_up_to = Some(known.version);
                *self.of(known.span.core, sector) = Allowed { versions: Vec::new(), any_up_to };
            }
        }
    }

    /// The versions that a flush submitted now has to make durable.
    pub(crate) fn newest(&self) -> Newest {
        let newest = |(sector, allowed): (&_, &Allowed)| Some((*sector, *allowed.versions.last()?));
        self.sectors.iter().filter_map(newest).collect()
    }

    /// The flush has ended successfully.
    pub(crate) fn flush_ended(&mut self, newest: &Newest) {
        for (sector, version) in newest {
            let allowed = self.sectors.get_mut(sector).expect("it was there");
            if let Some(at) = allowed.versions.iter().position(|one| one == version)
                && allowed.any_up_to.is_none()
            {
                allowed.versions.drain(..at);
            }
        }
    }

    /// A flush has ended, and nothing else was in flight.
    pub(crate) fn flushed(&mut self) {
        for allowed in self.sectors.values_mut() {
            if let (Some(newest), None) = (allowed.versions.last(), allowed.any_up_to) {
                *allowed = Allowed::only(*newest);
            }
        }
    }

    /// Power was lost while these requests were in flight.
    pub(crate) fn lost_power(&mut self, under_way: &[ShadowRequest]) {
        self.owed.crashed(self.next_version);
        for known in under_way.iter().filter(|known| known.kind.writes()) {
            for sector in known.span.first..known.span.end() {
                let allowed = self.of(known.span.core, sector);
                match known.kind {
                    Kind::Discard => allowed.any_up_to = Some(known.version),
                    _ => allowed.versions.push(known.version),
                }
            }
        }
    }

    /// The sectors that a crash may leave dirty, to be informed of writes and flushes.
    pub(crate) fn owed(&mut self) -> &mut Owed {
        &mut self.owed
    }

    /// A point in time after all requests so far.
    pub(crate) fn now(&mut self) -> u64 {
        self.next_version += 1;
        self.next_version
    }

    /// The data that was found after a power loss. From now on the sectors have this content.
    pub(crate) fn found(&mut self, span: Span, read: &[u8]) {
        for (sector, bytes) in (span.first..span.end()).zip(read.chunks(512)) {
            let version = version_of(span, sector, bytes);
            let allowed = self.of(span.core, sector);
            assert!(
                allowed.has(version),
                "core {:?}, sector {sector} is {version}, not {allowed:?}",
                span.core
            );
            *allowed = Allowed::only(version);
        }
    }
}

/// The version of a sector.
fn version_of(span: Span, sector: u64, bytes: &[u8]) -> u64 {
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    if bytes.iter().all(|byte| *byte == 0) {
        return 0;
    }
    let own = stamps(Span { first: sector, sectors: 1, ..span }, number(8));
    assert_eq!(own.bytes(), bytes, "core {:?}, sector {sector} has another's data", span.core);
    number(8)
}
