//! Errors of the model, in the terms of the device layer.

use larder_ssd::ErrorKind as Model;

use crate::error::{Error, ErrorKind};

/// What went wrong below while doing what `what` says.
#[cold]
pub(super) fn of_model(what: &str, error: &larder_ssd::Error) -> Error {
    let kind = match error.kind() {
        Model::PowerLoss => ErrorKind::Gone,
        Model::NoSpace | Model::ReadOnly | Model::NoResources => ErrorKind::NoSpace,
        Model::NotOwned => ErrorKind::NotOpen,
        Model::OutOfOrder => ErrorKind::NotSequential,
        Model::BlockFull => ErrorKind::BlockFull,
        Model::OutOfRange | Model::NotWritten => ErrorKind::OutOfRange,
        Model::InUse => ErrorKind::InUse,
        Model::Config | Model::Catalogue | Model::Image => ErrorKind::Setup,
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("{what}: {error}"))
}
