//! Wear and levelling of the drives under isolated tenants, as metrics of the server.

use std::sync::Arc;

use larder_blocks::VssdArray;
use larder_blocks::vssd::Levelling;
use larder_server::{MetricsText, WearReports};
use larder_vssd::service::{DriveReport, ExchangeReport, ServiceReport};

/// The drives of a server, and the thread that levels them.
#[derive(Debug)]
pub(super) struct ServedWear {
    array: VssdArray,
    levelling: Arc<Levelling>,
}

impl ServedWear {
    pub(super) fn of(array: &VssdArray, levelling: &Arc<Levelling>) -> Self {
        Self { array: array.clone(), levelling: Arc::clone(levelling) }
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
        let report = self.levelling.report();
        page.family("levelling_runs", "gauge", "Whether levelling runs: 1, or 0 after an error.");
        page.sample("levelling_runs", &[], u64::from(report.is_ok()));
        let report = report.unwrap_or_default();
        self.channels(&mut page, &report);
        drives(&mut page, &report);
        exchange(&mut page, report.exchange.as_ref());
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
