//! Operational energy of the flash: Theorem 3 with the operation counts of the real cache on the simulated drive.

use larder_ssd::analytic::energy::{EnergyCosts, FlashShape, WORLD_2023_KG_PER_KWH};
use larder_ssd::managed::PAGE_BYTES;

use super::judge::{Checks, SAME};
use super::rig::{self, DRIFT, DRIVE_WRITES, LOC_WRAPS, SOC_SHARE};
use super::{Experiment, Judgement, Metrics, Reference, Settings, Summary};
use crate::Error;
use crate::replay::Monitor;
use crate::replay::shared::SharedRun;

pub(super) static ENERGY: Experiment = Experiment {
    name: "energy",
    title: "operational energy of what is written, with and without placement",
    reproduces: "FDP paper (EuroSys'25), Theorem 3: energy follows the operations of the host and those \
                 of garbage collection",
    criterion: "for the same host bytes, energy off / on within 15 % of DLWA off / on of the paper \
                (3.5 / 1.03), and each within 15 % of what the theorem makes of its own DLWA",
    parameters: &[rig::REQUESTS, rig::FLASH],
    metrics: &[
        (
            "joules_per_gb.*",
            "energy of programs, erases and the reads of collection per GB that the \
           host wrote, with (on) and without placement; joules are assumed costs, ratios are not",
        ),
        ("kwh_per_tb.*", "the same in kWh per TB"),
        ("co2e_kg_per_pb.*", "kilograms of CO2e per PB that the host wrote, world average of 2023"),
        ("collection_share.*", "share of it that garbage collection takes"),
        ("dlwa.*", "DLWA with (on) and without placement"),
        ("energy_ratio", "joules off / on"),
        (
            "theorem_error",
            "largest share by which energy differs from DLWA times that of the host's \
           writes, the reads of collection added",
        ),
        SOC_SHARE,
        DRIVE_WRITES,
        LOC_WRAPS,
        DRIFT,
    ],
    references: &[Reference::derived(
        "energy_ratio",
        3.4,
        "Theorem 3 with the DLWA of Figure 6: 3.5 / 1.03",
    )],
    needs: &["energy_ratio", "theorem_error", "collection_share.on", "collection_share.off"],
    measure,
    judge,
};

fn measure(settings: &Settings, seed: u64, monitor: &Monitor) -> Result<Metrics, Error> {
    let options = rig::options("meta-kv", settings, seed)?;
    let mut metrics = Metrics::new();
    let mut error = 0.0_f64;
    for (placement, run) in
        rig::with_and_without(|placement| rig::alone(&options, placement, monitor))?
    {
        rig::note_steadiness(&mut metrics, "100", &run);
        error = error.max(note(&mut metrics, placement, &run, options.resolved_unit_bytes())?);
    }
    metrics.insert("theorem_error".to_owned(), error);
    let ratio = metrics["joules_per_gb.off"] / metrics["joules_per_gb.on"];
    metrics.insert("energy_ratio".to_owned(), ratio);
    Ok(metrics)
}

/// Returns the relative difference between the energy and the theorem's prediction from DLWA.
#[allow(clippy::cast_precision_loss)]
fn note(
    metrics: &mut Metrics,
    placement: &str,
    run: &SharedRun,
    unit_bytes: u64,
) -> Result<f64, Error> {
    let wrong = |error: larder_ssd::Error| Error::run(format!("energy: {error}"));
    let (shape, costs) = (FlashShape::ASSUMED_TLC, EnergyCosts::ASSUMED_TLC);
    let joules = |read: u64, programmed: u64, erased: u64| {
        let operations = shape.operations(read, programmed, erased, 0.0).map_err(wrong)?;
        Ok::<f64, Error>(costs.energy(&operations).map_err(wrong)?.media_joules())
    };
    let work = &run.drive;
    let (host, copied) = (work.host_pages * PAGE_BYTES, work.copied_pages * PAGE_BYTES);
    let all = joules(copied, host + copied, work.erased_units * unit_bytes)?;
    let of_host = joules(0, host, host)?;
    let host_gb = host as f64 / 1e9;
    let notes = [
        ("joules_per_gb", all / host_gb),
        ("kwh_per_tb", all / host_gb * 1000.0 / 3.6e6),
        ("co2e_kg_per_pb", all / host_gb * 1e6 / 3.6e6 * WORLD_2023_KG_PER_KWH),
        ("collection_share", 1.0 - of_host / all),
        ("dlwa", work.dlwa),
    ];
    metrics.extend(notes.map(|(name, value)| (format!("{name}.{placement}"), value)));
    let theorem = of_host * work.dlwa + joules(copied, 0, 0)?;
    Ok((all / theorem - 1.0).abs())
}

fn judge(summary: &Summary) -> Judgement {
    let mean = |name: &str| summary.mean(name);
    let (error, ratio) = (summary.max("theorem_error"), mean("energy_ratio"));
    Checks::default()
        .near("energy, times less", ratio, ENERGY.references, "energy_ratio", SAME)
        .exact(error <= SAME, format!("the theorem is off by at most {:.1} %", error * 100.0))
        .shape(ratio > 1.0, "placement saves energy")
        .note(format!(
            "garbage collection takes {:.1} % of the energy of writing with placement, {:.1} % without",
            mean("collection_share.on") * 100.0,
            mean("collection_share.off") * 100.0
        ))
        .judge()
}
