//! `CLIENT TRACKING`: a client keeps copies of values, and is told when they are not valid any more.
//!
//! A key is remembered before its value is read: a change after that finds it. So no client keeps a value that was
//! replaced before it was read. What another request of the client changes is told behind its answer.

use std::sync::Arc;

use larder_net::sockets::yield_now;

use super::client::Client;
use super::command::{Command, Does};
use super::context::{Context, no_room, shown};
use super::number;
use super::parse::Arguments;
use super::tracked::{Mode, Tracking};
use super::write::{NO_INTEGER, Outcome, Refusal, SYNTAX, Writer};
use crate::caller::Caller;
use crate::channels::{Invalidated, Mail};
use crate::keyspace::{Follower, FollowerOptions, Redirection};

/// The channel on which clients of version 2 get the invalidations of others.
const CHANNEL: &str = "__redis__:invalidate";
/// Longest prefix: a change looks up each length that clients follow.
const PREFIX_BYTES_MAX: usize = 1024;

/// What `CLIENT TRACKING` asks for.
struct Words<'a> {
    mode: Mode,
    is_noloop: bool,
    redirection: Option<Redirection>,
    prefixes: Vec<&'a [u8]>,
}

/// The client is about to read the key that has this name in the cache.
pub(super) fn reads(caller: &Caller, client: &Client, name: &[u8]) {
    if let Some(tracking) = client.tracking.as_ref().filter(|it| it.remembers()) {
        tracking.keyspace.remember(caller.tenant_of(name), name, &tracking.follower);
    }
}

/// A request of the client has ended: what it said about the next one is used up.
pub(super) fn request_ends(client: &mut Client, command: &Command) {
    if client.transaction.is_none() && command.does != Does::Client {
        uses_up(client);
    }
}

/// What the client said about the next request is used up.
pub(super) fn uses_up(client: &mut Client) {
    if let Some(tracking) = &mut client.tracking {
        tracking.is_caching_said = false;
    }
}

/// Ends the client's tracking, page by page beside the other connections: it may remember very many keys.
pub(super) async fn end(client: &mut Client) {
    let Some(tracking) = client.tracking.take() else { return };
    if let Some(listed) = &client.listed {
        listed.follows(None);
    }
    tracking.keyspace.ends(&tracking.follower);
    while tracking.keyspace.forgets_page(&tracking.follower) {
        yield_now().await;
    }
}

/// The client has logged in, or is as it was at its begin; `before` was the number of its tenant. Messages that wait
/// were for what it was before.
pub(super) async fn is_another(cx: &mut Context<'_>, before: usize) {
    if cx.caller.tenant.number != before {
        end(cx.client).await;
    }
    if let Some(inbox) = cx.client.inbox() {
        inbox.belongs_to(cx.caller.keep());
        if cx.client.tracking.is_some() {
            let told = Invalidated { keys: None, is_redirected: false };
            inbox.put(Mail::Invalidated(told), cx.caller.worker.shared.channels.limit());
        }
    }
}

impl<'a> Words<'a> {
    fn of(cx: &Context<'_>, argv: Arguments<'a>) -> Result<Self, Refusal> {
        let (mut is_noloop, mut redirection, mut prefixes) = (false, None, Vec::new());
        let (mut is_broadcast, mut opts_in, mut opts_out) = (false, false, false);
        let mut at = 3;
        while at < argv.len() {
            let value = (at + 1 < argv.len()).then(|| argv.get(at + 1));
            match (&*argv.get(at).to_ascii_uppercase(), value) {
                (b"REDIRECT", Some(id)) => {
                    if redirection.is_some() {
                        return Err(Refusal::Says(
                            "ERR A client can only redirect to a single other client",
                        ));
                    }
                    redirection = redirection_to(cx, id)?;
                    at += 1;
                }
                (b"PREFIX", Some(prefix)) => {
                    prefixes.push(prefix);
                    at += 1;
                }
                (b"BCAST", _) => is_broadcast = true,
                (b"OPTIN", _) => opts_in = true,
                (b"OPTOUT", _) => opts_out = true,
                (b"NOLOOP", _) => is_noloop = true,
                _ => return Err(SYNTAX),
            }
            at += 1;
        }
        let mode = match (is_broadcast, opts_in, opts_out) {
            (false, ..) if !prefixes.is_empty() => {
                return Err(Refusal::Says("ERR PREFIX option requires BCAST mode to be enabled"));
            }
            (true, false, false) => Mode::Broadcast,
            (true, ..) => {
                return Err(Refusal::Says("ERR OPTIN and OPTOUT are not compatible with BCAST"));
            }
            (_, true, true) => {
                return Err(Refusal::Says("ERR You can't specify both OPTIN mode and OPTOUT mode"));
            }
            (_, true, _) => Mode::OptIn,
            (_, _, true) => Mode::OptOut,
            _ => Mode::Reads,
        };
        Ok(Self { mode, is_noloop, redirection, prefixes })
    }

