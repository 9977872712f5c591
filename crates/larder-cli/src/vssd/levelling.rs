//! Levelling while a command has an image: the thread, and the socket at which other commands ask for it.

use std::path::Path;

use larder_blocks::VssdArray;
use larder_blocks::vssd::Levelling;
use larder_vssd::levelling::PaceLimits;
use larder_vssd::service::ServiceOptions;
use larder_workload::Error;

use super::image::refused;
#[cfg(target_os = "linux")]
use super::owner::Owner;
use crate::args::LevellingArgs;

/// Levelling of an image, and the socket of its owner, until it is dropped.
pub(super) struct InService {
    #[cfg(target_os = "linux")]
    _owner: Option<Owner>,
    _levelling: Option<std::sync::Arc<Levelling>>,
}

impl InService {
    /// Starts levelling, unless `arguments` say otherwise, and answers other commands in any case.
    pub(super) fn start(
        array: &VssdArray,
        image: &Path,
        arguments: &LevellingArgs,
    ) -> Result<Self, Error> {
        let pace = PaceLimits::around(arguments.pace);
        let options = ServiceOptions { pace, ..ServiceOptions::default() };
        let levelling = match arguments.no_levelling {
            true => None,
            false => {
                let started = Levelling::start(array.clone(), options);
                Some(std::sync::Arc::new(started.map_err(|error| refused("levelling", &error))?))
            }
        };
        #[cfg(not(target_os = "linux"))]
        let _ = image;
        Ok(Self {
            #[cfg(target_os = "linux")]
            _owner: Owner::listen(array, levelling.as_ref(), image),
            _levelling: levelling,
        })
    }
}
