//! Real docker containers: a daemon with its own containerd, in a mount namespace of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::program::{Program, eventually};

/// A docker daemon that ends with the test.
pub(crate) struct Docker {
    folder: PathBuf,
    daemon: Program,
    containers: Vec<String>,
}

/// containerd and dockerd in one namespace; both end with the shell.
const SCRIPT: &str = r#"
set -e
umount -l /sys/fs/cgroup/unified 2>/dev/null || true
printf 'version = 2\nroot = "%s/c"\nstate = "%s/cs"\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n[grpc]\n  address = "%s/c.sock"\n' "$0" "$0" "$0" >"$0/c.toml"
containerd --config "$0/c.toml" &
first=$!
while [ ! -S "$0/c.sock" ]; do sleep 0.1; done
dockerd --bridge=none --iptables=false --data-root "$0/d" --exec-root "$0/de" --pidfile "$0/d.pid" \
  --storage-driver vfs --containerd "$0/c.sock" -H "unix://$0/d.sock" &
second=$!
trap 'kill $second; wait $second; kill $first; wait $first; exit 0' TERM
wait $second
"#;

impl Docker {
    /// Starts the daemon and gives it an image with nothing but busybox.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let home = folder.join("docker");
        fs::create_dir_all(&home)?;
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "sh", "-c", SCRIPT]).arg(&home);
        let daemon = Program::start("docker", &mut command, folder)?;
        let mut docker = Self { folder: home, daemon, containers: Vec::new() };
        eventually("docker's daemon", Duration::from_secs(60), || {
            docker.daemon.is_alive()?;
            Ok(docker.docker(&["version"]).ok())
        })?;
        let image = folder.join("docker-image.tar");
        let made = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/parts/kubernetes/image"))
            .arg("shop/busybox:1.2")
            .arg(&image)
            .status()?;
        ensure!(made.success(), "no image: {made}");
        docker.docker(&["load", "-i", &image.display().to_string()])?;
        Ok(docker)
    }

    /// Ends all that were started.
    pub(crate) fn remove_containers(&mut self) {
        for id in std::mem::take(&mut self.containers) {
            let _ = self.docker(&["rm", "-f", &id]);
        }
    }

    /// Where its API is.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("d.sock")
    }

    /// Makes an image of a program that is here, as a user does of a built agent.
    pub(crate) fn make_image(&self, program: &str, tag: &str) -> Result<()> {
        let mut build = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config/deploy/docker/build"));
        build.args([program, tag]);
        build.env("DOCKER_HOST", format!("unix://{}", self.socket().display())).env("DOCKER_BUILDKIT", "0");
        let built = build.output()?;
        ensure!(built.status.success(), "docker build: {}", String::from_utf8_lossy(&built.stderr));
        Ok(())
    }

    /// Starts a container with a label and a shell script: its id.
    pub(crate) fn run(&mut self, name: &str, script: &str) -> Result<String> {
        let label = "team=checkout";
        let arguments = ["run", "-d", "--name", name, "--label", label, "--network=none", "--entrypoint", "/bin/sh"];
        self.start_container(&[&arguments[..], &["shop/busybox:1.2", "-c", script]].concat())
    }

    /// Starts a container by a `run -d` and removes it at the end: its id.
    pub(crate) fn start_container(&mut self, run: &[&str]) -> Result<String> {
        let id = self.docker(run)?.trim().to_owned();
        self.containers.push(id.clone());
        Ok(id)
    }

    /// What a container has printed, on both of its outputs.
    pub(crate) fn says(&self, id: &str) -> Result<String> {
        let socket = format!("unix://{}", self.socket().display());
        let output = Command::new("docker").args(["-H", &socket, "logs", id]).output()?;
        Ok([output.stderr, output.stdout].map(|text| String::from_utf8_lossy(&text).into_owned()).concat())
    }

    /// The command line: its standard output.
    pub(crate) fn docker(&self, arguments: &[&str]) -> Result<String> {
        let socket = format!("unix://{}", self.socket().display());
        let output = Command::new("docker").args(["-H", &socket]).args(arguments).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "docker {}: {error}", arguments.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        self.remove_containers();
        let _ = self.daemon.stop(rustix::process::Signal::TERM);
    }
}
