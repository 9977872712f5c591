//! `CLUSTER`: which server has which slots, as configured.

use super::context::{Context, unknown_subcommand, wrong_arity};
use super::number;
use super::parse::Arguments;
use super::slots::{NodeId, slot};
use super::write::{Outcome, Refusal};
use crate::config::{SLOTS, SlotMap, SlotNode};

/// `CLUSTER`.
pub(super) fn cluster(cx: &mut Context<'_>, argv: Arguments<'_>) -> Outcome {
    let shared = std::sync::Arc::clone(&cx.caller.worker.shared);
    let disabled = Refusal::Says("ERR This instance has cluster support disabled");
    let sub = argv.get(1).to_ascii_uppercase();
    if (&*sub, argv.len()) == (b"HELP", 2) {
        cx.help(
            "CLUSTER",
            &[
                "COUNTKEYSINSLOT <slot>",
                "    Refused: keys are not listed by slot.",
                "INFO, MYID, NODES, SHARDS, SLOTS",
                "    Which server has which slots, as configured.",
                "KEYSLOT <key>",
                "    The slot of a key.",
            ],
        );
        return Ok(());
    }
    let map = shared.config.cluster.as_ref().ok_or(disabled)?;
    match (&*sub, argv.len()) {
        (b"INFO", 2) => info(cx, map),
        (b"MYID", 2) => cx.out.bulk(NodeId(&map.nodes[map.myself]).to_string()),
        (b"KEYSLOT", 3) => cx.out.integer(slot(argv.get(2)).into()),
        (b"NODES", 2) => nodes(cx, map),
        (b"SLOTS", 2) => slots(cx, map),
        (b"SHARDS", 2) => shards(cx, map),
        (b"COUNTKEYSINSLOT", 3) => {
            let slot = number::integer(argv.get(2)).filter(|slot| (0..SLOTS.into()).contains(slot));
            slot.ok_or(Refusal::Says("ERR Invalid slot"))?;
            return Err(Refusal::Says("ERR keys are not listed by slot"));
        }
        (b"KEYSLOT" | b"COUNTKEYSINSLOT", _) => {
            let sub = String::from_utf8_lossy(&sub).to_lowercase();
            return Err(wrong_arity(&format!("cluster|{sub}")));
        }
        _ => return Err(unknown_subcommand("CLUSTER", argv.get(1))),
    }
    Ok(())
}

fn info(cx: &mut Context<'_>, map: &SlotMap) {
    let served = map.served();
    let state = if served == usize::from(SLOTS) { "ok" } else { "fail" };
    let nodes = map.nodes.len();
    let size = map.nodes.iter().filter(|node| !node.slots.is_empty()).count();
    cx.out.verbatim(&format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{served}\r\ncluster_slots_ok:{served}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{nodes}\r\n\
         cluster_size:{size}\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
    ));
}

fn nodes(cx: &mut Context<'_>, map: &SlotMap) {
    let mut text = String::new();
    for (number, node) in map.nodes.iter().enumerate() {
        let role = if number == map.myself { "myself,master" } else { "master" };
        let SlotNode { host, port, slots } = node;
        let id = NodeId(node);
        text += &format!("{id} {host}:{port}@{port} {role} - 0 0 1 connected");
        for (first, last) in slots {
            text += &if first == last { format!(" {first}") } else { format!(" {first}-{last}") };
        }
        text.push('\n');
    }
    cx.out.verbatim(&text);
}

fn slots(cx: &mut Context<'_>, map: &SlotMap) {
    cx.out.array(map.nodes.iter().map(|node| node.slots.len()).sum());
    for node in &map.nodes {
        for (first, last) in &node.slots {
            cx.out.array(3);
            cx.out.integer((*first).into());
            cx.out.integer((*last).into());
            cx.out.array(4);
            cx.out.bulk(&node.host);
            cx.out.integer(node.port.into());
            cx.out.bulk(NodeId(node).to_string());
            cx.out.array(0);
        }
    }
}

fn shards(cx: &mut Context<'_>, map: &SlotMap) {
    cx.out.array(map.nodes.len());
    for node in &map.nodes {
        cx.out.map(2);
        cx.out.bulk("slots");
        cx.out.array(2 * node.slots.len());
        for (first, last) in &node.slots {
            cx.out.integer((*first).into());
            cx.out.integer((*last).into());
        }
        cx.out.bulk("nodes");
        cx.out.array(1);
        cx.out.map(7);
        let id = NodeId(node).to_string();
        let words = [("id", &*id), ("endpoint", &*node.host), ("ip", &*node.host)];
        for (name, value) in words.into_iter().chain([("role", "master"), ("health", "online")]) {
            cx.out.bulk(name);
            cx.out.bulk(value);
        }
        cx.out.bulk("port");
        cx.out.integer(node.port.into());
        cx.out.bulk("replication-offset");
        cx.out.integer(0);
    }
}
