//! The first line of a script, which may say what the script does not do: `#!lua flags=no-writes`.

use super::super::context::shown;
use super::super::write::Refusal;

/// What the first line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ScriptFlags {
    pub(super) has_no_writes: bool,
}

/// Other flags, which change nothing here.
const OTHERS: [&[u8]; 4] = [b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys"];

/// Reads the first line of a script, if it is such a line.
pub(super) fn flags(source: &[u8]) -> Result<ScriptFlags, Refusal> {
    let mut all = ScriptFlags::default();
    let Some(line) = source.strip_prefix(b"#!") else { return Ok(all) };
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return Err(Refusal::Says("ERR Invalid script shebang"));
    };
    let line = line.get(..end).unwrap_or_default().trim_ascii();
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"lua" {
        let engine = shown(engine);
        return Err(Refusal::Said(format!("ERR Unexpected engine in script shebang: {engine}")));
    }
    for word in words {
        let Some(flags) = word.strip_prefix(b"flags=") else {
            let word = shown(word);
            return Err(Refusal::Said(format!("ERR Unknown lua shebang option: {word}")));
        };
        for flag in flags.split(|byte| *byte == b',').filter(|flag| !flag.is_empty()) {
            if flag == b"no-writes" {
                all.has_no_writes = true;
            } else if !OTHERS.contains(&flag) {
                let flag = shown(flag);
                return Err(Refusal::Said(format!(
                    "ERR Unexpected flag in script shebang: {flag}"
                )));
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_or_refused() {
        let has_no_writes = |source: &str| flags(source.as_bytes()).unwrap().has_no_writes;
        assert!(!has_no_writes("return 1"));
        assert!(!has_no_writes("#!lua\nreturn 1"));
        assert!(!has_no_writes("#!lua flags=\nreturn 1"));
        assert!(has_no_writes("#!lua flags=allow-stale,no-writes\nreturn 1"));
        for wrong in
            ["#!lua", "#!not-lua\n", "#!lua what=1\n", "#!lua flags=no-reads\n", "#!\nreturn 1"]
        {
            assert!(flags(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
