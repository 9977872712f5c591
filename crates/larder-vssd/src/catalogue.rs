//! The byte format of the catalogue: how an array of drives is divided. Each of the two images begins with a catalogue,
//! followed by records of the journal (`record.rs`).
//!
//! ```text
//!  offset  bytes  field
//!       0      8  magic "LARDERVS"
//!       8      2  version: 3
//!      10      2  reserved: 0, checked
//!      12      4  CRC-32C of bytes 16 to 48 + n
//!      16     16  identity of the array
//!      32      8  epoch: grows by 1 with each catalogue
//!      40      8  n: bytes of the content
//!      48      n  the content
//!
//!  content  bytes  field
//!        0     28  geometry of each drive: channels, dies of a channel, planes, bits, blocks of a die,
//!                  pages of a block, bytes of a page
//!       28      8  bytes of mapping; blocks that a die serves with
//!       36     12  MB/s of a channel, a die, a soft plane
//!       48      8  next vSSD; next logical die
//!       56      8  stamps below this may be on flash
//!       64      4  d: drives
//!       68 8·d·dies  of each die: its erases when dies of its drive were exchanged last
//!                4  p: pairs of dies that are being exchanged; the next two only if p is not 0
//!                8  their drive; 1 if they go back
//!              8·p  the pairs
//!                4  v: vSSDs, ascending, and then each of them
//!                …  of each drive: levelling
//!
//!     vSSD  bytes  field
//!        0      8  number; isolation: 0 channel, 1 die, 2 software, 3 none
//!        8     16  weight (0 but for software); MB/s and bytes that were asked for
//!       24     64  name of its owner in UTF-8, filled up with zeros; all zeros: it has none
//!       88      8  s: logical dies, at least 1; l: slots, at least 1
//!       96      8  logical dies of a block: s or a divisor of it; numbers of a generation, l to 16 times the slots of
//!                  these dies
//!      104   16·s  of each: number, drive, die, quarters of it
//!             4·l  of each slot: generation; bit 31 if it holds a block
//!               …  8 bytes for each slot that holds a block: what its owner gave it
//!
//! levelling    bytes  field
//!        0         8  blocks that a channel erases until its turn (gamma); 0 before the first choice
//!        8         8  its source: 0 none, 1 endurance, 2 forecast, 3 given; paused: 0 no, 1 by an operator, 2 because
//!                     a die wore out
//!       16        16  exchanges (8 bytes); pages that moves have copied (8 bytes)
//!       32        24  8 bytes each: begin of the period of daily erases in seconds since 1970, erases for tenants
//!                     then, erases a day of the period before
//!       56  24·chan.  of each channel: a unit
//!           40·dies   of each die: erases for tenants that were counted (8 bytes), erases for moves (8 bytes), a unit
//!
//!     unit  bytes  field
//!        0     16  blocks erased for tenants since its last turn (8 bytes), and since rates were updated (8 bytes)
//!       16      8  share of its tenant in all erases in 10^-9, 2^32 - 1 for unknown; 0
//! ```
//!
//! Numbers are little-endian, of 4 bytes unless stated otherwise.

use larder_ssd::nand::{DieArray, DieIndex, NandGeometry};

use super::kind::{Isolation, NAME_BYTES_MAX, Throughputs};
use super::record::JournalId;
use super::state::{GROUPS_MAX, SOFT_PLANES, Seat, Shape, State, SwapState, Vssd};
use super::table::BlockTable;
use crate::fields::Fields;

mod levelling;

const MAGIC: [u8; 8] = *b"LARDERVS";
const VERSION: u16 = 3;
const HEADER_BYTES: usize = 48;

/// A decoded catalogue, and the offset at which its journal begins.
#[derive(Debug)]
pub(super) struct DecodedCatalogue {
    pub(super) journal: JournalId,
    pub(super) state: State,
    pub(super) bytes: usize,
}

