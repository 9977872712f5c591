//! `[cluster]`: several servers that divide the keys; each gets the same configuration.

use std::collections::BTreeMap;
use std::ops::Range;

use larder_server::{NodeList, SlotMap, SlotNode};
use larder_workload::Error;
use serde::Deserialize;
use toml::Spanned;

use super::source::Source;

/// Number of slots.
const SLOTS: usize = 16_384;

/// `[cluster]` of the file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterEntry {
    /// The entry that is this server.
    myself: Option<Spanned<String>>,
    /// Ranges of slots, each with its server.
    #[serde(default)]
    slots: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The servers for memcached clients.
    memcached: Option<Spanned<Vec<String>>>,
    /// Version of the list of servers: clients take a list with a higher version.
    version: Option<u64>,
}

/// The parsed configuration.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) map: Option<SlotMap>,
    pub(crate) nodes: Option<NodeList>,
    pub(crate) warning: Option<String>,
}

/// Parses `entry`, or says where it is wrong.
pub(crate) fn understand(entry: &Spanned<ClusterEntry>, source: &Source) -> Result<Cluster, Error> {
    let ClusterEntry { myself, slots, memcached, version } = entry.get_ref();
    let nodes = memcached.as_ref().map(|list| {
        let listed = list.get_ref().iter().map(|text| host_and_port(text)).collect();
        let listed: Result<Vec<_>, String> = listed;
        let list_of = |nodes| NodeList::new(version.unwrap_or(1), nodes);
        let nodes = listed.and_then(|nodes| list_of(nodes).map_err(|error| error.to_string()));
        nodes.map_err(|why| source.refuse(Some(list.span()), &format!("cluster.memcached: {why}")))
    });
    let nodes = nodes.transpose()?;
    if slots.is_empty() && myself.is_none() {
        return Ok(Cluster { nodes, ..Cluster::default() });
    }
    let (servers, free) = servers(slots, source)?;
    let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
    let named = myself.as_ref().map(|it| it.get_ref().as_str());
    let Some(number) = names.iter().position(|name| Some(*name) == named) else {
        let span = myself.as_ref().map_or(entry.span(), Spanned::span);
        let known = if names.is_empty() { "none has slots".to_owned() } else { names.join(", ") };
        let message = format!("cluster.myself: must say which server this is: {known}");
        return Err(source.refuse(Some(span), &message));
    };
    let warning = (free > 0).then(|| {
        format!("cluster: {free} slots belong to no server; requests for keys in them are refused")
    });
    let map = SlotMap::new(servers.into_iter().map(|(_, node)| node).collect(), number);
    let map = map.map_err(|error| source.refuse(Some(entry.span()), &error.to_string()))?;
    Ok(Cluster { map: Some(map), nodes, warning })
}

/// The servers with their slots, each with its address as written, and the number of slots without a server.
fn servers(
    slots: &BTreeMap<Spanned<String>, Spanned<String>>,
    source: &Source,
) -> Result<(Vec<(String, SlotNode)>, usize), Error> {
    let refuse = |span: Range<usize>, message: String| {
        source.refuse(Some(span), &format!("cluster.slots: {message}"))
    };
    let mut servers: Vec<(String, SlotNode)> = Vec::new();
    let mut taken = vec![false; SLOTS];
    for (range, address) in slots {
        let (text, span) = (range.get_ref(), range.span());
        let Some((first, last)) = slots_of(text) else {
            let message = format!("{text:?} must be a slot, or two with a dash, of 0-16383");
            return Err(refuse(span, message));
        };
        for slot in first..=last {
            let is_taken = taken.get_mut(usize::from(slot));
            if is_taken.is_none_or(|is_taken| std::mem::replace(is_taken, true)) {
                return Err(refuse(span, format!("slot {slot} of {text} is in another range too")));
            }
        }
        let name = address.get_ref();
        let (host, port) = host_and_port(name).map_err(|why| refuse(address.span(), why))?;
        match servers.iter_mut().find(|(known, _)| known == name) {
            Some((_, node)) => node.slots.push((first, last)),
            None => {
                servers.push((name.clone(), SlotNode { host, port, slots: vec![(first, last)] }));
            }
        }
    }
    servers.iter_mut().for_each(|(_, node)| node.slots.sort_unstable());
    // The same order on all servers, and one that people expect.
    servers.sort_by_key(|(_, node)| node.slots.first().copied());
    Ok((servers, taken.iter().filter(|taken| !**taken).count()))
}

