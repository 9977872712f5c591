//! memcached's protocols, byte by byte.

mod binary;
mod classic;
mod meta;
mod split;
mod watch;
