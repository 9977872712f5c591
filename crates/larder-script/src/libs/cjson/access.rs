//! The settings of the running script.

use crate::raw::State;
use crate::settings::JsonSettings as Settings;

pub(super) fn settings<T>(state: State, work: impl FnOnce(&mut Settings) -> T) -> T {
    state.with(|data| work(&mut data.json))
}
