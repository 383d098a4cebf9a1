//! The Debian package on a fresh Debian, with nothing but what it depends on.

use std::process::Command;

use anyhow::{Result, ensure};

use super::deploy;
use crate::needs::part;
use crate::support::folder;

pub(crate) fn is_installed_and_leaves_nothing() -> Result<()> {
    let folder = folder()?;
    let package = folder.path().join("schedscope.deb");
    let built = Command::new(deploy("deb/build")).arg(env!("CARGO_BIN_EXE_schedscope")).arg(&package).status()?;
    ensure!(built.success(), "deb/build: {built}");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/deploy/fresh");
    let output = Command::new(script)
        .arg(part("debian").map_err(anyhow::Error::msg)?)
        .arg(&package)
        .env("TMPDIR", folder.path())
        .output()?;
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{out}{error}");
    for line in out.lines().filter(|line| line.starts_with("installed") || line.starts_with("purged")) {
        println!("  {line}");
    }
    Ok(())
}
