//! The compose file, run: agent, Collector, Jaeger and Prometheus as it describes them, in containers on a network of
//! their own. Their images are made of the programs that are here, under the names that the file has. Tempo and Grafana
//! are not here and are left out; so are the published ports, which may be in use.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::deploy;
use crate::needs::part;
use crate::program::eventually;
use crate::support::docker::Docker;
use crate::support::{folder, http};

const NETWORK: &str = "composed";
/// Of the services that are run: what serves each.
const SERVICES: [&str; 4] = ["jaeger", "prometheus", "collector", "schedscope"];
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn is_run() -> Result<()> {
    let folder = folder()?;
    let compose: Value = serde_yaml::from_str(&fs::read_to_string(deploy("compose/compose.yaml"))?)?;
    let mut docker = Docker::start(folder.path())?;
    docker.docker(&["network", "create", NETWORK])?;
    let result = run(&compose, &mut docker);
    docker.remove_containers();
    docker.docker(&["network", "rm", NETWORK])?;
    result
}

fn run(compose: &Value, docker: &mut Docker) -> Result<()> {
    let mut started: Vec<(&str, String, IpAddr)> = Vec::new();
    for name in SERVICES {
        let service = &compose["services"][name];
        let image = service["image"].as_str().context("no image")?;
        docker.make_image(&program(name)?, image)?;
        let id = start(docker, &arguments(name, service, &started)?)?;
        let format = format!("{{{{(index .NetworkSettings.Networks \"{NETWORK}\").IPAddress}}}}");
        let address = match service["network_mode"].as_str() {
            Some(_) => IpAddr::from([127, 0, 0, 1]),
            None => docker.docker(&["inspect", "-f", &format, &id])?.trim().parse()?,
        };
        started.push((name, id, address));
    }
    let at = |name: &str, port: u16| {
        let found = started.iter().find(|(service, ..)| *service == name).context("not started");
        found.map(|(_, _, address)| SocketAddr::new(*address, port))
    };
    let answered = eventually("metrics in Prometheus", PATIENCE, || {
        let path = "/api/v1/query?query=count(linux_sched_time_seconds_total)";
        Ok(http::ask(at("prometheus", 9090)?, "GET", path, "").ok().filter(|answer| answer.contains("\"value\"")))
    })
    .and_then(|_| {
        eventually("services in Jaeger", PATIENCE, || {
            let answer = http::ask(at("jaeger", 16686)?, "GET", "/api/services", "").unwrap_or_default();
            let services: Value = serde_json::from_str(&answer).unwrap_or_default();
            let names = services["data"].as_array().cloned().unwrap_or_default();
            Ok((!names.is_empty()).then_some(names.len()))
        })
    });
    let says = |id: &String| docker.says(id).unwrap_or_default();
    let tail = |text: String| text.lines().rev().take(6).collect::<Vec<_>>().join("\n");
    let services = answered.with_context(|| {
        started.iter().map(|(name, id, _)| format!("{name}: {}", tail(says(id)))).collect::<Vec<_>>().join("\n")
    })?;
    println!("  the agent's metrics in Prometheus, and {services} services in Jaeger");
    Ok(())
}

/// What is here of it.
fn program(service: &str) -> Result<String> {
    match service {
        "schedscope" => Ok(env!("CARGO_BIN_EXE_schedscope").to_owned()),
        "prometheus" => Ok("/usr/bin/prometheus".to_owned()),
        other => part(other).map_err(anyhow::Error::msg),
    }
}

/// `docker run` as compose would, but for published ports and, on a network without a name server, other services' names.
fn arguments(name: &str, service: &Value, started: &[(&str, String, IpAddr)]) -> Result<Vec<String>> {
    let list = |key: &str| -> Vec<String> {
        let all = service[key].as_array().into_iter().flatten();
        all.filter_map(|value| Some(value.as_str()?.to_owned())).collect()
    };
    let mut all: Vec<String> = ["run", "-d", "--name", name].map(str::to_owned).to_vec();
    let mut option = |key: &str, value: String| all.extend([key.to_owned(), value]);
    option("--network", service["network_mode"].as_str().unwrap_or(NETWORK).to_owned());
    if let Some(pid) = service["pid"].as_str() {
        option("--pid", pid.to_owned());
    }
    for (key, flag) in [("cap_drop", "--cap-drop"), ("cap_add", "--cap-add"), ("security_opt", "--security-opt")] {
        list(key).into_iter().for_each(|value| option(flag, value));
    }
    for volume in list("volumes").into_iter().filter(|volume| !volume.contains("docker.sock")) {
        let (from, to) = volume.split_once(':').context("a volume without a place")?;
        let from = if from.starts_with('.') { fs::canonicalize(deploy("compose").join(from))? } else { from.into() };
        option("-v", format!("{}:{to}", from.display()));
    }
    for (service, _, address) in started {
        option("--add-host", format!("{service}:{address}"));
    }
    for (key, value) in service["environment"].as_object().into_iter().flatten() {
        let mut value = value.as_str().unwrap_or_default().to_owned();
        // the published port of the Collector
        if let (true, Some((.., address))) =
            (value.starts_with("127.0.0.1:"), started.iter().find(|it| it.0 == "collector"))
        {
            value = value.replace("127.0.0.1", &address.to_string());
        }
        option("-e", format!("{key}={value}"));
    }
    // as its own image has it
    if name == "jaeger" {
        option("-e", "JAEGER_LISTEN_HOST=0.0.0.0".to_owned());
    }
    all.push(service["image"].as_str().context("no image")?.to_owned());
    let mut command = list("command");
    ensure!(!command.is_empty() || name == "jaeger", "{name} has no command");
    if name == "prometheus" {
        command.push("--storage.tsdb.path=/tmp".to_owned());
    }
    all.extend(command);
    Ok(all)
}

fn start(docker: &mut Docker, arguments: &[String]) -> Result<String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    docker.start_container(&words).or_else(|error| {
        // as the file says
        ensure!(format!("{error:#}").contains("unknown capability: \"CAP_BPF\""), "{error:#}");
        println!("  this Docker does not know CAP_BPF: SYS_ADMIN in its place");
        let known = words.iter().map(|word| if ["BPF", "PERFMON"].contains(word) { "SYS_ADMIN" } else { word });
        docker.start_container(&known.collect::<Vec<_>>())
    })
}