/// Encodes the catalogue of `state` with this identity and epoch.
pub(super) fn encode(journal: &JournalId, state: &State) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    put_state(&mut bytes, state);
    let content_bytes = (bytes.len() - HEADER_BYTES) as u64;
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(&journal.identity);
    bytes[32..40].copy_from_slice(&journal.epoch.to_le_bytes());
    bytes[40..48].copy_from_slice(&content_bytes.to_le_bytes());
    let checksum = larder_checksum::crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    debug_assert!(content(&bytes).is_ok_and(|(found, _)| found == *journal));
    bytes
}

fn put_state(bytes: &mut Vec<u8>, state: &State) {
    let mut put = |number: u32| bytes.extend(number.to_le_bytes());
    let geometry = &state.shape.geometry;
    put(geometry.array.channels);
    put(geometry.array.dies_per_channel);
    put(geometry.planes);
    put(geometry.bits);
    put(geometry.blocks_per_die);
    put(geometry.pages_per_block);
    put(geometry.page_bytes);
    put(geometry.mapping_bytes);
    put(state.shape.capacity_blocks);
    put(state.throughputs.channel_mb_s);
    put(state.throughputs.die_mb_s);
    put(state.throughputs.soft_plane_mb_s);
    put(state.next_vssd);
    put(state.next_seat);
    bytes.extend(state.stamps_end.to_le_bytes());
    bytes.extend(state.shape.drives.to_le_bytes());
    for erases in state.erases_at_swap.iter().flatten() {
        bytes.extend(erases.to_le_bytes());
    }
    put_count(bytes, state.swap.as_ref().map_or(0, |swap| swap.pairs.len()));
    if let Some(swap) = &state.swap {
        let pairs = swap.pairs.iter().flat_map(|&(a, b)| [a.0, b.0]);
        for number in [swap.drive, u32::from(swap.back)].into_iter().chain(pairs) {
            bytes.extend(number.to_le_bytes());
        }
    }
    put_count(bytes, state.vssds.len());
    for (&id, vssd) in &state.vssds {
        put_vssd(bytes, id, vssd);
    }
    state.levelling.iter().for_each(|levelling| levelling::put(bytes, levelling));
}

fn put_vssd(bytes: &mut Vec<u8>, id: u32, vssd: &Vssd) {
    let (kind, weight): (u32, u32) = match vssd.isolation {
        Isolation::Channel => (0, 0),
        Isolation::Die => (1, 0),
        Isolation::Software { weight } => (2, weight),
        Isolation::None => (3, 0),
    };
    for number in [id, kind, weight, vssd.mb_s] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(vssd.bytes.to_le_bytes());
    let mut name = [0; NAME_BYTES_MAX];
    name[..vssd.name.len()].copy_from_slice(vssd.name.as_bytes());
    bytes.extend(name);
    put_count(bytes, vssd.seats.len());
    put_count(bytes, vssd.table.stored_generations().len());
    put_count(bytes, vssd.table.width());
    bytes.extend(vssd.table.stride().to_le_bytes());
    for seat in &vssd.seats {
        for number in [seat.id, seat.drive, seat.die.0, seat.planes] {
            bytes.extend(number.to_le_bytes());
        }
    }
    for generation in vssd.table.stored_generations() {
        bytes.extend(generation.to_le_bytes());
    }
    for slot in vssd.table.kept_slots() {
        bytes.extend(vssd.table.tag(slot).to_le_bytes());
    }
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    let count = u32::try_from(count).unwrap_or_else(|_| unreachable!("{count} of something"));
    bytes.extend(count.to_le_bytes());
}

/// Decodes the catalogue at the start of `image`, for drives of this shape. The error says what is wrong with it.
pub(super) fn decode(image: &[u8], shape: &Shape) -> Result<DecodedCatalogue, String> {
    let (journal, content) = content(image)?;
    let mut reader = Reader(Fields(content));
    let mut state = state(&mut reader, shape)?;
    for levelling in &mut state.levelling {
        levelling::take(&mut reader, levelling)?;
    }
    if reader.0.left() > 0 {
        return Err(format!("{} bytes are left over", reader.0.left()));
    }
    state.check()?;
    Ok(DecodedCatalogue { journal, state, bytes: HEADER_BYTES + content.len() })
}

