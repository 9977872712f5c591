//! The JSON API under `/api/`, for programs and for the page. docs/admin.md explains each key.
//!
//! Every answer is an object with the key `api`, the version of the format. Under the same version keys may be added,
//! but none is removed or changes its meaning.

mod advice;
mod array;
mod block;
mod placement;
mod regions;
mod slow;
mod stats;
mod vssds;

pub(super) use self::array::{Order, set};
pub(super) use self::placement::own_streams;
pub(super) use self::vssds::order as vssd_order;
use serde::Serialize;

use super::http::Response;
use crate::shared::ServerState;

/// The version of the format.
const SHAPE: u32 = 1;

/// The envelope of every answer.
#[derive(Serialize)]
struct Envelope<T> {
    api: u32,
    #[serde(flatten)]
    content: T,
}

/// The answer to a path, if it is part of the API.
pub(super) fn answer(path: &str, shared: &ServerState, may_change: bool) -> Option<Response> {
    Some(match path {
        "/api/advice" => json(advice::of(shared)),
        "/api/stats" => json(stats::of(shared, may_change)),
        "/api/placement" => json(placement::of(shared)),
        "/api/regions" => json(regions::of(shared)),
        "/api/array" => json(array::of(shared)?),
        "/api/block" => json(block::of(shared)),
        "/api/vssds" => vssds::of(shared)?,
        "/api/slowlog" => json(slow::of(shared)),
        _ => return None,
    })
}

fn json(content: impl Serialize) -> Response {
    match serde_json::to_vec(&Envelope { api: SHAPE, content }) {
        Ok(body) => Response::new(200, "application/json", body),
        Err(error) => Response::text(500, &format!("{error}\n")),
    }
}
