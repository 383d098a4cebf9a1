//! A real one-node Kubernetes cluster with its control plane, in namespaces of its own (tests/real/parts/kubernetes).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::needs::part;
use crate::program::{Program, eventually};

const UP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/parts/kubernetes/up");
const MAKE_IMAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/parts/kubernetes/image");
/// The image of every container: busybox.
pub(crate) const IMAGE: &str = "docker.io/library/sandbox:1";

/// A running cluster.
pub(crate) struct Cluster {
    program: Program,
    programs: String,
    work: PathBuf,
    /// What keeps the cluster up; in its namespaces.
    inside: Pid,
}

impl Cluster {
    /// Starts one in the folder; ready when its node is.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let programs = part("kubernetes").map_err(anyhow::Error::msg)?;
        let (work, image, ready) = (folder.join("k8s"), folder.join("sandbox.tar"), folder.join("k8s-ready"));
        let made = Command::new(MAKE_IMAGE).arg(IMAGE).arg(&image).status()?;
        ensure!(made.success(), "{MAKE_IMAGE}: {made}");
        let mut command = Command::new(UP);
        command
            .arg(&programs)
            .args([&work, &image])
            .args(["sh", "-c", "echo $$ >\"$0\"; exec sleep infinity"])
            .arg(&ready);
        let mut program = Program::start("kubernetes", &mut command, folder)?;
        let inside = eventually("the cluster", Duration::from_secs(120), || {
            program.is_alive()?;
            Ok(fs::read_to_string(&ready).ok().and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?)))
        })?;
        Ok(Self { program, programs, work, inside })
    }

    /// The file of that name in the cluster's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.work.join(name)
    }

    /// A command that becomes another one in the cluster's network, with the host's files.
    pub(crate) fn network(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.inside.as_raw_nonzero())).arg("--");
        command.env("KUBECONFIG", self.file("kubeconfig")).stdin(Stdio::null());
        command
    }

    /// Asks the API server as its administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = self.network().arg(format!("{}/kubectl", self.programs)).args(arguments).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {error}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Helm as the administrator.
    pub(crate) fn helm(&self, arguments: &[&str]) -> Result<String> {
        let helm = part("helm").map_err(anyhow::Error::msg)?;
        let mut command = self.network();
        // its caches and its config are no business of this account's home
        command.env("HELM_CACHE_HOME", self.file("helm")).env("HELM_CONFIG_HOME", self.file("helm"));
        let output = command.env("HELM_DATA_HOME", self.file("helm")).arg(helm).args(arguments).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm {}: {error}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Gives the node an image with a program as its entry point.
    pub(crate) fn import(&self, tag: &str, program: &Path) -> Result<()> {
        let image = self.file("program.tar");
        let made = Command::new(MAKE_IMAGE).arg(tag).args([&image, program]).status()?;
        ensure!(made.success(), "{MAKE_IMAGE}: {made}");
        let mut ctr = Command::new("ctr");
        ctr.arg("-a").arg(self.file("containerd.sock")).args(["-n", "k8s.io", "images", "import"]).arg(&image);
        let output = ctr.output()?;
        ensure!(output.status.success(), "ctr: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Applies a manifest.
    pub(crate) fn apply(&self, manifest: &str) -> Result<()> {
        let file = self.file("manifest.yaml");
        fs::write(&file, manifest)?;
        self.kubectl(&["apply", "-f", &file.display().to_string()])?;
        Ok(())
    }

    /// All pods, as the API server has them.
    pub(crate) fn pods(&self) -> Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "pods", "--all-namespaces", "-o", "json"])?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Waits until that many pods whose name begins so have an id for each of their containers, and gives them.
    pub(crate) fn pods_with_ids(&self, prefix: &str, count: usize) -> Result<Vec<Value>> {
        eventually(&format!("{count} pods {prefix}"), Duration::from_secs(60), || {
            let mut pods = self.pods()?;
            pods.retain(|pod| pod["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(prefix)));
            let known = pods.iter().filter(|pod| containers(pod).iter().all(|(_, id)| !id.is_empty())).count();
            Ok((known == count && pods.len() == count).then_some(pods))
        })
        .with_context(|| self.kubectl(&["describe", "pods"]).unwrap_or_default())
    }

    /// A bearer token of a service account.
    pub(crate) fn token(&self, account: &str) -> Result<String> {
        Ok(self.kubectl(&["create", "token", account, "--duration=1h"])?.trim().to_owned())
    }

    /// Sends a signal to a program of the control plane.
    pub(crate) fn signal(&self, program: &str, signal: Signal) -> Result<()> {
        let want = format!("{}/{program}", self.programs);
        let namespace = fs::read_link(format!("/proc/{}/ns/net", self.inside.as_raw_nonzero()))?;
        for entry in fs::read_dir("/proc")?.flatten() {
            let of = entry.path();
            let is_it = fs::read_link(of.join("exe")).is_ok_and(|path| path.as_os_str() == want.as_str());
            if is_it && fs::read_link(of.join("ns/net")).is_ok_and(|net| net == namespace) {
                let pid = entry.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
                kill_process(pid.context("no pid")?, signal)?;
                return Ok(());
            }
        }
        anyhow::bail!("{program} does not run")
    }
}

/// Name and id of each container of a pod, init containers included; an id that is not known is empty.
pub(crate) fn containers(pod: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Vec::new();
    for (spec, status) in [("initContainers", "initContainerStatuses"), ("containers", "containerStatuses")] {
        for container in pod["spec"][spec].as_array().into_iter().flatten() {
            let all = pod["status"][status].as_array().into_iter().flatten();
            let id = all.filter(|it| it["name"] == container["name"]).map(|it| text(&it["containerID"])).next();
            let id = id.unwrap_or_default();
            found.push((text(&container["name"]), id.rsplit('/').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.signal("kube-apiserver", Signal::CONT);
        let _ = kill_process(self.inside, Signal::KILL);
        // the script then ends the kubelet, the containers and the rest
        let _ = eventually("the end of the cluster", Duration::from_secs(30), || self.program.ended());
    }
}
