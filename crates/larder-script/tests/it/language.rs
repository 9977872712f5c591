//! The language and its libraries.

use std::time::Duration;

use crate::{answer, echo, machine, start, text, within};

#[test]
fn values_become_answers() {
    for (source, wanted) in [
        ("return 3.99", ":3\r\n"),
        ("return -3.99", ":-3\r\n"),
        ("return 1e300", ":-9223372036854775808\r\n"),
        ("return 0/0", ":-9223372036854775808\r\n"),
        ("return true", ":1\r\n"),
        ("return false", "$-1\r\n"),
        ("return nil", "$-1\r\n"),
        ("return", "$-1\r\n"),
        ("return 'a\\0b'", "$3\r\na\0b\r\n"),
        ("return {1,'a',{2}}", "*3\r\n:1\r\n$1\r\na\r\n*1\r\n:2\r\n"),
        ("return {1,nil,3}", "*1\r\n:1\r\n"),
        ("return {ok='fine'}", "+fine\r\n"),
        ("return {err='MY fault'}", "-MY fault\r\n"),
        ("return redis.error_reply('x')", "-ERR x\r\n"),
        ("return redis.error_reply('MY x')", "-MY x\r\n"),
        ("return redis.status_reply('x\\r\\ny')", "+x  y\r\n"),
        ("return {double=1.5}", "$3\r\n1.5\r\n"),
        ("return {map={a=1}}", "*2\r\n$1\r\na\r\n:1\r\n"),
        ("return {KEYS[1],ARGV[1],#KEYS,#ARGV}", "*4\r\n$1\r\nk\r\n$1\r\na\r\n:1\r\n:1\r\n"),
        ("redis.setresp(3) return true", ":1\r\n"),
    ] {
        assert_eq!(answer(source), wanted, "{source}");
    }
}

#[test]
fn errors_say_where() {
    let ends = |source: &str, begin: &str, end: &str| {
        let answer = answer(source);
        assert!(answer.starts_with(begin) && answer.contains(end), "{source}: {answer}");
    };
    ends(
        "return foo",
        "-ERR user_script:1: Script attempted to access nonexistent global variable 'foo' script: ",
        ", on @user_script:1.\r\n",
    );
    ends("\n\nerror('x')", "-ERR user_script:3: x script: ", ", on @user_script:3.\r\n");
    ends("error({err='MY x'})", "-MY x script: ", ", on @user_script:1.");
    ends("return {", "-ERR Error compiling script (new function): user_script:1: ", "");
    ends("return \u{1b}", "-ERR Error compiling script (new function): user_script:1: ", "");
    ends("\u{1b}Lua", "-ERR Error compiling script (new function): ", "bytecode");
    ends("return redis.call()", "-ERR Please specify at least one argument", "");
    ends(
        "return redis.call('a', {})",
        "-ERR Lua redis lib command arguments must be strings or integers",
        "",
    );
}

