//! A remote-controlled browser, over a pipe (Chrome DevTools Protocol): messages are JSON, each followed by a zero
//! byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout of an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page, stopped on drop.
pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    next: u64,
    /// The identifier of the attached page in messages, once it is attached.
    attached: Option<String>,
    /// Events from the browser.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// Starts `program` and opens an empty page. `profile` is a directory for its own files.
    pub(crate) fn start(program: &Path, profile: &Path) -> Result<Self, String> {
        // It reads from descriptor 3 and writes to 4, so a shell connects the pipes to them.
        let script = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args([
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-background-networking",
        ]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|cause| format!("the browser: {cause}"))?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the browser has no pipes".to_owned());
        };
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(from).split(0).map_while(Result::ok);
            for message in messages.filter_map(|bytes| serde_json::from_slice(&bytes).ok()) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { child, to, from: receiver, next: 1, attached: None, events: Vec::new() };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<(), String> {
        let made = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let target = json!({ "targetId": made["targetId"], "flatten": true });
        let attached = self.call("Target.attachToTarget", target)?;
        self.attached = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(())
    }

    /// Calls a method, and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.next;
        self.next += 1;
        let mut message = json!({ "id": id, "method": method, "params": params });
        if let Some(attached) = &self.attached {
            message["sessionId"] = json!(attached);
        }
        let bytes = format!("{message}\0");
        self.to.write_all(bytes.as_bytes()).map_err(|cause| format!("{method}: {cause}"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let message =
                self.from.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            let message = message.map_err(|error| match error {
                RecvTimeoutError::Timeout => format!("{method}: no answer"),
                RecvTimeoutError::Disconnected => format!("{method}: the browser has ended"),
            })?;
            if message["id"] != id {
                self.events.push(message);
            } else if let Some(error) = message.get("error") {
                return Err(format!("{method}: {error}"));
            } else {
                return Ok(message["result"].clone());
            }
        }
    }

    /// Evaluates an expression in the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", params)?;
        match result.get("exceptionDetails") {
            Some(thrown) => Err(format!("{expression}: {thrown}")),
            None => Ok(result["result"]["value"].clone()),
        }
    }

    /// Waits until an expression in the page is true.
    pub(crate) fn wait_for(&mut self, expression: &str, limit: Duration) -> Result<(), String> {
        let begun = Instant::now();
        while self.evaluate(expression)? != json!(true) {
            if begun.elapsed() > limit {
                return Err(format!("not true after {} s: {expression}", limit.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// A screenshot of the whole page at this width, as a PNG file.
    pub(crate) fn picture(&mut self, width: u32, theme: &str) -> Result<Vec<u8>, String> {
        let scheme = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": scheme }))?;
        self.resize(width, 900)?;
        let height = self.evaluate("Math.min(document.documentElement.scrollHeight, 8000)")?;
        self.resize(width, u32::try_from(height.as_u64().unwrap_or(900)).unwrap_or(900))?;
        // Wait until the charts are redrawn for the new width.
        std::thread::sleep(Duration::from_millis(1500));
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }))?;
        decoded(picture["data"].as_str().unwrap_or_default())
            .ok_or_else(|| "the browser's picture is no base64".to_owned())
    }

    /// Gives the page a window of this size; a narrow one is that of a phone.
    pub(crate) fn resize(&mut self, width: u32, height: u32) -> Result<(), String> {
        let screen = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500
        });
        self.call("Emulation.setDeviceMetricsOverride", screen).map(drop)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.attached = None;
        let _ = self.call("Browser.close", json!({}));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Decodes base64 (RFC 4648).
fn decoded(text: &str) -> Option<Vec<u8>> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = LETTERS.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(value).ok()?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
            bits &= (1 << held) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg==", b"f"), ("Zm9v", b"foo"), ("/+8=", b"\xff\xef")]
        {
            assert_eq!(decoded(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(decoded("Zm 9v"), None);
    }
}
