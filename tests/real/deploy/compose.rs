//! The compose file as a whole: what it mounts is there and is valid, and nothing listens beyond this host. `composed` runs
//! what can be run of it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::deploy;
use crate::support::folder;

pub(crate) fn is_whole_and_valid() -> Result<()> {
    let compose: Value = serde_yaml::from_str(&fs::read_to_string(deploy("compose/compose.yaml"))?)?;
    let services = compose["services"].as_object().context("no services")?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut mounted = 0;
    for (name, service) in services {
        for volume in list(&service["volumes"]) {
            let from = volume.as_str().and_then(|text| text.split(':').next()).context("a volume that is no text")?;
            if from.starts_with('.') {
                let file = deploy("compose").join(from);
                ensure!(file.is_file(), "{name} mounts {from}, which is not there");
                mounted += 1;
            }
        }
        for port in list(&service["ports"]) {
            ensure!(port.as_str().is_some_and(|port| port.starts_with("127.0.0.1:")), "{name} opens {port} to others");
        }
        for other in list(&service["depends_on"]) {
            ensure!(services.contains_key(other.as_str().unwrap_or_default()), "{name} depends on {other}");
        }
        let image = service["image"].as_str().context("no image")?;
        ensure!(image.rsplit('/').next().is_some_and(|last| last.contains(':')), "{image} has no version");
    }
    ensure!(mounted >= 7, "{mounted} files are mounted");
    for file in ["grafana/datasources.yaml", "grafana/dashboards.yaml", "tempo.yaml"] {
        let _: Value = serde_yaml::from_str(&fs::read_to_string(deploy("compose").join(file))?).context(file)?;
    }
    // the rules lie beside Prometheus' config in its container
    let folder = folder()?;
    fs::copy(deploy("compose/prometheus.yaml"), folder.path().join("prometheus.yaml"))?;
    fs::copy(deploy("dashboards/alerts.yaml"), folder.path().join("alerts.yaml"))?;
    let checked =
        Command::new("promtool").args(["check", "config"]).arg(folder.path().join("prometheus.yaml")).output()?;
    ensure!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let agent = deploy("systemd/agent.yaml").display().to_string();
    let valid = Command::new(env!("CARGO_BIN_EXE_schedscope")).args(["validate", "--config", &agent]).output()?;
    ensure!(valid.status.success(), "{}", String::from_utf8_lossy(&valid.stderr));
    Ok(())
}
