//! The cache tests of Django and of Flask-Caching, from their source packages, and the types of a small program.

use std::fs;
use std::path::Path;

use super::environment::Environment;
use crate::step::{self, Verdict};

/// What the suites need, beside the package.
pub(super) const NEED: &[&str] = &["django", "flask-caching", "mypy", "pytest-xprocess"];

/// Checks a program of a user, and the package with it, with mypy's strictest rules.
pub(super) fn types(environment: &Environment, dir: &Path) -> Verdict {
    let program = include_str!("programs/typed.py");
    match put(dir, "typed.py", program) {
        Ok(()) => {}
        Err(why) => return Verdict::Failed(why),
    }
    let strict = |what: &[&str]| {
        let mut mypy = environment.run(&["-P", "-m", "mypy", "--strict", "--no-incremental"]);
        step::run(mypy.args(what).current_dir(dir))
    };
    match strict(&["typed.py"]) {
        Verdict::Passed(_) => strict(&["-p", "larder"]),
        failed => failed,
    }
}

/// Django's tests of every cache backend, on ours.
pub(super) fn django(environment: &Environment, dir: &Path) -> Verdict {
    let source = match source(environment, "django", dir) {
        Ok(source) => source,
        Err(why) => return Verdict::Skipped(why),
    };
    let tests = source.join("tests");
    let program = include_str!("programs/django_suite.py");
    if let Err(why) = put(&tests.join("cache"), "larder_tests.py", program) {
        return Verdict::Failed(why);
    }
    let words = ["runtests.py", "--parallel", "1", "cache.larder_tests"];
    step::run(environment.run(&words).current_dir(tests))
}

/// Flask-Caching's tests of every backend, on ours.
pub(super) fn flask(environment: &Environment, dir: &Path) -> Verdict {
    let source = match source(environment, "flask-caching", dir) {
        Ok(source) => source,
        Err(why) => return Verdict::Skipped(why),
    };
    let program = include_str!("programs/flask_suite.py");
    if let Err(why) = put(&source.join("tests"), "test_larder.py", program) {
        return Verdict::Failed(why);
    }
    let words = ["-P", "-m", "pytest", "-q", "tests/test_larder.py"];
    step::run(environment.run(&words).current_dir(source))
}

fn source(
    environment: &Environment,
    package: &str,
    dir: &Path,
) -> Result<std::path::PathBuf, String> {
    let dir = dir.join("sources");
    fs::create_dir_all(&dir).map_err(|cause| format!("{}: {cause}", dir.display()))?;
    environment.source(package, &dir)
}

fn put(dir: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(|cause| format!("{}: {cause}", path.display()))
}