/// The journal that the catalogue at the start of `image` belongs to, and its content, if it is intact.
pub(super) fn content(image: &[u8]) -> Result<(JournalId, &[u8]), String> {
    let Some((header, rest)) = image.split_first_chunk::<HEADER_BYTES>() else {
        return Err(format!("{} bytes are no catalogue", image.len()));
    };
    let mut header = Reader(Fields(header));
    if header.take::<8>()? != MAGIC {
        return Err("it does not begin with LARDERVS".to_owned());
    }
    let version = u16::from_le_bytes(header.take()?);
    if version != VERSION {
        return Err(format!("it has version {version}, and this program knows {VERSION}"));
    }
    if header.take::<2>()? != [0; 2] {
        return Err("reserved bytes are set".to_owned());
    }
    let checksum = header.number()?;
    let journal = JournalId { identity: header.take()?, epoch: header.long()? };
    let length = usize::try_from(header.long()?).ok();
    let content = length.and_then(|length| rest.get(..length)).ok_or("it is cut short")?;
    if larder_checksum::crc32c(&image[16..HEADER_BYTES + content.len()]) != checksum {
        return Err("its checksum is another".to_owned());
    }
    Ok((journal, content))
}

/// Decodes the start of the content: the shape of the drives.
fn shape(reader: &mut Reader<'_>) -> Result<(NandGeometry, u32), String> {
    let array = DieArray { channels: reader.number()?, dies_per_channel: reader.number()? };
    let geometry = NandGeometry {
        array,
        planes: reader.number()?,
        bits: reader.number()?,
        blocks_per_die: reader.number()?,
        pages_per_block: reader.number()?,
        page_bytes: reader.number()?,
        mapping_bytes: reader.number()?,
    };
    Ok((geometry, reader.number()?))
}

fn state(reader: &mut Reader<'_>, drives: &Shape) -> Result<State, String> {
    // The memory used below depends on the size of the drives, which are present; the bytes cannot inflate it.
    let of = shape(reader)?;
    if of != (drives.geometry, drives.capacity_blocks) {
        return Err(format!(
            "it is of drives of {:?} that serve with {} blocks of each die, not of {:?} and {}",
            of.0, of.1, drives.geometry, drives.capacity_blocks
        ));
    }
    let throughputs = Throughputs {
        channel_mb_s: reader.number()?,
        die_mb_s: reader.number()?,
        soft_plane_mb_s: reader.number()?,
    };
    throughputs.check().map_err(|error| error.to_string())?;
    let mut state = State::new(*drives, throughputs);
    (state.next_vssd, state.next_seat) = (reader.number()?, reader.number()?);
    state.stamps_end = reader.long()?;
    let count = reader.number()?;
    if count != drives.drives {
        return Err(format!("it is of {count} drives, not of {}", drives.drives));
    }
    for erases in state.erases_at_swap.iter_mut().flatten() {
        *erases = reader.long()?;
    }
    state.swap = swap(reader)?;
    for _ in 0..reader.count(32)? {
        let (id, vssd) = vssd(reader, drives)?;
        if state.vssds.last_key_value().is_some_and(|(&last, _)| last >= id) {
            return Err(format!("vSSD {id} is out of order"));
        }
        state.vssds.insert(id, vssd);
    }
    Ok(state)
}

fn swap(reader: &mut Reader<'_>) -> Result<Option<SwapState>, String> {
    let count = reader.count(8)?;
    if count == 0 {
        return Ok(None);
    }
    let (drive, back) = (reader.number()?, reader.number()?);
    let mut pairs = Vec::new();
    for _ in 0..count {
        pairs.push((DieIndex(reader.number()?), DieIndex(reader.number()?)));
    }
    if back > 1 {
        return Err(format!("an exchange goes back {back} times"));
    }
    Ok(Some(SwapState { drive, pairs, back: back == 1 }))
}

