//! libnbd's tools with TLS: a client with a certificate is served; a client without one, or without TLS, is not.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::rig::Rig;
use crate::log::program;
use crate::problem::Problem;

/// Names of the files of each side.
const WHOSE: [&str; 2] = ["server", "client"];

pub(super) fn run(rig: &mut Rig) -> Result<String, Problem> {
    let dir = rig.file("pki");
    fs::create_dir_all(&dir).map_err(|cause| cause.to_string())?;
    issue(rig, &dir)?;
    rig.end(false)?;
    let at = |name: &str| dir.join(name).display().to_string();
    let (certificate, key, ca) = (at("server-cert.pem"), at("server-key.pem"), at("ca-cert.pem"));
    rig.serve(&["--tls-certificate", &certificate, "--tls-key", &key, "--tls-client-ca", &ca])?;
    let plain = rig.uri();
    let secure = |dir: &Path| {
        let uri = plain.replacen("nbd+unix", "nbds+unix", 1);
        format!("{uri}&tls-certificates={}", dir.display())
    };
    let info = |uri: &str| -> Result<String, Problem> {
        rig.run(program("nbdinfo", "libnbd-bin")?.arg(uri))
    };
    let said = info(&secure(&dir))?;
    if !said.contains("newstyle-fixed with TLS") {
        return Err(format!("nbdinfo does not say that there is TLS: {said}").into());
    }
    let nobody = rig.file("nobody");
    fs::create_dir_all(&nobody).map_err(|cause| cause.to_string())?;
    fs::copy(&ca, nobody.join("ca-cert.pem")).map_err(|cause| cause.to_string())?;
    if info(&plain).is_ok() || info(&secure(&nobody)).is_ok() {
        return Err("a client without a certificate is served".to_owned().into());
    }
    let (source, back) = (rig.file("source"), rig.file("back"));
    let content: Vec<u8> = (0..4_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&source, &content).map_err(|cause| cause.to_string())?;
    let mut fill = program("nbdcopy", "libnbd-bin")?;
    rig.run(fill.args(["--connections=4", "--flush"]).arg(&source).arg(secure(&dir)))?;
    let mut take = program("nbdcopy", "libnbd-bin")?;
    rig.run(take.arg(secure(&dir)).arg(&back))?;
    let read = fs::read(back).map_err(|cause| cause.to_string())?;
    if !read.starts_with(&content) {
        return Err("what was copied differs".to_owned().into());
    }
    Ok("16 MB in by four connections and out again; others are not let in".to_owned())
}

/// Issues a certificate for each side, and the one of their CA.
fn issue(rig: &Rig, dir: &Path) -> Result<(), Problem> {
    let openssl = |words: &str| -> Result<(), Problem> {
        let mut command: Command = program("openssl", "openssl")?;
        command.args(words.replace('@', &dir.display().to_string()).split(' '));
        rig.run(&command).map(|_| ())
    };
    openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca -keyout @/ca-key.pem \
         -out @/ca-cert.pem",
    )?;
    let extension = dir.join("extension");
    fs::write(&extension, "subjectAltName=DNS:localhost\n").map_err(|cause| cause.to_string())?;
    for whose in WHOSE {
        openssl(&format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={whose} -keyout @/{whose}-key.pem \
             -out @/{whose}.csr"
        ))?;
        openssl(&format!(
            "x509 -req -in @/{whose}.csr -CA @/ca-cert.pem -CAkey @/ca-key.pem -CAcreateserial -days 2 \
             -extfile @/extension -out @/{whose}-cert.pem"
        ))?;
    }
    Ok(())
}
