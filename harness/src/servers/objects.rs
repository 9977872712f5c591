//! Memory that a server uses for each object on flash: the index and other metadata.

use crate::port::ask;

/// Largest slab chunks in memcached that hold headers of objects on flash, with keys of 32 bytes. Values of a kilobyte
/// are in larger chunks.
const HEADER_CHUNK_MAX: f64 = 256.0;

/// For `larder serve`, from its metrics: the memory needed for flash, divided by the objects on it, which are all large
/// ones.
pub(super) fn of_larder(admin: u16) -> Result<f64, String> {
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let page = ask(admin, request, |line| line == "# EOF")?;
    let number = |name: &str| -> f64 {
        let start = format!("{name}{{");
        let lines = page.iter().filter(|line| line.starts_with(&start));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    let objects = number("larder_loc_objects");
    Ok(number("larder_flash_memory_bytes") / objects.max(1.0))
}

/// For memcached with extstore, from its statistics: the slabs of headers, divided by the objects on flash.
pub(super) fn of_memcached(port: u16) -> Result<f64, String> {
    let stats = ask(port, "stats\r\n", |line| line == "END")?;
    let objects = stats.iter().find_map(|line| line.strip_prefix("STAT extstore_objects_used "));
    let objects: f64 = objects.and_then(|number| number.trim().parse().ok()).unwrap_or(0.0);
    let slabs = ask(port, "stats slabs\r\n", |line| line == "END")?;
    let number = |class: &str, name: &str| -> f64 {
        let start = format!("STAT {class}:{name} ");
        let line = slabs.iter().find_map(|line| line.strip_prefix(&start));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0.0)
    };
    let classes = slabs.iter().filter_map(|line| {
        line.strip_prefix("STAT ")?.split_once(":chunk_size ").map(|(class, _)| class)
    });
    let headers = classes.filter(|class| number(class, "chunk_size") <= HEADER_CHUNK_MAX);
    let bytes: f64 =
        headers.map(|class| number(class, "used_chunks") * number(class, "chunk_size")).sum();
    Ok(bytes / objects.max(1.0))
}
