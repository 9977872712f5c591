//! The model image: simulated drives in a file, including all their media content, so that an array of virtual SSDs
//! outlives its process. `docs/formats.md` shows the byte format.
//!
//! ```text
//!   header, twice │ catalogue, twice │ blocks, twice │ tails, twice │ words │ slots
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `header` | identity and configuration of the drives |
//! | `layout` | offsets of all parts |
//! | `record` | the state of a block; a tail in the protected buffer |
//! | `store` | reads and writes images |
//!
//! The caller that runs the drives writes their changes in the order in which they happened
//! ([`BlockChange`](larder_ssd::raw::BlockChange)). For each change, the words of new pages are written first, then the
//! record of the block, then the copy of the record. If the process is killed, the image holds a prefix of these
//! writes, and equals drives that lost power at that moment: a record never describes a page that is not there yet. A
//! torn record fails its checksum, and its copy, which still has the old state, is used. So a change takes effect when
//! its first record is complete.
//!
//! Nothing here does I/O: the caller provides it as [`ImageIo`].

mod header;
mod io;
mod layout;
mod record;
mod store;

pub use header::{ImageConfig, is_image};
pub use io::ImageIo;
pub use layout::Layout;
pub use record::TailRecord;
pub use store::ModelImage;
