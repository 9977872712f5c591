//! The names of operations in traces.

use crate::Op;

use super::fault::{Fault, FaultBox};

/// Names of operations, in lower case, and the operation of a cache that each means: the commands of memcached as
/// Twitter's traces have them, and the operations of Meta's traces.
const NAMES: [(&str, Op); 17] = [
    ("get", Op::Get),
    ("gets", Op::Get),
    ("get_lease", Op::Get),
    ("gat", Op::Get),
    ("gats", Op::Get),
    ("set", Op::Set),
    ("set_lease", Op::Set),
    ("add", Op::Set),
    ("replace", Op::Set),
    ("cas", Op::Set),
    ("append", Op::Set),
    ("prepend", Op::Set),
    ("incr", Op::Set),
    ("decr", Op::Set),
    ("delete", Op::Delete),
    ("delete_lease", Op::Delete),
    ("del", Op::Delete),
];

/// The operation of this name, in upper or lower case.
pub(super) fn find(name: &[u8]) -> Option<Op> {
    let named = NAMES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
    named.map(|(_, op)| *op)
}

/// The operation of this name, or a fault that lists the known names.
#[inline]
pub(super) fn parse(name: &[u8]) -> Result<Op, FaultBox> {
    find(name).ok_or_else(|| {
        let known = NAMES.map(|(name, _)| name).join(", ");
        Fault::field(name, format!("an operation (known: {known})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_both_houses() {
        assert_eq!(parse(b"gets").unwrap(), Op::Get);
        assert_eq!(parse(b"GET_LEASE").unwrap(), Op::Get);
        assert_eq!(parse(b"prepend").unwrap(), Op::Set);
        assert_eq!(parse(b"SET_LEASE").unwrap(), Op::Set);
        assert_eq!(parse(b"DELETE").unwrap(), Op::Delete);
        let fault = parse(b"28").unwrap_err();
        assert!(fault.expected.contains("gets") && fault.found == "\"28\"", "{fault:?}");
    }
}
