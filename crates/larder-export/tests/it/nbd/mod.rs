//! Tests of the NBD server with their own client.

mod encryption;
mod gone;
mod handshake;
mod hostile;
mod requests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use larder_device::{Device, MemoryDevice};
use larder_export::nbd::{Export, NbdConfig, NbdServer};
use larder_export::volume::{DeviceVolume, Volume};
use larder_net::sockets::{Endpoint, SocketBackend};
use tempfile::TempDir;

/// A server on a Unix socket, in a directory that is deleted with it.
pub(crate) struct Served {
    pub(crate) server: Option<NbdServer>,
    directory: TempDir,
}

impl Served {
    pub(crate) fn start(exports: Vec<Export>, sockets: SocketBackend) -> Self {
        Self::start_with(exports, |config| config.sockets = sockets)
    }

    pub(crate) fn start_with(exports: Vec<Export>, change: impl FnOnce(&mut NbdConfig)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let endpoints = vec![Endpoint::Unix { path, mode: 0o600 }];
        let drain_time = Duration::from_secs(5);
        let mut config =
            NbdConfig { endpoints, exports, workers: 2, drain_time, ..NbdConfig::default() };
        change(&mut config);
        Self { server: Some(NbdServer::start(config).unwrap()), directory }
    }

    /// Serves one device under the name "pantry".
    pub(crate) fn device(device: Arc<dyn Device>, sockets: SocketBackend) -> Self {
        Self::start(vec![export("pantry", device)], sockets)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    pub(crate) fn end(mut self) {
        self.server.take().unwrap().end().unwrap();
    }
}

pub(crate) const BACKENDS: [SocketBackend; 2] = [SocketBackend::IoUring, SocketBackend::Epoll];

pub(crate) fn export(name: &str, device: Arc<dyn Device>) -> Export {
    let volume: Arc<dyn Volume> = Arc::new(DeviceVolume::new(device));
    Export::new(name, volume).unwrap()
}

pub(crate) fn memory(bytes: usize) -> Arc<MemoryDevice> {
    Arc::new(MemoryDevice::with_blocks(vec![0; bytes], 4096).unwrap())
}

/// Whether the socket exists, which means that its server has not ended.
pub(crate) fn is_there(socket: &Path) -> bool {
    std::fs::symlink_metadata(socket).is_ok()
}
