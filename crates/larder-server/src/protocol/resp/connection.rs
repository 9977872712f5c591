//! Requests about the connection itself: login, protocol version, liveness.

use std::sync::atomic::Ordering;

use super::context::{Context, wrong_arity};
use super::number;
use super::parse::Arguments;
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX};
use crate::users::LoginRefusal;

/// The Redis version that clients see; they use the features of that version.
pub(super) const REDIS_VERSION: &str = "7.4.0";

const WRONG_PASSWORD: Refusal =
    Refusal::Says("WRONGPASS invalid username-password pair or user is disabled.");

/// Not `TRYAGAIN`, which makes clients retry at once, nor `BUSY`, which means that a script runs.
const BUSY: Refusal =
    Refusal::Says("ERR busy comparing other passwords, this one was not compared; try again later");

/// `PING`.
pub(super) fn ping(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    match argv.len() {
        1 | 2 if is_amid_messages(cx) => {
            cx.out.array(2);
            cx.out.bulk("pong");
            cx.out.bulk(if argv.len() == 2 { argv.get(1) } else { b"" });
        }
        1 => cx.out.simple("PONG"),
        2 => cx.out.bulk(argv.get(1)),
        _ => return Err(wrong_arity("ping")),
    }
    Ok(())
}

/// Whether the answer comes between messages, and version 2 of the protocol has no other form for those.
fn is_amid_messages(cx: &Context<'_>) -> bool {
    !cx.out.is_resp3 && cx.client.hears()
}

/// `AUTH`.
pub(super) async fn auth(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    match argv.len() {
        2 if cx.caller.worker.shared.users().is_empty() => {
            return Err(Refusal::Says(
                "ERR AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        2 => log_in(cx, b"default", argv.get(1)).await?,
        3 => log_in(cx, argv.get(1), argv.get(2)).await?,
        _ => return Err(SYNTAX),
    }
    cx.out.ok();
    Ok(())
}

async fn log_in(cx: &mut Context<'_>, user: &[u8], password: &[u8]) -> Outcome {
    let before = cx.caller.tenant.number;
    // A server without users lets the default user in with any password.
    let is_open = cx.caller.worker.shared.users().is_empty() && user == b"default";
    if is_open {
        cx.caller.worker.counters.auth_cmds.add(1);
    } else {
        match cx.caller.log_in(user, password).await {
            Ok(()) => {}
            Err(LoginRefusal::Wrong) => return Err(WRONG_PASSWORD),
            Err(LoginRefusal::Busy) => return Err(BUSY),
        }
    }
    // Subscriptions and watched keys belong to the previous tenant.
    super::subscribe::end_all(cx.client).await;
    super::tracking::is_another(cx, before).await;
    cx.client.watched = super::queue::WatchedKeys::default();
    cx.is_known_as_it_is();
    Ok(())
}

/// `HELLO`.
pub(super) async fn hello(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let version = match argv.len() {
        1 => None,
        _ => {
            let text = "ERR Protocol version is not an integer or out of range";
            let version = number::integer(argv.get(1)).ok_or(Refusal::Says(text))?;
            if !matches!(version, 2 | 3) {
                return Err(Refusal::Says("NOPROTO unsupported protocol version"));
            }
            Some(version)
        }
    };
    let (mut credentials, mut name) = (None, None);
    let mut at = 2;
    while at < argv.len() {
        let left = argv.len() - at;
        let option = argv.get(at);
        if option.eq_ignore_ascii_case(b"AUTH") && left > 2 {
            credentials = Some((argv.get(at + 1), argv.get(at + 2)));
            at += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && left > 1 {
            name = Some(argv.get(at + 1));
            super::clients::check_word(argv.get(at + 1))?;
            at += 2;
        } else {
            let option = super::context::shown(option);
            return Err(Refusal::Said(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some((user, password)) = credentials {
        log_in(cx, user, password).await?;
    }
    if cx.caller.needs_login() {
        return Err(Refusal::Says(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let (Some(listed), Some(name)) = (&cx.client.listed, name) {
        listed.set_name(name);
    }
    if let Some(version) = version {
        cx.client.is_resp3 = version == 3;
        cx.out.is_resp3 = cx.client.is_resp3;
        if cx.client.is_resp3 {
            // Another client may redirect its invalidations to this one.
            cx.client.opens_inbox(cx.caller);
        }
        if let Some(listed) = &cx.client.listed {
            listed.is_resp3.store(cx.client.is_resp3, Ordering::Relaxed);
        }
    }
    introduce(cx);
    Ok(())
}

fn introduce(cx: &mut Context<'_>) {
    let is_cluster = cx.caller.worker.shared.config.cluster.is_some();
    let id = i64::try_from(cx.caller.id).unwrap_or(i64::MAX);
    let out = &mut cx.out;
    out.map(7);
    out.bulk("server");
    out.bulk("redis");
    out.bulk("version");
    out.bulk(REDIS_VERSION);
    out.bulk("proto");
    out.integer(if out.is_resp3 { 3 } else { 2 });
    out.bulk("id");
    out.integer(id);
    out.bulk("mode");
    out.bulk(if is_cluster { "cluster" } else { "standalone" });
    out.bulk("role");
    out.bulk("master");
    out.bulk("modules");
    out.array(0);
}

/// `RESET`.
pub(super) async fn reset(cx: &mut Context<'_>) {
    super::subscribe::end_all(cx.client).await;
    super::tracking::end(cx.client).await;
    cx.client.reset();
    let before = cx.caller.tenant.number;
    cx.caller.log_out();
    super::tracking::is_another(cx, before).await;
    cx.is_known_as_it_is();
    cx.out.is_resp3 = false;
    cx.out.simple("RESET");
}

/// `QUIT`.
pub(super) fn quit(cx: &mut Context<'_>) {
    cx.client.closes = true;
    cx.out.ok();
}

/// `WAIT`: there are no replicas.
pub(super) fn wait(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    number::integer(argv.get(1)).ok_or(NO_INTEGER)?;
    let timeout = number::integer(argv.get(2))
        .ok_or(Refusal::Says("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Refusal::Says("ERR timeout is negative"));
    }
    cx.out.integer(0);
    Ok(())
}
