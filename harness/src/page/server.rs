//! A server under load, for the page to show.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::block_cache::ENTRIES;
use crate::hears::hears;

/// A name that would do harm if it were interpreted as markup.
pub(super) const HOSTILE_TENANT: &str = "<img src=x onerror=alert(1)>";
/// The same as a memcached key, which cannot contain spaces.
pub(super) const HOSTILE_KEY: &str = "<img/src=x/onerror=alert(1)>";

const KEYS: u32 = 60_000;
const HOT_KEYS: u32 = 2_000;

/// A server, stopped on drop.
pub(super) struct PageServer {
    child: Child,
    larder: PathBuf,
    dir: PathBuf,
    pub(super) memcached: String,
    pub(super) admin: String,
}

impl PageServer {
    /// Starts a server with its files in `dir`, on free ports.
    pub(super) fn start(larder: &Path, dir: &Path) -> Result<Self, String> {
        let hash = hashed(larder, "rye")?;
        let text = format!(
            "memory = \"48M\"\nflash = \"192M\"\nworkers = 2\nresp = \"none\"\nclose = 1\ndrain = 0\n\
             slow_threshold = 1\nendurance = \"600T\"\nadmin_token = '{hash}'\n\
             [[tenant]]\nname = \"photos\"\nshare = 70\n[[tenant]]\nname = '{HOSTILE_TENANT}'\nshare = 30\n{ENTRIES}"
        );
        let told = |cause: std::io::Error| format!("{}: {cause}", dir.display());
        fs::write(dir.join("larder.toml"), text).map_err(told)?;
        let places = ["127.0.0.1:0".to_owned(), "127.0.0.1:0".to_owned()];
        let (child, [memcached, admin]) = run(larder, dir, &places)?;
        let admin = admin.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(Self { child, larder: larder.to_owned(), dir: dir.to_owned(), memcached, admin })
    }

    /// Kills the server.
    pub(super) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Restarts the server on the same ports.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let places = [self.memcached.clone(), self.admin.clone()];
        (self.child, _) = run(&self.larder, &self.dir, &places)?;
        Ok(())
    }

    /// The value of a counter in `/metrics`, summed over all labels.
    pub(super) fn metric(&self, name: &str) -> Result<u64, String> {
        let told = |cause: std::io::Error| format!("/metrics: {cause}");
        let mut stream = TcpStream::connect(&self.admin).map_err(told)?;
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin);
        stream.write_all(request.as_bytes()).map_err(told)?;
        let mut page = String::new();
        stream.read_to_string(&mut page).map_err(told)?;
        let samples = page.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        let values: Vec<u64> =
            samples.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        if values.is_empty() {
            return Err(format!("/metrics has no {name}"));
        }
        Ok(values.iter().sum())
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The output of `larder password` for a password.
fn hashed(larder: &Path, password: &str) -> Result<String, String> {
    let told = |cause: std::io::Error| format!("larder password: {cause}");
    let mut command = Command::new(larder);
    command.arg("password").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(told)?;
    if let Some(mut input) = child.stdin.take() {
        writeln!(input, "{password}").map_err(told)?;
    }
    let output = child.wait_with_output().map_err(told)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Starts `larder serve`, and waits until it prints its addresses.
fn run(larder: &Path, dir: &Path, places: &[String; 2]) -> Result<(Child, [String; 2]), String> {
    let mut command = Command::new(larder);
    // The directory of the block caches' sockets.
    command.current_dir(dir);
    command.arg("serve").arg("--config").arg(dir.join("larder.toml"));
    command.arg("--data-dir").arg(dir.join("data"));
    command.args(["--memcached", &places[0], "--admin", &places[1]]);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|cause| format!("larder serve: {cause}"))?;
    let mut found = [String::new(), String::new()];
    let ready = hears(&mut child, |line| {
        for (name, place) in ["memcached", "admin"].iter().zip(&mut found) {
            if let Some(rest) = line.strip_prefix(name) {
                *place = rest.trim().to_owned();
            }
        }
        line.starts_with("ready").then_some(())
    });
    if ready.is_none() {
        let _ = child.wait();
        return Err("larder serve: it ended before it was ready".to_owned());
    }
    Ok((child, found))
}

/// A client that makes requests until it is dropped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Sets and gets keys of a server. A part of the keys is much more popular.
    pub(super) fn start(address: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (told, address) = (Arc::clone(&stop), address.to_owned());
        let thread = std::thread::spawn(move || {
            let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
            // The server may be down for a while.
            while !told.load(Ordering::Relaxed) {
                if let Ok(stream) = TcpStream::connect(&address) {
                    let _ = ask_all(stream, &told, &mut dice);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn roll(dice: &mut u64) -> u32 {
    *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    u32::try_from(*dice >> 33).unwrap_or_default()
}

/// Cache-aside: each miss is followed by a set.
fn ask_all(mut stream: TcpStream, stop: &AtomicBool, dice: &mut u64) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    while !stop.load(Ordering::Relaxed) {
        let key =
            if roll(dice).is_multiple_of(3) { roll(dice) % KEYS } else { roll(dice) % HOT_KEYS };
        write!(stream, "get {HOSTILE_KEY}{key}\r\n")?;
        line.clear();
        reader.read_line(&mut line)?;
        if let Some(bytes) = line.strip_prefix("VALUE ").and_then(|it| it.trim().rsplit(' ').next())
        {
            let mut value = vec![0; bytes.parse::<usize>().unwrap_or(0) + 7];
            reader.read_exact(&mut value)?;
        } else {
            let value =
                "x".repeat(if key.is_multiple_of(4) { 6000 } else { 300 + key as usize % 900 });
            write!(stream, "set {HOSTILE_KEY}{key} 0 0 {}\r\n{value}\r\n", value.len())?;
            line.clear();
            reader.read_line(&mut line)?;
        }
        if roll(dice).is_multiple_of(200) {
            write!(stream, "delete {HOSTILE_KEY}{key}\r\n")?;
            line.clear();
            reader.read_line(&mut line)?;
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(())
}