#[test]
fn no_script_changes_what_the_next_one_sees() {
    let locked = "Attempt to modify a readonly table";
    for source in [
        "x = 1",
        "_G.x = 1",
        "string.find = 1",
        "redis.call = 1",
        "rawset(_G, 'x', 1)",
        "rawset(string, 'find', 1)",
        "table.insert(redis, 1)",
        "table.sort(string)",
        "setmetatable(_G, {})",
        "setmetatable(string, {})",
        "getmetatable('').__index = 1",
        "getmetatable(_G).__index = 1",
        "getmetatable(string).__newindex = nil",
        "getmetatable('').x = 1",
        "setfenv(0, {})",
        "getfenv(0).x = 1",
        "getfenv(string.find).x = 1",
        "getfenv().x = 1",
        "math.random = 1",
        "loadstring('x = 1')()",
        "coroutine.wrap(function() x = 1 end)()",
    ] {
        let answer = answer(source);
        assert!(answer.contains(locked), "{source}: {answer}");
    }
    // What a script changes of itself is gone, too.
    let limit = Duration::from_secs(10);
    let mut it = machine();
    for (source, wanted) in [
        ("setfenv(1, {}) return 1", ":1\r\n"),
        ("setfenv(1, {}) return 1", ":1\r\n"),
        ("KEYS.x = 1 KEYS[2] = 'b' return #KEYS", ":2\r\n"),
        ("return {#KEYS, KEYS.x == nil}", "*2\r\n:1\r\n:1\r\n"),
        ("redis.setresp(3) return 1", ":1\r\n"),
        ("return {true, false, 3}", "*3\r\n:1\r\n$-1\r\n:3\r\n"),
        ("cjson.encode_max_depth(1) return 1", ":1\r\n"),
        ("return cjson.encode({{1}})", "$5\r\n[[1]]\r\n"),
        ("math.randomseed(1) return 1", ":1\r\n"),
        (
            "return tostring(tostring(math.random()) == '0.041630344484761')..tostring(math.random() < 1)",
            "$9\r\nfalsetrue\r\n",
        ),
        ("local e = pcall(error, redis) return 1", ":1\r\n"),
        ("error(redis)", "-ERR unknown error\r\n"),
        ("return {redis.source == nil, rawget(redis, 'source') == nil}", "*2\r\n:1\r\n:1\r\n"),
    ] {
        let (answer, _, again) =
            within(limit, start(it, source.as_bytes(), &["k"], &[]), echo).unwrap();
        assert_eq!(answer, wanted, "{source}");
        it = again.unwrap();
    }
}

