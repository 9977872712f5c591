//! Requests to a server in this process, with one thread, from one connection that waits for each answer.
//!
//! The client is `std`'s socket: it costs a `write` and a `read` a request, which are counted too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use larder::{RealClock, Tenant, Tenants, TenantsConfig, block_on};
use larder_device::MemoryDevice;
use larder_export::nbd::{Export, NbdConfig, NbdServer};
use larder_export::volume::DeviceVolume;
use larder_server::{Endpoint, ListenerConfig, ProtocolKind, Server, ServerConfig, SocketBackend};

use crate::{Outcome, Refused, Request};

pub(crate) const EPOLL: SocketBackend = SocketBackend::Epoll;
pub(crate) const IO_URING: SocketBackend = SocketBackend::IoUring;

const DRAM_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 100;
const VOLUME_BYTES: usize = 16 << 20;
const BLOCK_BYTES: usize = 4096;

/// Gets of one key, which DRAM answers.
pub(crate) fn memcached_get(sockets: SocketBackend) -> Outcome<Request> {
    let config = TenantsConfig {
        dram_bytes: DRAM_BYTES,
        tenants: vec![Tenant::new("default", 100.0)],
        ..TenantsConfig::default()
    };
    let tenants = block_on(Tenants::open(config, None, Arc::new(RealClock)))?;
    let listeners = vec![ListenerConfig::new(free_port(), ProtocolKind::Memcached)];
    let config = ServerConfig { listeners, sockets, workers: 1, ..ServerConfig::default() };
    let server = Server::start(config, tenants)?;
    refused_unless(server.sockets() == sockets)?;
    let mut client = connected(server.addresses())?;
    let value = "v".repeat(VALUE_BYTES);
    client.write_all(format!("set bread 0 0 {VALUE_BYTES}\r\n{value}\r\n").as_bytes())?;
    client.read_exact(&mut [0; "STORED\r\n".len()])?;
    let wanted = format!("VALUE bread 0 {VALUE_BYTES}\r\n{value}\r\nEND\r\n").into_bytes();
    let mut answer = vec![0; wanted.len()];
    Ok(Box::new(move |_| {
        let _running = &server;
        client.write_all(b"get bread\r\n")?;
        client.read_exact(&mut answer)?;
        (answer == wanted).then_some(()).ok_or_else(|| "not the value".into())
    }))
}

/// Writes of blocks, in order, around the volume.
pub(crate) fn nbd_write(sockets: SocketBackend) -> Outcome<Request> {
    let device = Arc::new(MemoryDevice::holding(vec![0; VOLUME_BYTES]));
    let server = NbdServer::start(NbdConfig {
        endpoints: vec![free_port()],
        exports: vec![Export::new("pantry", Arc::new(DeviceVolume::new(device)))?],
        sockets,
        ..NbdConfig::default()
    })?;
    refused_unless(server.sockets() == sockets)?;
    let mut client = connected(server.addresses())?;
    opened(&mut client)?;
    let mut request = write_request();
    let mut reply = [0; 16];
    Ok(Box::new(move |number| {
        let _running = &server;
        let offset = number % (VOLUME_BYTES / BLOCK_BYTES) as u64 * BLOCK_BYTES as u64;
        put_big_endian(&mut request[16..24], offset);
        client.write_all(&request)?;
        client.read_exact(&mut reply)?;
        (reply[4..8] == [0; 4]).then_some(()).ok_or_else(|| "the write failed".into())
    }))
}

/// Opens the default export, by the oldest option of the protocol (`NBD_OPT_EXPORT_NAME` with an empty name).
fn opened(client: &mut TcpStream) -> Outcome<()> {
    client.read_exact(&mut [0; 18])?; // the greeting: two magic numbers and flags
    let mut option = [0; 20];
    option[3] = 3; // the newer negotiation, without padding of the answer
    option[4..12].copy_from_slice(b"IHAVEOPT");
    option[15] = 1;
    client.write_all(&option)?;
    Ok(client.read_exact(&mut [0; 10])?) // size and flags of the export
}

/// `NBD_CMD_WRITE` of one block, without its offset.
fn write_request() -> Vec<u8> {
    let mut request = vec![0x5a; 28 + BLOCK_BYTES];
    put_big_endian(&mut request[..4], 0x2560_9513);
    put_big_endian(&mut request[4..8], 1); // no flags, and the command
    put_big_endian(&mut request[24..28], BLOCK_BYTES as u64);
    request
}

/// Writes the low bytes of a number in the protocol's order.
fn put_big_endian(bytes: &mut [u8], number: u64) {
    let mut rest = number;
    for byte in bytes.iter_mut().rev() {
        [*byte, ..] = rest.to_le_bytes();
        rest >>= 8;
    }
}

fn free_port() -> Endpoint {
    Endpoint::Tcp(([127, 0, 0, 1], 0).into())
}

fn connected(addresses: &[SocketAddr]) -> Outcome<TcpStream> {
    let client = TcpStream::connect(addresses[0])?;
    client.set_nodelay(true)?;
    Ok(client)
}

fn refused_unless(granted: bool) -> Outcome<()> {
    if granted { Ok(()) } else { Err(Refused.into()) }
}