/// First and last slot of "5" or "0-8191".
fn slots_of(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && usize::from(last) < SLOTS).then_some((first, last))
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match parts {
        // Brackets around an IPv6 address are for the file only; clients connect without them.
        Some((host, port)) if !host.is_empty() && port > 0 => {
            let bare = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
            Ok((bare.unwrap_or(host).to_owned(), port))
        }
        _ => Err(format!("{text:?} must be a host with a port, such as 10.0.0.1:6379")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct File {
        cluster: Spanned<ClusterEntry>,
    }

    fn read(text: &str) -> Result<Cluster, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("larder.toml");
        std::fs::write(&path, text).unwrap();
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let source = Source::of(&path, text);
        understand(&file.cluster, &source).map_err(|error| {
            error.to_string().replace(&format!("{}/", directory.path().display()), "")
        })
    }

    #[test]
    fn servers_have_the_slots_that_are_said_to_be_theirs() {
        let text = "[cluster]\nmyself = \"b:2\"\n[cluster.slots]\n\"8192-16383\" = \"b:2\"\n\
                    \"0-8190\" = \"a:1\"\n8191 = \"b:2\"\n";
        let Cluster { map, nodes, warning } = read(text).unwrap();
        let node = |host: &str, port, slots| SlotNode { host: host.to_owned(), port, slots };
        let expected =
            vec![node("a", 1, vec![(0, 8190)]), node("b", 2, vec![(8191, 8191), (8192, 16383)])];
        assert_eq!(map, Some(SlotMap::new(expected, 1).unwrap()));
        assert!(nodes.is_none() && warning.is_none());
        let gap = read("[cluster]\nmyself = \"[::1]:1\"\nslots = { \"1-16383\" = \"[::1]:1\" }");
        assert!(gap.unwrap().warning.unwrap().starts_with("cluster: 1 slots belong to no server"));
        let list = read("[cluster]\nversion = 7\nmemcached = [\"a:1\", \"[::1]:2\"]").unwrap();
        let nodes = vec![("a".to_owned(), 1), ("::1".to_owned(), 2)];
        assert_eq!(list.nodes, Some(NodeList::new(7, nodes).unwrap()));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_place() {
        let slots = "[cluster]\nmyself = \"a:1\"\n[cluster.slots]\n";
        let cases = [
            (
                format!("{slots}\"0-16384\" = \"a:1\""),
                "larder.toml:4:1: cluster.slots: \"0-16384\" must",
            ),
            (format!("{slots}\"5-4\" = \"a:1\""), "larder.toml:4:1: cluster.slots: \"5-4\" must"),
            (
                format!("{slots}\"0-9\" = \"a:1\"\n\"9-12\" = \"b:1\""),
                "larder.toml:5:1: cluster.slots: slot 9 of 9-12 is in another range too",
            ),
            (
                format!("{slots}\"0-9\" = \"a\""),
                "larder.toml:4:9: cluster.slots: \"a\" must be a host",
            ),
            (
                "[cluster]\nmyself = \"c:1\"\nslots = { \"0-9\" = \"a:1\" }".to_owned(),
                "larder.toml:2:10: cluster.myself: must say which server this is: a:1",
            ),
            (
                "[cluster]\nmyself = \"a:1\"".to_owned(),
                "larder.toml:2:10: cluster.myself: must say which server this is: none",
            ),
            ("[cluster]\nmemcached = [\"a\"]".to_owned(), "larder.toml:2:13: cluster.memcached: "),
            ("[cluster]\nmemcached = []".to_owned(), "larder.toml:2:13: cluster.memcached: "),
        ];
        for (text, message) in cases {
            let refused = read(&text).unwrap_err();
            assert!(refused.starts_with(message), "{text}\n{refused}\n{message}");
        }
    }
}
