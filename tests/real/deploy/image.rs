//! The image: built by docker without a network, run with what the Dockerfile names and nothing else.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::deploy;
use crate::program::eventually;
use crate::support::collector::Collector;
use crate::support::docker::Docker;
use crate::support::folder;

/// The options of the command in the Dockerfile, as words.
fn options() -> Result<Vec<String>> {
    let text = std::fs::read_to_string(deploy("docker/Dockerfile"))?;
    let lines = text.lines().skip_while(|line| !line.starts_with("#   docker run ")).take(3);
    let words =
        lines.flat_map(|line| line.trim_start_matches("#   docker run").trim_start_matches('#').split_whitespace());
    Ok(words.filter(|word| !["\\", "--rm", "schedscope"].contains(word)).map(str::to_owned).collect())
}

pub(crate) fn measures_from_a_container() -> Result<()> {
    let folder = folder()?;
    let mut collector = Collector::start(folder.path())?;
    let mut docker = Docker::start(folder.path())?;
    docker.make_image(env!("CARGO_BIN_EXE_schedscope"), "schedscope")?;

    let web = docker.run("web", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05; done")?;
    let endpoint = format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://{}", collector.http);
    let options = options()?;
    ensure!(options.len() > 14 && options.contains(&"--read-only".to_owned()), "{options:?}");
    // the Collector is on the host's loopback, and this daemon gives no other network
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    ensure!(options.ends_with(&["-e", "OTEL_EXPORTER_OTLP_ENDPOINT"]), "the command of the Dockerfile ends otherwise");
    options.truncate(options.len() - 2);
    options.extend(["--network", "host", "-e", &endpoint, "schedscope"]);
    let arguments = ["--set", "receivers::sched::collection_interval=1s", "--set", "exporters::table::interval=1s"];
    let mut start = |options: &[&str]| docker.start_container(&[&["run", "-d"], options, &arguments].concat());
    let agent = start(&options).or_else(|error| {
        // as the Dockerfile says
        ensure!(format!("{error:#}").contains("unknown capability: \"CAP_BPF\""), "{error:#}");
        println!("  this Docker does not know CAP_BPF: SYS_ADMIN in its place");
        let known = options.iter().map(|word| match *word {
            "BPF" | "PERFMON" => "SYS_ADMIN",
            word => word,
        });
        start(&known.collect::<Vec<_>>())
    })?;
    let says = |docker: &Docker| docker.says(&agent).unwrap_or_default();
    let point = eventually("points of the container", Duration::from_secs(30), || {
        let points = collector.points()?;
        Ok(points.into_iter().rfind(|point| point.resource.get("container.id").is_some_and(|id| *id == *web)))
    });
    point.map_err(|error| error.context(says(&docker)))?;
    eventually("the table", Duration::from_secs(10), || Ok(says(&docker).contains(&web[..12]).then_some(())))?;
    docker.docker(&["stop", "-t", "15", &agent])?;
    let code = docker.docker(&["inspect", "-f", "{{.State.ExitCode}}", &agent])?;
    ensure!(code.trim() == "0", "it ended with {code}{}", says(&docker));
    collector.stop()
}
