//! The part of a catalogue on levelling.

use super::Reader;
use crate::levelling::{
    DailyErases, DieState, Gamma, GammaSource, LevellingState, PausedBy, UnitState,
};

/// Stored for an unknown rate.
const UNKNOWN: u32 = u32::MAX;
/// A tenant that does all erases.
const WHOLE_PPB: u32 = 1_000_000_000;
/// Counters of a drive's life stay below this.
const COUNTS: u64 = 1 << 40;

pub(super) fn put(bytes: &mut Vec<u8>, state: &LevellingState) {
    let source = match state.gamma.map(|gamma| gamma.source) {
        None => 0_u32,
        Some(GammaSource::Endurance) => 1,
        Some(GammaSource::Forecast) => 2,
        Some(GammaSource::Given) => 3,
    };
    let paused = match state.paused {
        None => 0_u32,
        Some(PausedBy::Operator) => 1,
        Some(PausedBy::WornDie) => 2,
    };
    bytes.extend(state.gamma.map_or(0, |gamma| gamma.blocks).to_le_bytes());
    [source, paused].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    let DailyErases { since_unix_s, erases_then, before } = state.daily;
    for count in [state.exchanges, state.moved_pages, since_unix_s, erases_then, before] {
        bytes.extend(count.to_le_bytes());
    }
    state.channels.iter().for_each(|unit| put_unit(bytes, unit));
    for DieState { seen, spent, unit } in &state.dies {
        [seen, spent].into_iter().for_each(|count| bytes.extend(count.to_le_bytes()));
        put_unit(bytes, unit);
    }
}

fn put_unit(bytes: &mut Vec<u8>, unit: &UnitState) {
    let UnitState { since_turn, recent, rate_ppb } = *unit;
    bytes.extend(since_turn.to_le_bytes());
    bytes.extend(recent.to_le_bytes());
    bytes.extend(rate_ppb.unwrap_or(UNKNOWN).to_le_bytes());
    bytes.extend([0; 4]);
}

/// Decodes into a state of the right numbers of channels and dies.
pub(super) fn take(reader: &mut Reader<'_>, state: &mut LevellingState) -> Result<(), String> {
    let blocks = count(reader)?;
    let source = match reader.number()? {
        0 => None,
        1 => Some(GammaSource::Endurance),
        2 => Some(GammaSource::Forecast),
        3 => Some(GammaSource::Given),
        other => return Err(format!("a gamma of source {other}")),
    };
    state.gamma = source.map(|source| Gamma { blocks, source });
    if source.is_some() != (blocks > 0) {
        return Err(format!("a gamma of {blocks} blocks"));
    }
    state.paused = match reader.number()? {
        0 => None,
        1 => Some(PausedBy::Operator),
        2 => Some(PausedBy::WornDie),
        other => return Err(format!("levelling paused by {other}")),
    };
    (state.exchanges, state.moved_pages) = (count(reader)?, count(reader)?);
    state.daily = DailyErases {
        since_unix_s: count(reader)?,
        erases_then: count(reader)?,
        before: count(reader)?,
    };
    for channel in &mut state.channels {
        *channel = unit(reader)?;
    }
    for die in &mut state.dies {
        *die = DieState { seen: count(reader)?, spent: count(reader)?, unit: unit(reader)? };
    }
    Ok(())
}

fn unit(reader: &mut Reader<'_>) -> Result<UnitState, String> {
    let (since_turn, recent, rate) = (count(reader)?, count(reader)?, reader.number()?);
    if rate > WHOLE_PPB && rate != UNKNOWN {
        return Err(format!("a rate of {rate} in 10^9"));
    }
    if reader.number()? != 0 {
        return Err("reserved bytes of levelling are set".to_owned());
    }
    let rate_ppb = (rate != UNKNOWN).then_some(rate);
    Ok(UnitState { since_turn, recent, rate_ppb })
}

/// A counter, small enough that sums of counters do not overflow.
fn count(reader: &mut Reader<'_>) -> Result<u64, String> {
    let count = reader.long()?;
    if count >= COUNTS {
        return Err(format!("{count} erases, pages or seconds"));
    }
    Ok(count)
}
