//! Time on a processor, to the moment: what `/proc` says of a thread that runs is as old as its last tick.

use std::time::Duration;

use crate::Error;

/// Of all threads of this process, those that have ended among them, in user space and in the kernel.
#[cfg(target_os = "linux")]
pub(super) fn of_process() -> Result<Duration, Error> {
    read(rustix::time::ClockId::ProcessCPUTime)
}

/// The same of this thread.
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
