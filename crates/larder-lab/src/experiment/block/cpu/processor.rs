//! Precise processor time. The times in `/proc` of a running thread are only as recent as its last tick.

use std::time::Duration;

use crate::Error;

/// User and kernel time of all threads of this process, including those that have ended.
#[cfg(target_os = "linux")]
pub(super) fn of_process() -> Result<Duration, Error> {
    read(rustix::time::ClockId::ProcessCPUTime)
}

/// User and kernel time of this thread.
#[cfg(target_os = "linux")]
pub(super) fn of_thread() -> Result<Duration, Error> {
    read(rustix::time::ClockId::ThreadCPUTime)
}

#[cfg(target_os = "linux")]
fn read(clock: rustix::time::ClockId) -> Result<Duration, Error> {
    let time = rustix::time::clock_gettime(clock);
    let time = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    let (Ok(seconds), Ok(nanoseconds)) = time else {
        return Err(Error::run("block-cpu: the clock of the processor's time is before its start"));
    };
    Ok(Duration::new(seconds, nanoseconds))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn of_process() -> Result<Duration, Error> {
    Err(Error::run("block-cpu: processor time is known on Linux alone: run it there"))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn of_thread() -> Result<Duration, Error> {
    of_process()
}
