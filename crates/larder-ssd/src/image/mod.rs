//! The model image: drives of the model in a file, with all that their media hold, so that an array of virtual SSDs
//! outlives its process. `docs/formats.md` draws the bytes.
//!
//! ```text
//!   header, twice │ catalogue, twice │ blocks, twice │ tails, twice │ words │ slots
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `header` | of what drives the image is |
//! | `layout` | where everything lies |
//! | `record` | the state of a block; a tail in the protected buffer |
//! | `store` | reads and writes them |
//!
//! Whoever runs the drives writes down what they did in its order ([`BlockChange`](crate::raw::BlockChange)). Of each
//! change the words of new pages come first, then the record of the block, its copy last. So whatever beginning of
//! these writes is there when a process is killed, the image is that of drives that lost power at that moment: a
//! record says nothing that is not there yet. A record that is cut in the middle fails its checksum, and the copy
//! serves, which is as it was before; so a change has happened when its first record is whole.
//!
//! Nothing here does I/O: [`ImageIo`] is whatever has bytes.

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
