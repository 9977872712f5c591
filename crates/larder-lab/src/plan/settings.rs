//! The plan as a configuration of `larder serve`.

use super::options::{PlanOptions, Rating};
use super::outcome::{Answer, Plan};
use super::rows::{life, trimmed};

impl Plan {
    /// The recommended settings as `larder.toml`, for a server with the memory and the drive that `options` name. A
    /// comment gives the reason for each.
    ///
    /// If DLWA is within the limit with placement alone, placement is required. If it is not within the limit even so,
    /// the cache uses less of the drive.
    pub fn larder_toml(&self, options: &PlanOptions) -> String {
        let [on, off] = self.answers.as_slice() else { return String::new() };
        let Recommended { mode, utilization, answer, why } = recommended(options, on, off);
        let (dram, flash) = (options.dram_bytes, options.flash_bytes);
        let rated = options.rated_bytes();
        let layout_why = self.layout_why(options);
        let name = self.parameters.get("workload").or_else(|| self.parameters.get("trace"));
        let workload = name.and_then(serde_json::Value::as_str).unwrap_or("a trace");
        format!(
            "# Written by `larder plan`: {workload} at {} requests a second. `larder check` explains this file.\n\
             # DLWA with placement {}, without {}; the drive lasts {} years with these settings.\n\n\
             memory = {dram}   # DRAM of the cache; the index of its flash is part of it\n\
             flash = {flash}\n\
             # file = \"/dev/nvme0n1\"   # name the drive here; without it, flash is a file in data_dir\n\
             utilization = {utilization}   # percent of the drive\n\
             endurance = {rated}   # bytes that the drive is rated for\n\
             overprovisioning = {}   # percent of the capacity; the server predicts DLWA with it\n\n\
             [soc]   # small objects\n\
             percent = {}\n\
             layout = \"{}\"   # {layout_why}\n\
             max_object = {}\n\n\
             [placement]\n\
             mode = \"{mode}\"   # {why}\n",
            trimmed(options.rate, 0),
            trimmed(on.dlwa, 3),
            trimmed(off.dlwa, 3),
            life(answer.bill.life_years),
            options.op_percent,
            options.soc_percent,
            options.layout(),
            options.soc_max_object_bytes,
        )
    }
}

impl Plan {
    /// Why the layout of small objects is the recommended one.
    #[allow(clippy::cast_precision_loss)] // sizes of drives
    fn layout_why(&self, options: &PlanOptions) -> String {
        let times = options.soc_bytes() as f64 / options.dram_bytes as f64;
        let lives = self.layouts.iter().map(|it| {
            let (layout, alwa) = (&it.layout, trimmed(it.alwa, 2));
            format!("{layout}: ALWA {alwa}, {} years", life(it.life_years_on))
        });
        let lives: Vec<String> = lives.collect();
        format!(
            "flash for them is {} times memory, and pages are for up to 25; {}",
            trimmed(times, 1),
            lives.join("; ")
        )
    }
}

/// What is recommended for placement and for the share of the drive.
struct Recommended<'a> {
    mode: &'static str,
    /// Percent of the drive.
    utilization: f64,
    answer: &'a Answer,
    why: String,
}

fn recommended<'a>(options: &PlanOptions, on: &'a Answer, off: &'a Answer) -> Recommended<'a> {
    let (wanted, limit) = (options.utilization_percent, trimmed(options.dlwa_limit, 3));
    // Rounded down, so that the limit is kept.
    let most = |answer: &Answer| answer.limit.utilization.map_or(wanted, f64::floor).min(wanted);
    if off.dlwa <= options.dlwa_limit {
        let why = format!("DLWA stays below {limit} without it too");
        return Recommended { mode: "preferred", utilization: wanted, answer: off, why };
    }
    let without = match off.limit.utilization {
        Some(share) => format!("without it, use {:.0} % of the drive", share.floor()),
        None => "without it, no share of the drive is small enough".to_owned(),
    };
    let why = format!("it keeps DLWA below {limit}; {without}");
    Recommended { mode: "required", utilization: most(on), answer: on, why }
}

impl PlanOptions {
    /// Bytes that the drive is rated for.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn rated_bytes(&self) -> u64 {
        let bytes = match self.rating {
            Rating::Dwpd(writes) => self.flash_bytes as f64 * writes * 365.0 * self.warranty_years,
            Rating::Tbw(terabytes) => terabytes * 1e12,
        };
        bytes as u64
    }
}
