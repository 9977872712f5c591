//! Runs a request.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Poll, Waker};

use super::client::Client;
use super::command::{Command, Does, Group, flags};
use super::context::{Context, unknown_subcommand};
use super::parse::{Arguments, OwnedArguments};
use super::queue::WatchedKeys;
use super::read::{self, ValueRead};
use super::timing::Timing;
use super::write::{NO_ROOM, Outcome, Refusal, Writer};
use super::{
    acl, amend, bits, blocking, clients, cluster, config, connection, databases, docs, dumping,
    events, hashes, hyperloglog, info, key_names, keys, latency, lifetimes, lists, scan, scripts,
    sets, slowlog, sort, sorted_sets, strings, subscribe, tracking, transaction, turns,
};
use crate::caller::Caller;
use crate::channels::Kind;

/// Runs a request, and writes its answer or refusal. Logs it if it was slow. `has_turn`: the caller holds the turns of
/// all tenants that it concerns.
pub(super) async fn timed(
    cx: &mut Context<'_>,
    command: (usize, &'static Command),
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    let timing = Timing::begins(cx);
    let done = run(cx, command.1, argv, has_turn).await;
    timing.ends(cx, command, argv, done)
}

async fn run(
    cx: &mut Context<'_>,
    command: &'static Command,
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    let renamed = key_names::renamed(cx.space(), command, argv);
    let argv = renamed.as_ref().map_or(argv, |renamed| argv.with_names(renamed));
    if has_turn {
        turns::hold(cx.caller, command.keys_of(argv)).await;
    }
    begins(cx, command, argv).await;
    run_named(cx, command, argv, has_turn).await
}

/// Whether [`at_once`] may try a command: it has one key, its first call of the cache does all that it does, and a
/// request with few arguments waits for nothing else.
pub(super) fn may_end_at_once(does: Does) -> bool {
    matches!(
        does,
        Does::Hset
            | Does::Hsetnx
            | Does::Hget
            | Does::Hmget
            | Does::Hexists
            | Does::Hlen
            | Does::Hincrby
            | Does::Sadd
            | Does::Sismember
            | Does::Scard
            | Does::Zadd
            | Does::Zincrby
            | Does::Zscore
            | Does::Zcard
            | Does::Zrank
            | Does::Zrange
            | Does::Lpush
            | Does::Rpush
            | Does::Llen
            | Does::Lindex
            | Does::Lrange
            | Does::Incr
            | Does::Decr
            | Does::Incrby
            | Does::Decrby
    )
}

/// As [`timed`], for such a command, if DRAM can answer the request. `false`: nothing has happened.
pub(super) fn at_once(
    caller: &mut Caller,
    client: &mut Client,
    out: Writer<'_>,
    (at, command): (usize, &'static Command),
    argv: Arguments<'_>,
) -> bool {
    caller.without_waits(|caller| {
        let mut cx = Context { caller, client, out };
        let (timing, before) = (Timing::begins(&cx), cx.out.len());
        let renamed = key_names::renamed(cx.space(), command, argv);
        let named = renamed.as_ref().map_or(argv, |renamed| argv.with_names(renamed));
        cx.client.event = events::of(command.does);
        let ended = {
            let mut request = pin!(async {
                match command.group {
                    Group::Hash => hashes::run(&mut cx, command.does, named).await,
                    Group::List => lists::run(&mut cx, command.does, named).await,
                    Group::Set => sets::run(&mut cx, command.does, named).await,
                    Group::SortedSet => sorted_sets::run(&mut cx, command.does, named).await,
                    _ => amend::count(&mut cx, named, command.does).await,
                }
            });
            request.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()))
        };
        match ended {
            Poll::Ready(done) => {
                // A refusal is its answer.
                let _ = timing.ends(&mut cx, (at, command), argv, done);
                true
            }
            Poll::Pending => {
                cx.out.back_to(before);
                false
            }
        }
    })
}

