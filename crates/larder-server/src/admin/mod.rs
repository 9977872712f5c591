//! The HTTP interface for operators and their tools, on a port of its own. Separate threads answer it, so no worker
//! waits for it.
//!
//! ```text
//!   /              a page for people, which draws what is below (page.rs)
//!   /metrics       OpenMetrics text: each tenant's cache, and the server's requests (metrics.rs)
//!   /live          200 as long as the process answers
//!   /ready         200 as long as it takes connections in, with a line if flash is not used; else 503 with the reason
//!   /api/...       the same as JSON, the placement plan, a map of flash, what took long (api/)
//!   POST /api/...  flush, slowlog/reset, array/…, vssds/…: for clients with the admin token (token.rs)
//! ```
//!
//! Reading needs no authentication: the listening address decides which clients can connect. But a browser inside must
//! not read for an attacker outside: a page of another origin gets no data, and neither does a page whose name was made
//! to resolve to this server (hosts.rs).

pub(crate) mod alone;
mod api;
mod hosts;
mod http;
pub(crate) mod levelling;
mod listening;
mod metrics;
mod page;
mod placement;
mod places;
mod tenants;
mod text_format;
mod token;

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use larder::block_on;

use self::http::{HttpRequest, Method, Response};
use self::listening::Listening;
#[cfg(feature = "otlp")]
pub(crate) use self::metrics::text as metrics_text;
use self::places::Places;
use self::token::{Gate, GateRefusal};
use crate::error::Error;
use crate::shared::ServerState;
use crate::vssds::VssdOrder;
use larder_net::sockets::Stop;

/// The listener for operators.
pub(crate) struct Admin(Listening);

impl Admin {
    pub(crate) fn bind(address: SocketAddr) -> Result<Self, Error> {
        Listening::bind(address).map(Self)
    }

    /// Its address, with the port that the kernel chose.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    /// Answers until `stop` is set.
    pub(crate) fn run(self, shared: &Arc<ServerState>, stop: &Stop) -> io::Result<()> {
        let gate = Gate::new(shared.config.admin_token.clone());
        let shared = Arc::clone(shared);
        self.0.run(stop, move |request, local, places| {
            respond(request, (local, places), &shared, &gate)
        })
    }
}

fn respond(
    request: &HttpRequest,
    (local, places): (IpAddr, &Places),
    shared: &ServerState,
    gate: &Gate,
) -> Response {
    if !hosts::is_ours(&request.host, local, &shared.config.admin_hosts) {
        let message = "this server has no such name; if it has, add it to admin_hosts\n";
        return Response::text(421, message);
    }
    if request.method == Method::Post {
        return change(request, places, shared, gate);
    }
    // The page itself has no data, and may be linked to from anywhere.
    if let Some(file) = page::file(&request.path) {
        return file;
    }
    if request.is_foreign {
        return Response::foreign();
    }
    // Health checks cost next to nothing, and take no place.
    let health = health(&request.path, shared);
    health.unwrap_or_else(|| match places.take() {
        Some(place) => look(request, shared, gate).at(place),
        None => Response::busy(),
    })
}

/// Answers `/live` and `/ready`.
fn health(path: &str, shared: &ServerState) -> Option<Response> {
    Some(match path {
        "/live" => Response::text(200, "live\n"),
        "/ready" => match shared.why_not_ready() {
            None => {
                let lines: String = shared.lacks().map(|line| format!("{line}\n")).collect();
                Response::text(200, &format!("ready\n{lines}"))
            }
            Some(why) => Response::text(503, &format!("not ready: {why}\n")),
        },
        _ => return None,
    })
}

/// Answers every other path.
fn look(request: &HttpRequest, shared: &ServerState, gate: &Gate) -> Response {
    match &*request.path {
        "/metrics" => Response::metrics(request, metrics::text(shared)),
        path => api::answer(path, shared, gate.is_there()).unwrap_or_else(|| {
            Response::text(
                404,
                "here are /, /metrics, /live, /ready, and what docs/admin.md lists\n",
            )
        }),
    }
}

