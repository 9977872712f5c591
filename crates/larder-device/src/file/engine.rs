//! The interface between the file device and an I/O engine, and the choice of the engine.

use std::fs::File;
use std::sync::Arc;

use super::options::{FileOptions, IoEngine};
use super::threads::ThreadPool;
use super::transfer::Pieces;

/// Carries pieces to the kernel. Dropping an engine waits until every piece that it was given has ended.
pub(crate) trait Engine: Send + Sync {
    /// Takes all pieces of one request. It does not wait for them.
    fn submit(&self, pieces: Pieces);

    /// Whether the file is registered with the kernel, so that requests need not name it each time.
    fn registered_file(&self) -> bool {
        false
    }

    /// Whether frequently used buffers are registered with the kernel, and the kernel has refused none.
    fn registered_buffers(&self) -> bool {
        false
    }

    /// Number of pieces that went to the kernel with a registered buffer.
    fn fixed_pieces(&self) -> u64 {
        0
    }
}

/// An engine, its kind, and why it is not the preferred one.
pub(crate) struct Chosen {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) kind: IoEngine,
    pub(crate) fallback: Option<String>,
}

/// What an engine must know of the file.
#[derive(Debug, Clone, Copy, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) struct Reach {
    /// Whether it is a block device.
    pub(crate) block: bool,
    /// Whether writes carry the write streams of their placement handles.
    pub(crate) streams: bool,
}

/// Starts the engine that `options` ask for. The error is a text that says why there is none.
pub(crate) fn choose(
    file: &Arc<File>,
    how: Reach,
    options: &FileOptions,
) -> Result<Chosen, String> {
    choose_with(file, how, options, ring)
}

type Ring = fn(&Arc<File>, Reach, &FileOptions) -> Result<Box<dyn Engine>, String>;

fn choose_with(
    file: &Arc<File>,
    how: Reach,
    options: &FileOptions,
    ring: Ring,
) -> Result<Chosen, String> {
    let mut fallback = None;
    if options.engine != IoEngine::Threads {
        match ring(file, how, options) {
            Ok(engine) => return Ok(Chosen { engine, kind: IoEngine::IoUring, fallback: None }),
            Err(why) if options.engine == IoEngine::IoUring => return Err(why),
            Err(why) => fallback = Some(why),
        }
    }
    let pool = ThreadPool::new(file, options)
        .map_err(|e| format!("the I/O threads cannot be started: {e}"))?;
    Ok(Chosen { engine: Box::new(pool), kind: IoEngine::Threads, fallback })
}

#[cfg(target_os = "linux")]
fn ring(file: &Arc<File>, how: Reach, options: &FileOptions) -> Result<Box<dyn Engine>, String> {
    let wire = crate::ring::wire::FileWire::new(how.block, how.streams);
    super::uring::Uring::new(wire, file, options)
        .map(|ring| Box::new(ring) as Box<dyn Engine>)
        .map_err(|e| format!("io_uring is refused: {e}"))
}

#[cfg(not(target_os = "linux"))]
fn ring(_: &Arc<File>, _: Reach, _: &FileOptions) -> Result<Box<dyn Engine>, String> {
    Err("io_uring exists on Linux only".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_ring_is_replaced_and_reported_or_an_error() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let refused: Ring = |_, _, _| Err("refused by a test".to_owned());
        let choose = |engine| {
            let options = FileOptions { engine, ..FileOptions::default() };
            choose_with(&file, Reach::default(), &options, refused)
        };
        let auto = choose(IoEngine::Auto).unwrap();
        assert_eq!(auto.kind, IoEngine::Threads);
        assert_eq!(auto.fallback.as_deref(), Some("refused by a test"));
        assert_eq!(choose(IoEngine::IoUring).err().unwrap(), "refused by a test");
        assert_eq!(choose(IoEngine::Threads).unwrap().fallback, None);
    }
}
