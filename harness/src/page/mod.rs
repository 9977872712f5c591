//! `cargo xtask page`: tests the admin page of `larder serve` in a real browser, with a server under load.
//!
//! The page's numbers change and match those of `/metrics`. It makes no requests to other servers, logs nothing to the
//! console, and shows names and keys as text, whatever they contain. It says when the server is down, and continues
//! when it is back. Screenshots are kept for inspection.

mod block_cache;
mod server;

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use self::block_cache::BlockCache;
use self::server::{HOSTILE_KEY, HOSTILE_TENANT, Load, PageServer};
use crate::devtools::Browser;
use crate::step::{self, Verdict};
use crate::{browser, png, workspace};

/// Time that the page collects data before it is checked.
const GATHERS: Duration = Duration::from_secs(25);
const PATIENCE: Duration = Duration::from_secs(30);

/// Name, width and theme of each screenshot.
const PICTURES: [(&str, u32, &str); 4] = [
    ("light", 1280, "light"),
    ("dark", 1280, "dark"),
    ("phone", 360, "light"),
    ("phone-dark", 360, "dark"),
];

/// Tests the page in the browser of this machine.
pub fn run() -> Verdict {
    let Some(browser) = browser::find() else {
        return Verdict::Skipped("no chromium is installed".to_owned());
    };
    let built = step::run(&mut step::cargo(&["build", "--locked", "-p", "larder-cli"]));
    if !matches!(built, Verdict::Passed(_)) {
        return built;
    }
    let dir = workspace::target().join("xtask/page");
    // Remove the results of an earlier run, so that they cannot pass for this run's.
    let cleared = if dir.exists() { fs::remove_dir_all(&dir) } else { Ok(()) };
    if let Err(cause) = cleared.and_then(|()| fs::create_dir_all(&dir)) {
        return Verdict::Failed(format!("cannot clear {}: {cause}", dir.display()));
    }
    match looked_at(&browser, &workspace::target().join("debug/larder"), &dir) {
        Ok(text) => Verdict::Passed(text),
        Err(text) => Verdict::Failed(text),
    }
}

fn looked_at(program: &Path, larder: &Path, dir: &Path) -> Result<String, String> {
    let mut server = PageServer::start(larder, dir)?;
    let load = Load::start(&server.memcached);
    let block_cache = BlockCache::start(larder, dir)?;
    let profile = dir.join("profile");
    let mut page = Browser::start(program, &profile)?;
    let origin = format!("http://{}", server.admin);
    page.call("Page.navigate", json!({ "url": format!("{origin}/") }))?;
    page.wait_for("document.querySelectorAll('#tenants tbody tr').length === 2", PATIENCE)?;
    std::thread::sleep(GATHERS);
    let gets = numbers_agree(&mut page, &server)?;
    shows_text_as_text(&mut page)?;
    fades_with_age(&mut page)?;
    tells_of_block_caches(&mut page)?;
    for (name, width, theme) in PICTURES {
        let picture = page.picture(width, theme)?;
        png::dimensions(&picture).ok_or("the browser's picture is no PNG")?;
        let path = dir.join(format!("{name}.png"));
        fs::write(&path, picture).map_err(|cause| format!("{}: {cause}", path.display()))?;
        // A phone's window grows with what it shows, so `innerWidth` would say nothing.
        let fits = format!("document.documentElement.scrollWidth <= {width}");
        if page.evaluate(&fits)? != json!(true) {
            return Err(format!("the page is wider than a screen of {width} pixels"));
        }
    }
    drop(block_cache);
    page.wait_for(&block_cache_says(1, GONE), PATIENCE)?;
    is_quiet_and_alone(&page.events, &origin)?;
    survives_a_restart(&mut page, &mut server)?;
    drop((load, page));
    let _ = fs::remove_dir_all(&profile);
    Ok(format!("{gets} gets shown as /metrics has them; pictures in {}", dir.display()))
}

/// The number of gets of all tenants in the page's table.
const SHOWN: &str = "[...document.querySelectorAll('[data-column=total_gets]')]\
                     .reduce((sum, cell) => sum + Number(cell.textContent.replaceAll(',', '')), 0)";

