//! The image for containers, in the layout of the Open Container Initiative (image-spec 1.0), written without a daemon.
//!
//! It has the static binary and nothing else: no shell, no library. `skopeo copy oci-archive:FILE docker://…` publishes
//! it, `podman load` and `ctr image import` read it.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::binary::Binary;
use super::deb;
use super::making::{Dist, told};
use super::stage::Stage;

/// The user that the server runs as.
pub(super) const USER: &str = "10001";

/// The directory that the server keeps its files in: a volume.
pub(super) const DATA: &str = "/var/lib/larder";

pub(super) fn name(dist: &Dist) -> String {
    format!("larder-{}-{}-oci.tar", dist.version, std::env::consts::ARCH)
}

pub(super) fn build(dist: &Dist, binary: &Binary) -> Result<(), String> {
    let layout = Stage::new(dist, "image")?;
    let blobs = layout.directory("blobs/sha256")?;
    let layer = layer(dist, binary, &blobs)?;
    let config = blob(&blobs, config(dist, &layer)?.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.of("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.of("application/vnd.oci.image.layer.v1.tar")],
    });
    let manifest = blob(&blobs, manifest.to_string().as_bytes())?;
    let mut entry = manifest.of("application/vnd.oci.image.manifest.v1+json");
    entry["annotations"] = json!({ "org.opencontainers.image.ref.name": dist.version });
    let index = json!({ "schemaVersion": 2, "manifests": [entry] });
    layout.text(index.to_string(), "index.json")?;
    layout.text(json!({ "imageLayoutVersion": "1.0.0" }).to_string(), "oci-layout")?;
    layout.tar(".", &dist.dir.join(name(dist)))
}

/// A content by its checksum.
struct Blob {
    sha256: String,
    bytes: usize,
}

impl Blob {
    fn digest(&self) -> String {
        format!("sha256:{}", self.sha256)
    }

    fn of(&self, media_type: &str) -> Value {
        json!({ "mediaType": media_type, "digest": self.digest(), "size": self.bytes })
    }
}

fn blob(blobs: &Path, content: &[u8]) -> Result<Blob, String> {
    let new = blobs.join("new");
    fs::write(&new, content).map_err(|cause| format!("{}: {cause}", new.display()))?;
    let sum = told(Command::new("sha256sum").arg(&new))?;
    let sha256 = sum.split(' ').next().unwrap_or_default().to_owned();
    let named = blobs.join(&sha256);
    fs::rename(&new, &named).map_err(|cause| format!("{}: {cause}", named.display()))?;
    Ok(Blob { sha256, bytes: content.len() })
}

fn layer(dist: &Dist, binary: &Binary, blobs: &Path) -> Result<Blob, String> {
    let files = Stage::new(dist, "layer")?;
    files.program(&binary.program, "usr/bin/larder")?;
    let user = format!("larder:x:{USER}:{USER}::/var/lib/larder:/usr/sbin/nologin\n");
    files.text(format!("root:x:0:0::/:/usr/sbin/nologin\n{user}"), "etc/passwd")?;
    files.text(format!("root:x:0:\nlarder:x:{USER}:\n"), "etc/group")?;
    files.text(&binary.sbom, "usr/share/doc/larder/sbom.cdx.json")?;
    files.directory("var/lib")?;
    let tar = blobs.join("layer");
    files.tar(".", &tar)?;
    // The server's own directory, with its own user.
    files.directory("var/lib/larder")?;
    files.tar_as(USER, "./var/lib/larder", &tar)?;
    let content = fs::read(&tar).map_err(|cause| format!("{}: {cause}", tar.display()))?;
    fs::remove_file(&tar).map_err(|cause| format!("{}: {cause}", tar.display()))?;
    blob(blobs, &content)
}

fn config(dist: &Dist, layer: &Blob) -> Result<Value, String> {
    let mut date = Command::new("date");
    date.args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"]).arg(format!("@{}", dist.epoch));
    let created = told(&mut date)?.trim().to_owned();
    // The runtime decides which clients reach these ports. The traffic is not encrypted.
    let listens = ["--memcached", "0.0.0.0:11211", "--resp", "0.0.0.0:6379", "--admin"];
    let command = [&listens[..], &["0.0.0.0:9180", "--allow-unprotected"]].concat();
    Ok(json!({
        "created": created,
        "architecture": deb::architecture(),
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": { "11211/tcp": {}, "6379/tcp": {}, "9180/tcp": {} },
            "Entrypoint": ["/usr/bin/larder", "serve", "--data-dir", DATA],
            "Cmd": command,
            "Volumes": { DATA: {} },
            "WorkingDir": DATA,
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "larder",
                "org.opencontainers.image.version": dist.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.source": "https://github.com/larder-cache/larder",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer.digest()] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}
