//! A record: sectors of a core, and their state. Headers of batches contain records, and footers of segments repeat
//! them. Little-endian.
//!
//! ```text
//!  offset  bytes  field
//!       0      8  first sector of the core
//!       8      2  core
//!      10      1  sectors, 1 to 128, less 1
//!      11      1  kind: 1 dirty, 2 clean, 3 void (without data), 4 unsettled, 5 destaged (without data); + 16 if it
//!                 may be overwritten in place
//!      12      4  a word for the holder of the record
//! ```
//!
//! Unsettled data is clean as long as the core has power: the core has it too, but no flush covered it when this was
//! written. After a crash it is void, because a clean copy is only as durable as the data on its core. After an
//! orderly stop, which flushes the cores, it is clean: the label says up to which sequence that holds
//! ([`settled_up_to`](super::LogSuperblock::settled_up_to)).
//!
//! For destaged sectors, the core durably has the data of records with lower sequences: what these call dirty is
//! clean. None of it is overwritten in place any more. A client flush writes such markers before it is answered. So
//! after a crash a sector is dirty only if a dirty write to it was acknowledged, and no later flush was answered.

#![deny(clippy::indexing_slicing)]

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{CoreId, SECTOR_BYTES, Span};

pub(super) const ENTRY_BYTES: usize = size_of::<RecordEntry>();
const _: () = assert!(ENTRY_BYTES == 16);

/// No record: stands in a footer for a batch without records.
const NONE: u8 = 0;
const DIRTY: u8 = 1;
const CLEAN: u8 = 2;
const VOID: u8 = 3;
const UNSETTLED: u8 = 4;
const DESTAGED: u8 = 5;
const OVERWRITABLE: u8 = 16;

/// The state of the sectors that a record describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    Dirty {
        is_overwritable: bool,
    },
    Clean,
    Void,
    /// Clean now, void after a crash.
    Unsettled,
    /// The sectors that older records call dirty are clean.
    Destaged,
}

impl RecordKind {
    pub(super) fn has_data(self) -> bool {
        !matches!(self, Self::Void | Self::Destaged)
    }

    fn encode(self) -> u8 {
        match self {
            Self::Dirty { is_overwritable: true } => DIRTY | OVERWRITABLE,
            Self::Dirty { is_overwritable: false } => DIRTY,
            Self::Clean => CLEAN,
            Self::Void => VOID,
            Self::Unsettled => UNSETTLED,
            Self::Destaged => DESTAGED,
        }
    }

    fn parse(byte: u8) -> Option<Self> {
        [
            Self::Dirty { is_overwritable: true },
            Self::Dirty { is_overwritable: false },
            Self::Clean,
            Self::Void,
            Self::Unsettled,
            Self::Destaged,
        ]
        .into_iter()
        .find(|kind| kind.encode() == byte)
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) span: Span,
    pub(super) kind: RecordKind,
    /// CRC-32C of the data as first written; 0 for a record without data, and if only the footer is known.
    pub(super) checksum: u32,
}

impl Record {
    pub(super) fn data_bytes(&self) -> usize {
        if self.kind.has_data() { self.span.bytes() } else { 0 }
    }
}

/// A record in its format on the device.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RecordEntry {
    first: U64,
    core: U16,
    sectors_less_one: u8,
    kind: u8,
    word: U32,
}

impl RecordEntry {
    /// # Panics
    /// If the record is longer than 128 sectors.
    pub(super) fn of(record: &Record, word: u32) -> Self {
        let sectors_less_one = u8::try_from(record.span.sectors - 1).ok().filter(|n| *n < 128);
        Self {
            first: record.span.first.into(),
            core: record.span.core.get().into(),
            sectors_less_one: sectors_less_one.expect("128 sectors at most"),
            kind: record.kind.encode(),
            word: word.into(),
        }
    }

    /// Writes records to the beginning of `into`, each with its checksum, and zeros after them. Returns their bytes.
    pub(super) fn put_all<'a>(records: &[Record], into: &'a mut [u8]) -> &'a [u8] {
        let (entries, zeros) = into.split_at_mut(records.len() * ENTRY_BYTES);
        for (record, entry) in records.iter().zip(entries.chunks_exact_mut(ENTRY_BYTES)) {
            entry.copy_from_slice(Self::of(record, record.checksum).as_bytes());
        }
        zeros.fill(0);
        entries
    }

    /// Parses `count` records at the beginning of `bytes`, each with its checksum. `None` if one is invalid.
    pub(super) fn take_all(bytes: &[u8], count: usize) -> Option<Vec<Record>> {
        let (entries, _) = <[Self]>::ref_from_prefix_with_elems(bytes, count).ok()?;
        entries.iter().map(|entry| entry.record(entry.word())).collect()
    }

    /// Stands for the records of a batch without any.
    pub(super) fn of_none(word: u32) -> Self {
        Self { first: 0.into(), core: 0.into(), sectors_less_one: 0, kind: NONE, word: word.into() }
    }

    pub(super) fn is_none(&self) -> bool {
        (self.first.get(), self.core.get(), self.sectors_less_one, self.kind) == (0, 0, 0, NONE)
    }

    pub(super) fn word(&self) -> u32 {
        self.word.get()
    }

    /// The record, with this checksum. `None` if it is invalid.
    pub(super) fn record(&self, checksum: u32) -> Option<Record> {
        let sectors = u32::from(self.sectors_less_one) + 1;
        let span = Span { core: CoreId::new(self.core.get())?, first: self.first.get(), sectors };
        let is_sound = sectors <= 128 && span.first <= u64::MAX / SECTOR_BYTES as u64 - 128;
        let kind = RecordKind::parse(self.kind)?;
        is_sound.then_some(Record { span, kind, checksum })
    }
}
