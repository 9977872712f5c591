//! `cargo xtask frameworks`: caches, locks and limits of frameworks against `larder serve`, Valkey and memcached.
//!
//! The programs in `programs/` are ours; the frameworks are fetched into the build directory. A program tries one
//! framework, and tells of each feature whether it works. It runs against `larder serve` in DRAM and with flash, and
//! against Valkey or memcached, each new for it.

mod contestant;
mod framework;
mod list;
mod table;
mod told;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use self::contestant::Contestant;
use self::framework::{Backend, Framework};
use self::list::FRAMEWORKS;
use self::table::Row;
use self::told::Told;
use crate::served::{self, Subject};
use crate::step::Verdict;
use crate::workspace;

/// Options of `frameworks`.
#[derive(Debug, Clone, Default, Args)]
pub struct FrameworksOptions {
    /// The command to test [default: built by cargo]
    #[arg(long, value_name = "FILE")]
    larder: Option<PathBuf>,
    /// Run only this framework; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

/// Runs what is available, with the usual options.
pub fn usual() -> Verdict {
    run(&FrameworksOptions::default())
}

/// Runs all frameworks that are available here, and prints a table.
pub fn run(options: &FrameworksOptions) -> Verdict {
    let chosen = match chosen(&options.only) {
        Ok(chosen) => chosen,
        Err(why) => return Verdict::Failed(why),
    };
    let larder = match served::program(options.larder.as_deref()) {
        Ok(larder) => larder,
        Err(verdict) => return verdict,
    };
    let subject = Subject { larder, sockets: "io_uring" };
    let dir = workspace::target().join("xtask/frameworks");
    let mut report = Report::default();
    for framework in chosen {
        eprintln!("{}", framework.name);
        report.add(framework, &subject, &dir.join(framework.name));
    }
    report.print(&subject);
    report.verdict()
}

/// The frameworks with these names, or all.
fn chosen(names: &[String]) -> Result<Vec<&'static Framework>, String> {
    let find = |name: &String| {
        let is_it = |framework: &&Framework| framework.name.eq_ignore_ascii_case(name);
        let names: Vec<&str> = FRAMEWORKS.iter().map(|framework| framework.name).collect();
        let unknown = || format!("{name} is none of {}", names.join(", "));
        FRAMEWORKS.iter().find(is_it).ok_or_else(unknown)
    };
    match names {
        [] => Ok(FRAMEWORKS.iter().collect()),
        names => names.iter().map(find).collect(),
    }
}

/// What the programs have told.
#[derive(Default)]
struct Report {
    rows: Vec<Row>,
    /// Frameworks with the versions of their packages.
    versions: Vec<String>,
    /// Frameworks that could not run, or not everywhere, with the reason.
    skipped: Vec<String>,
}

impl Report {
    fn add(&mut self, framework: &Framework, subject: &Subject, dir: &Path) {
        let command = match framework.prepare(dir) {
            Ok(command) => command,
            Err(why) => return self.skipped.push(format!("{}: {why}", framework.name)),
        };
        for backend in framework.backends {
            let shown = framework.shown(*backend);
            if let Err(why) = self.tried(framework, *backend, subject, (&command, dir)) {
                self.skipped.push(format!("{shown}: {why}"));
            }
        }
    }

    fn tried(
        &mut self,
        framework: &Framework,
        backend: Backend,
        subject: &Subject,
        (command, dir): (&Command, &Path),
    ) -> Result<(), String> {
        let shown = framework.shown(backend);
        let told = |server: Result<Contestant, String>, name: &str| {
            let server = server?;
            let name = format!("{}-{name}", backend.protocol());
            framework::run(command, dir, (backend, server.port()), &name)
        };
        // A program that tells nothing on Larder alone fails there in each feature.
        let other = told(Contestant::other(backend), "other")
            .map_err(|why| self.skipped.push(format!("{shown}, on the other server: {why}")))
            .ok();
        let dram = told(Contestant::larder(subject, backend, framework.larder), "dram");
        let flash = Contestant::larder_with_flash(subject, backend, framework.larder, dir);
        let flash = told(flash, "flash");
        if other.is_none() && dram.is_err() {
            return dram.map(drop);
        }
        let [dram, flash] = [dram, flash].map(|told| {
            told.unwrap_or_else(|why| {
                self.skipped.push(format!("{shown}, on Larder: {why}"));
                Told::default()
            })
        });
        let versions = other.as_ref().unwrap_or(&dram).versions.join(", ");
        let options = framework.larder.join(" ");
        let with = if options.is_empty() { options } else { format!("; `larder serve {options}`") };
        self.versions.push(format!("{shown}: {versions}{with}"));
        self.rows.extend(table::rows(&shown, backend, [&dram, &flash], other.as_ref()));
        Ok(())
    }

    fn print(&self, subject: &Subject) {
        println!("\n{}", table::shown(&self.rows));
        contestant::versions(subject).iter().for_each(|version| println!("{version}"));
        self.versions.iter().for_each(|versions| println!("{versions}"));
        self.skipped.iter().for_each(|skipped| println!("skipped: {skipped}"));
        println!("\n{}", table::sum(&self.rows, Backend::Memcached));
        println!("{}", table::sum(&self.rows, Backend::Resp));
    }

    fn verdict(&self) -> Verdict {
        let worse = table::worse(&self.rows);
        if !worse.is_empty() {
            return Verdict::Failed(format!("works elsewhere, not here: {}", worse.join("; ")));
        }
        if self.rows.is_empty() {
            return Verdict::Skipped("no framework can be had here".to_owned());
        }
        Verdict::Passed(table::sum(&self.rows, Backend::Resp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frameworks_are_chosen_by_name() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            chosen(&words).map(|all| all.iter().map(|it| it.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["celery", "Rails"]), Ok(vec!["Celery", "Rails"]));
        assert_eq!(names(&[]).unwrap().len(), FRAMEWORKS.len());
        assert!(names(&["nonesuch"]).unwrap_err().contains("redis-py"));
    }

    #[test]
    fn a_feature_that_is_worse_fails_and_nothing_at_all_is_skipped() {
        let mut report = Report::default();
        assert!(matches!(report.verdict(), Verdict::Skipped(_)));
        let [good, bad] = ["ok a\n", "not ok a -- x\n"].map(Told::read);
        report.rows = table::rows("f", Backend::Resp, [&good, &good], Some(&good));
        assert!(matches!(report.verdict(), Verdict::Passed(_)));
        report.rows = table::rows("f", Backend::Resp, [&bad, &good], Some(&good));
        assert!(matches!(report.verdict(), Verdict::Failed(text) if text.contains("f: a")));
    }
}