/// Runs a request that has begun, whose keys are names in the cache.
async fn run_named(
    cx: &mut Context<'_>,
    command: &'static Command,
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    if let Some(read) = ValueRead::of(command.does, argv) {
        return read::run(cx, read?, argv.get(1)).await;
    }
    let _turns = match command.takes_turns() && !has_turn {
        true => Some(Box::pin(turns::take(cx.caller, || command.keys_of(argv))).await),
        false => None,
    };
    match command.group {
        // Boxed, so that the futures of other requests stay small.
        Group::Bitmap
        | Group::Hash
        | Group::Hyperloglog
        | Group::List
        | Group::Set
        | Group::SortedSet => Box::pin(of_collections(cx, command, argv, has_turn)).await,
        _ if matches!(command.does, Does::Sort | Does::SortRo) => {
            Box::pin(sort::run(cx, command.does, argv, has_turn)).await
        }
        Group::String | Group::Generic => of_keys(cx, command.does, argv).await,
        Group::Scripting => Box::pin(of_scripts(cx, command.does, argv, has_turn)).await,
        Group::Pubsub => of_channels(cx, command.does, argv).await,
        _ => Box::pin(of_server(cx, command.does, argv)).await,
    }
}

/// Collections, and bits and sketches within strings.
async fn of_collections(
    cx: &mut Context<'_>,
    command: &'static Command,
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    let does = command.does;
    match command.group {
        _ if command.has(flags::BLOCKING) => blocking::run(cx, command, argv, has_turn).await,
        Group::Bitmap => bits::run(cx, does, argv).await,
        Group::Hash => hashes::run(cx, does, argv).await,
        Group::Hyperloglog => hyperloglog::run(cx, does, argv).await,
        Group::List => lists::run(cx, does, argv).await,
        Group::Set => sets::run(cx, does, argv).await,
        _ => sorted_sets::run(cx, does, argv).await,
    }
}

/// A request is about to run, whose keys are names in the cache: changes are of its kind, and a client that tracks is
/// told of changes of what it reads.
async fn begins(cx: &mut Context<'_>, command: &Command, argv: Arguments<'_>) {
    cx.client.event = events::of(command.does);
    if cx.client.tracking.is_some() && command.has(flags::READONLY) {
        remember(cx, command, argv).await;
    }
}

/// A client that tracks is about to read the keys of a request. The keys of a script are those that it reads.
async fn remember(cx: &Context<'_>, command: &Command, argv: Arguments<'_>) {
    if command.group == super::command::Group::Scripting {
        return;
    }
    for key in command.keys_of(argv) {
        tracking::reads(cx.caller, cx.client, key);
        cx.rests_behind(key).await;
    }
}

/// Strings and keys. The longer futures are boxed, so that those that are usual stay small.
async fn of_keys(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Set => strings::set(cx, argv).await,
        Does::Setex | Does::Psetex => strings::setex(cx, argv, does).await,
        Does::Setnx => strings::setnx(cx, argv).await,
        Does::Getset | Does::Getdel => strings::exchange(cx, argv, does).await,
        Does::Getex => Box::pin(strings::getex(cx, argv)).await,
        Does::Mget => Box::pin(read::mget(cx, argv)).await,
        Does::Mset => Box::pin(strings::mset(cx, argv)).await,
        Does::Msetnx => Box::pin(strings::msetnx(cx, argv)).await,
        Does::Incr | Does::Decr | Does::Incrby | Does::Decrby => amend::count(cx, argv, does).await,
        Does::Incrbyfloat => amend::incrbyfloat(cx, argv).await,
        Does::Append => amend::append(cx, argv).await,
        Does::Setrange => amend::setrange(cx, argv).await,
        Does::Del => keys::del(cx, argv).await,
        Does::Exists => read::exists(cx, argv).await,
        Does::Touch => read::touch(cx, argv).await,
        Does::Expire | Does::Pexpire | Does::Expireat | Does::Pexpireat => {
            lifetimes::expire(cx, argv, does).await
        }
        Does::Persist => lifetimes::persist(cx, argv).await,
        Does::Rename | Does::Renamenx => Box::pin(keys::rename(cx, argv, does)).await,
        Does::Copy => Box::pin(keys::copy(cx, argv)).await,
        Does::Move => Box::pin(databases::move_key(cx, argv)).await,
        Does::Dump => Box::pin(dumping::dump(cx, argv)).await,
        Does::Restore => Box::pin(dumping::restore(cx, argv)).await,
        Does::Object => Box::pin(keys::object(cx, argv)).await,
        Does::Randomkey => Box::pin(scan::random_key(cx)).await,
        Does::KeysLike => Box::pin(scan::keys(cx, argv)).await,
        Does::Scan => Box::pin(scan::scan(cx, argv)).await,
        Does::Wait => connection::wait(cx, argv),
        _ => unreachable!("the table says which group it is in"),
    }
}