/// Changes something, if the token allows it.
fn change(request: &HttpRequest, places: &Places, shared: &ServerState, gate: &Gate) -> Response {
    let Some(order) = AdminOrder::of(request) else { return Response::unchangeable() };
    if request.is_foreign {
        return Response::foreign();
    }
    match gate.admit(request.token.as_deref()) {
        Ok(()) => {}
        Err(GateRefusal::ReadOnly) => {
            return Response::text(
                403,
                "nothing can be changed here: no admin_token is configured\n",
            );
        }
        Err(GateRefusal::Stranger) => {
            return Response::text(401, "the admin token is missing or wrong\n");
        }
        Err(GateRefusal::Busy) => {
            return Response::text(503, "other tokens are compared, this one was not; try again\n");
        }
    }
    // Only now, so that a wrong token holds no place while its answer is delayed.
    match places.take() {
        Some(place) => order.carry_out(request, shared).at(place),
        None => Response::busy(),
    }
}

/// A change that a client asks for. An inner error says what the request lacks.
enum AdminOrder {
    Flush,
    ForgetSlow,
    Shards(Result<api::Order, &'static str>),
    Vssds(Result<VssdOrder, &'static str>),
}

impl AdminOrder {
    /// The order of a request; `None` if its path is not that of an order.
    fn of(request: &HttpRequest) -> Option<Self> {
        match &*request.path {
            "/api/flush" => Some(Self::Flush),
            "/api/slowlog/reset" => Some(Self::ForgetSlow),
            _ => {
                let shards = || api::Order::of(request).map(Self::Shards);
                shards().or_else(|| api::vssd_order(request).map(Self::Vssds))
            }
        }
    }

    fn carry_out(self, request: &HttpRequest, shared: &ServerState) -> Response {
        match self {
            Self::Flush => flush(request, shared),
            Self::ForgetSlow => {
                shared.slow_log.clear();
                Response::text(200, "forgotten\n")
            }
            Self::Shards(order) => change_shards(shared, order),
            Self::Vssds(order) => change_vssds(shared, order),
        }
    }
}

fn flush(request: &HttpRequest, shared: &ServerState) -> Response {
    let name = request.value("tenant");
    let named = shared.tenants.iter().find(|tenant| Some(tenant.name()) == name.as_deref());
    let Some(tenant) = named else {
        return Response::text(404, "there is no such tenant: name one as ?tenant=NAME\n");
    };
    tracing::warn!(
        tenant = tenant.name(),
        "all keys of a tenant are forgotten: an operator said so"
    );
    match block_on(shared.clear(tenant)) {
        Ok(()) => Response::text(200, "flushed\n"),
        Err(error) => Response::text(500, &format!("not flushed: {error}\n")),
    }
}

/// Carries out an order to the owner of the virtual SSDs.
fn change_vssds(shared: &ServerState, order: Result<VssdOrder, &'static str>) -> Response {
    let Some(vssds) = &shared.config.vssds else {
        return Response::text(404, "the tenants of this server have no virtual SSDs\n");
    };
    ordered(order, |order| {
        tracing::warn!(?order, "virtual SSDs change: an operator said so");
        vssds.carry_out(&order)
    })
}

/// Carries out an order to the set of shards.
fn change_shards(shared: &ServerState, order: Result<api::Order, &'static str>) -> Response {
    let Some(shards) = api::set(shared) else {
        return Response::text(404, "this server has no set of shards\n");
    };
    ordered(order, |order| order.carry_out(shards))
}

/// The answer to an order, which lacks something, or is carried out.
fn ordered<O, E: Display>(
    order: Result<O, &'static str>,
    carry_out: impl FnOnce(O) -> Result<String, E>,
) -> Response {
    match order.map(carry_out) {
        Ok(Ok(done)) => Response::text(200, &done),
        Ok(Err(why)) => Response::text(409, &format!("not done: {why}\n")),
        Err(lacks) => Response::text(400, lacks),
    }
}
