//! Scripts that clients' libraries send.

use super::super::client;
use super::{eval_of, everywhere};

#[test]
fn locks() {
    everywhere(|server| {
        let mut it = client(server);
        // redis-py: release, extend, reacquire.
        let release = "local token = redis.call('get', KEYS[1])
            if not token or token ~= ARGV[1] then return 0 end
            redis.call('del', KEYS[1])
            return 1";
        let extend = "local token = redis.call('get', KEYS[1])
            if not token or token ~= ARGV[1] then return 0 end
            local expiration = redis.call('pttl', KEYS[1])
            if not expiration then expiration = 0 end
            if expiration < 0 then return 0 end
            local newttl = ARGV[2]
            if ARGV[3] == '0' then newttl = ARGV[2] + expiration end
            redis.call('pexpire', KEYS[1], newttl)
            return 1";
        it.says("SET lock mine PX 10000 NX", "+OK");
        it.asks(eval_of(extend, &["lock"], &["mine", "10000", "0"]), ":1\r\n");
        let left: i64 = it.line_of("PTTL lock").parse().unwrap();
        assert!((15_000..=20_000).contains(&left), "{left}");
        it.asks(eval_of(extend, &["lock"], &["other", "10000", "0"]), ":0\r\n");
        it.asks(eval_of(release, &["lock"], &["other"]), ":0\r\n");
        it.asks(eval_of(release, &["lock"], &["mine"]), ":1\r\n");
        it.asks(eval_of(release, &["lock"], &["mine"]), ":0\r\n");
        // node-redlock: several keys.
        let several = "local count = 0
            for i, key in ipairs(KEYS) do
                if redis.call('get', key) == ARGV[1] then redis.pcall('del', key) count = count + 1 end
            end
            return count";
        it.says("MSET a t b t c u", "+OK");
        it.asks(eval_of(several, &["a", "b", "c"], &["t"]), ":2\r\n");
        // redislock: msetnx with arguments, and a status.
        let obtain =
            "if redis.call('msetnx', KEYS[1], ARGV[1], KEYS[2], ARGV[1]) ~= 1 then return false end
            for _, key in ipairs(KEYS) do redis.call('pexpire', key, ARGV[2]) end
            return redis.status_reply('OK')";
        it.asks(eval_of(obtain, &["x", "y"], &["v", "5000"]), "+OK\r\n");
        it.asks(eval_of(obtain, &["x", "z"], &["v", "5000"]), "$-1\r\n");
    });
}

#[test]
fn limiters() {
    everywhere(|server| {
        let mut it = client(server);
        // limits: fixed window.
        let fixed = "local current
            local amount = tonumber(ARGV[2])
            current = redis.call('incrby', KEYS[1], amount)
            if tonumber(current) == amount then redis.call('expire', KEYS[1], ARGV[1]) end
            return current";
        it.asks(eval_of(fixed, &["f"], &["60", "1"]), ":1\r\n");
        it.asks(eval_of(fixed, &["f"], &["60", "1"]), ":2\r\n");
        it.says("TTL f", ":60");
        // limits: reset.
        let reset = "local keys = redis.call('keys', KEYS[1])
            local res = 0
            for i = 1, #keys, 5000 do
                res = res + redis.call('del', unpack(keys, i, math.min(i + 4999, #keys)))
            end
            return res";
        it.asks(eval_of(reset, &["f*"], &[]), ":1\r\n");
        // rate-limiter-flexible: set EX NX, incrby, pttl.
        let flexible = "redis.call('set', KEYS[1], 0, 'EX', ARGV[2], 'NX')
            local consumed = redis.call('incrby', KEYS[1], ARGV[1])
            local ttl = redis.call('pttl', KEYS[1])
            if ttl == -1 then redis.call('expire', KEYS[1], ARGV[2]) ttl = 1000 * ARGV[2] end
            return {consumed, ttl > 59000 and ttl <= 60000}";
        it.asks(eval_of(flexible, &["r"], &["2", "60"]), "*2\r\n:2\r\n:1\r\n");
        // redis_rate: GCRA with floats and the time.
        let gcra = "redis.replicate_commands()
            local now = redis.call('TIME')
            now = (now[1] - 1483228800) + (now[2] / 1000000)
            local tat = redis.call('GET', KEYS[1])
            if not tat then tat = now else tat = tonumber(tat) end
            tat = math.max(tat, now)
            local new_tat = tat + ARGV[1] * 1
            redis.call('SET', KEYS[1], new_tat, 'EX', math.ceil(new_tat - now))
            return {1, tostring(new_tat - now)}";
        it.asks(eval_of(gcra, &["g"], &["10"]), "*2\r\n:1\r\n$2\r\n10\r\n");
        // django-redis: incr of a key that must be there.
        let incr = "local value = redis.call('EXISTS', KEYS[1])
            if value == 0 then return redis.error_reply('no key') end
            return redis.call('INCRBY', KEYS[1], ARGV[1])";
        it.asks(eval_of(incr, &["none"], &["1"]), "-no key\r\n");
        it.asks(eval_of(incr, &["r"], &["1"]), ":3\r\n");
        // Laravel: add.
        let add =
            "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])";
        it.asks(eval_of(add, &["l"], &["v", "10"]), "+OK\r\n");
        it.asks(eval_of(add, &["l"], &["v", "10"]), "$-1\r\n");
    });
}

#[test]
fn json() {
    everywhere(|server| {
        let mut it = client(server);
        let source = "local all = cjson.decode(ARGV[1])
            for _, part in ipairs(all.keys) do redis.call('set', part.name, part.value) end
            return cjson.encode({count = #all.keys, first = redis.call('get', all.keys[1].name)})";
        let argument = r#"{"keys":[{"name":"a","value":1},{"name":"b","value":"x"}]}"#;
        let said = it.line_for(eval_of(source, &[], &[argument]));
        let answer = String::from_utf8({
            let mut bytes = vec![0; said.parse::<usize>().unwrap() + 2];
            std::io::Read::read_exact(&mut it.0, &mut bytes).unwrap();
            bytes
        });
        let answer: serde_json::Value = serde_json::from_str(answer.unwrap().trim()).unwrap();
        assert_eq!(answer, serde_json::json!({"count": 2, "first": "1"}));
        it.gives("GET b", "x");
    });
}
