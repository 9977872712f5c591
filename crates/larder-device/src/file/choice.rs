//! The choice of the I/O engine.

use std::fs::File;
use std::sync::Arc;

use super::engine::{Engine, Reach};
use super::threads::ThreadPool;
use crate::file_options::{FileOptions, IoEngine};

/// An engine, its kind, and why it is not the preferred one.
pub(crate) struct ChosenEngine {
    pub(crate) engine: Box<dyn Engine>,
    pub(crate) kind: IoEngine,
    pub(crate) fallback: Option<String>,
}

/// Starts the engine that `options` ask for. The error is a text that says why there is none.
pub(crate) fn choose(
    file: &Arc<File>,
    how: Reach,
    options: &FileOptions,
) -> Result<ChosenEngine, String> {
    choose_with(file, how, options, ring)
}

type Ring = fn(&Arc<File>, Reach, &FileOptions) -> Result<Box<dyn Engine>, String>;

fn choose_with(
    file: &Arc<File>,
    how: Reach,
    options: &FileOptions,
    ring: Ring,
) -> Result<ChosenEngine, String> {
    let mut fallback = None;
    if options.engine != IoEngine::Threads {
        match ring(file, how, options) {
            Ok(engine) => {
                return Ok(ChosenEngine { engine, kind: IoEngine::IoUring, fallback: None });
            }
            Err(why) if options.engine == IoEngine::IoUring => return Err(why),
            Err(why) => fallback = Some(why),
        }
    }
    let pool = ThreadPool::new(file, options)
        .map_err(|e| format!("the I/O threads cannot be started: {e}"))?;
    Ok(ChosenEngine { engine: Box::new(pool), kind: IoEngine::Threads, fallback })
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