/// Channels.
async fn of_channels(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Subscribe => subscribe::subscribe(cx, argv, Kind::Channel).await,
        Does::Psubscribe => subscribe::subscribe(cx, argv, Kind::Pattern).await,
        Does::Ssubscribe => subscribe::subscribe(cx, argv, Kind::Shard).await,
        Does::Unsubscribe => subscribe::unsubscribe(cx, argv, Kind::Channel).await,
        Does::Punsubscribe => subscribe::unsubscribe(cx, argv, Kind::Pattern).await,
        Does::Sunsubscribe => subscribe::unsubscribe(cx, argv, Kind::Shard).await,
        Does::Publish => subscribe::publish(cx, argv, Kind::Channel).await,
        Does::Spublish => subscribe::publish(cx, argv, Kind::Shard).await,
        Does::Pubsub => subscribe::pubsub(cx, argv).await,
        _ => unreachable!("the table says which group it is in"),
    }
}

/// Scripts and functions.
pub(super) async fn of_scripts(
    cx: &mut Context<'_>,
    does: Does,
    argv: Arguments<'_>,
    has_turn: bool,
) -> Outcome {
    match does {
        Does::Script => scripts::script(cx, argv).await,
        Does::Function => function(cx, argv),
        _ => {
            let database = cx.client.database();
            let done = scripts::eval(cx, (does, of_script), argv, has_turn).await;
            // A script that selects another does so for itself.
            cx.client.selects(database);
            done
        }
    }
}

/// Runs a request of a script. The futures of commands are long: those that scripts send most have their own boxes,
/// which are copied faster than one for all.
fn of_script<'c>(
    cx: &'c mut Context<'_>,
    command: &'static Command,
    said: Arguments<'c>,
) -> Pin<Box<dyn Future<Output = Outcome> + 'c>> {
    Box::pin(async move {
        let renamed = key_names::renamed(cx.space(), command, said);
        let argv = renamed.as_ref().map_or(said, |renamed| said.with_names(renamed));
        turns::hold(cx.caller, command.keys_of(argv)).await;
        begins(cx, command, argv).await;
        match command.does {
            Does::Incr | Does::Decr | Does::Incrby | Does::Decrby => {
                Box::pin(amend::count(cx, argv, command.does)).await
            }
            Does::Del => Box::pin(keys::del(cx, argv)).await,
            Does::Expire | Does::Pexpire | Does::Expireat | Does::Pexpireat => {
                Box::pin(lifetimes::expire(cx, argv, command.does)).await
            }
            Does::Set => Box::pin(strings::set(cx, argv)).await,
            does => {
                if let Some(Ok(read)) = ValueRead::of(does, argv) {
                    let is_resp3 = cx.out.is_resp3;
                    let out = Writer::new(cx.out.buffer(), is_resp3);
                    if read::at_once(read, cx.caller, argv.get(1), out) {
                        return Ok(());
                    }
                }
                Box::pin(run_named(cx, command, argv, true)).await
            }
        }
    })
}

