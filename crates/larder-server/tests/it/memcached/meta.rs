//! Meta requests.

use crate::serving::{Client, in_memory};

fn dialogue(lines: &[(&str, &str)]) {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    for (request, answer) in lines {
        client.asks(request, answer);
    }
}

/// The number behind a letter in an answer.
fn flag(line: &str, letter: char) -> u64 {
    let word = line.split_whitespace().skip(1).find(|word| word.starts_with(letter)).unwrap();
    word[1..].parse().unwrap()
}

#[test]
fn flags_come_back_in_the_order_in_which_they_were_asked_for() {
    dialogue(&[
        ("mn\r\n", "MN\r\n"),
        ("mg a v\r\n", "EN\r\n"),
        ("ms a 3 T60 F5 Oxy k\r\nabc\r\n", "HD Oxy ka\r\n"),
        ("mg a f t s v Oz k\r\n", "VA 3 f5 t60 s3 Oz ka\r\nabc\r\n"),
        ("mg a k s\r\n", "HD ka s3\r\n"),
        ("mg a t T30 P1 L2\r\n", "HD t60\r\n"),
        ("mg a T90 t\r\n", "HD t90\r\n"),
        ("mg a T0 t\r\n", "HD t-1\r\n"),
        ("md a q\r\nmg a q\r\nmd a q\r\nmn\r\n", "MN\r\n"),
        ("md a k O1\r\n", "NF ka O1\r\n"),
        ("ms a 1 q\r\nx\r\nms b 1 MR q\r\nx\r\nmn\r\n", "NS\r\nMN\r\n"),
        ("ms a\r\n", "CLIENT_ERROR bad command line format\r\n"),
        ("ms a 3\r\nabcde\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
    ]);
}

#[test]
fn keys_in_base64_are_the_bytes_that_they_stand_for() {
    dialogue(&[
        ("ms TWFu 2 b\r\nhi\r\n", "HD\r\n"),
        ("mg TWFu v\r\n", "EN\r\n"),
        ("mg TWFu b v k\r\n", "VA 2 kTWFu b\r\nhi\r\n"),
        ("get Man\r\n", "VALUE Man 0 2\r\nhi\r\nEND\r\n"),
        ("md TWFu b k\r\n", "HD kTWFu b\r\n"),
    ]);
}

/// As memcached 1.6.18 does.
#[test]
fn a_key_is_answered_as_it_was_set() {
    dialogue(&[
        ("ms Zm9v 2 b\r\nhi\r\n", "HD\r\n"),
        ("mg foo k v\r\n", "VA 2 kZm9v b\r\nhi\r\n"),
        ("mg foo v\r\n", "VA 2\r\nhi\r\n"),
        ("mg foo k T100\r\n", "HD kZm9v b\r\n"),
        ("mg Zm9v b k v\r\n", "VA 2 kZm9v b\r\nhi\r\n"),
        ("md foo I k\r\n", "HD kfoo\r\n"),
        ("mg foo k\r\n", "HD kZm9v b X W\r\n"),
        ("ms foo 2 k\r\nyy\r\n", "HD kfoo\r\n"),
        ("mg Zm9v b k\r\n", "HD kfoo\r\n"),
        ("ms Zm9v 2 b\r\nhi\r\n", "HD\r\n"),
        ("append foo 0 0 1\r\na\r\n", "STORED\r\n"),
        ("mg Zm9v b k\r\n", "HD kfoo\r\n"),
        ("ms Zm9v 2 b\r\nhi\r\n", "HD\r\n"),
        ("set foo 0 0 1\r\na\r\n", "STORED\r\n"),
        ("mg Zm9v b k\r\n", "HD kfoo\r\n"),
        // A key with control characters would end the line.
        ("mg DQo= b k N30\r\n", "HD kDQo= b W\r\n"),
        ("mg bWlz b k N30\r\n", "HD kmis W\r\n"),
    ]);
}

#[test]
fn values_are_stored_in_modes() {
    dialogue(&[
        ("ms a 2\r\nbb\r\n", "HD\r\n"),
        ("ms a 2 ME\r\nxx\r\n", "NS\r\n"),
        ("ms a 1 MA\r\nc\r\n", "HD\r\n"),
        ("ms a 1 MP s\r\na\r\n", "HD s1\r\n"),
        ("mg a v\r\n", "VA 4\r\nabbc\r\n"),
        ("ms n 1 MA\r\nx\r\n", "NS\r\n"),
        ("ms n 1 MA N60\r\nx\r\n", "HD\r\n"),
        ("ms n 1 MA N90\r\ny\r\n", "HD\r\n"),
        ("mg n t v\r\n", "VA 2 t60\r\nxy\r\n"),
        ("ms m 1 C5\r\nx\r\n", "NF\r\n"),
        ("ms m 1 E500 c\r\nx\r\n", "HD c500\r\n"),
        ("ms m 1 C499 c\r\nx\r\n", "EX c0\r\n"),
        ("ms m 1 C500 E501\r\ny\r\n", "HD\r\n"),
        ("ms m 1 MA C500\r\nz\r\n", "EX\r\n"),
        ("ms m 1 MA C501 E502 c\r\nz\r\n", "HD c502\r\n"),
        ("mg m c v\r\n", "VA 2 c502\r\nyz\r\n"),
        ("md m C501\r\n", "EX\r\n"),
        ("md m C502\r\nmg m\r\n", "HD\r\nEN\r\n"),
    ]);
}

#[test]
fn the_version_that_is_answered_is_the_one_that_was_stored() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    for request in ["ms a 1 c\r\n1\r\n", "ms a 1 MA c\r\n2\r\n", "ma a c\r\n", "ma n N0 c\r\n"] {
        client.send(request);
        let version = flag(&client.line(), 'c');
        let key = if request.contains('n') { 'n' } else { 'a' };
        client.asks(format!("mg {key} c\r\n"), format!("HD c{version}\r\n"));
    }
}

