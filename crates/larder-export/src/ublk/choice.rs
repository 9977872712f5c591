//! Chooses the device for an export: a new one, or the one that its last server has left.

use super::control::ExistingDevice;
use super::owner::Owner;
use super::wire::{ID_MAX, State, feature};

/// The number of a device, `/dev/ublkbN`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UblkId {
    /// The device that its last server has left, or the first free number.
    #[default]
    Auto,
    /// This number: 0 to 1048575.
    Number(u32),
}

impl UblkId {
    /// The highest device number.
    pub const MAX: u32 = ID_MAX;
}

/// The choice of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Make a new device, after deleting those that were left without a disk.
    New { id: Option<u32>, first_delete: Vec<u32> },
    /// Take over the device of a server that is gone.
    TakeOver(ExistingDevice),
    /// Its server seems to be about to end: check again.
    Wait(u32),
}

/// Chooses a device for an export of `owner` with `size_bytes` bytes; `is_running` tells whether a process runs. The
/// error says why no device is possible, and what helps.
pub(super) fn choose(
    known: &[ExistingDevice],
    wanted: UblkId,
    (owner, size_bytes): (Owner, u64),
    is_running: impl Fn(i32) -> bool,
) -> Result<Choice, String> {
    if let UblkId::Number(id) = wanted
        && let Some(other) = known.iter().find(|it| it.id == id && it.owner != Some(owner))
    {
        return Err(match other.owner {
            Some(_) => format!(
                "ublk device {id} belongs to another export of Larder: give another number, or auto; \
                 if you no longer need it, {}",
                removal(id)
            ),
            None => format!("ublk device {id} is not Larder's: give another number, or auto"),
        });
    }
    let own = || known.iter().filter(|it| it.owner == Some(owner));
    if let Some(it) = own().find(|it| it.state == State::Live) {
        if it.server_pid > 0 && is_running(it.server_pid) {
            let ExistingDevice { id, server_pid, .. } = it;
            return Err(format!(
                "/dev/ublkb{id} is this export, and process {server_pid} serves it"
            ));
        }
        return Ok(Choice::Wait(it.id));
    }
    let left: Vec<&ExistingDevice> = own().filter(|it| it.state != State::Dead).collect();
    match left[..] {
        [] => Ok(Choice::New {
            id: match wanted {
                UblkId::Auto => None,
                UblkId::Number(id) => Some(id),
            },
            first_delete: own().map(|it| it.id).collect(),
        }),
        [it] => take_over(it, wanted, size_bytes),
        [one, other, ..] => Err(format!(
            "/dev/ublkb{} and /dev/ublkb{} are both this export: {}",
            one.id,
            other.id,
            removal(other.id)
        )),
    }
}

fn take_over(it: &ExistingDevice, wanted: UblkId, size_bytes: u64) -> Result<Choice, String> {
    let id = it.id;
    if let UblkId::Number(number) = wanted
        && number != id
    {
        return Err(format!(
            "this export is /dev/ublkb{id}, which waits for its server: give {id} or auto, not {number}; \
             or {}",
            removal(id)
        ));
    }
    if it.size_bytes != size_bytes {
        return Err(format!(
            "/dev/ublkb{id} waits for its server and has {} bytes, and this export has {size_bytes} now: \
             it cannot be taken over; {}",
            it.size_bytes,
            removal(id)
        ));
    }
    if it.features & feature::NEEDED != feature::NEEDED {
        return Err(format!(
            "/dev/ublkb{id} has the features {:#x}, and {:#x} are needed: {}",
            it.features,
            feature::NEEDED,
            removal(id)
        ));
    }
    Ok(Choice::TakeOver(*it))
}

