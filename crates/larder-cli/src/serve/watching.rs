//! Settings for observing a server: access to the admin address, logs and metrics.

use std::sync::Arc;
use std::time::Duration;

use indicatif::BinaryBytes;
use larder::{Endurance, LevellingOptions};
use larder_server::{BlockCaches, Otlp, PasswordHash, ServerConfig};
use tracing::level_filters::LevelFilter;

use crate::args::{ServeArgs, check_years};
use crate::block::WatchedCaches;
use crate::settings_file::{From, Setting, SettingsFile, pick, pick_some};

/// Settings for observing a server.
#[derive(Debug)]
pub(crate) struct Watching {
    admin_hosts: Setting<Vec<String>>,
    admin_token: Setting<Option<PasswordHash>>,
    otlp: Setting<Option<String>>,
    /// In seconds.
    otlp_interval: Setting<u32>,
    /// In milliseconds; 0 is never.
    slow_threshold: Setting<u32>,
    log: Setting<LevelFilter>,
    /// The endurance rating of the drive, in bytes written.
    endurance: Setting<Option<u64>>,
    /// Whether keys of a set move so that its drives wear alike.
    drive_levelling: Setting<bool>,
    /// Years that a drive is to be in service.
    planned_service: Setting<f64>,
    /// The over-provisioning of the drive, in percent of its capacity.
    overprovisioning: Setting<Option<f64>>,
    block_caches: WatchedCaches,
}

impl Watching {
    /// The settings from `arguments` and the file.
    pub(super) fn of(arguments: &ServeArgs, file: &SettingsFile) -> Self {
        let hash = file.admin_token.as_ref().map(|hash| Some(hash.0.clone()));
        Self {
            admin_hosts: pick(arguments.admin_hosts.clone(), file.admin_hosts.clone(), Vec::new),
            admin_token: pick(arguments.admin_token.clone().map(Some), hash, Option::default),
            otlp: pick(
                arguments.otlp.clone().map(Some),
                file.otlp.clone().map(Some),
                Option::default,
            ),
            otlp_interval: pick(arguments.otlp_interval, file.otlp_interval, || 10),
            slow_threshold: pick(arguments.slow_threshold, file.slow_threshold, || 10),
            log: pick(arguments.log, file.log.map(|level| level.0), || LevelFilter::INFO),
            endurance: pick(
                arguments.endurance.map(Some),
                file.endurance.map(|size| Some(size.0)),
                Option::default,
            ),
            drive_levelling: pick(
                arguments.drive_levelling.then_some(true),
                file.drive_levelling,
                || false,
            ),
            planned_service: pick(arguments.planned_service, file.planned_service, || 5.0),
            overprovisioning: pick_some(arguments.overprovisioning, file.overprovisioning),
            block_caches: WatchedCaches::of(file.block.iter().map(|entry| entry.get_ref())),
        }
    }

    /// Copies them to the configuration of the server.
    pub(super) fn tell(&self, config: &mut ServerConfig) {
        config.admin_hosts.clone_from(&self.admin_hosts.0);
        config.admin_token.clone_from(&self.admin_token.0);
        let interval = Duration::from_secs(self.otlp_interval.0.into());
        config.otlp = self.otlp.0.clone().map(|endpoint| Otlp { endpoint, interval });
        let block_caches = Some(&self.block_caches).filter(|caches| !caches.is_empty());
        config.block_caches = block_caches.map(|caches| Arc::new(caches.clone()) as _);
        let slow = Duration::from_millis(self.slow_threshold.0.into());
        config.slow_threshold = Some(slow).filter(|threshold| !threshold.is_zero());
        config.drive_levelling = LevellingOptions {
            is_on: self.drive_levelling.0,
            planned_days: self.planned_service.0 * 365.0,
            rated_bytes: self.endurance.0,
        };
    }

    /// Refuses values that the command line would refuse, from a file.
    pub(super) fn check(&self) -> Result<(), String> {
        let years = self.planned_service.0;
        check_years(years).map_err(|why| format!("planned_service = {years}: {why}"))
    }

    /// Whether keys of a set move so that its drives wear alike.
    pub(super) fn levels_drives(&self) -> bool {
        self.drive_levelling.0
    }

    /// Level of events to log.
    pub(super) fn log(&self) -> LevelFilter {
        self.log.0
    }

    /// The endurance rating of the drive. What was written before this start is not known.
    pub(super) fn endurance(&self) -> Option<Endurance> {
        self.endurance.0.map(|rated_bytes| Endurance { rated_bytes, written_bytes: 0 })
    }

    /// Bytes of flash behind a drive of this capacity, if its over-provisioning is known.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn flash_bytes(&self, capacity_bytes: u64) -> Option<u64> {
        self.overprovisioning
            .0
            .map(|percent| (capacity_bytes as f64 * (1.0 + percent / 100.0)) as u64)
    }

    /// Each setting: its name, its value, where it comes from.
    pub(super) fn explained(&self) -> [(&'static str, String, From); 11] {
        let hosts = match self.admin_hosts.0.as_slice() {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        let token = match &self.admin_token.0 {
            Some(_) => "set: it may flush tenants",
            None => "none: nothing can be changed",
        };
        let slow = match self.slow_threshold.0 {
            0 => "0 (off)".to_owned(),
            ms => format!("{ms} ms"),
        };
        let block = match self.block_caches.names().as_slice() {
            [] => ("none".to_owned(), From::Default),
            names => (names.join(", "), From::File),
        };
        let unknown = || "not known".to_owned();
        let spare = self.overprovisioning.0.map(|percent| format!("{percent} %"));
        let rated = self.endurance.0.map(|bytes| BinaryBytes(bytes).to_string());
        [
            ("admin_hosts", hosts, self.admin_hosts.1),
            ("admin_token", token.to_owned(), self.admin_token.1),
            ("otlp", self.otlp.0.clone().unwrap_or_else(|| "none".to_owned()), self.otlp.1),
            ("otlp_interval", format!("{} s", self.otlp_interval.0), self.otlp_interval.1),
            ("slow_threshold", slow, self.slow_threshold.1),
            ("log", self.log.0.to_string(), self.log.1),
            ("block", block.0, block.1),
            ("endurance", rated.unwrap_or_else(unknown), self.endurance.1),
            ("drive_levelling", self.drive_levelling.0.to_string(), self.drive_levelling.1),
            (
                "planned_service",
                format!("{} years", self.planned_service.0),
                self.planned_service.1,
            ),
            ("overprovisioning", spare.unwrap_or_else(unknown), self.overprovisioning.1),
        ]
    }
}
