//! Lines of cores: the unit into which layouts divide them.

use super::{CoreId, Span};

/// Bits of the number of a line; the bits above contain the core.
const NUMBER_BITS: u32 = 52;

/// The number of the line that contains a sector. Lines are a power of two, because a start computes this for each
/// record.
pub(super) fn line_of(sector: u64, line_sectors: u32) -> u64 {
    debug_assert!(line_sectors.is_power_of_two());
    sector >> line_sectors.trailing_zeros()
}

/// A 32-bit hash of a number within a core, for tables whose length is a power of two. Fibonacci hashing: it uses the
/// upper bits of the product, because all bits of the factor influence them.
pub(super) fn scattered(core: u16, number: u64) -> usize {
    let mixed = (number ^ u64::from(core) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> 32).expect("32 bits")
}

/// Splits `span` at the boundaries of lines of `line_sectors`.
pub(super) fn by_line(span: Span, line_sectors: u32) -> impl Iterator<Item = Span> {
    let line = u64::from(line_sectors);
    let mut first = span.first;
    std::iter::from_fn(move || {
        let end = (first - first % line + line).min(span.end());
        let sectors = u32::try_from(end - first).expect("within a line");
        let part = Span { core: span.core, first, sectors };
        first = end;
        (sectors > 0).then_some(part)
    })
}

/// The line in which `span` begins, packed into one number: 12 bits for the core, the rest for the line.
pub(super) fn pack_line(span: Span, line_sectors: u32) -> u64 {
    u64::from(span.core.get()) << NUMBER_BITS | line_of(span.first, line_sectors)
}

/// The sectors of a packed line.
pub(super) fn unpack_line(line: u64, line_sectors: u32) -> Span {
    let core = u16::try_from(line >> NUMBER_BITS).ok().and_then(CoreId::new).expect("12 bits");
    let first = (line & ((1 << NUMBER_BITS) - 1)) * u64::from(line_sectors);
    Span { core, first, sectors: line_sectors }
}
