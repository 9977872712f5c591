//! Tries what was built as users do: lintian, an installation in a fresh Debian, the image under runc as its own user.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use larder_harness::{step, workspace};
use serde_json::{Value, json};

use super::making::{Dist, ran, told};
use super::{deb, image};

/// Time until a server must have begun to serve.
const START: Duration = Duration::from_secs(60);

/// The release of Debian in which the package is installed.
const RELEASE: &str = "bookworm";

/// What fails says why.
type Trial = fn(&Dist) -> Result<(), String>;

/// Runs what can run here, and says what was skipped.
pub(super) fn run(dist: &Dist) -> Result<String, String> {
    let trials: [(&str, &[&str], Trial); 3] = [
        ("lintian", &["lintian"], lintian),
        ("installation", &["mmdebstrap", "chroot"], installation),
        ("runc", &["runc", "umoci"], container),
    ];
    let mut remarks = Vec::new();
    for (name, programs, trial) in trials {
        let lacks = programs.iter().find(|program| step::find_program(&[program]).is_none());
        match lacks {
            Some(lacks) => remarks.push(format!("{name} skipped: no {lacks}")),
            None => {
                eprintln!("\n── {name}");
                trial(dist).map_err(|why| format!("{name}: {why}"))?;
                remarks.push(format!("{name} passed"));
            }
        }
    }
    Ok(remarks.join(", "))
}

fn lintian(dist: &Dist) -> Result<(), String> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]);
    let said = told(lintian.arg(dist.dir.join(deb::name(dist))))?;
    print!("{said}");
    Ok(())
}

/// A server that is stopped when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = ran(Command::new("kill").arg(self.0.id().to_string()));
        let _ = self.0.wait();
    }
}

/// An address where nothing listens yet.
fn free() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|cause| cause.to_string())?;
    listener.local_addr().map_err(|cause| cause.to_string())
}

/// Stores a value and reads it, as soon as the server answers.
fn use_it(address: SocketAddr) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let told = ask(address, "SET bread rye\r\nGET bread\r\n", "+OK\r\n$3\r\nrye\r\n");
        match told {
            Err(_) if begun.elapsed() < START => thread::sleep(Duration::from_millis(100)),
            told => return told,
        }
    }
}

fn ask(address: SocketAddr, request: &str, wanted: &str) -> Result<(), String> {
    let failed = |cause: std::io::Error| format!("{address}: {cause}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut answer = vec![0; wanted.len()];
    stream.read_exact(&mut answer).map_err(failed)?;
    let answer = String::from_utf8_lossy(&answer);
    if answer == wanted { Ok(()) } else { Err(format!("{address} answers {answer:?}")) }
}

/// Installs, uses, upgrades and purges the package in a fresh system.
fn installation(dist: &Dist) -> Result<(), String> {
    let root = fresh_system()?;
    let inside = |words: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(&root).args(words);
        // What Debian's scripts find there.
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command
    };
    let package = dist.dir.join(deb::name(dist));
    copy(&package, &root.join("larder.deb"))?;
    ran(&mut inside(&["dpkg", "--install", "/larder.deb"]))?;
    let version = told(&mut inside(&["larder", "--version"]))?;
    println!("installed: {}", version.trim());
    ran(&mut inside(&["larder", "check", "/etc/larder/larder.toml"]))?;
    serves(&inside)?;
    // A setting of the administrator survives the upgrade.
    let settings = root.join("etc/larder/larder.toml");
    let mut text = fs::read_to_string(&settings).map_err(|cause| cause.to_string())?;
    text.push_str("# ours\n");
    fs::write(&settings, &text).map_err(|cause| cause.to_string())?;
    newer(dist, &package, &root.join("newer.deb"))?;
    ran(&mut inside(&["dpkg", "--force-confold", "--install", "/newer.deb"]))?;
    if fs::read_to_string(&settings).ok().as_ref() != Some(&text) {
        return Err("the upgrade has changed /etc/larder/larder.toml".to_owned());
    }
    serves(&inside)?;
    ran(&mut inside(&["dpkg", "--purge", "larder"]))?;
    let list = "find / -xdev \\( -path /proc -o -path /sys -o -path /dev \\) -prune -o -name '*larder*' -print";
    let left = told(&mut inside(&["sh", "-c", list]))?;
    let left: Vec<&str> = left.lines().filter(|path| !path.ends_with(".deb")).collect();
    println!("upgraded, purged");
    match left.is_empty() {
        true => fs::remove_dir_all(&root).map_err(|cause| cause.to_string()),
        false => Err(format!("after the purge there is {}", left.join(", "))),
    }
}

/// Starts the server as its unit does, on other ports and with less memory, and uses it.
fn serves(inside: &impl Fn(&[&str]) -> Command) -> Result<(), String> {
    let address = free()?;
    let resp = address.to_string();
    let config = ["larder", "serve", "--config", "/etc/larder/larder.toml"];
    let small = ["--memory", "128M", "--flash", "256M", "--memcached", "none", "--admin", "none"];
    let words = [&config[..], &small, &["--resp", &resp]].concat();
    let mut command = inside(&words);
    let spawned = command.stdout(Stdio::null()).spawn();
    let running = Running(spawned.map_err(|cause| cause.to_string())?);
    use_it(address)?;
    println!("served");
    drop(running);
    Ok(())
}