/// The advice for a device without a server.
pub(super) fn removal(id: u32) -> String {
    format!("`larder block ublk --remove {id}` removes it, and fails what waits for it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;

    fn device(id: u32, state: State, owner: Option<&str>) -> ExistingDevice {
        ExistingDevice {
            id,
            state,
            owner: owner.map(Owner::named),
            size_bytes: SIZE,
            server_pid: 7,
            features: feature::NEEDED | 1 << 1,
            queues: 1,
            queue_depth: 128,
        }
    }

    fn chosen(known: &[ExistingDevice], wanted: UblkId) -> Result<Choice, String> {
        choose(known, wanted, (Owner::named("me"), SIZE), |pid| pid == 1)
    }

    fn new(id: Option<u32>, first_delete: &[u32]) -> Result<Choice, String> {
        Ok(Choice::New { id, first_delete: first_delete.to_vec() })
    }

    #[test]
    fn where_there_is_nothing_of_ours_it_is_new() {
        assert_eq!(chosen(&[], UblkId::Auto), new(None, &[]));
        assert_eq!(chosen(&[], UblkId::Number(3)), new(Some(3), &[]));
        let others = [
            device(0, State::Live, None),
            device(1, State::Quiesced, Some("other")),
            device(2, State::Dead, None),
        ];
        assert_eq!(chosen(&others, UblkId::Auto), new(None, &[]));
        assert_eq!(chosen(&others, UblkId::Number(3)), new(Some(3), &[]));
    }

    #[test]
    fn what_is_ours_and_has_no_server_is_taken_over() {
        let ours = device(4, State::Quiesced, Some("me"));
        let known = [device(1, State::Quiesced, Some("other")), ours];
        assert_eq!(chosen(&known, UblkId::Auto), Ok(Choice::TakeOver(ours)));
        assert_eq!(chosen(&known, UblkId::Number(4)), Ok(Choice::TakeOver(ours)));
        let why = chosen(&known, UblkId::Number(5)).unwrap_err();
        assert!(why.contains("/dev/ublkb4") && why.contains("--remove 4"), "{why}");
    }

    #[test]
    fn what_is_of_others_is_never_taken_over() {
        let known = [device(0, State::Quiesced, None), device(1, State::Quiesced, Some("other"))];
        let why = chosen(&known, UblkId::Number(0)).unwrap_err();
        assert!(why.contains("not Larder's") && !why.contains("--remove"), "{why}");
        let why = chosen(&known, UblkId::Number(1)).unwrap_err();
        assert!(why.contains("another export") && why.contains("--remove 1"), "{why}");
    }

    #[test]
    fn what_does_not_fit_any_more_is_refused_with_what_helps() {
        let ours = device(4, State::Quiesced, Some("me"));
        for wrong in [
            ExistingDevice { size_bytes: SIZE + 512, ..ours },
            ExistingDevice { features: 1 << 3, ..ours },
        ] {
            let why = chosen(&[wrong], UblkId::Auto).unwrap_err();
            assert!(why.contains("--remove 4"), "{why}");
        }
        let twice = [ours, ExistingDevice { id: 9, ..ours }];
        let why = chosen(&twice, UblkId::Auto).unwrap_err();
        assert!(why.contains("both") && why.contains("--remove 9"), "{why}");
    }

    #[test]
    fn what_is_served_is_refused_and_what_is_about_to_end_waited_for() {
        let ours = device(4, State::Live, Some("me"));
        let served = ExistingDevice { server_pid: 1, ..ours };
        for wanted in [UblkId::Auto, UblkId::Number(4), UblkId::Number(5)] {
            let why = chosen(&[served], wanted).unwrap_err();
            assert!(why.contains("process 1"), "{why}");
            assert_eq!(chosen(&[ours], wanted), Ok(Choice::Wait(4)));
        }
    }

    #[test]
    fn what_was_left_without_a_disk_is_deleted() {
        let known = [device(4, State::Dead, Some("me")), device(5, State::Dead, Some("other"))];
        assert_eq!(chosen(&known, UblkId::Auto), new(None, &[4]));
        assert_eq!(chosen(&known, UblkId::Number(4)), new(Some(4), &[4]));
        let ours = device(6, State::Quiesced, Some("me"));
        assert_eq!(chosen(&[known[0], ours], UblkId::Auto), Ok(Choice::TakeOver(ours)));
    }
}
