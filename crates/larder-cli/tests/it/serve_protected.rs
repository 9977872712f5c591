//! `larder serve` and `larder check` with TLS, tenants' own listeners, several servers, and few open files.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use crate::serve_command::{ANYWHERE, Serving, asks, command};

/// Writes a certificate and its key to the same directory.
pub(crate) fn certify(directory: &Path, name: &str, change: impl FnOnce(&mut CertificateParams)) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(directory.join(format!("{name}.pem")), certificate.pem()).unwrap();
    fs::write(directory.join(format!("{name}.key")), key.serialize_pem()).unwrap();
}

/// The output of `larder check` for a file, and its exit code. Paths are without their directory.
fn check(directory: &Path, text: &str) -> (Option<i32>, String) {
    let file = directory.join("larder.toml");
    let home = format!("{}/", directory.display());
    fs::write(&file, text.replace("DIR/", &home)).unwrap();
    let output =
        Command::new(env!("CARGO_BIN_EXE_larder")).arg("check").arg(&file).output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), said.replace(&home, ""))
}

const BY_TLS: &str = "resp_tls = \"127.0.0.1:7000\"\n[tls]\ncertificate = \"DIR/good.pem\"\n";

#[test]
fn check_reads_certificates_and_says_where_one_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    certify(directory, "good", |_| {});
    certify(directory, "other", |_| {});
    certify(directory, "old", |it| it.not_after = date_time_ymd(2020, 1, 1));
    let (code, said) = check(directory, &format!("{BY_TLS}key = \"DIR/good.key\"\n"));
    assert_eq!(code, Some(0), "{said}");
    let line = |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("tls ").contains("certificate holds") && line("tls ").ends_with("file"), "{said}");
    assert!(line("resp ").contains("none"), "there is no way without TLS beside it: {said}");
    let cases = [
        (
            format!("{BY_TLS}key = \"DIR/other.key\""),
            "larder.toml:4:7: tls.key: other.key: not the key",
        ),
        (
            format!("{BY_TLS}key = \"DIR/none.key\""),
            "larder.toml:4:7: tls.key: none.key: cannot be read",
        ),
        (
            format!("{BY_TLS}key = \"DIR/good.pem\""),
            "larder.toml:4:7: tls.key: good.pem: no private key",
        ),
        (
            format!("{BY_TLS}key = \"DIR/good.key\"\nclient_ca = \"DIR/good.key\""),
            "larder.toml:5:13: tls.client_ca: good.key: no certificate is in it",
        ),
        (
            BY_TLS.replace("good", "old") + "key = \"DIR/old.key\"",
            "larder.toml:3:15: tls.certificate: old.pem: the certificate ended on 2020-01-01",
        ),
        (BY_TLS.to_owned(), "larder.toml:2:1: missing field `key`"),
        ("resp_tls = \"127.0.0.1:7000\"".to_owned(), "tls: an address speaks it, and there is no"),
    ];
    for (text, message) in cases {
        let (code, said) = check(directory, &text);
        assert!(code == Some(2) && said.contains(message), "{text}\n{said}\n{message}");
    }
}

#[test]
fn a_certificate_that_ends_soon_is_warned_of() {
    let directory = tempfile::tempdir().unwrap();
    let soon = std::time::SystemTime::now() + std::time::Duration::from_secs(3 * 86_400 + 3600);
    certify(directory.path(), "good", |it| it.not_after = soon.into());
    let (code, said) = check(directory.path(), &format!("{BY_TLS}key = \"DIR/good.key\"\n"));
    assert!(
        code == Some(0) && said.contains("warning: the certificate good.pem ends in 3 days"),
        "{said}"
    );
}

