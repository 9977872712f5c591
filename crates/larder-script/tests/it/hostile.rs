//! Scripts that would not end, or would take all memory.

use std::time::{Duration, Instant};

use larder_script::{Outcome, Step};

use crate::{Account, echo, machine, machine_of, start, within};

/// Most time of a step, on a machine that is busy with other things.
const STEP_MAX: Duration = Duration::from_millis(100);

/// Scripts that no `pcall` may keep.
const ENDLESS: &[&str] = &[
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local function f() pcall(f) while true do end end f()",
    "coroutine.wrap(function() while true do end end)()",
    "local function f() return f() end f()",
    "while true do pcall(error) end",
    "while true do redis.call('x') end",
    "while true do redis.pcall() end",
    "string.find(('a'):rep(400), ('.-'):rep(5)..'b')",
    "string.match(('a'):rep(400), ('a*'):rep(8)..'b')",
    "for _ in string.gmatch(('a'):rep(400), ('.-'):rep(5)..'b') do end",
    "string.gsub(('a'):rep(400), ('.-'):rep(5)..'b', '')",
    "while true do ('x'):rep(1e6):find('y', 1, true) end",
    "while true do ('x'):rep(1e6):reverse() end",
    "string.gsub(('a'):rep(1e6), 'a', function() while true do end end)",
    "table.sort({1, 2, 3}, function() while true do end end)",
    "local t = {} for i = 1, 3e5 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 3e5 do t[i] = i end while true do table.insert(t, 1, 0) table.remove(t, 1) end",
    "local t = {} for i = 1, 3e5 do t[i] = i end while true do table.concat(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = {} end while true do collectgarbage() end",
    "local s = ('x'):rep(3e6) while true do local a = s..'y' end",
    "local s, r = ('x'):rep(3e6)..'a', ('x'):rep(3e6)..'b' while true do local a = s < r end",
    "load(function() return 'local a = 1 ' end)",
    "while true do loadstring(('local a = 1 '):rep(100)) end",
    "local t = setmetatable({}, {__index = function() while true do end end}) return t.y",
    "string.rep('', 1e300)",
    "while true do ('x'):rep(0, 1e9) end",
    "local s = '['..('1,'):rep(2e5)..'1]' while true do cjson.decode(s) end",
    "local t = {} for i = 1, 2e5 do t[i] = i end while true do cjson.encode(t) end",
    "while true do redis.sha1hex(('x'):rep(1e6)) end",
    "table.foreach({1}, function() while true do end end)",
    "local a = {} for i = 1, 30 do a = {a, a} end return a",
];

/// The longest step of a script that runs for a while.
fn longest_step(account: &Account, source: &str) -> Duration {
    let mut running = start(machine_of(account), source.as_bytes(), &[], &[]);
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_millis(150) {
        let step = Instant::now();
        match running.resume() {
            Step::Rests => {}
            Step::Calls => {
                let (request, mut reply) = running.take_request();
                reply.extend(b"+OK\r\n");
                running.replies(request, reply);
            }
            Step::Ends => {
                let end = running.end();
                let text = String::from_utf8_lossy(&end.answer).into_owned();
                assert!(
                    end.outcome == Outcome::WithoutMemory
                        || text.contains("memory")
                        || text.contains("overflow")
                        || source.contains("rep('', ")
                        || source.contains("load(function"),
                    "{source} ended: {text}"
                );
                running = start(machine_of(account), b"return 1", &[], &[]);
                break;
            }
        }
        longest = longest.max(step.elapsed());
    }
    drop(running);
    assert_eq!(account.used(), 0, "{source}");
    longest
}

#[test]
fn an_endless_script_is_stopped_and_lets_others_run() {
    let account = Account::of(64 << 20);
    for source in ENDLESS {
        // Other processes may be in the way of one step, but not of one in each of three runs.
        let mut tries = (0..3).map(|_| longest_step(&account, source));
        assert!(
            tries.any(|longest| longest < STEP_MAX),
            "{source}: steps of more than {STEP_MAX:?}"
        );
    }
}

#[test]
fn memory_has_a_limit() {
    for source in [
        "return ('x'):rep(2^30)",
        "pcall(string.rep, 'x', 2^30) return ('x'):rep(2^30)",
        "local s = 'x' while true do s = s..s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e6)..i end",
        "local t = {('x'):rep(1e6)} for i = 1, 100 do t[i] = t[1] end return table.concat(t)",
        "local a = ('x'):rep(1e6) local t = {} for i = 1, 100 do t[i] = a end return t",
        "return (('x'):rep(1e5):gsub('x', ('y'):rep(1e3)))",
    ] {
        let account = Account::of(64 << 20);
        let running = start(machine_of(&account), source.as_bytes(), &[], &[]);
        let (text, outcome, machine) = within(Duration::from_secs(20), running, echo).unwrap();
        assert_eq!(
            outcome,
            Outcome::WithoutMemory,
            "{source}: {}",
            text.get(..99).unwrap_or(&text)
        );
        drop(machine);
        assert_eq!(account.used(), 0);
    }
}

/// Lua's own collector would wait until there is twice as much.
#[test]
fn garbage_is_collected_before_the_limit() {
    let source = "local live = {} for i = 1, 9 do live[i] = ('x'):rep(1e6)..i end collectgarbage()
        for i = 1, 2000 do local t = {} for j = 1, 100 do t[j] = i..':'..j end end return #live";
    let running = start(machine(), source.as_bytes(), &[], &[]);
    let (text, outcome, _) = within(Duration::from_secs(20), running, echo).unwrap();
    assert_eq!((&*text, outcome), (":9\r\n", Outcome::Returned));
}

