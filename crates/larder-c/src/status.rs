//! How calls end.

use std::cell::RefCell;
use std::ffi::{CString, c_char};

use larder::{Error, ErrorKind};

/// How a call ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum larder_status {
    /// It was done.
    LARDER_OK = 0,
    /// There is no value.
    LARDER_NOT_FOUND = 1,
    /// An argument is wrong: `larder_error_text` says which.
    LARDER_INVALID = 2,
    /// The file is in use by another cache or process.
    LARDER_IN_USE = 3,
    /// The device failed.
    LARDER_DEVICE = 4,
    /// There is no room now: values in use pin the memory, or flash is slow. Try later.
    LARDER_BUSY = 5,
    /// Anything else.
    LARDER_FAILED = 6,
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Remembers what went wrong in this thread.
pub(crate) fn refuse(status: larder_status, text: &str) -> larder_status {
    // A zero byte would end the text in C.
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // After the end of `main`, the main thread has no variables any more.
    let _ = TEXT.try_with(|kept| kept.replace(text));
    status
}

/// The text of this thread's last error. It stays where it is until the next.
pub(crate) fn text() -> *const c_char {
    TEXT.try_with(|text| text.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

pub(crate) fn failed(error: &Error) -> larder_status {
    let status = match error.kind() {
        ErrorKind::Config | ErrorKind::InvalidInput => larder_status::LARDER_INVALID,
        ErrorKind::InUse => larder_status::LARDER_IN_USE,
        ErrorKind::Busy => larder_status::LARDER_BUSY,
        ErrorKind::Device => larder_status::LARDER_DEVICE,
        _ => larder_status::LARDER_FAILED,
    };
    refuse(status, &error.to_string())
}