/// Connections, transactions, the server.
async fn of_server(cx: &mut Context<'_>, does: Does, argv: Arguments<'_>) -> Outcome {
    match does {
        Does::Ping => connection::ping(cx, argv)?,
        Does::Echo => cx.out.bulk(argv.get(1)),
        Does::Acl => acl::acl(cx, argv)?,
        Does::Select => databases::select(cx, argv)?,
        Does::Swapdb => databases::swap(cx, argv)?,
        Does::Auth => connection::auth(cx, argv).await?,
        Does::Hello => connection::hello(cx, argv).await?,
        Does::Reset => connection::reset(cx).await,
        Does::Quit => connection::quit(cx),
        Does::Readonly | Does::Asking => {
            if cx.caller.worker.shared.config.cluster.is_none() {
                return Err(Refusal::Says("ERR This instance has cluster support disabled"));
            }
            cx.out.ok();
        }
        Does::Client => clients::client(cx, argv).await?,
        Does::Multi => transaction::multi(cx)?,
        Does::Exec => exec(cx).await?,
        Does::Discard => transaction::discard(cx)?,
        Does::Watch => transaction::watch(cx, argv).await?,
        Does::Unwatch => transaction::unwatch(cx),
        Does::Dbsize => databases::size(cx).await?,
        Does::Flushall => keys::flush(cx, argv).await?,
        Does::Flushdb => databases::flush(cx, argv).await?,
        Does::Memory => keys::memory(cx, argv).await?,
        Does::Info => {
            databases::count(cx).await?;
            info::info(cx, argv);
        }
        Does::Config => config::config(cx, argv)?,
        Does::Slowlog => slowlog::slowlog(cx, argv)?,
        Does::Latency => latency::latency(cx, argv)?,
        Does::Command => docs::command(cx, argv)?,
        Does::Cluster => cluster::cluster(cx, argv)?,
        Does::Time => time(cx),
        Does::Lastsave => {
            cx.needs_admin("lastsave")?;
            let started = cx.wall(b"").saturating_sub(cx.caller.worker.shared.started.elapsed());
            cx.out.integer(i64::try_from(started.as_secs()).unwrap_or(i64::MAX));
        }
        Does::Role => role(cx),
        Does::Debug => {
            return Err(Refusal::Says("ERR DEBUG command not allowed."));
        }
        _ => unreachable!("the table says which group it is in"),
    }
    Ok(())
}

/// The time of the clock in which lifetimes are given.
fn time(cx: &mut Context<'_>) {
    let now = cx.wall(b"");
    cx.out.time(now);
}

fn role(cx: &mut Context<'_>) {
    cx.out.array(3);
    cx.out.bulk("master");
    cx.out.integer(0);
    cx.out.array(0);
}

/// There are no functions; listing and flushing them works.
fn function(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    match &*argv.get(1).to_ascii_uppercase() {
        b"FLUSH" => cx.out.ok(),
        b"LIST" => cx.out.array(0),
        _ => return Err(unknown_subcommand("FUNCTION", argv.get(1))),
    }
    Ok(())
}

/// `EXEC`. The [`transaction`] says what it guarantees.
async fn exec(cx: &mut Context<'_>) -> Outcome {
    let Some(mut begun) = transaction::begin(cx).await? else { return Ok(()) };
    let done = do_all(cx, std::mem::take(&mut begun.requests)).await;
    cx.client.guarded = WatchedKeys::default();
    done
}

async fn do_all(
    cx: &mut Context<'_>,
    requests: Vec<(usize, &'static Command, OwnedArguments)>,
) -> Outcome {
    let begin = cx.out.len();
    cx.out.array(requests.len());
    let (mut answers, mut counted) = (cx.caller.keep(), 0);
    for (at, command, argv) in requests {
        let argv = argv.as_arguments();
        if command.has(flags::WRITE) && command.keys_of(argv).count() != 1 {
            cx.client.guarded = WatchedKeys::default();
        }
        let before = cx.out.len();
        let done = Box::pin(timed(cx, (at, command), argv, true)).await;
        if let Err(Refusal::Overtaken) = done {
            cx.out.back_to(begin);
            cx.out.null_array();
            return Ok(());
        }
        // The changes stay; the client can ask again for an answer that is too long.
        let bytes = cx.out.len() - begin;
        if bytes > counted && !answers.grow(bytes - counted) {
            cx.out.back_to(before);
            cx.out.refusal(&NO_ROOM);
        } else {
            counted = counted.max(bytes);
        }
        cx.caller.work.does(1);
        cx.caller.work.does_bytes(cx.out.len().saturating_sub(before));
        cx.caller.rests().await;
    }
    Ok(())
}
