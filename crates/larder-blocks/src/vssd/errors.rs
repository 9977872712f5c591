//! Errors of the model, as errors of the device layer.

use larder_device::{Error, ErrorKind};
use larder_ssd::ErrorKind as Model;

/// An error of the model that happened during `what`.
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
