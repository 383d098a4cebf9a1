//! E31, E32, E35: whose it is, where pids, trees or names mislead.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::agent::{Agent, Config};
use super::endpoint::{Endpoint, Point};
use crate::cgroup::{Cgroup, container_id, mount};

const BUSY: &str = "while :; do :; done";

/// E31: an agent that does not see the host's pids.
pub(super) fn no_host_pids(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let config = Config { sched: "scope: host, select: {preset: everything}", spans: true, ..Config::default() };
    let wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let agent = Agent::start(&wrapper, &config.to(endpoint.address))?;
    let ids: Vec<String> = (310..312).map(container_id).collect();
    let mut pids = Vec::new();
    let mut cgroups = Vec::new();
    for id in &ids {
        let mut cgroup = Cgroup::docker(id)?;
        pids.push(cgroup.run(BUSY)?.to_string());
        cgroups.push(cgroup);
    }
    let of = |id: &str| {
        endpoint
            .span_resources()
            .into_iter()
            .filter(|it| it.get("container.id").is_some_and(|found| found == id))
            .collect::<Vec<_>>()
    };
    agent.waits("spans of both", 20, || Ok(ids.iter().all(|id| !of(id).is_empty()).then_some(())))?;
    std::thread::sleep(Duration::from_secs(2));
    // the wrapper waits for the agent and ends as it does
    let wrapper = agent.program.pid().as_raw_nonzero();
    let child = fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children"))?;
    let child = child.trim().parse().ok().and_then(Pid::from_raw).context("no child")?;
    kill_process(child, Signal::TERM)?;
    agent.waits("its end", 20, || Ok(agent_ended(child).then_some(())))?;

    for (at, id) in ids.iter().enumerate() {
        for resource in of(id) {
            let pid = resource.get("process.pid");
            ensure!(pid.is_none_or(|pid| *pid == pids[at]), "expected the host's pid {}, got {resource:?}", pids[at]);
            // what /proc shows under that number here is somebody else
            ensure!(!resource.contains_key("process.executable.name"), "read from a foreign /proc: {resource:?}");
        }
        let time = endpoint.sum("linux.sched.time", |point| point.of("container.id") == *id);
        ensure!(time > 1.0, "expected the seconds of {id}, got {time}");
    }
    let known: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    let wrong = endpoint.span_resources().into_iter().find(|resource| {
        resource.get("process.pid").is_some_and(|pid| pids.contains(pid))
            && resource.get("container.id").is_none_or(|id| !known.contains(id.as_str()))
    });
    ensure!(wrong.is_none(), "expected the containers' own ids, got {wrong:?}");
    let warned = agent.log().matches("pid namespace of its own").count();
    ensure!(warned == 1, "expected one warning, got {warned}:\n{}", agent.log());
    Ok(())
}

fn agent_ended(pid: Pid) -> bool {
    rustix::process::test_kill_process(pid).is_err()
}

/// E32: v1 has the cpu controller, v2 is empty.
pub(super) fn hybrid(_: &Value) -> Result<()> {
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let mut agent = Agent::start(&[], &Config::default().to(endpoint.address))?;
    let ids: Vec<String> = (320..323).map(container_id).collect();
    let mut cgroups = Vec::new();
    let mut pids = Vec::new();
    for id in &ids {
        let mut cgroup = Cgroup::docker(id)?;
        pids.push(cgroup.run(BUSY)?);
        cgroups.push(cgroup);
    }
    std::thread::sleep(Duration::from_secs(3));
    let mut truth = Vec::new();
    for pid in &pids {
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
        truth.push(schedstat.split_whitespace().next().context("schedstat")?.parse::<f64>()? / 1e9);
    }
    agent.stop()?;
    for ((id, pid), truth) in ids.iter().zip(&pids).zip(truth) {
        let on_v2 = fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
        // on a host with v2 alone there is no other tree to be misled by
        let on_v2 = on_v2.lines().find(|line| line.starts_with("0::")).unwrap_or_default();
        ensure!(mount().ends_with("fs/cgroup") || !on_v2.contains(id.as_str()), "in v2 it is elsewhere: {on_v2}");
        let running = |point: &Point| point.of("container.id") == *id && point.with("linux.sched.state") == "running";
        let ran = endpoint.sum("linux.sched.time", running);
        ensure!(ran > truth * 0.9, "expected the {truth} s of {id} under its own id, got {ran}");
    }
    Ok(())
}

