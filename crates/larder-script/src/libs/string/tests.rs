//! Our functions beside those of Lua.

use proptest::prelude::*;

use crate::raw::State;
use crate::{Budget, Machine, Script, Step, sha1_hex};

/// Keeps Lua's own functions under other names.
pub(super) fn keep_those_of_lua(state: State, table: i32) {
    for name in ["find", "match", "gmatch", "gsub", "rep"] {
        state.raw_field(table, name);
        state.set_raw_field(table, &format!("lua_{name}"));
    }
}

struct Endless;

impl Budget for Endless {
    fn grow(&mut self, _: usize) -> bool {
        true
    }

    fn shrink(&mut self, _: usize) {}
}

/// Returns what both functions return, or why they failed, as texts.
const BOTH: &[u8] = br#"
local text, pattern, by, init = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local function show(...)
    local all = {}
    for i = 1, select('#', ...) do all[i] = type((select(i, ...)))..':'..tostring((select(i, ...))) end
    return table.concat(all, '|')
end
local function all(gmatch)
    local found = {}
    for a, b in gmatch(text, pattern) do
        found[#found + 1] = show(a, b)
        if #found > 50 then break end
    end
    return table.concat(found, ' ')
end
local answer = {}
local function add(name, ...)
    local s = string
    answer[#answer + 1] = show(pcall(s[name], ...))
    answer[#answer + 1] = show(pcall(s['lua_'..name], ...))
end
add('find', text, pattern, init)
add('find', text, pattern, init, true)
add('match', text, pattern, init)
add('gsub', text, pattern, by)
add('gsub', text, pattern, by, 2)
add('gsub', text, pattern, function(a, b) if a ~= 'a' then return show(a, b) end end)
add('gsub', text, pattern, {a = 'x', b = false})
answer[#answer + 1] = show(pcall(all, string.gmatch))
answer[#answer + 1] = show(pcall(all, string.lua_gmatch))
add('rep', text, init)
return answer
"#;

fn both(machine: Machine, arguments: [&[u8]; 4]) -> (Vec<u8>, Machine) {
    let name = sha1_hex(BOTH);
    let script = Script { name: &name, source: BOTH, is_resp3: false, only_compiles: false };
    let mut running = machine.start(script, std::iter::empty(), arguments.into_iter());
    while running.resume() != Step::Ends {}
    let end = running.end();
    (end.answer, end.machine.expect("it is small"))
}

/// The strings of an array.
fn strings(answer: &[u8]) -> Vec<Vec<u8>> {
    let text =
        answer.strip_prefix(b"*18\r\n").unwrap_or_else(|| panic!("{}", answer.escape_ascii()));
    let mut rest = text;
    let mut all = Vec::new();
    while let Some(head) = rest.windows(2).position(|two| two == b"\r\n") {
        let bytes: usize = std::str::from_utf8(&rest[1..head]).unwrap().parse().unwrap();
        all.push(rest[head + 2..head + 2 + bytes].to_vec());
        rest = &rest[head + bytes + 4..];
    }
    all
}

/// A few letters, so that patterns match.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"aab(x)]-%\0\n\xe9 1.".to_vec()), 0..12)
}

fn pattern() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "a", "b", ".", "%a", "%A", "%s", "%d", "%w", "%p", "%z", "%%", "[ab]", "[^a]", "[a-x]",
        "[%a-]", "[]x]", "[^]]", "(", ")", "()", "(a*)", "(.-)", "*", "+", "-", "?", "^", "$",
        "%1", "%2", "%b()", "%b", "%f[%a]", "%f", "[", "%", "x", "\u{0}", "[a-", "%bxx",
    ]);
    prop::collection::vec(part, 0..7).prop_map(|parts| parts.concat().into_bytes())
}

fn by() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec!["x", "%0", "%1", "%2", "%%", "%", "<", "%a"]);
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat().into_bytes())
}

#[test]
fn they_do_what_those_of_lua_do() {
    let mut machine = Machine::new(16 << 20, Box::new(Endless));
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() },
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let place = std::cell::RefCell::new(&mut machine);
    let done = runner.run(&(text(), pattern(), by(), -3..12_i32), |(text, pattern, by, init)| {
        let mut place = place.borrow_mut();
        let init = init.to_string();
        let it = place.take().unwrap_or_else(|| Machine::new(16 << 20, Box::new(Endless)).unwrap());
        let (answer, again) = both(it, [&text, &pattern, &by, init.as_bytes()]);
        **place = Some(again);
        let all = strings(&answer);
        for (at, two) in all.chunks(2).enumerate() {
            let show = |bytes: &[u8]| {
                // The name of the function in an error, and where it is.
                let text = bytes.escape_ascii().to_string().replace("lua_", "");
                text.replace("user_script:1: ", "").replace("to '?'", "")
            };
            prop_assert_eq!(show(&two[0]), show(&two[1]), "{}", at);
        }
        Ok(())
    });
    done.unwrap();
}
