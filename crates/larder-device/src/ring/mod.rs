//! What every ring of io_uring has, whoever serves it: how it says what is to be done, and the buffers
//! that it knows beforehand.

pub(crate) mod fixed;
pub(crate) mod wire;