fn vssd(reader: &mut Reader<'_>, drives: &Shape) -> Result<(u32, Vssd), String> {
    let (id, kind, weight) = (reader.number()?, reader.number()?, reader.number()?);
    let isolation = match (kind, weight) {
        (0, 0) => Isolation::Channel,
        (1, 0) => Isolation::Die,
        (2, weight) if weight > 0 => Isolation::Software { weight },
        (3, 0) => Isolation::None,
        _ => return Err(format!("vSSD {id} has isolation {kind} of weight {weight}")),
    };
    let (mb_s, bytes) = (reader.number()?, reader.long()?);
    let name = name(&reader.take::<NAME_BYTES_MAX>()?)
        .ok_or_else(|| format!("vSSD {id} has a name that cannot be"))?;
    let (seats, slots) = (reader.number()?, reader.number()?);
    let (width, stride) = (reader.number()?, reader.number()?);
    if seats > drives.planes() || width == 0 || !seats.is_multiple_of(width) {
        return Err(format!("vSSD {id} has {seats} logical dies, {width} for a block"));
    }
    reader.check_has(u64::from(seats) * 16 + u64::from(slots) * 4)?;
    let mut vssd_seats = Vec::new();
    for _ in 0..seats {
        let (id, drive) = (reader.number()?, reader.number()?);
        let (die, planes) = (DieIndex(reader.number()?), reader.number()?);
        vssd_seats.push(Seat { id, drive, die, planes });
    }
    let planes = vssd_seats.first().map(|seat| seat.planes);
    let planes = planes.filter(|planes| [1, SOFT_PLANES].contains(planes));
    let of_group = planes.map_or(0, |planes| drives.quota(planes));
    let most = u64::from(of_group) * u64::from(GROUPS_MAX);
    let has_all = u64::from(of_group) * u64::from(seats / width) == u64::from(slots);
    if slots == 0 || !has_all || stride < slots || u64::from(stride) > most {
        return Err(format!("vSSD {id} has {slots} slots of {stride} on {seats} dies"));
    }
    let generations = (0..slots).map(|_| reader.number()).collect::<Result<Vec<_>, _>>()?;
    let mut table = BlockTable::of_generations(generations, stride, width as usize);
    let live: Vec<_> = table.live_slots().collect();
    for slot in live {
        if table.find_number_in(slot).is_none() {
            return Err(format!("vSSD {id} has a block of a number that cannot be: {slot:?}"));
        }
        table.set_tag(slot, reader.long()?);
    }
    Ok((id, Vssd { name, isolation, mb_s, bytes, seats: vssd_seats, table }))
}

/// A name that was filled up with zeros.
fn name(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
    (!text.contains('\0')).then(|| text.to_owned())
}

/// Takes values from the front of a slice.
struct Reader<'a>(Fields<'a>);

