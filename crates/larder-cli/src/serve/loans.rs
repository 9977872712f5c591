//! Loans between isolated tenants, as metrics of the server.

use larder_blocks::VssdArray;
use larder_blocks::vssd::{LoansReport, TenantLoans};
use larder_server::MetricsText;
use larder_vssd::VssdId;

/// Adds the loans of `array` to `page`; no samples if no tenant lends or borrows.
pub(super) fn loans(page: &mut MetricsText, array: &VssdArray) {
    let report = array.loans().unwrap_or_default();
    let names = array.list();
    let name = |id: VssdId| names.iter().find(|info| info.id == id).map_or("", |info| &*info.name);
    tenants(page, &report, name);
    let channels = array.look(|array| array.drive(0).map(|drive| drive.geometry().array));
    let Ok(Some(dies)) = channels else { return };
    page.family(
        "channel_lent_erases",
        "counter",
        "Erases of a channel that borrowers have caused; they are among its erases.",
    );
    if report.tenants.is_empty() {
        return;
    }
    for (drive, erases) in report.erases.iter().enumerate() {
        for channel in 0..dies.channels {
            let of_channel = dies.dies_of(larder_ssd::nand::ChannelIndex(channel));
            let sum: u64 = of_channel.filter_map(|die| erases.get(die.at())).sum();
            let labels = [("drive", &*drive.to_string()), ("channel", &*channel.to_string())];
            page.sample("channel_lent_erases_total", &labels, sum);
        }
    }
}

fn tenants<'a>(page: &mut MetricsText, report: &LoansReport, name: impl Fn(VssdId) -> &'a str) {
    type Of = fn(&TenantLoans) -> u64;
    let families: [(&str, &str, &str, Of); 6] = [
        ("lent_blocks", "gauge", "Blocks that other tenants have on the dies of a tenant.", |it| {
            it.lent
        }),
        ("borrowed_blocks", "gauge", "Blocks that a tenant has on dies of others.", |it| {
            it.borrowed
        }),
        ("loans", "counter", "Blocks that a tenant has borrowed.", |it| it.totals.begun),
        (
            "loans_called_back",
            "counter",
            "Loans of a borrower that ended because the lender needed the block.",
            |it| it.totals.called_back,
        ),
        ("borrowed_written_bytes", "counter", "Bytes that a borrower has written.", |it| {
            it.written_bytes
        }),
        (
            "borrowed_erases",
            "counter",
            "Erases on dies of others that a borrower has caused.",
            |it| it.totals.erases,
        ),
    ];
    for (family, kind, help, of) in families {
        page.family(family, kind, help);
        let sample = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
        for tenant in &report.tenants {
            page.sample(&sample, &[("tenant", name(tenant.id))], of(tenant));
        }
    }
}
