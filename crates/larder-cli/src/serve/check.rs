//! `larder check`: explains what `larder serve` would do with a file.

use std::fmt::Display;
use std::io::BufRead;

use indicatif::BinaryBytes;
use larder_server::PasswordHash;
use larder_workload::Error;

use super::settings::Settings;
use super::telling::say;
use crate::args::{CheckArgs, ListenArg, ServeArgs};
use crate::data_directory::default_directory;
use crate::ending::Ending;
use crate::settings_file::{Setting, TenantSettings};

/// Explains a file, or reports what is wrong with it.
pub(crate) fn check(arguments: &CheckArgs) -> Result<Ending, Error> {
    let file = arguments.file.clone();
    let settings = Settings::of(&ServeArgs { config: Some(file), ..ServeArgs::default() })?;
    for line in explain(&settings) {
        say(format_args!("{line}"));
    }
    Ok(Ending::Complete)
}

fn line(name: &str, value: &dyn Display, from: &dyn Display) -> String {
    let value = value.to_string();
    format!("{name:<20} {value:<34} {from}")
}

/// A line for each setting: its name, its value, where it comes from.
pub(crate) fn explain(settings: &Settings) -> Vec<String> {
    let size = |name, Setting(bytes, from): &Setting<u64>| line(name, &BinaryBytes(*bytes), from);
    let flag = |name, Setting(value, from): &Setting<bool>| line(name, value, from);
    let seconds = |name, Setting(count, from): &Setting<u32>| match count {
        0 => line(name, &"0 (off)", from),
        _ => line(name, &format!("{count} s"), from),
    };
    let places = |name, Setting(places, from): &Setting<Vec<ListenArg>>| {
        let texts: Vec<String> = places.iter().map(ToString::to_string).collect();
        let texts = if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
        line(name, &texts, from)
    };
    let tls = match &settings.tls.0 {
        None => "none".to_owned(),
        Some(told) => {
            let asks = if told.files.client_ca.is_some() { ", clients need one too" } else { "" };
            format!("certificate holds {} more days{asks}", told.days())
        }
    };
    let flash = match settings.flash.0 {
        Some(0) => "none: DRAM only".to_owned(),
        Some(bytes) => BinaryBytes(bytes).to_string(),
        None => "as it is, or by the free space".to_owned(),
    };
    let files: Vec<String> = settings.files.0.iter().map(ToString::to_string).collect();
    let files =
        if files.is_empty() { "none: no set of shards".to_owned() } else { files.join(", ") };
    let directory = match &settings.data_dir.0 {
        Some(directory) => directory.display().to_string(),
        None => default_directory()
            .map_or_else(|_| "none".to_owned(), |directory| directory.display().to_string()),
    };
    let mut lines = vec![
        places("memcached", &settings.memcached),
        places("resp", &settings.resp),
        places("memcached_tls", &settings.memcached_tls),
        places("resp_tls", &settings.resp_tls),
        line("tls", &tls, &settings.tls.1),
        places("admin", &settings.admin),
        size("memory", &settings.memory),
        line("clients", &clients(settings), &settings.memory.1),
        line("flash", &flash, &settings.flash.1),
        line("file", &files, &settings.files.1),
        line("data_dir", &directory, &settings.data_dir.1),
        line("workers", &settings.workers.0, &settings.workers.1),
        line("sockets", &settings.sockets.0, &settings.sockets.1),
        line("connections", &settings.connections.0, &settings.connections.1),
        size("value_max", &settings.value_max),
        seconds("idle_timeout", &settings.idle_timeout),
        seconds("request_timeout", &settings.request_timeout),
        line("request_deadline", &deadline(settings), &settings.request_deadline.1),
        line("drain", &format!("{} s", settings.drain.0), &settings.drain.1),
        line("close", &format!("{} s", settings.close.0), &settings.close.1),
        flag("allow_unprotected", &settings.allow_unprotected),
        flag("ready_without_flash", &settings.ready_without_flash),
        flag("ready_while_indexing", &settings.ready_while_indexing),
    ];
    let cache = settings.cache.explained();
    lines.extend(cache.map(|(name, value, from)| line(name, &value, &from)));
    lines.extend(policies(settings));
    lines.extend(resp_clients(settings));
    let watching = settings.watching.explained();
    lines.extend(watching.map(|(name, value, from)| line(name, &value, &from)));
    lines.extend(tenants(settings));
    if let Some(map) = &settings.cluster.map {
        lines.push(line("cluster", &format!("{} servers", map.nodes().len()), &"file"));
    }
    lines.extend(settings.warnings().iter().map(|warning| format!("warning: {warning}")));
    lines
}

