//! Statistics as a table for people.

use std::fmt;

use super::{Percentiles, Stats, ratio};

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part| ratio(part, self.requests) * 100.0;
        line(f, "requests", format_args!("{}", grouped(self.requests)))?;
        for (name, count) in [("GET", self.gets), ("SET", self.sets), ("DELETE", self.deletes)] {
            let text = format!("{} ({:.1} %)", grouped(count), share(count));
            line(f, &format!("  {name}"), format_args!("{text}"))?;
        }
        line(f, "distinct keys", format_args!("{}", grouped(self.unique_keys)))?;
        line(f, "requests per key", format_args!("{:.2}", self.requests_per_key))?;
        line(f, "keys requested once", format_args!("{:.1} %", self.one_hit_ratio * 100.0))?;
        line(f, "footprint", format_args!("{} bytes", grouped(self.footprint_bytes)))?;
        line(f, "requested", format_args!("{} bytes", grouped(self.requested_bytes)))?;
        if self.gets_of_unknown_size > 0 {
            let count = grouped(self.gets_of_unknown_size);
            line(f, "GETs of unknown size", format_args!("{count}"))?;
        }
        line(f, "time span", format_args!("{} s", grouped(self.span_s.into())))?;
        self.fmt_percentiles(f)?;
        self.fmt_lru(f)
    }
}

impl Stats {
    fn fmt_percentiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{:<16}", "")?;
        for name in ["mean", "min", "p10", "p50", "p90", "p99", "max"] {
            write!(f, "{name:>14}")?;
        }
        writeln!(f)?;
        row(f, "object bytes", &self.object_bytes)?;
        row(f, "key bytes", &self.key_bytes)?;
        row(f, "value bytes", &self.value_bytes)?;
        if self.sets > 0 {
            row(f, "TTL of SETs, s", &self.ttl_s)?;
        }
        Ok(())
    }

    fn fmt_lru(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lru.is_empty() {
            return Ok(());
        }
        let names = ["% of footprint", "miss ratio", "of GETs", "of bytes"];
        write!(f, "\n{:<24}", "LRU cache of bytes")?;
        names.iter().try_for_each(|name| write!(f, "{name:>16}"))?;
        writeln!(f)?;
        for cache in &self.lru {
            let part = ratio(cache.capacity_bytes, self.footprint_bytes) * 100.0;
            writeln!(
                f,
                "{:>24}{part:>16.2}{:>16.4}{:>16.4}{:>16.4}",
                grouped(cache.capacity_bytes),
                cache.miss_ratio,
                cache.get_miss_ratio,
                cache.byte_miss_ratio
            )?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, value: fmt::Arguments<'_>) -> fmt::Result {
    writeln!(f, "{name:<22}{value}")
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, of: &Percentiles) -> fmt::Result {
    write!(f, "{name:<16}{:>14.1}", of.mean)?;
    for value in [of.min, of.p10, of.p50, of.p90, of.p99, of.max] {
        write!(f, "{:>14}", grouped(value.into()))?;
    }
    writeln!(f)
}

/// A number with its thousands separated by commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