#[test]
fn libraries_are_those_of_redis() {
    for (source, wanted) in [
        (
            "return table.concat({unpack({1, 2, 3}, 2)})..select('#', unpack({}, 1, 3))..#{unpack({1, 2, 3}, 3, 2)}",
            "2330",
        ),
        ("return select(2, pcall(unpack, {1}, 0, 2147483647))", "too many results to unpack"),
        ("return select(2, pcall(unpack, {1}, -2, 2147483647))", "too many results to unpack"),
        ("return select(2, pcall(unpack, {1}, -2147483648, -2))", "too many results to unpack"),
        ("return select(2, pcall(unpack, {1}, -1e300, 1e300))", "too many results to unpack"),
        (
            "return tostring(pcall(unpack, {1}, 1, 7900))..tostring(pcall(unpack, {1}, 1, 8100))",
            "truefalse",
        ),
        ("return tostring(newproxy)", "-"),
        (
            "local n = {} for k in pairs(_G) do n[#n+1] = k end table.sort(n) return table.concat(n, ' ')",
            "ARGV KEYS _G _VERSION assert bit cjson cmsgpack collectgarbage coroutine error gcinfo getfenv \
             getmetatable ipairs \
          load loadstring math next os pairs pcall rawequal rawget rawset redis select server setfenv setmetatable \
          string struct table tonumber tostring type unpack xpcall",
        ),
        ("local n = {} for k in pairs(os) do n[#n+1] = k end return table.concat(n, ' ')", "clock"),
        ("return bit.tohex(bit.band(0xffffffff, -2))", "fffffffe"),
        ("return tostring(bit.bor(0x80000000, 1))", "-2147483647"),
        ("return bit.tohex(bit.bswap(0x12345678), -4)", "3412"),
        (
            "return tostring(bit.arshift(-8, 1))..tostring(bit.rshift(-1, 31))..tostring(bit.rol(1, 33))",
            "-412",
        ),
        ("return redis.sha1hex('')", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("return table.concat({1, 2.5, 'x'}, ',')", "1,2.5,x"),
        ("local t = {3,1,2} table.sort(t) return table.concat(t)", "123"),
        (
            "local t = {3,1,2} table.sort(t, function(a, b) return a > b end) return table.concat(t)",
            "321",
        ),
        (
            "local t = {1,2} table.insert(t, 1, 0) table.insert(t, 9) \
             return table.concat(t)..table.remove(t, 1)..table.remove(t)..#t",
            "0129092",
        ),
        ("return string.rep('ab', 3)..('x'):rep(0)..#('y'):rep(-1)", "ababab0"),
        ("return tostring(pcall(string.rep))", "false"),
        ("local a, b = load(function() return nil end) return type(a)", "function"),
        (
            "local n = 0 local f = load(function() n = n + 1 return ({'return ', '4', '2'})[n] end) \
             return tostring(f())",
            "42",
        ),
        (
            "return select(2, loadstring(string.dump(function() end)))",
            "attempt to load a binary chunk, which is not allowed",
        ),
        (
            "return select(2, loadstring('return ('))",
            "[string \"return (\"]:1: unexpected symbol near '<eof>'",
        ),
        ("return tostring(redis.replicate_commands())", "true"),
        ("return string.format('%q %5.1f %s', 'a\"', 1.25, 'x')", "\"a\\\"\"   1.2 x"),
        ("return tostring(xpcall(function() error('x') end, function(e) return e end))", "false"),
        ("math.randomseed(1) return tostring(math.random())", "0.041630344484761"),
    ] {
        if wanted == "-" {
            assert!(answer(source).contains("nonexistent"), "{source}");
        } else {
            assert_eq!(text(source), wanted, "{source}");
        }
    }
}

#[test]
fn json_has_the_rules_of_redis() {
    for (source, wanted) in [
        ("return cjson.encode({})", "{}"),
        ("return cjson.encode({1,2,3})", "[1,2,3]"),
        ("return cjson.encode({1,nil,3})", "[1,null,3]"),
        ("return cjson.encode({a={1}})", "{\"a\":[1]}"),
        ("return cjson.encode(1/3)", "0.33333333333333"),
        ("return cjson.encode({[1.5]=true})", "{\"1.5\":true}"),
        ("return cjson.encode('a\"/\\\\\\n\\1\\127')", "\"a\\\"\\/\\\\\\n\\u0001\\u007f\""),
        ("return cjson.encode({a=cjson.null})", "{\"a\":null}"),
        (
            "return tostring(cjson.decode('{\"a\":[1,{\"b\":\"\\\\u00e9\\\\ud83d\\\\ude00\"}]}').a[2].b)",
            "é😀",
        ),
        ("return tostring(cjson.decode('[null]')[1] == cjson.null)", "true"),
        ("return tostring(cjson.decode(' -1.5e3 '))", "-1500"),
        (
            "return select(2, pcall(cjson.decode, '{'))",
            "Expected object key string but found T_END at character 2",
        ),
        (
            "return select(2, pcall(cjson.decode, '[1 2]'))",
            "Expected comma or array end but found T_NUMBER at character 4",
        ),
        (
            "return select(2, pcall(cjson.decode, '.'))",
            "Expected value but found invalid token at character 1",
        ),
        (
            "return select(2, pcall(cjson.encode, {[1]=1,[100]=1}))",
            "Cannot serialise table: excessively sparse array",
        ),
        (
            "return select(2, pcall(cjson.encode, print == nil and 0/0))",
            "Cannot serialise number: must not be NaN or Inf",
        ),
        (
            "return select(2, pcall(cjson.encode, cjson.encode))",
            "Cannot serialise function: type not supported",
        ),
        (
            "local a = {} a[1] = a return select(2, pcall(cjson.encode, a))",
            "Cannot serialise, excessive nesting (1001)",
        ),
        (
            "return select(2, pcall(cjson.decode, ('['):rep(2000)))",
            "Found too many nested data structures (1001) at character 1001",
        ),
        ("cjson.encode_sparse_array(true) return cjson.encode({[100]=1})", "{\"100\":1}"),
    ] {
        let source = source.replace("print == nil and ", "");
        assert_eq!(text(&source), wanted, "{source}");
    }
}

/// The bytes that a script returns, in hexadecimal digits.
fn hex(of: &str) -> String {
    text(&format!("return (({of}):gsub('.', function(c) return ('%02x'):format(c:byte()) end))"))
}

#[test]
fn messages_are_packed_as_cmsgpack_does() {
    for (value, wanted) in [
        ("nil", "c0"),
        ("true", "c3"),
        ("false", "c2"),
        ("0", "00"),
        ("127", "7f"),
        ("128", "cc80"),
        ("65535", "cdffff"),
        ("65536", "ce00010000"),
        ("4294967296", "cf0000000100000000"),
        ("-1", "ff"),
        ("-32", "e0"),
        ("-33", "d0df"),
        ("-129", "d1ff7f"),
        ("-32769", "d2ffff7fff"),
        ("-2147483649", "d3ffffffff7fffffff"),
        ("1.5", "ca3fc00000"),
        ("0.1", "cb3fb999999999999a"),
        ("'abc'", "a3616263"),
        ("('x'):rep(32)", &format!("d920{}", "78".repeat(32))),
        ("{}", "90"),
        ("{1,2}", "920102"),
        ("{a=1}", "81a16101"),
        ("1, 'a'", "01a161"),
    ] {
        assert_eq!(hex(&format!("cmsgpack.pack({value})")), wanted, "{value}");
    }
    for value in [
        "0",
        "127",
        "128",
        "65536",
        "4294967296",
        "-1",
        "-32",
        "-33",
        "-129",
        "-32769",
        "-2147483649",
        "1.5",
        "0.1",
    ] {
        assert_eq!(
            text(&format!("return tostring(cmsgpack.unpack(cmsgpack.pack({value})) == {value})")),
            "true"
        );
    }
    for (source, wanted) in [
        ("local t = cmsgpack.unpack(cmsgpack.pack({a={1,{b='c'}}})) return t.a[2].b", "c"),
        ("local a, b = cmsgpack.unpack('\\1\\2') return a..'-'..b", "1-2"),
        ("local o, a = cmsgpack.unpack_one('\\1\\2') return o..'-'..a", "1-1"),
        ("local o, a = cmsgpack.unpack_one('\\1\\2', 1) return o..'-'..a", "-1-2"),
        ("local o, a, b = cmsgpack.unpack_limit('\\1\\2\\3', 2) return o..'-'..a..b", "2-12"),
        ("return select(2, pcall(cmsgpack.unpack, '\\217\\9a'))", "Missing bytes in input."),
        ("return select(2, pcall(cmsgpack.unpack, '\\193'))", "Bad data format in input."),
        ("local t = {} t[1] = t return tostring(#cmsgpack.pack(t))", "17"),
        (
            "return select(2, pcall(cmsgpack.unpack, ('\\145'):rep(9999)))",
            "too many return values at once; use unpack_one or unpack_limit instead.",
        ),
    ] {
        assert_eq!(text(source), wanted, "{source}");
    }
}

#[test]
fn structs_are_packed_as_struct_does() {
    for (value, wanted) in [
        ("'b', -1", "ff"),
        ("'>I2', 258", "0102"),
        ("'<I2', 258", "0201"),
        ("'>i8', -2", "fffffffffffffffe"),
        ("'!4 b i', 1, 2", "0100000002000000"),
        ("'c2c0', 'abc', 'de'", "61626465"),
        ("'s', 'ab'", "616200"),
        ("'>f', 1.5", "3fc00000"),
        ("'d', 0.1", "9a9999999999b93f"),
        ("'x', 1", "00"),
    ] {
        assert_eq!(hex(&format!("struct.pack({value})")), wanted, "{value}");
    }
    for (source, wanted) in [
        ("return table.concat({struct.unpack('>I2b', '\\1\\2\\255')}, ' ')", "258 -1 4"),
        ("return table.concat({struct.unpack('Bc0s', '\\2abcd\\0')}, ' ')", "ab cd 7"),
        (
            "return table.concat({struct.unpack('>dfi8', struct.pack('>dfi8', 0.5, 0.25, -7))}, ' ')",
            "0.5 0.25 -7 21",
        ),
        ("return tostring(struct.size('!8 b d h'))", "18"),
        ("return tostring(pcall(struct.unpack, 'I4', 'abc'))", "false"),
        ("return tostring(pcall(struct.unpack, 'c0', 'abc'))", "false"),
        ("return tostring(pcall(struct.unpack, 'I', 'abcd', -1))", "false"),
        ("return tostring(pcall(struct.pack, 'I33', 1))", "false"),
        ("return tostring(pcall(struct.pack, 'i2147483648', 1))", "false"),
        ("return tostring(pcall(struct.size, 's'))", "false"),
        ("return tostring(pcall(struct.pack, '!3', 1))", "false"),
    ] {
        assert_eq!(text(source), wanted, "{source}");
    }
}
