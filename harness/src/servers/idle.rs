//! Memory of connections that have made one request and are idle since.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::contestant::{Contestant, Start};
use super::settings::Bench;

const CONNECTIONS: u64 = 10_000;
const MEMORY: u64 = 64 << 20;
/// Servers that release memory later have released it by then.
const SETTLED: Duration = Duration::from_secs(6);

/// Measures, and prints. Returns what was not available.
pub(super) fn run(bench: &Bench) -> Result<Vec<String>, String> {
    let start = |name| Start { name, memory_bytes: MEMORY, flash: None, limit_bytes: None };
    println!("\n{CONNECTIONS} connections that have asked once");
    type Open = fn(&Bench, &Start<'_>) -> Result<Contestant, String>;
    let servers: [(&str, Open, &[u8]); 4] = [
        ("larder, epoll", |b, s| Contestant::larder(b, s, "epoll"), b"get a\r\n"),
        ("larder, io_uring", |b, s| Contestant::larder(b, s, "io_uring"), b"get a\r\n"),
        ("memcached", Contestant::memcached, b"get a\r\n"),
        ("valkey", Contestant::valkey, b"GET a\r\n"),
    ];
    let mut skipped = Vec::new();
    for (name, open, request) in servers {
        match open(bench, &start(name)) {
            Ok(contestant) => println!("{name:20} {:.2} KiB each", each(&contestant, request)?),
            Err(why) => skipped.push(why),
        }
    }
    Ok(skipped)
}

/// KiB of memory for each of the connections.
fn each(server: &Contestant, request: &[u8]) -> Result<f64, String> {
    let port = server.port().ok_or("a server without a port")?;
    let before = server.resident_bytes()?;
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        open.push(asked(port, request).map_err(|cause| {
            format!(
                "connection {}: {cause}; raise the limit of descriptors (ulimit -n)",
                open.len()
            )
        })?);
    }
    std::thread::sleep(SETTLED);
    let after = server.resident_bytes()?;
    drop(open);
    #[allow(clippy::cast_precision_loss)]
    Ok(after.saturating_sub(before) as f64 / 1024.0 / CONNECTIONS as f64)
}

pub(super) fn asked(port: u16, request: &[u8]) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.write_all(request)?;
    let mut answer = [0; 64];
    let _ = stream.read(&mut answer)?;
    Ok(stream)
}