#[test]
fn one_wins_the_right_to_fill_a_stub() {
    dialogue(&[
        ("mg a N30 v t\r\n", "VA 0 t30 W\r\n\r\n"),
        ("mg a N30 v t\r\n", "VA 0 t30 Z\r\n\r\n"),
        ("mg a v\r\n", "VA 0 Z\r\n\r\n"),
        ("ms a 1 T100\r\nx\r\n", "HD\r\n"),
        ("mg a v R50\r\n", "VA 1\r\nx\r\n"),
        ("mg a v R150\r\n", "VA 1 W\r\nx\r\n"),
        ("mg a v R150\r\n", "VA 1 Z\r\nx\r\n"),
        ("mg q N30 q s\r\n", "HD s0 W\r\n"),
    ]);
}

#[test]
fn stale_values_are_served_until_there_is_a_new_one() {
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("ms a 1 T0\r\nx\r\n", "HD\r\n");
    client.asks("md a I T30\r\n", "HD\r\n");
    client.send("mg a c\r\n");
    let line = client.line();
    assert!(line.ends_with(" X W\r\n"), "{line}");
    let version = flag(&line, 'c');
    client.asks("mg a t\r\n", "HD t30 Z X\r\n");
    client.asks("ms a 1 I C0\r\ny\r\n", "EX\r\n");
    client.asks("ms a 1 I T90 C1\r\ny\r\n", "HD\r\n");
    client.asks("mg a t v\r\n", "VA 1 t30 Z X\r\ny\r\n");
    client.asks(format!("ms a 1 C{version}\r\nz\r\n"), "EX\r\n");
    client.send("mg a c\r\n");
    let version = flag(&client.line(), 'c');
    client.asks(format!("ms a 1 C{version} T90\r\nz\r\n"), "HD\r\n");
    client.asks("mg a t v\r\n", "VA 1 t90\r\nz\r\n");
    client.asks("md a x I\r\n", "HD\r\n");
    client.asks("mg a t v\r\n", "VA 0 t90 X W\r\n\r\n");
}

#[test]
fn numbers_are_counted() {
    dialogue(&[
        ("ma n\r\n", "NF\r\n"),
        ("ma n N90 J13 v t\r\n", "VA 2 t90\r\n13\r\n"),
        ("ma n v\r\n", "VA 2\r\n14\r\n"),
        ("ma n MD D9000 v T30 t\r\n", "VA 1 t30\r\n0\r\n"),
        ("ma n q D1\r\nmn\r\n", "MN\r\n"),
        ("ma n C1 v\r\n", "EX\r\n"),
        ("ma n E77 c\r\n", "HD c77\r\n"),
        ("ma n C77 E78 c\r\n", "HD c78\r\n"),
        ("ma n MX\r\n", "CLIENT_ERROR invalid mode for ma M token\r\n"),
        ("ms t 1\r\nx\r\n", "HD\r\n"),
        ("ma t\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ]);
}

#[test]
fn a_look_that_is_no_use_leaves_no_trace() {
    dialogue(&[
        ("ms a 1\r\nx\r\n", "HD\r\n"),
        ("mg a u h v\r\n", "VA 1 h0\r\nx\r\n"),
        ("mg a h\r\n", "HD h0\r\n"),
        ("mg a u h\r\n", "HD h1\r\n"),
    ]);
    let server = in_memory();
    let mut client = Client::memcached(&server);
    client.asks("me a\r\n", "EN\r\n");
    client.asks("ms a 3 F2\r\nabc\r\n", "HD\r\n");
    client.send("me a\r\n");
    let line = client.line();
    assert!(line.starts_with("ME a exp=-1 la=0 cas="), "{line}");
    assert!(line.ends_with(" fetch=no cls=1 size=4 flags=2 stale=no won=no\r\n"), "{line}");
}
