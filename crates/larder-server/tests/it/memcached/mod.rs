//! memcached's protocols, by the byte.

mod binary;
mod classic;
mod meta;
mod split;
