//! All runs: systems take turns within a round, and each round begins with the next system.

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::options::Options;
use crate::run::{Outcome, Task};
use crate::summary::Row;
use crate::system::System;
use crate::workload::{Scale, Workload};
use crate::{child, machine, report};

const ROUNDS: usize = 5;
const ROUNDS_QUICK: (usize, usize) = (3, 1);

/// Makes the runs that the options select, prints the results and writes the files.
pub(crate) fn all(options: &Options) -> Result<(), String> {
    check_dir(&options.dir)?;
    let machine = machine::describe(&options.dir);
    for line in &machine {
        println!("{line}");
    }
    let mut rows = Vec::new();
    for workload in options.workloads() {
        if workload.zipf == 0.0 && options.data.is_none() {
            println!(
                "{}: skipped, because --data does not say where its tables are",
                workload.name
            );
            continue;
        }
        eprintln!("\n{}: {}", workload.name, workload.about);
        let result = of_workload(options, &workload);
        remove_flash_files(&options.dir);
        let done = result?;
        print!("\n{}", report::table(&done));
        rows.extend(done);
    }
    print!("\n{}", report::comparisons(&rows));
    if let Some(path) = &options.csv {
        write(path, &report::csv(&machine, options.scale(), &rows))?;
    }
    if let Some(path) = &options.json {
        write(path, &report::json(&machine, options.scale(), &rows))?;
    }
    Ok(())
}

fn of_workload(options: &Options, workload: &Workload) -> Result<Vec<Row>, String> {
    let systems = systems(options, workload);
    let clients = options.clients.as_deref().unwrap_or(workload.clients);
    let mut rows = Vec::new();
    for &clients in clients {
        let tasks = tasks(options, workload, &systems, clients)?;
        let mut done: Vec<Row> = systems
            .iter()
            .map(|&system| Row { workload: workload.name, system, clients, rounds: Vec::new() })
            .collect();
        for round in 0..rounds(options, workload) {
            for turn in 0..tasks.len() {
                let at = (turn + round) % tasks.len();
                let seed = options.seed + round as u64;
                let label = format!("round {}", round + 1);
                let outcome = child(&Task { seed, ..tasks[at].clone() }, options.scale(), &label)?;
                done[at].rounds.push(outcome);
            }
        }
        rows.extend(done);
    }
    Ok(rows)
}

fn rounds(options: &Options, workload: &Workload) -> usize {
    let usual = match options.scale() {
        Scale::Full => ROUNDS,
        Scale::Quick | Scale::Tiny if workload.flash.is_some() => ROUNDS_QUICK.1,
        Scale::Quick | Scale::Tiny => ROUNDS_QUICK.0,
    };
    options.rounds.unwrap_or(usual)
}

/// The systems to run: the selected ones, or those of the workload, if they can run it.
fn systems(options: &Options, workload: &Workload) -> Vec<System> {
    // A quick run on flash omits one of foyer's two policies to save time.
    let is_left_out = |system: &System| {
        let is_quick = options.scale() == Scale::Quick && workload.flash.is_some();
        is_quick && *system == System::FoyerLru && options.systems.is_none()
    };
    let asked = options.systems.as_deref().unwrap_or(workload.systems);
    let able = asked.iter().copied().filter(|system| system.can(workload));
    able.filter(|system| !is_left_out(system)).collect()
}

/// The runs of systems, with adjusted budgets if the workload requires it.
fn tasks(
    options: &Options,
    workload: &Workload,
    systems: &[System],
    clients: usize,
) -> Result<Vec<Task>, String> {
    let task = |system| Task {
        workload: workload.clone(),
        system,
        clients,
        dram_bytes: options.dram_bytes.unwrap_or(workload.dram_bytes),
        seed: options.seed,
        dir: options.dir.clone(),
        data: options.data.clone(),
    };
    if !workload.equal_resident || options.dram_bytes.is_some() {
        return Ok(systems.iter().copied().map(task).collect());
    }
    let target = child(&task(System::Foyer), options.scale(), "adjusting")?;
    let as_large = |system| {
        let task = task(system);
        if matches!(system, System::Foyer | System::Harness) {
            return Ok(task);
        }
        let seen = child(&task, options.scale(), "adjusting")?;
        Ok(Task { dram_bytes: adjusted(task.dram_bytes, &seen, &target), ..task })
    };
    systems.iter().copied().map(as_large).collect()
}

/// The budget with which a system's resident memory is that of `target`, if it grows in proportion to the budget.
fn adjusted(dram_bytes: u64, seen: &Outcome, target: &Outcome) -> u64 {
    let grows = (seen.peak_rss_bytes - seen.empty_rss_bytes).max(1.0);
    let may_grow = (target.peak_rss_bytes - seen.empty_rss_bytes).max(1.0);
    (dram_bytes as f64 * may_grow / grows) as u64
}

/// Makes a run in its own process.
fn child(task: &Task, scale: Scale, label: &str) -> Result<Outcome, String> {
    let (workload, system) = (task.workload.name, task.system.name());
    let mut words: Vec<String> =
        ["one", "--scale", scale.name(), "--workload", workload, "--system", system]
            .map(str::to_owned)
            .to_vec();
    words.push(format!("--clients={}", task.clients));
    words.push(format!("--dram-bytes={}", task.dram_bytes));
    words.push(format!("--seed={}", task.seed));
    words.push(format!("--dir={}", task.dir.display()));
    words.extend(task.data.as_ref().map(|data| format!("--data={}", data.display())));
    let began = Instant::now();
    let last = child::last_line(&words, &format!("{workload} with {system}"))?;
    let outcome = Outcome::from_json(&last)?;
    eprintln!(
        "{workload} {label}: {system}, {} clients, {:.0} ops/s, {:.3} us CPU an op, hits {:.4}, \
         {:.0} MiB, {:.1} s, load {:.1}",
        task.clients,
        outcome.ops_per_second,
        outcome.cpu_us_per_op,
        outcome.hit_ratio,
        outcome.peak_rss_bytes / f64::from(1 << 20),
        began.elapsed().as_secs_f64(),
        outcome.load_average,
    );
    Ok(outcome)
}

fn check_dir(dir: &Path) -> Result<(), String> {
    if dir.is_dir() {
        return Ok(());
    }
    Err(format!("--dir {}: is no directory; make it, or name another one", dir.display()))
}

fn remove_flash_files(dir: &Path) {
    for (name, _) in System::ALL {
        // Files of systems that did not run do not exist.
        let _ = std::fs::remove_file(dir.join(format!("{name}.flash")));
    }
}

fn write(path: &PathBuf, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|cause| format!("cannot write {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::row;

    #[test]
    fn budgets_are_adjusted_to_what_is_resident() {
        let seen = row(System::Larder, &[1.0]).rounds.remove(0);
        let target = Outcome { peak_rss_bytes: 1.9e6, ..seen.clone() };
        assert_eq!(adjusted(1_000_000, &seen, &target), 2_000_000);
        assert_eq!(adjusted(1_000_000, &seen, &seen), 1_000_000);
    }

    #[test]
    fn a_missing_directory_is_named() {
        let message = check_dir(Path::new("no/such/dir")).unwrap_err();
        assert!(message.contains("--dir no/such/dir"));
    }
}