type Pods = Arc<Mutex<Value>>;

/// A kubelet's read-only port.
fn kubelet(pods: &Pods) -> Result<(std::net::SocketAddr, tokio::runtime::Runtime)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let pods = Arc::clone(pods);
    let answer = move || std::future::ready(pods.lock().unwrap_or_else(PoisonError::into_inner).to_string());
    let router = axum::Router::new().route("/pods", axum::routing::get(answer));
    runtime.spawn(async move { axum::serve(listener, router).await });
    Ok((address, runtime))
}

fn pod(uid: &str, container: &str) -> Value {
    json!({
        "metadata": {"name": "web-0", "namespace": "shop", "uid": uid},
        "spec": {"nodeName": "node1"},
        "status": {"containerStatuses": [{"name": "web", "containerID": format!("containerd://{container}"), "restartCount": 0}]},
    })
}

/// E35: a pod dies, another one under its name is born.
pub(super) fn same_name(_: &Value) -> Result<()> {
    let uids = ["5f0fbcd7-1d5b-4a0f-8a83-0c0c1f0e0001", "5f0fbcd7-1d5b-4a0f-8a83-0c0c1f0e0002"];
    let ids = [container_id(350), container_id(351)];
    let path = |at: usize| format!("/kubepods/burstable/pod{}/{}", uids[at], ids[at]);
    let pods: Pods = Arc::new(Mutex::new(json!({"items": [pod(uids[0], &ids[0])]})));
    let (kubelet, _runtime) = kubelet(&pods)?;
    let endpoint = Endpoint::start("127.0.0.1:0", Duration::ZERO)?;
    let container = format!("kubernetes: {{source: kubelet, endpoint: 'http://{kubelet}', auth: none, node: node1}}");
    let mut agent = Agent::start(&[], &Config { container: &container, ..Config::default() }.to(endpoint.address))?;
    let named = |at: usize, uid: &str| {
        endpoint.last("linux.sched.time", |point| {
            point.of("container.id") == ids[at] && point.of("k8s.pod.name") == "web-0" && point.of("k8s.pod.uid") == uid
        })
    };
    let mut first = Cgroup::make(&path(0))?;
    first.run(BUSY)?;
    agent.waits("the first web-0", 15, || Ok((!named(0, uids[0]).is_empty()).then_some(())))?;
    drop(first);
    let between = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
    *pods.lock().unwrap_or_else(PoisonError::into_inner) = json!({"items": [pod(uids[1], &ids[1])]});
    let mut second = Cgroup::make(&path(1))?;
    second.run(BUSY)?;
    agent.waits("the second web-0", 15, || Ok((!named(1, uids[1]).is_empty()).then_some(())))?;
    std::thread::sleep(Duration::from_secs(2));
    agent.stop()?;

    let started = named(1, uids[1]).iter().map(|point| point.start_ns).min().unwrap_or(0);
    ensure!(started + 2_000_000_000 > between, "expected a start time of its own, got {started}, born after {between}");
    let mixed = endpoint.points().into_iter().find(|point| {
        let (uid, id) = (point.of("k8s.pod.uid"), point.of("container.id"));
        (uid == uids[0] && id == ids[1]) || (uid == uids[1] && id == ids[0])
    });
    ensure!(mixed.is_none(), "expected each under its own uid, got {mixed:?}");
    let late = endpoint
        .points()
        .into_iter()
        .find(|point| point.of("k8s.pod.uid") == uids[0] && point.time_ns > between + 3_500_000_000);
    ensure!(late.is_none(), "expected nothing more of the first, got {late:?}");
    Ok(())
}