    /// Refuses what does not fit the mode in which the client tracks already.
    fn check_mode(&self, before: Option<Mode>) -> Outcome {
        let Some(before) = before else { return Ok(()) };
        if (self.mode == Mode::Broadcast) != (before == Mode::Broadcast) {
            return Err(Refusal::Says(
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        if matches!((self.mode, before), (Mode::OptIn, Mode::OptOut) | (Mode::OptOut, Mode::OptIn))
        {
            return Err(Refusal::Says(
                "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                 re-enabling it with a different mode.",
            ));
        }
        Ok(())
    }
}

/// The client that gets the invalidations. 0 is the client itself.
fn redirection_to(cx: &Context<'_>, id: &[u8]) -> Result<Option<Redirection>, Refusal> {
    let id = number::integer(id).ok_or(NO_INTEGER)?;
    let clients = cx.board().clients(cx.visible());
    let found = clients.iter().find(|it| i64::try_from(it.id) == Ok(id));
    let found =
        found.ok_or(Refusal::Says("ERR The client ID you want redirect to does not exist"))?;
    Ok(Some(Redirection { id: found.id, post: Arc::downgrade(&found.post) }))
}

/// `CLIENT TRACKING`.
pub(super) async fn tracking(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let words = Words::of(cx, argv)?;
    match &*argv.get(2).to_ascii_uppercase() {
        b"ON" => begin(cx, words).await?,
        b"OFF" => end(cx.client).await,
        _ => return Err(SYNTAX),
    }
    cx.out.ok();
    Ok(())
}

async fn begin(cx: &mut Context<'_>, words: Words<'_>) -> Outcome {
    words.check_mode(cx.client.tracking.as_ref().map(|it| it.mode))?;
    check_prefixes(cx, &words.prefixes).await?;
    let Words { mode, is_noloop, redirection, prefixes } = words;
    if cx.client.is_resp3 {
        cx.client.opens_inbox(cx.caller);
    }
    let Context { caller, client, .. } = cx;
    let Some(listed) = &client.listed else { return Err(no_room(caller)) };
    let keyspace = &caller.worker.shared.keyspace;
    let tracking = client.tracking.get_or_insert_with(|| {
        let number = caller.tenant.number;
        let follower = Follower::new(caller.id, number, &listed.post, caller.keep());
        let (keyspace, follower) = (Arc::clone(keyspace), Arc::new(follower));
        Box::new(Tracking { keyspace, follower, mode, is_caching_said: false })
    });
    (tracking.mode, tracking.is_caching_said) = (mode, false);
    tracking.follower.set_options(FollowerOptions { is_noloop, redirection });
    listed.follows(Some(&tracking.follower));
    keyspace.begins(&tracking.follower);
    caller.worker.shared.listens();
    if mode != Mode::Broadcast {
        return Ok(());
    }
    let all = if prefixes.is_empty() { vec![&b""[..]] } else { prefixes };
    if !all.into_iter().all(|prefix| keyspace.follows(&tracking.follower, prefix)) {
        // Some are followed, but the client would not know which.
        end(client).await;
        return Err(no_room(caller));
    }
    Ok(())
}

/// Refuses prefixes that overlap.
async fn check_prefixes(cx: &mut Context<'_>, prefixes: &[&[u8]]) -> Outcome {
    let there = cx.client.tracking.as_ref().map(|it| it.follower.prefixes()).unwrap_or_default();
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    for (at, prefix) in prefixes.iter().enumerate() {
        if prefix.len() > PREFIX_BYTES_MAX {
            return Err(Refusal::Said(format!(
                "ERR a prefix has {} bytes: at most {PREFIX_BYTES_MAX} are allowed",
                prefix.len()
            )));
        }
        let existing = there.iter().find(|it| overlap(it, prefix));
        let provided =
            prefixes.get(at + 1..).unwrap_or_default().iter().find(|it| overlap(it, prefix));
        let (which, other) = match (existing, provided) {
            (Some(other), _) => ("an existing", &**other),
            (None, Some(other)) => ("another provided", *other),
            (None, None) => {
                cx.caller.work.does(1 + (there.len() + prefixes.len()) / 32);
                cx.caller.rests().await;
                continue;
            }
        };
        return Err(Refusal::Said(format!(
            "ERR Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single client must not overlap.",
            shown(prefix),
            shown(other)
        )));
    }
    Ok(())
}

/// `CLIENT CACHING`.
pub(super) fn caching(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let Some(tracking) = &mut cx.client.tracking else {
        return Err(Refusal::Says(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode \
             enabled",
        ));
    };
    match (&*argv.get(2).to_ascii_uppercase(), tracking.mode) {
        (b"YES", Mode::OptIn) | (b"NO", Mode::OptOut) => tracking.is_caching_said = true,
        (b"YES", _) => {
            let text =
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
            return Err(Refusal::Says(text));
        }
        (b"NO", _) => {
            let text =
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
            return Err(Refusal::Says(text));
        }
        _ => return Err(SYNTAX),
    }
    cx.out.ok();
    Ok(())
}

/// `CLIENT GETREDIR`.
pub(super) fn redirection(cx: &mut Context<'_>) {
    let id = cx.client.tracking.as_ref().map(|it| it.follower.redirects_to());
    cx.out.integer(shown_redirection(id));
}

/// What is shown of the client that gets invalidations: -1 without tracking, 0 for the client itself.
pub(super) fn shown_redirection(id: Option<Option<u64>>) -> i64 {
    id.map_or(-1, |id| i64::try_from(id.unwrap_or(0)).unwrap_or(i64::MAX))
}

/// `CLIENT TRACKINGINFO`.
pub(super) fn info(cx: &mut Context<'_>) {
    let Context { client, out, .. } = cx;
    let mut flags = Vec::new();
    let mut prefixes = Vec::new();
    match &client.tracking {
        None => flags.push("off"),
        Some(tracking) => {
            flags.push("on");
            match tracking.mode {
                Mode::Reads => {}
                Mode::Broadcast => flags.push("bcast"),
                Mode::OptIn => flags.push("optin"),
                Mode::OptOut => flags.push("optout"),
            }
            match tracking.mode {
                Mode::OptIn if tracking.is_caching_said => flags.push("caching-yes"),
                Mode::OptOut if tracking.is_caching_said => flags.push("caching-no"),
                _ => {}
            }
            flags.extend(tracking.follower.is_noloop().then_some("noloop"));
            flags.extend(tracking.follower.is_broken().then_some("broken_redirect"));
            prefixes = tracking.follower.prefixes();
        }
    }
    out.map(3);
    out.bulk("flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag));
    out.bulk("redirect");
    let id = client.tracking.as_ref().map(|it| it.follower.redirects_to());
    out.integer(shown_redirection(id));
    out.bulk("prefixes");
    out.set(prefixes.len());
    prefixes.iter().for_each(|prefix| out.bulk(prefix));
}

/// Writes that copies of values are not valid any more. A client of version 2 hears it only as a subscriber, and only
/// what others have remembered.
pub(super) fn write_invalidated(client: &Client, told: &Invalidated, out: &mut Writer<'_>) {
    if client.is_resp3 {
        out.push(2);
        out.bulk("invalidate");
    } else if told.is_redirected && client.hears() {
        out.push(3);
        out.bulk("message");
        out.bulk(CHANNEL);
    } else {
        return;
    }
    match &told.keys {
        None => out.null(),
        Some(keys) => {
            out.array(keys.len());
            keys.iter().for_each(|key| out.bulk(key));
        }
    }
}

/// Writes that the client that was to get the invalidations is gone.
pub(super) fn write_broken(client: &Client, id: u64, out: &mut Writer<'_>) {
    if client.is_resp3 {
        out.push(2);
        out.bulk("tracking-redir-broken");
        out.integer(i64::try_from(id).unwrap_or(i64::MAX));
    }
}
