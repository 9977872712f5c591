//! Sentences for operators: placement that is missing, and data that drives move.

use larder::HandleReport;

use super::{all, handles};
use crate::shared::ServerState;

/// What an operator should look at. Empty if all is well.
pub(in crate::admin) fn warnings(shared: &ServerState) -> Vec<String> {
    let unplaced = all(shared).filter(|it| it.is_expected() && it.handles() == 1).map(|it| {
        let reason = it.streams().first().map(|stream| it.reason(stream));
        format!(
            "placement was expected, and all streams of tenant {} on device {} write with one handle: {}",
            it.tenant,
            it.shard,
            reason.unwrap_or_default()
        )
    });
    unplaced.chain(handles(shared).iter().filter_map(relocation)).collect()
}

/// Says that a drive relocates the data of a handle, if it did so in the last hour.
fn relocation(handle: &HandleReport) -> Option<String> {
    let (drive, units) = (&handle.drive, handle.events.moves_in_hour);
    if units == 0 {
        return None;
    }
    let plural = if units == 1 { "" } else { "s" };
    let count = format!("{units} unit{plural} in the last hour");
    let Some(number) = handle.events.handle else {
        return Some(format!(
            "drive {drive} relocates units that hold data of several handles, or of others: {count}"
        ));
    };
    Some(match handle.streams.as_slice() {
        [] => format!(
            "handle {number} of drive {drive}, which no stream uses, is being relocated: {count}"
        ),
        [(tenant, class)] => {
            format!(
                "stream {class} of tenant {tenant} is being relocated by drive {drive}: {count}"
            )
        }
        _ => format!(
            "streams {} of {}, which share handle {number} of drive {drive}, are being relocated: {count}",
            handle.stream_names(),
            handle.tenant_names()
        ),
    })
}
