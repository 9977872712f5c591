//! Java libraries with their dependencies.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::step;

/// Subdirectory of the jars.
pub(crate) const JARS: &str = "libs";

/// Makes Maven put the jars of (group, artifact, version) below a directory.
pub(crate) fn fetch(
    dir: &Path,
    (group, artifact, version): (&str, &str, &str),
) -> Result<(), String> {
    let project = format!(
        "<project><modelVersion>4.0.0</modelVersion>
  <groupId>check</groupId><artifactId>check</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"
    );
    let path = dir.join("pom.xml");
    fs::write(&path, project).map_err(|cause| format!("{}: {cause}", path.display()))?;
    let mut copy = Command::new("mvn");
    copy.current_dir(dir).args(["-q", "-B", "dependency:copy-dependencies"]);
    match step::succeeds(copy.arg(format!("-DoutputDirectory={JARS}"))) {
        true => Ok(()),
        false => Err(format!("{group}:{artifact}:{version} cannot be had by Maven")),
    }
}
