//! What an index asks of the device.

/// What is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment::array) enum Kind {
    /// A part of the index, which the caller waits for.
    IndexRead,
    /// A part of the index; nobody waits.
    IndexWrite,
    /// A value, as long as it is.
    ValueRead,
}

/// A request to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment::array) struct Access {
    pub(in crate::experiment::array) kind: Kind,
    /// Its length; 0 for a value.
    pub(in crate::experiment::array) bytes: u32,
    /// Which page or table of the index, or the key of the value.
    pub(in crate::experiment::array) place: u64,
}

impl Access {
    pub(super) const fn value(key: u64) -> Self {
        Self { kind: Kind::ValueRead, bytes: 0, place: key }
    }

    pub(super) const fn read(place: u64, bytes: u32) -> Self {
        Self { kind: Kind::IndexRead, bytes, place }
    }

    pub(super) const fn write(place: u64, bytes: u32) -> Self {
        Self { kind: Kind::IndexWrite, bytes, place }
    }
}

/// What a number of operations asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::experiment::array) struct Sums {
    pub(in crate::experiment::array) operations: u64,
    pub(in crate::experiment::array) reads: u64,
    /// The most reads of one operation.
    pub(in crate::experiment::array) reads_max: u64,
    pub(in crate::experiment::array) index_read_bytes: u64,
    pub(in crate::experiment::array) index_written_bytes: u64,
}

impl Sums {
    /// Adds an operation.
    pub(in crate::experiment::array) fn add(&mut self, asked: &[Access]) {
        self.operations += 1;
        let reads = asked.iter().filter(|access| access.kind != Kind::IndexWrite).count() as u64;
        self.reads += reads;
        self.reads_max = self.reads_max.max(reads);
        let bytes = |kind: Kind| -> u64 {
            let of_kind = asked.iter().filter(|access| access.kind == kind);
            of_kind.map(|access| u64::from(access.bytes)).sum()
        };
        self.index_read_bytes += bytes(Kind::IndexRead);
        self.index_written_bytes += bytes(Kind::IndexWrite);
    }
}
