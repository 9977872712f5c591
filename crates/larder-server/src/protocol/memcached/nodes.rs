//! `config get cluster`: the list of servers among which memcached clients divide their keys.

use crate::config::NodeList;

/// The answer to a client that asks for the list.
pub(super) fn answer(list: &NodeList) -> String {
    let text = text(list);
    format!("CONFIG cluster 0 {}\r\n{text}\r\nEND", text.len())
}

/// The list as clients read it: each server is `host|address|port`. We repeat the host as the address, since clients
/// that use the address resolve whatever is there.
fn text(list: &NodeList) -> String {
    let (version, nodes) = list.get();
    let node = |(host, port): &(String, u16)| format!("{host}|{host}|{port}");
    let nodes: Vec<String> = nodes.iter().map(node).collect();
    format!("{version}\n{}\n", nodes.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_clients_read_them() {
        let nodes = vec![("a.example".to_owned(), 11211), ("10.0.0.2".to_owned(), 11212)];
        let list = NodeList::new(12, nodes).unwrap();
        assert_eq!(text(&list), "12\na.example|a.example|11211 10.0.0.2|10.0.0.2|11212\n");
        assert!(NodeList::new(1, Vec::new()).is_err());
        for wrong in ["", "a b", "a|b", "a\r\n"] {
            assert!(NodeList::new(1, vec![(wrong.to_owned(), 1)]).is_err(), "{wrong:?}");
        }
    }
}