#[test]
fn places_that_overlap_are_refused_with_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let tenant = "[[tenant]]\nname = \"a\"\nshare = 60\nresp = \"127.0.0.1:7001\"\n";
    let cases = [
        (
            "memcached = \"0.0.0.0:7000\"\nresp = \"127.0.0.1:7000\"\n".to_owned(),
            "larder.toml:2:8: resp: 127.0.0.1:7000 is where memcached is too (0.0.0.0:7000)",
        ),
        (
            format!("resp = [\"127.0.0.1:7000\", \"127.0.0.1:7001\"]\n{tenant}"),
            "larder.toml:5:8: resp of tenant \"a\": 127.0.0.1:7001 is where resp is too",
        ),
        (
            format!(
                "{tenant}[[tenant]]\nname = \"b\"\nshare = 4\nmemcached = [\"127.0.0.1:7001\"]"
            ),
            "larder.toml:8:13: memcached of tenant \"b\": 127.0.0.1:7001 is where resp of tenant",
        ),
        (
            "memcached = \"127.0.0.1:6379\"".to_owned(),
            "larder.toml:1:13: resp: 127.0.0.1:6379 is where memcached is too",
        ),
    ];
    for (text, message) in cases {
        let (code, said) = check(directory.path(), &text);
        assert!(code == Some(2) && said.contains(message), "{text}\n{said}\n{message}");
    }
    let (code, said) = check(directory.path(), tenant);
    assert!(code == Some(0) && said.contains("at 127.0.0.1:7001"), "{said}");
    let open = tenant.replace("127.0.0.1", "0.0.0.0");
    let (code, said) = check(directory.path(), &open);
    assert!(
        code == Some(2) && said.contains("address 0.0.0.0:7001: any client that reaches it"),
        "{said}"
    );
}

#[test]
fn check_prints_the_number_of_servers_and_warns_of_unassigned_slots() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        "[cluster]\nmyself = \"a:1\"\nslots = { \"0-8191\" = \"a:1\", \"8192-16000\" = \"b:1\" }\n";
    let (code, said) = check(directory.path(), text);
    assert!(code == Some(0) && said.contains("2 servers"), "{said}");
    assert!(said.contains("warning: cluster: 383 slots belong to no server"), "{said}");
}

#[test]
fn certificates_are_read_again_and_a_bad_one_keeps_the_old() {
    let directory = tempfile::tempdir().unwrap();
    certify(directory.path(), "good", |_| {});
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (certificate, key) = (path("good.pem"), path("good.key"));
    let mut by_tls = command(directory.path(), &["--resp-tls", "127.0.0.1:0"]);
    by_tls.args(["--memcached", "none", "--admin", "none", "--log", "warn"]);
    by_tls.args(["--tls-certificate", &certificate, "--tls-key", &key]);
    let mut serving = Serving::run(by_tls);
    assert!(serving.place("resp").ends_with(" with TLS"), "{}", serving.place("resp"));
    let mut errors = BufReader::new(serving.child.stderr.take().unwrap());
    let mut line = String::new();
    certify(directory.path(), "good", |_| {});
    serving.signal("HUP");
    serving.output.read_line(&mut line).unwrap();
    assert!(line.starts_with("SIGHUP: users, certificates, connections, limits, memory"), "{line}");
    fs::write(&key, "nonsense").unwrap();
    serving.signal("HUP");
    line.clear();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("SIGHUP: nothing is changed: --tls-key "), "{line}");
    assert!(line.contains("good.key: no private key"), "{line}");
}

#[test]
fn where_open_files_are_few_fewer_connections_are_served_and_it_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let plain = command(directory.path(), &ANYWHERE);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 120; exec \"$@\"", "sh"]).arg(plain.get_program());
    limited.args(plain.get_args());
    limited.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut serving = Serving::run(limited);
    let mut errors = BufReader::new(serving.child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("warning: connections = 10000 need 10074 open files"), "{line}");
    assert!(line.contains("may have 120: 46 connections are served; raise the limit"), "{line}");
    let mut first = serving.connect("memcached");
    asks(&mut first, "mn\r\n", "MN\r\n");
    let others: Vec<TcpStream> = (0..45).map(|_| serving.connect("memcached")).collect();
    let mut one_more = BufReader::new(serving.connect("memcached"));
    line.clear();
    one_more.read_line(&mut line).unwrap();
    assert_eq!(line, "ERROR Too many open connections\r\n");
    asks(&mut first, "mn\r\n", "MN\r\n");
    drop(others);
}
