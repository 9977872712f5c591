//! Wear, levelling and loans of the drives under isolated tenants, and what their virtual SSDs write, as metrics of the
//! server.

use std::fmt;
use std::sync::Arc;

use larder::Device;
use larder_blocks::VssdArray;
use larder_blocks::vssd::Levelling;
use larder_device::DeviceStats;
use larder_server::{MetricsText, WearReports};
use larder_ssd::managed::PAGE_BYTES;
use larder_vssd::service::{DriveReport, ExchangeReport, ServiceReport};

/// The drives of a server, the devices of its tenants on them, and the thread that levels the drives.
#[derive(Debug)]
pub(super) struct ServedWear {
    array: VssdArray,
    tenants: Vec<TenantDevice>,
    /// `None` if levelling is switched off.
    levelling: Option<Arc<Levelling>>,
}

/// The device on the virtual SSD of a tenant.
pub(super) struct TenantDevice {
    name: String,
    device: Arc<dyn Device>,
}

impl TenantDevice {
    pub(super) fn new(name: &str, device: &Arc<dyn Device>) -> Self {
        Self { name: name.to_owned(), device: Arc::clone(device) }
    }
}

impl fmt::Debug for TenantDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantDevice").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ServedWear {
    pub(super) fn of(
        array: &VssdArray,
        tenants: Vec<TenantDevice>,
        levelling: Option<&Arc<Levelling>>,
    ) -> Self {
        Self { array: array.clone(), tenants, levelling: levelling.map(Arc::clone) }
    }

    /// The names of the tenants on a channel, with commas between them.
    fn tenants(&self, drive: u32, channel: usize) -> String {
        let dies = self.array.look(|array| array.drive(drive).map(|drive| drive.geometry().array));
        let Ok(Some(dies)) = dies else { return String::new() };
        let is_there =
            |&(of, die): &(u32, _)| of == drive && dies.channel_of(die).0 as usize == channel;
        let on_it = self.array.list().into_iter().filter(|info| info.dies.iter().any(is_there));
        on_it.map(|info| info.name).collect::<Vec<_>>().join(",")
    }
}

impl WearReports for ServedWear {
    fn metrics(&self) -> MetricsText {
        let mut page = MetricsText::new("larder_vssd");
        written(&mut page, &self.tenants);
        let report = match &self.levelling {
            Some(levelling) => levelling.report(),
            None => self.array.levelling_report(),
        };
        let help = "Whether levelling runs: 1, or 0 after an error or without it.";
        page.family("levelling_runs", "gauge", help);
        let runs = self.levelling.is_some() && report.is_ok();
        page.sample("levelling_runs", &[], u64::from(runs));
        let report = report.unwrap_or_default();
        self.channels(&mut page, &report);
        drives(&mut page, &report);
        exchange(&mut page, report.exchange.as_ref());
        super::loans::loans(&mut page, &self.array);
        page
    }
}

impl ServedWear {
    fn channels(&self, page: &mut MetricsText, report: &ServiceReport) {
        let each = |page: &mut MetricsText,
                    name: &str,
                    value: &dyn Fn(&DriveReport, usize) -> Option<f64>| {
            for drive in &report.drives {
                let number = drive.drive.to_string();
                for channel in 0..drive.channels.len() {
                    let Some(value) = value(drive, channel) else { continue };
                    let tenants = self.tenants(drive.drive, channel);
                    let channel = channel.to_string();
                    page.sample(
                        name,
                        &[("drive", &number), ("channel", &channel), ("tenants", &tenants)],
                        value,
                    );
                }
            }
        };
        page.family(
            "channel_erases",
            "counter",
            "Erases of the blocks of a channel, and its tenants now.",
        );
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        each(page, "channel_erases_total", &|drive, at| Some(drive.channels[at].erases as f64));
        page.family(
            "channel_wear_by_mean",
            "gauge",
            "Erases of a channel by the mean of all channels of its drive.",
        );
        each(page, "channel_wear_by_mean", &|drive, at| drive.channels[at].by_mean);
        page.family(
            "channel_turn_days",
            "gauge",
            "Days until the tenants of a channel move, at the present rates.",
        );
        each(page, "channel_turn_days", &|drive, at| drive.channels[at].turn_days);
    }
}

