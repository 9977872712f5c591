//! The device requests of an index.

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment::array) enum Kind {
    /// A read of a part of the index. The operation waits for it.
    IndexRead,
    /// A write of a part of the index. No operation waits for it.
    IndexWrite,
    /// A read of a whole value.
    ValueRead,
}

/// A request to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiment::array) struct Access {
    pub(in crate::experiment::array) kind: Kind,
    /// Length in bytes; 0 for a value.
    pub(in crate::experiment::array) bytes: u32,
    /// The page or table number of the index, or the key of the value.
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

/// The requests of a number of operations, summed up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::experiment::array) struct Sums {
    pub(in crate::experiment::array) operations: u64,
    pub(in crate::experiment::array) reads: u64,
    /// The largest number of reads in one operation.
    pub(in crate::experiment::array) reads_max: u64,
    pub(in crate::experiment::array) index_read_bytes: u64,
    pub(in crate::experiment::array) index_written_bytes: u64,
}

impl Sums {
    /// Adds the requests of one operation.
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
