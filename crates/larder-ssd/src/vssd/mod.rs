//! Virtual SSDs: tenants on channels and dies of their own, over the raw firmware.
//!
//! "The paper" in here is Huang et al., "FlashBlox: Achieving Both Performance Isolation and Uniform
//! Lifetime for Virtualized SSDs" (FAST 2017).
//!
//! | module | what it is |
//! |---|---|
//! | [`levelling`] | which channels or dies exchange their tenants so that all wear out together |

pub mod levelling;
