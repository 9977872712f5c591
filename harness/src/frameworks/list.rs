//! The frameworks and libraries, their packages, and the programs that use them.

use super::framework::Packages::{Debian, Go, Maven, Npm, Pip};
use super::framework::{Backend, Framework, Packages};
use crate::fetched::Source;

const RESP: &[Backend] = &[Backend::Resp];
const BOTH: &[Backend] = &[Backend::Resp, Backend::Memcached];

/// Symfony's tags refuse servers that evict keys without a lifetime.
const SYMFONY_OPTIONS: &[&str] = &["--maxmemory-policy", "volatile-lru"];

const PY: Source = ("feature.py", include_str!("programs/feature.py"));
const JS: Source = ("feature.js", include_str!("programs/feature.js"));
const GO: Source = ("feature.go", include_str!("programs/feature.go"));
const JAVA: Source = ("Feature.java", include_str!("programs/Feature.java"));

/// A file of `programs` under a name, with the files that it needs.
macro_rules! program {
    ($file:literal as $name:literal $(, $with:expr)*) => {
        &[($name, include_str!(concat!("programs/", $file))) $(, $with)*]
    };
}

const fn of(
    name: &'static str,
    backends: &'static [Backend],
    packages: Packages,
    sources: &'static [Source],
) -> Framework {
    Framework { name, backends, packages, sources, larder: &[] }
}

/// In the order of the table.
pub(super) const FRAMEWORKS: [Framework; 26] = [
    of("redis-py", RESP, Pip(&["redis"]), program!("redis_py.py" as "check.py", PY)),
    of(
        "Django",
        BOTH,
        Pip(&["Django", "redis", "pymemcache"]),
        program!("django_core.py" as "check.py", PY),
    ),
    of(
        "django-redis",
        RESP,
        Pip(&["django-redis"]),
        program!("django_redis_cache.py" as "check.py", PY),
    ),
    of(
        "Flask-Caching",
        BOTH,
        Pip(&["Flask-Caching", "redis", "python-memcached"]),
        program!("flask_caching_check.py" as "check.py", PY),
    ),
    of(
        "limits",
        BOTH,
        Pip(&["limits", "redis", "pymemcache"]),
        program!("limits_check.py" as "check.py", PY),
    ),
    of(
        "Flask-Limiter",
        BOTH,
        Pip(&["Flask-Limiter", "redis", "pymemcache"]),
        program!("flask_limiter_check.py" as "check.py", PY),
    ),
    of(
        "dogpile.cache",
        BOTH,
        Pip(&["dogpile.cache", "redis", "pymemcache"]),
        program!("dogpile_check.py" as "check.py", PY),
    ),
    of(
        "aiocache",
        BOTH,
        Pip(&["aiocache", "redis", "aiomcache"]),
        program!("aiocache_check.py" as "check.py", PY),
    ),
    of("cashews", RESP, Pip(&["cashews[redis]"]), program!("cashews_check.py" as "check.py", PY)),
    of(
        "cacheops",
        RESP,
        Pip(&["django-cacheops"]),
        program!("cacheops_check.py" as "check.py", PY),
    ),
    of("Celery", RESP, Pip(&["celery", "redis"]), program!("celery_check.py" as "check.py", PY)),
    of(
        "python-redis-lock",
        RESP,
        Pip(&["python-redis-lock"]),
        program!("redis_lock_check.py" as "check.py", PY),
    ),
    of("redlock-py", RESP, Pip(&["redlock-py"]), program!("redlock_py_check.py" as "check.py", PY)),
    of("pottery", RESP, Pip(&["pottery"]), program!("pottery_check.py" as "check.py", PY)),
    of("ioredis", RESP, Npm(&["ioredis"]), program!("ioredis.js" as "check.js", JS)),
    of("node-redis", RESP, Npm(&["redis"]), program!("node_redis.js" as "check.js", JS)),
    of(
        "rate-limiter-flexible",
        BOTH,
        Npm(&["rate-limiter-flexible", "ioredis", "redis", "memcached"]),
        program!("rate_limiter_flexible.js" as "check.js", JS),
    ),
    of("redlock", RESP, Npm(&["redlock", "ioredis"]), program!("redlock.js" as "check.js", JS)),
    of(
        "redsync",
        RESP,
        Go(&["github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9"]),
        program!("redsync.go" as "main.go", GO),
    ),
    of(
        "redislock",
        RESP,
        Go(&["github.com/bsm/redislock", "github.com/redis/go-redis/v9"]),
        program!("redislock.go" as "main.go", GO),
    ),
    of(
        "redis_rate",
        RESP,
        Go(&["github.com/go-redis/redis_rate/v10", "github.com/redis/go-redis/v9"]),
        program!("redis_rate.go" as "main.go", GO),
    ),
    of(
        "Rails",
        BOTH,
        Debian("ruby", &["ruby-activesupport", "ruby-redis", "ruby-dalli"]),
        program!("rails_cache.rb" as "check.rb"),
    ),
    Framework {
        larder: SYMFONY_OPTIONS,
        ..of(
            "Symfony",
            BOTH,
            Debian("php", &["php-cli", "php-symfony-cache", "php-redis", "php-memcached"]),
            program!("symfony_cache.php" as "check.php"),
        )
    },
    of(
        "Laravel",
        BOTH,
        Debian(
            "php",
            &[
                "php-cli",
                "php-illuminate-cache",
                "php-illuminate-redis",
                "php-redis",
                "php-memcached",
            ],
        ),
        program!("laravel_cache.php" as "check.php"),
    ),
    of(
        "Lettuce",
        RESP,
        Maven(("io.lettuce", "lettuce-core", "7.7.0.RELEASE")),
        program!("Lettuce.java" as "Lettuce.java", JAVA),
    ),
    of(
        "Redisson",
        RESP,
        Maven(("org.redisson", "redisson", "3.52.0")),
        program!("RedissonLock.java" as "RedissonLock.java", JAVA),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_framework_has_a_name_of_its_own() {
        for (index, framework) in FRAMEWORKS.iter().enumerate() {
            assert!(FRAMEWORKS[..index].iter().all(|other| other.name != framework.name));
        }
    }
}
