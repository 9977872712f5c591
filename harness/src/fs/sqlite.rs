//! sqlite: the same work with a rollback journal and with a write-ahead log, whose index is a shared mapping.

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;

const PACKAGE: &str = "sqlite3";
const ROWS: u64 = 20_000;

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let mut before = Vec::new();
    for journal in ["delete", "wal"] {
        sqlite(rig, journal, &work(journal))?;
        before.push(state(rig, journal)?);
    }
    rig.remount()?;
    for (journal, before) in ["delete", "wal"].into_iter().zip(before) {
        let after = state(rig, journal)?;
        if after != before {
            return Err(Problem::Failed(format!(
                "{journal}: {before} before, {after} after a new mount"
            )));
        }
        sqlite(rig, journal, "pragma journal_mode=delete; vacuum;")?;
        state(rig, journal)?;
    }
    Ok(format!("{ROWS} rows in both kinds of journal, sound before and after a new mount"))
}

fn work(journal: &str) -> String {
    let row = "printf('key %06d', value), randomblob(100 + value % 900)";
    let numbers = format!("generate_series(1, {ROWS})");
    let mut text = format!(
        "pragma journal_mode={journal}; create table t(k text primary key, v blob);
         begin; insert into t select {row} from {numbers}; commit;
         create index by_length on t(length(v), k);
         delete from t where rowid % 3 = 0;"
    );
    for number in 0..60 {
        text += &format!("update t set v = randomblob(500) where rowid % 211 = {number};");
    }
    text
}

/// The result of the integrity check, and a checksum of all data.
fn state(rig: &Rig, journal: &str) -> Result<String, Problem> {
    let sound = sqlite(rig, journal, "pragma integrity_check;")?;
    if sound.trim() != "ok" {
        return Err(Problem::Failed(format!("{journal}: integrity_check says {}", sound.trim())));
    }
    sqlite(rig, journal, "select count(*), sum(length(v)), max(hex(v)) from t;")
}

fn sqlite(rig: &Rig, name: &str, text: &str) -> Result<String, Problem> {
    let mut command = program("sqlite3", PACKAGE)?;
    rig.run_there(command.args(["-bail", &format!("{name}.db"), text]))
}