#[test]
fn a_budget_counts_before_the_limit() {
    let account = Account::of(1 << 20);
    let source = b"return #('x'):rep(2000000)";
    let running = start(machine_of(&account), source, &[], &[]);
    let outcome = within(Duration::from_secs(10), running, echo).unwrap().1;
    assert_eq!(outcome, Outcome::WithoutMemory);
    assert_eq!(
        account.used(),
        0,
        "a machine of a script without memory may go, or its memory is given back"
    );
}

/// The deepest calls that Lua allows fit on the stack.
#[test]
fn the_stack_is_enough() {
    let nested = format!("return {}1{}", "(".repeat(190), ")".repeat(190));
    let functions = format!("{}{}", "return function() ".repeat(90), "end ".repeat(90));
    for source in [
        "local function f() return f() + 1 end return f()",
        "local function f(s) return (s:gsub('x', f)) end return f('x')",
        "local function f() return pcall(f) end return f() and 1",
        "local function f() table.sort({1, 2}, f) end f()",
        "local function f() return coroutine.wrap(f)() end return f()",
        "local function f() return setmetatable({}, {__index = f}).x end return f()",
        "local function f() return load(f)() end return f()",
        "local t = 1 for i = 1, 999 do t = {t} end return #cjson.encode(t)",
        "return #cjson.decode(('['):rep(999)..(']'):rep(999))",
        "local function f() return xpcall(f, f) end return f() and 1",
        "local a = {} a[1] = a return a",
        "return ('x'):rep(300):match(('(x)'):rep(32)..('x?'):rep(150))",
        &nested,
        &functions,
    ] {
        println!("{source}");
        let running = start(machine(), source.as_bytes(), &[], &[]);
        assert!(
            within(Duration::from_secs(20), running, echo).is_some(),
            "{}",
            source.get(..60).unwrap_or(source)
        );
    }
}

/// Calls functions of all libraries with arguments that they were not made for. Lua is built with the checks of its
/// interface here, which end the process where one of our functions uses it wrongly.
const ANY_CALLS: &[u8] = br#"
local seed = tonumber(ARGV[1])
local function random(n)
    seed = (seed * 16807) % 2147483647
    return seed % n + 1
end
local pcall, unpack, type, floor = pcall, unpack, type, math.floor
local functions = {}
local function add(t)
    for name, f in pairs(t) do
        if type(f) == 'function' then functions[#functions + 1] = name end
        if type(f) == 'function' then functions[name] = f end
    end
end
for name, t in pairs(_G) do
    if type(t) == 'table' and t ~= _G and t ~= KEYS and t ~= ARGV then add(t) end
end
add(_G)
table.sort(functions)
local deep = {} deep[1] = deep
local values = {
    -1, 0, 1, 2, 3.7, 255, 2^31, -2^31, 2^31 - 1, 2^32, 2^53, -2^53, 2^63, 1e300, -1e300, 0/0, 1/0, -1/0,
    '', 'a', 'abc', ('x'):rep(300), '%1', '(.-)%1', '[%a-', '%b()', '%f[a]', '()', ('(x)'):rep(32), 'c0', '>!8i8dfs',
    '!3', 'I33', 'c99999', '{"a":[1,{"b":null}]}', '["\\ud800"]', '\145\145\145', '\221\255\255\255\255',
    '%d%5.2f%q%s', '%99.99f', 'collect', 'step', '\27Lua', 'return ...', '#', 'get', '10', '0x10', '\0a\0',
    {}, {1, 2, 3}, {a = 1}, {3, 1, 2, 'x'}, {[1] = 1, [100] = 2}, deep,
    setmetatable({}, {__index = function() return 1 end}),
    function() return 1 end, function(...) return ... end, function() error('x') end, function() coroutine.yield(1) end,
    coroutine.create(function() coroutine.yield(1) end), coroutine.wrap(function() coroutine.yield(1) end),
    string, _G, redis, cjson.null, true, false, string.find, pcall, redis.call,
}
local count = #values
for i = 1, 400 do
    local f = functions[functions[random(#functions)]]
    local arguments, n = {}, random(5) - 1
    for j = 1, n do
        local v = values[random(count + 1)]
        arguments[j] = v
    end
    local back = {pcall(f, unpack(arguments, 1, n))}
    -- What comes back is an argument of later calls.
    if back[2] ~= nil and type(back[2]) ~= 'boolean' then values[random(count)] = back[2] end
end
return 1
"#;

#[test]
fn any_function_takes_any_arguments() {
    let (mut ended, mut returned) = (0, 0);
    let mut it = Some(machine());
    for seed in 1..=300_u32 {
        let argument = (seed * 7919).to_string();
        let running =
            start(it.take().unwrap_or_else(machine), ANY_CALLS, &[], &[argument.as_bytes()]);
        if let Some((text, outcome, again)) = within(Duration::from_millis(300), running, echo) {
            ended += 1;
            returned += u32::from(outcome == Outcome::Returned);
            assert!(outcome != Outcome::Uncompiled, "{text}");
            it = again;
        }
    }
    assert!(ended > 150 && returned > 100, "{ended} ended, {returned} returned");
}
