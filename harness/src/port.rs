//! Local ports for servers under test, and requests to them.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// The loopback address with this port.
pub(crate) fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A port that is free now.
pub(crate) fn free() -> Result<u16, String> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
    bound.map(|address| address.port()).map_err(|cause| format!("no free port: {cause}"))
}

/// Sends a request and returns the lines of the answer, up to the last line or the end of the connection.
pub(crate) fn ask(
    port: u16,
    request: &str,
    is_last: fn(&str) -> bool,
) -> Result<Vec<String>, String> {
    let told = |cause: std::io::Error| format!("port {port}: {cause}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(told)?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(told)?;
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(told)?.trim_end().to_owned();
        let last = is_last(&line);
        lines.push(line);
        if last {
            break;
        }
    }
    Ok(lines)
}