const CUT: &str = "it ends in the middle";

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.0.take().ok_or_else(|| CUT.to_owned())
    }

    fn number(&mut self) -> Result<u32, String> {
        self.0.number().ok_or_else(|| CUT.to_owned())
    }

    fn long(&mut self) -> Result<u64, String> {
        self.0.long().ok_or_else(|| CUT.to_owned())
    }

    /// A count of items of at least `bytes_each` bytes each; that many bytes must be present.
    fn count(&mut self, bytes_each: usize) -> Result<u32, String> {
        let count = self.number()?;
        self.check_has(u64::from(count) * bytes_each as u64)?;
        Ok(count)
    }

    fn check_has(&self, bytes: u64) -> Result<(), String> {
        if bytes > self.0.left() as u64 {
            return Err(format!("it says {bytes} bytes where {} are left", self.0.left()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::levelling::{Gamma, GammaSource, PausedBy};

    const SHAPE: Shape = Shape {
        drives: 2,
        geometry: NandGeometry {
            array: DieArray { channels: 2, dies_per_channel: 2 },
            planes: 1,
            bits: 1,
            blocks_per_die: 17,
            pages_per_block: 4,
            page_bytes: 4096,
            mapping_bytes: 4096,
        },
        capacity_blocks: 16,
    };
    const JOURNAL: JournalId = JournalId { identity: *b"0123456789abcdef", epoch: 7 };

    fn example() -> State {
        let throughputs = Throughputs { channel_mb_s: 400, die_mb_s: 200, soft_plane_mb_s: 50 };
        let mut state = State::new(SHAPE, throughputs);
        (state.next_vssd, state.next_seat, state.stamps_end) = (9, 20, 1 << 30);
        state.erases_at_swap[1][2] = 77;
        let levelling = &mut state.levelling[1];
        levelling.gamma = Some(Gamma { blocks: 300, source: GammaSource::Given });
        levelling.paused = Some(PausedBy::Operator);
        (levelling.exchanges, levelling.moved_pages) = (5, 6000);
        levelling.daily.since_unix_s = 1_700_000_000;
        levelling.channels[1].rate_ppb = Some(250_000_000);
        (levelling.dies[3].seen, levelling.dies[3].spent) = (70, 7);
        levelling.dies[3].unit.since_turn = 44;
        let pairs = vec![(DieIndex(0), DieIndex(1)), (DieIndex(2), DieIndex(3))];
        state.swap = Some(SwapState { drive: 1, pairs, back: true });
        let seat = |id, drive, die, planes| Seat { id, drive, die: DieIndex(die), planes };
        let whole = vec![seat(3, 0, 0, 4), seat(4, 0, 2, 4)];
        let soft = vec![seat(11, 1, 3, 1), seat(12, 1, 2, 1), seat(13, 1, 3, 1)];
        let vssds = [(2, Isolation::Channel, whole), (8, Isolation::Software { weight: 3 }, soft)];
        for (id, isolation, seats) in vssds {
            let slots = SHAPE.quota(seats[0].planes);
            // The second has grown.
            let width = if id == 2 { 2 } else { 1 };
            let groups = u32::try_from(seats.len() / width).unwrap();
            let mut table = BlockTable::new(slots, 4 * slots, width);
            table.grow((groups - 1) * slots);
            (0..3).for_each(|tag| assert!(table.take(1000 + tag).is_some()));
            table.release(table.find(1).unwrap());
            let name = if id == 2 { "photos".to_owned() } else { String::new() };
            state.vssds.insert(id, Vssd { name, isolation, mb_s: 5, bytes: 6, seats, table });
        }
        state
    }

    /// The same content with a valid checksum.
    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let checksum = larder_checksum::crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes = encode(&JOURNAL, &example());
        let decoded = decode(&bytes, &SHAPE).unwrap();
        assert_eq!((decoded.journal, decoded.bytes), (JOURNAL, bytes.len()));
        assert_eq!(encode(&JOURNAL, &decoded.state), bytes);
        assert_eq!(decoded.state, example());
        let longer = [&bytes[..], b"a journal"].concat();
        assert_eq!(decode(&longer, &SHAPE).unwrap().bytes, bytes.len());
    }

    #[test]
    fn the_bytes_are_where_the_table_says() {
        let bytes = encode(&JOURNAL, &example());
        assert_eq!((&bytes[..8], &bytes[8..10]), (&b"LARDERVS"[..], &[3, 0][..]));
        assert_eq!((&bytes[16..32], bytes[32]), (&b"0123456789abcdef"[..], 7));
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!((bytes[40] as usize | (bytes[41] as usize) << 8) + 48, bytes.len());
        assert_eq!([48, 64, 80].map(number), [2, 17, 16], "channels, blocks of a die, in use");
        assert_eq!([84, 96, 100, 112].map(number), [400, 9, 20, 2]);
        assert_eq!(number(116 + 8 * 6), 77);
        assert_eq!([180, 184, 188].map(number), [2, 1, 1], "pairs, their drive, back");
        assert_eq!([208, 212].map(number), [2, 2], "vSSDs; the first is number 2");
        assert_eq!(&bytes[236..243], b"photos\0");
    }

    #[test]
    fn flipped_bits_and_cuts_are_seen() {
        let bytes = encode(&JOURNAL, &example());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&flipped, &SHAPE).is_err(), "bit {bit}");
        }
        assert!((0..bytes.len()).all(|n| decode(&bytes[..n], &SHAPE).is_err()));
    }

    #[test]
    fn what_cannot_be_is_refused_though_its_checksum_fits() {
        let refused = |change: fn(&mut State)| {
            let mut state = example();
            change(&mut state);
            decode(&encode(&JOURNAL, &state), &SHAPE).unwrap_err()
        };
        let seat = |state: &mut State| state.vssds.get_mut(&2).unwrap().seats[0];
        assert_eq!(seat(&mut example()).id, 3);
        assert!(refused(|s| s.next_vssd = 8).contains("vSSD 8 is not one"));
        assert!(refused(|s| s.next_seat = 13).contains("place that cannot be"));
        assert!(refused(|s| s.stamps_end = 1 << 48).contains("stamps up to"));
        assert!(refused(|s| s.vssds.get_mut(&2).unwrap().seats[1].id = 3).contains("cannot be"));
        assert!(
            refused(|s| s.vssds.get_mut(&2).unwrap().seats[1].die = DieIndex(0)).contains("twice")
        );
        assert!(
            refused(|s| s.vssds.get_mut(&2).unwrap().seats[1].planes = 1).contains("cannot be")
        );
        assert!(refused(|s| s.vssds.get_mut(&8).unwrap().seats[1].drive = 2).contains("cannot be"));
        assert!(
            refused(|s| s.swap.as_mut().unwrap().pairs[1].1 = DieIndex(0))
                .contains("exchanged twice")
        );
        assert!(refused(|s| s.swap.as_mut().unwrap().drive = 2).contains("of drive 2"));
        assert!(refused(|s| s.levelling[0].dies[1].seen = 1 << 40).contains("1099511627776"));
        assert!(
            refused(|s| s.levelling[0].channels[0].rate_ppb = Some(1_000_000_001)).contains("rate")
        );
        assert!(
            refused(|s| s.levelling[1].gamma.as_mut().unwrap().blocks = 0).contains("gamma of 0")
        );
        let bytes = encode(&JOURNAL, &example());
        let other = Shape { capacity_blocks: 15, ..SHAPE };
        assert!(decode(&bytes, &other).unwrap_err().contains("serve with 16 blocks"));
        let other = Shape { drives: 3, ..SHAPE };
        assert!(decode(&bytes, &other).unwrap_err().contains("of 2 drives, not of 3"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Bytes with a valid checksum may still be hostile: they are refused, or give a valid state.
        #[test]
        fn hostile_bytes_are_refused_or_could_be(
            changes in prop::collection::vec((0usize..1000, any::<u8>()), 1..6),
            cut in prop::option::of(48usize..500),
        ) {
            let mut bytes = encode(&JOURNAL, &example());
            for (at, value) in changes {
                let at = 48 + at % (bytes.len() - 48);
                bytes[at] = value;
            }
            if let Some(cut) = cut.filter(|cut| *cut < bytes.len()) {
                bytes.truncate(cut);
                let length = (bytes.len() - 48) as u64;
                bytes[40..48].copy_from_slice(&length.to_le_bytes());
            }
            if let Ok(decoded) = decode(&sealed(bytes.clone()), &SHAPE) {
                prop_assert_eq!(decoded.state.check(), Ok(()));
                let again = encode(&JOURNAL, &decoded.state);
                prop_assert_eq!(&again[48..], &bytes[48..]);
            }
        }
    }
}
