//! Parses the output of nvme-cli about an FDP drive, as text and as JSON (`-o json`).
//!
//! It is an independent program, so its output about the drive is compared with ours.

use serde_json::Value;

use super::json;

/// One line of `nvme fdp status`: the handle of a placement identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) pid: i128,
    pub(super) ruhid: i128,
    /// Logical blocks that still fit into its reclaim unit.
    pub(super) ruamw: i128,
}

/// The output of `nvme fdp stats`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) hbmw: i128,
    pub(super) mbmw: i128,
    pub(super) mbe: i128,
}

/// Parses the output of `nvme fdp status`.
pub(super) fn status(output: &str) -> Result<Vec<Handle>, String> {
    let handles = if output.trim_start().starts_with('{') {
        status_json(output)?
    } else {
        status_text(output)?
    };
    if handles.is_empty() { Err("no placement identifiers in it".to_owned()) } else { Ok(handles) }
}

/// Parses the output of `nvme fdp stats`.
pub(super) fn stats(output: &str) -> Result<Stats, String> {
    let read = output.trim_start().starts_with('{').then(|| json::read(output)).transpose()?;
    let number = |name: &str| match &read {
        Some(found) => json::number(json::at(found, name)?),
        None => after(output, &format!("({}):", name.to_uppercase())),
    };
    Ok(Stats { hbmw: number("hbmw")?, mbmw: number("mbmw")?, mbe: number("mbe")? })
}

fn status_text(output: &str) -> Result<Vec<Handle>, String> {
    let parts = output.split("Placement Identifier").skip(1);
    let handle = |part: &str| {
        Ok(Handle {
            pid: after(part, "")?,
            ruhid: after(part, "Reclaim Unit Handle Identifier")?,
            ruamw: after(part, "(RUAMW):")?,
        })
    };
    parts.map(handle).collect()
}

fn status_json(output: &str) -> Result<Vec<Handle>, String> {
    let read = json::read(output)?;
    let handle = |entry: &Value| {
        let number = |name| json::number(json::at(entry, name)?);
        Ok(Handle { pid: number("pid")?, ruhid: number("ruhid")?, ruamw: number("ruamw")? })
    };
    let handles = json::at(&read, "ruhss")?.as_array().ok_or("its ruhss is no list")?;
    handles.iter().map(handle).collect()
}

/// The number after this label.
fn after(text: &str, label: &str) -> Result<i128, String> {
    let missing = || format!("no number after {label:?}");
    let rest = text.find(label).map(|at| text[at + label.len()..].trim_start());
    let rest = rest.ok_or_else(missing)?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().map_err(|_| missing())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "\
Placement Identifier 0; Reclaim Unit Handle Identifier 0
  Estimated Active Reclaim Unit Time Remaining (EARUTR): 0
  Reclaim Unit Available Media Writes (RUAMW): 2048

Placement Identifier 1; Reclaim Unit Handle Identifier 5
  Estimated Active Reclaim Unit Time Remaining (EARUTR): 0
  Reclaim Unit Available Media Writes (RUAMW): 4096

";

    #[test]
    fn status_is_read_from_text_and_json() {
        let expected =
            [Handle { pid: 0, ruhid: 0, ruamw: 2048 }, Handle { pid: 1, ruhid: 5, ruamw: 4096 }];
        assert_eq!(status(STATUS).unwrap(), expected);
        let json = r#"{ "nruhsd":2, "ruhss":[
            { "pid":0, "ruhid":0, "earutr":0, "ruamw":2048 },
            { "pid":1, "ruhid":5, "earutr":0, "ruamw":4096 } ] }"#;
        assert_eq!(status(json).unwrap(), expected);
    }

    #[test]
    fn stats_are_read_from_text_and_json() {
        let expected = Stats { hbmw: 8_388_608, mbmw: 8_388_609, mbe: 0 };
        let text = "Host Bytes with Metadata Written (HBMW): 8388608\n\
                    Media Bytes with Metadata Written (MBMW): 8388609\n\
                    Media Bytes Erased (MBE): 0\n";
        assert_eq!(stats(text).unwrap(), expected);
        let json = r#"{ "hbmw":"8388608", "mbmw":"8388609", "mbe":"0" }"#;
        assert_eq!(stats(json).unwrap(), expected);
    }

    #[test]
    fn other_output_is_an_error() {
        assert!(status("NVMe status: Invalid Field in Command\n").is_err());
        assert!(status(&STATUS.replace("RUAMW", "X")).unwrap_err().contains("RUAMW"));
        assert!(status("{\"ruhss\":[]}").unwrap_err().contains("no placement"));
        assert!(stats("").unwrap_err().contains("HBMW"));
        assert!(stats("{}").unwrap_err().contains("hbmw"));
    }
}
