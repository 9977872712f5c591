//! Programs of ours that need packages of others. The packages are fetched into a directory, the programs are put next
//! to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{maven, step};

/// Name and text of a file of a program. The first file of a program is the one that runs.
pub(crate) type Source = (&'static str, &'static str);

/// A virtual environment with packages, and the command that runs a program in it.
pub(crate) fn python(dir: &Path, packages: &[&str], sources: &[Source]) -> Result<Command, String> {
    needs("python3", "python3-venv")?;
    let python = dir.join("bin/python");
    if !python.exists() {
        done(Command::new("python3").args(["-m", "venv"]).arg(dir), "a Python environment")?;
    }
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "-q"]).args(packages);
    done(&mut install, &packages.join(", "))?;
    let mut command = Command::new(python);
    command.arg(put_all(dir, sources)?);
    Ok(command)
}

/// Packages of npm, and the command that runs a program with them.
pub(crate) fn node(dir: &Path, packages: &[&str], sources: &[Source]) -> Result<Command, String> {
    needs("npm", "nodejs npm")?;
    // npm takes a name for a directory where there is one, so its own directory is the current one.
    let mut install = Command::new("npm");
    install.current_dir(dir).args(["install", "--silent", "--no-save", "--prefix"]).arg(dir);
    done(install.args(packages), &packages.join(", "))?;
    let mut command = Command::new("node");
    command.arg(put_all(dir, sources)?);
    Ok(command)
}

/// A program of Go, built with modules.
pub(crate) fn go(dir: &Path, modules: &[&str], sources: &[Source]) -> Result<Command, String> {
    needs("go", "golang-go")?;
    put_all(dir, sources)?;
    put(dir, ("go.mod", "module check\n\ngo 1.22\n"))?;
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        command.current_dir(dir).env("GOFLAGS", "-mod=mod").args(words);
        command
    };
    done(go(&["get"]).args(modules), &modules.join(", "))?;
    done(&mut go(&["build", "-o", "check", "."]), &modules.join(", "))?;
    Ok(Command::new(dir.join("check")))
}

/// A program of Java, compiled with a library. Its first file has the name of its class.
pub(crate) fn java(
    dir: &Path,
    library: (&str, &str, &str),
    sources: &[Source],
) -> Result<Command, String> {
    needs("mvn", "maven")?;
    needs("javac", "default-jdk-headless")?;
    if !dir.join(maven::JARS).exists() {
        maven::fetch(dir, library)?;
    }
    let main = put_all(dir, sources)?;
    let (mut class_path, classes) = (dir.join(maven::JARS).join("*").into_os_string(), "classes");
    let mut compile = Command::new("javac");
    compile.current_dir(dir).arg("-cp").arg(&class_path).args(["-d", classes]);
    done(compile.args(sources.iter().map(|(name, _)| name)), library.1)?;
    class_path.push(":");
    class_path.push(dir.join(classes));
    let mut command = Command::new("java");
    command.arg("-cp").arg(class_path).args(main.file_stem());
    Ok(command)
}

/// A program of an interpreter with packages of Debian.
pub(crate) fn debian(
    dir: &Path,
    (interpreter, packages): (&str, &[&str]),
    sources: &[Source],
) -> Result<Command, String> {
    let is_there = |package: &&&str| step::succeeds(Command::new("dpkg").args(["-s", package]));
    let missing: Vec<&str> =
        packages.iter().filter(|package| !is_there(package)).copied().collect();
    if !missing.is_empty() {
        return Err(format!("it needs `apt-get install {}`", missing.join(" ")));
    }
    needs(interpreter, interpreter)?;
    let mut command = Command::new(interpreter);
    command.arg(put_all(dir, sources)?);
    Ok(command)
}

/// Whether a program is there. The error says which packages of Debian have it.
pub(crate) fn needs(program: &str, packages: &str) -> Result<PathBuf, String> {
    let missing = || format!("{program} is not there: it needs `apt-get install {packages}`");
    step::find_program(&[program]).ok_or_else(missing)
}

/// Runs a command silently. It must succeed.
fn done(command: &mut Command, what: &str) -> Result<(), String> {
    match step::succeeds(command) {
        true => Ok(()),
        false => Err(format!("{what} cannot be had")),
    }
}

/// Writes the files of a program, and returns the path of the first.
fn put_all(dir: &Path, sources: &[Source]) -> Result<PathBuf, String> {
    let paths: Result<Vec<PathBuf>, String> =
        sources.iter().map(|source| put(dir, *source)).collect();
    paths?.into_iter().next().ok_or_else(|| "a program without files".to_owned())
}

fn put(dir: &Path, (name, text): Source) -> Result<PathBuf, String> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(|cause| format!("{}: {cause}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let error = needs("no-such-program", "such-a-package").unwrap_err();
        assert!(error.contains("apt-get install such-a-package"), "{error}");
        let none = debian(Path::new("/"), ("sh", &["no-such-package-of-debian"]), &[]);
        assert!(none.unwrap_err().contains("no-such-package-of-debian"));
    }
}
