//! `cargo xtask chart`: Helm reads the chart, and the schemas of Kubernetes what it makes of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{self, Verdict};
use crate::{fetched, workspace};

const HELM: &str = "helm.sh/helm/v3/cmd/helm@v3.22.0";
const VALIDATE: &str = "kubernetes-validate==1.37.0";

/// An image, since no registry has one.
const IMAGE: &str = "image.repository=registry.example/larder";

/// Runs the check.
pub fn run() -> Verdict {
    let dir = workspace::target().join("xtask/chart");
    if let Err(cause) = fs::create_dir_all(&dir) {
        return Verdict::Failed(format!("{}: {cause}", dir.display()));
    }
    let tools = helm(&dir).and_then(|helm| Ok((helm, validator(&dir)?)));
    let (helm, python) = match tools {
        Ok(tools) => tools,
        Err(why) => return Verdict::Skipped(why),
    };
    match check(&Tools { helm, python, dir }) {
        Ok(()) => Verdict::Passed(
            "4 objects; without an image, and with a wrong type, refused".to_owned(),
        ),
        Err(why) => Verdict::Failed(why),
    }
}

/// The program on the path, or one that Go builds, in some minutes.
fn helm(dir: &Path) -> Result<PathBuf, String> {
    if let Some(helm) = step::find_program(&["helm"]) {
        return Ok(helm);
    }
    let helm = dir.join("helm");
    if !helm.is_file() {
        let go = fetched::needs("go", "golang-go")?;
        eprintln!("building helm, which takes some minutes");
        let mut install = Command::new(go);
        install.args(["install", HELM]).env("GOBIN", dir);
        if !step::succeeds(&mut install) {
            return Err(format!("go cannot install {HELM}"));
        }
    }
    Ok(helm)
}

/// An interpreter with the schemas.
fn validator(dir: &Path) -> Result<PathBuf, String> {
    fetched::needs("python3", "python3-venv")?;
    let python = dir.join("python/bin/python");
    let is_there = ["-c", "import kubernetes_validate"];
    if !step::succeeds(Command::new(&python).args(is_there)) {
        let mut make = Command::new("python3");
        let made = step::succeeds(make.args(["-m", "venv"]).arg(dir.join("python")));
        let mut install = Command::new(&python);
        if !made || !step::succeeds(install.args(["-m", "pip", "install", "-q", VALIDATE])) {
            return Err(format!("pip cannot install {VALIDATE}"));
        }
    }
    Ok(python)
}

struct Tools {
    helm: PathBuf,
    python: PathBuf,
    dir: PathBuf,
}

fn check(tools: &Tools) -> Result<(), String> {
    tools.helm("lint", &[IMAGE])?;
    let made = tools.helm("template", &[IMAGE])?;
    let objects = tools.validated(&made)?;
    if objects != 4 {
        return Err(format!("the chart makes {objects} objects, not 4"));
    }
    match tools.helm("template", &[]) {
        Err(why) if why.contains("image.repository") => {}
        said => return Err(format!("without an image, helm says {said:?}")),
    }
    match tools.helm("template", &[IMAGE, "replicas=many"]).map(|made| tools.validated(&made)) {
        Ok(Err(why)) if why.contains("replicas") => Ok(()),
        said => Err(format!("\"many\" replicas are taken: {said:?}")),
    }
}

impl Tools {
    /// What helm prints of the chart with these values.
    fn helm(&self, does: &str, values: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.helm);
        command.arg(does).arg(workspace::root().join("contrib/helm/larder"));
        command.args(values.iter().flat_map(|value| ["--set", value]));
        told(&mut command)
    }

    /// The number of objects, all of which are as their schemas say.
    fn validated(&self, made: &str) -> Result<usize, String> {
        let file = self.dir.join("objects.yaml");
        fs::write(&file, made).map_err(|cause| format!("{}: {cause}", file.display()))?;
        let mut command = Command::new(&self.python);
        command.args(["-m", "kubernetes_validate", "--strict"]).arg(&file);
        told(&mut command)?;
        Ok(made.lines().filter(|line| line.starts_with("kind: ")).count())
    }
}

fn told(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|cause| cause.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}