/// A minimal Debian of its own. What it is made of is kept for the next run.
fn fresh_system() -> Result<PathBuf, String> {
    let dir = workspace::target().join("xtask/dist");
    let kept = dir.join(format!("{RELEASE}.tar"));
    if !kept.is_file() {
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant=minbase", RELEASE]);
        ran(make.arg(&kept))?;
    }
    let root = dir.join("root");
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(&root).map_err(|cause| format!("{}: {cause}", root.display()))?;
    ran(Command::new("tar")
        .arg("--extract")
        .arg("--file")
        .arg(kept)
        .arg("--directory")
        .arg(&root))?;
    Ok(root)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(|cause| format!("{}: {cause}", from.display()))
}

/// The same package as a later version.
fn newer(dist: &Dist, package: &Path, to: &Path) -> Result<(), String> {
    let dir = workspace::target().join("xtask/dist/newer");
    let _ = fs::remove_dir_all(&dir);
    ran(Command::new("dpkg-deb").arg("--raw-extract").arg(package).arg(&dir))?;
    let control = dir.join("DEBIAN/control");
    let text = fs::read_to_string(&control).map_err(|cause| cause.to_string())?;
    let version = format!("Version: {}", dist.version);
    let text = text.replace(&version, &format!("{version}+newer"));
    fs::write(&control, text).map_err(|cause| cause.to_string())?;
    ran(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).arg(&dir).arg(to))
}

/// Runs the image with runc, and uses the server in it.
fn container(dist: &Dist) -> Result<(), String> {
    let dir = workspace::target().join("xtask/dist/container");
    let _ = fs::remove_dir_all(&dir);
    let layout = dir.join("layout");
    fs::create_dir_all(&layout).map_err(|cause| format!("{}: {cause}", layout.display()))?;
    let archive = dist.dir.join(image::name(dist));
    ran(Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("-C").arg(&layout))?;
    let bundle = dir.join("bundle");
    let mut unpack = Command::new("umoci");
    unpack.arg("unpack").arg("--image").arg(format!("{}:{}", layout.display(), dist.version));
    ran(unpack.arg(&bundle))?;
    let address = free()?;
    let volume = dir.join("volume");
    let uid = adapt(&bundle.join("config.json"), address, &volume)?;
    fs::create_dir_all(&volume).map_err(|cause| format!("{}: {cause}", volume.display()))?;
    ran(Command::new("chown").arg(format!("{uid}:{uid}")).arg(&volume))?;
    let name = format!("larder-trial-{}", std::process::id());
    let mut runc = Command::new("runc");
    runc.args(["run", "--bundle"]).arg(&bundle).arg(&name);
    let spawned = runc.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut child = spawned.map_err(|cause| cause.to_string())?;
    let used = use_it(address);
    let _ = ran(Command::new("runc").args(["kill", &name, "TERM"]));
    let status = child.wait().map_err(|cause| cause.to_string())?;
    used?;
    println!("served as user {uid}; after SIGTERM: {status}");
    match status.success() {
        true => fs::remove_dir_all(&dir).map_err(|cause| cause.to_string()),
        false => Err(format!("the server in the container ended with {status}")),
    }
}

/// Lets the container use the host's network, at a free port with little memory, and `volume` where the image asks for
/// one. Returns its user.
fn adapt(path: &Path, address: SocketAddr, volume: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let mut config: Value = serde_json::from_str(&text).map_err(|cause| cause.to_string())?;
    let uid = config["process"]["user"]["uid"].as_u64();
    let uid = uid.filter(|uid| uid.to_string() == image::USER);
    let uid = uid.ok_or_else(|| format!("the image's user is {}", config["process"]["user"]))?;
    let resp = address.to_string();
    let small = ["--memory", "128M", "--flash", "256M", "--memcached", "none", "--admin", "none"];
    let entry = config["process"]["args"].as_array().cloned().unwrap_or_default();
    let listens = ["--resp", resp.as_str()];
    let own = small.iter().chain(&listens).map(|word| json!(word));
    // The entry point stays; the ports are ours.
    let args: Vec<Value> = entry.into_iter().take(4).chain(own).collect();
    config["process"]["args"] = json!(args);
    config["process"]["terminal"] = json!(false);
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|it| it["type"] != "network");
    }
    // Docker and Kubernetes give such a volume to the image's user. The one that umoci writes belongs to root.
    let mut mounts = config["mounts"].as_array_mut().into_iter().flatten();
    let wanted = mounts.find(|mount| mount["destination"] == image::DATA);
    let mount = wanted.ok_or_else(|| format!("the image asks for no volume at {}", image::DATA))?;
    let options = ["rbind", "rw"];
    *mount = json!({
        "destination": image::DATA, "type": "bind", "source": volume, "options": options
    });
    fs::write(path, config.to_string()).map_err(|cause| format!("{}: {cause}", path.display()))?;
    Ok(uid)
}