/// Each shown number is between the server's values before and after, and increases.
fn numbers_agree(page: &mut Browser, server: &PageServer) -> Result<u64, String> {
    let mut last = 0;
    for _ in 0..3 {
        let before = server.metric("larder_gets_total")?;
        page.wait_for(&format!("{SHOWN} >= {before}"), PATIENCE)?;
        let shown = page.evaluate(SHOWN)?.as_u64().unwrap_or_default();
        let after = server.metric("larder_gets_total")?;
        if !(before..=after).contains(&shown) || shown <= last {
            return Err(format!(
                "{shown} gets are shown, {last} were; /metrics has {before} before and {after} after"
            ));
        }
        last = shown;
    }
    let says = page.evaluate("document.getElementById('tiles').textContent")?;
    let says = says.as_str().unwrap_or_default();
    if !says.contains("/s") || !says.contains('%') || !says.contains("µs") {
        return Err(format!("the tiles say: {says}"));
    }
    Ok(last)
}

/// Names and keys that contain markup are shown as text.
fn shows_text_as_text(page: &mut Browser) -> Result<(), String> {
    let text_of = |page: &mut Browser, id: &str| {
        let text = page.evaluate(&format!("document.getElementById('{id}').textContent"))?;
        Ok::<_, String>(text.as_str().unwrap_or_default().to_owned())
    };
    for id in ["tenants", "placement", "map", "tenant"] {
        if !text_of(page, id)?.contains(HOSTILE_TENANT) {
            return Err(format!("#{id} does not show the name of a tenant as it is"));
        }
    }
    let slow = text_of(page, "slow")?;
    if !slow.contains(HOSTILE_KEY) {
        return Err(format!("no slow request is shown with its key: {slow}"));
    }
    match page.evaluate("document.querySelectorAll('img, iframe, object').length")? {
        Value::Number(found) if found.as_u64() == Some(0) => Ok(()),
        found => Err(format!("{found} elements came out of names or keys")),
    }
}

/// A region being filled is drawn opaque, and the oldest ones are fainter.
fn fades_with_age(page: &mut Browser) -> Result<(), String> {
    let opacity = |cell: &str| {
        format!("Number(document.querySelector('#map .map {cell}').getAttribute('fill-opacity'))")
    };
    let (newest, oldest) = (opacity(".cell.active"), opacity(".cell"));
    page.wait_for(&format!("{newest} > 0.9 && {oldest} < 0.5"), PATIENCE)
}

/// Shows a block cache that runs, and one that does not.
fn tells_of_block_caches(page: &mut Browser) -> Result<(), String> {
    page.wait_for("!document.getElementById('block').hidden", PATIENCE)?;
    for (number, what) in [(1, "serving"), (1, "write-back"), (2, GONE)] {
        page.wait_for(&block_cache_says(number, what), PATIENCE)?;
    }
    Ok(())
}

/// Text for a block cache that does not run.
const GONE: &str = "no cache runs there";

fn block_cache_says(number: u32, what: &str) -> String {
    let row = format!("#block-caches tbody tr:nth-child({number})");
    format!("document.querySelector('{row}')?.textContent.includes('{what}') ?? false")
}

/// The console log is empty, and no other server was asked for anything.
fn is_quiet_and_alone(events: &[Value], origin: &str) -> Result<(), String> {
    for event in events {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                return Err(format!("the console says: {params}"));
            }
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                if !url.starts_with(&format!("{origin}/")) {
                    return Err(format!("it asked elsewhere: {url}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Says that the server is down, and continues when it is back.
fn survives_a_restart(page: &mut Browser, server: &mut PageServer) -> Result<(), String> {
    let state = "document.getElementById('state').textContent";
    server.kill();
    page.wait_for(&format!("{state}.includes('cannot be reached')"), PATIENCE)?;
    server.restart()?;
    page.wait_for(&format!("{state}.includes('Reached')"), PATIENCE)?;
    let after = server.metric("larder_gets_total")?;
    page.wait_for(&format!("{SHOWN} >= {after}"), PATIENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_requests_elsewhere_are_noticed() {
        let asks = |url: &str| {
            let params = json!({ "request": { "url": url } });
            json!({ "method": "Network.requestWillBeSent", "params": params })
        };
        let own = "http://127.0.0.1:1";
        assert!(is_quiet_and_alone(&[asks("http://127.0.0.1:1/page.js")], own).is_ok());
        for wrong in [
            asks("http://127.0.0.1:12/"),
            asks("https://elsewhere.example/"),
            json!({ "method": "Log.entryAdded", "params": {} }),
            json!({ "method": "Runtime.exceptionThrown" }),
            json!({ "method": "Runtime.consoleAPICalled" }),
        ] {
            assert!(is_quiet_and_alone(std::slice::from_ref(&wrong), own).is_err(), "{wrong}");
        }
    }
}
