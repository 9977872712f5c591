# `just` lists these; each is one command that also runs without just.

# List the recipes
default:
    @just --list

# What a change must pass on any machine
ci:
    .ci/run

# Everything that this machine can check, with the reason for what it cannot
all:
    cargo xtask all

# Format, lints, house rules
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask tidy

# Tests of one crate, e.g. `just test larder soc::`
test crate *filter:
    cargo test -p {{crate}} {{filter}}

# The examples for users of the library
examples:
    for name in memory hybrid fetch tenants metrics shards; do cargo run -q -p larder --example $name; done
    cargo run -q -p larder --features serde --example typed

# The other checks, by name
checks:
    cargo xtask --help