/// What clients of RESP alone notice.
fn resp_clients(settings: &Settings) -> impl Iterator<Item = String> {
    let explained = settings.resp_clients.explained();
    explained.into_iter().map(|(name, value, from)| line(name, &value, &from))
}

/// What a start does with data on flash, levelling, and turns of tenants at a drive.
fn policies(settings: &Settings) -> [String; 5] {
    let flag = |name, Setting(value, from): &Setting<bool>| line(name, value, from);
    let Setting(pace, from) = &settings.levelling_pace;
    [
        line("on_change", &settings.on_change.0, &settings.on_change.1),
        flag("drop_other_tenants", &settings.drop_other_tenants),
        flag("levelling", &settings.levelling),
        line("levelling_pace", &format!("{}/s", BinaryBytes(*pace)), from),
        match &settings.flash_depth {
            Setting(0, from) => line("flash_depth", &"0 (off: requests go as they come)", from),
            Setting(depth, from) => line("flash_depth", depth, from),
        },
    ]
}

/// The part of the memory that is for clients.
fn clients(settings: &Settings) -> String {
    format!("{} of the memory", BinaryBytes(settings.client_bytes()))
}

/// How long a read may wait for flash.
fn deadline(settings: &Settings) -> String {
    match settings.request_deadline.0 {
        0 => "0 (off)".to_owned(),
        count => format!("{count} ms"),
    }
}

/// Lines for each tenant: its share, and its users.
fn tenants(settings: &Settings) -> Vec<String> {
    let mut lines = Vec::new();
    for tenant in &settings.tenants {
        let users = settings.users.iter().filter(|user| user.tenant == tenant.name);
        let names: Vec<&str> = users.map(|user| &*user.name).collect();
        let who = match (settings.users.is_empty(), names.is_empty()) {
            (true, _) => "no password".to_owned(),
            (false, true) => "no user, so no client reaches it".to_owned(),
            (false, false) => format!("users {}", names.join(", ")),
        };
        lines.push(line(&format!("tenant {}", tenant.name), &share(tenant), &who));
        let limits = tenant.limits();
        if !limits.is_empty() {
            lines.push(format!("{:<20} {limits}", ""));
        }
        for (at, _) in tenant.listens.iter().filter(|(at, _)| *at != ListenArg::Nowhere) {
            lines.push(line("", &format!("at {at}"), &"no login needed there"));
        }
    }
    lines
}

/// A tenant's share of memory and flash.
fn share(tenant: &TenantSettings) -> String {
    match tenant.memory_percent == tenant.percent {
        true => format!("{} % of memory and flash", tenant.percent),
        false => format!("{} % of flash, {} % of memory", tenant.percent, tenant.memory_percent),
    }
}

/// `larder password`.
pub(crate) fn password() -> Result<Ending, Error> {
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Error::run(format!("standard input cannot be read: {error}")))?;
    let password = line.strip_suffix('\n').unwrap_or(&line);
    if password.is_empty() {
        return Err(Error::usage("no password on standard input: write it there, and a new line"));
    }
    let hash =
        PasswordHash::of(password.as_bytes()).map_err(|error| Error::run(error.to_string()))?;
    println!("{hash}");
    Ok(Ending::Complete)
}