/// Pages that each tenant's virtual SSD was given and that it programmed. A page has 4096 bytes.
fn written(page: &mut MetricsText, tenants: &[TenantDevice]) {
    type Bytes = fn(&DeviceStats) -> u64;
    let counters: [(&str, &str, Bytes); 2] = [
        (
            "tenant_written_pages",
            "Pages of 4096 bytes that a tenant's cache wrote to its virtual SSD since the start.",
            |stats| stats.host_written_bytes,
        ),
        (
            "tenant_programmed_pages",
            "Pages that the virtual SSD programmed for them, with headers, copies of cleaning and exchanges.",
            DeviceStats::flash_written_bytes,
        ),
    ];
    let stats: Vec<_> = tenants.iter().map(|it| (&*it.name, it.device.stats())).collect();
    for (name, help, bytes) in counters {
        page.family(name, "counter", help);
        for (tenant, stats) in &stats {
            let pages = bytes(stats) / PAGE_BYTES;
            page.sample(&format!("{name}_total"), &[("tenant", tenant)], pages);
        }
    }
    page.family(
        "tenant_dlwa",
        "gauge",
        "Pages that a tenant's virtual SSD programmed for each page that the cache wrote, since the start.",
    );
    for (tenant, stats) in &stats {
        if let Some(dlwa) = stats.dlwa() {
            page.sample("tenant_dlwa", &[("tenant", tenant)], dlwa);
        }
    }
}

fn drives(page: &mut MetricsText, report: &ServiceReport) {
    type Of = fn(&DriveReport) -> u64;
    let counters: [(&str, &str, Of); 4] = [
        ("exchanges", "Exchanges of channels that were completed.", |it| it.exchanges),
        ("moved_bytes", "Bytes that exchanges have copied.", |it| it.moved_bytes),
        ("levelling_erases", "Erases that exchanges have cost.", |it| it.spent_erases),
        ("tenant_erases", "Erases for tenants.", |it| it.tenant_erases),
    ];
    for (name, help, of) in counters {
        page.family(name, "counter", help);
        for drive in &report.drives {
            let number = drive.drive.to_string();
            page.sample(&format!("{name}_total"), &[("drive", &number)], of(drive));
        }
    }
    page.family("levelling_paused", "gauge", "Whether nothing is moved on a drive: 1 or 0.");
    for drive in &report.drives {
        let number = drive.drive.to_string();
        page.sample("levelling_paused", &[("drive", &number)], u64::from(drive.paused.is_some()));
    }
}

/// The exchange in progress; no samples without one.
fn exchange(page: &mut MetricsText, exchange: Option<&ExchangeReport>) {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let gauges = [
        ("exchange_done_ratio", "Share of an exchange that is done.", exchange.map(|it| it.done)),
        (
            "exchange_bytes_per_second",
            "Bytes a second that an exchange copies into each channel.",
            exchange.map(|it| it.bytes_per_s as f64),
        ),
        (
            "exchange_rested_ratio",
            "Share of the time in which an exchange rested for the tenants.",
            exchange.map(|it| it.rested),
        ),
        (
            "exchange_moving_slowdown",
            "p99 of the tenant that moves and suffers most, by the p99 before.",
            exchange.and_then(|it| it.moving_slowdown),
        ),
        (
            "exchange_rest_slowdown",
            "The same for tenants that do not move.",
            exchange.and_then(|it| it.rest_slowdown),
        ),
    ];
    for (name, help, value) in gauges {
        page.family(name, "gauge", help);
        if let Some(value) = value {
            page.sample(name, &[], value);
        }
    }
}
