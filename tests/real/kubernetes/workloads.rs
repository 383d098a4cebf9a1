//! The manifests that the cluster runs.

use std::path::Path;

use anyhow::{Context, Result};

/// Runs a little, again and again.
pub(crate) const BUSY: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05; done";

/// An account that may read the kubelet's list of pods.
pub(crate) const RIGHTS: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules: [{apiGroups: [''], resources: [nodes/proxy], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: ServiceAccount, name: agent, namespace: default}]
";

/// Three pods, each with an init container.
pub(crate) const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      hostNetwork: true
      terminationGracePeriodSeconds: 0
      initContainers:
        - {name: prepare, image: 'docker.io/library/sandbox:1', imagePullPolicy: Never, command: [/bin/sh, -c, 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done']}
      containers:
        - {name: web, image: 'docker.io/library/sandbox:1', imagePullPolicy: Never, command: [/bin/sh, -c, 'while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.05; done']}
";

/// About 50 ms of work.
pub(crate) const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: brief}
spec:
  template:
    spec:
      hostNetwork: true
      restartPolicy: Never
      containers:
        - {name: work, image: 'docker.io/library/sandbox:1', imagePullPolicy: Never, command: [/bin/sh, -c, 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done']}
";

/// One pod.
pub(crate) fn pod(name: &str, namespace: &str, script: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {name}}}}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
    - {{name: main, image: 'docker.io/library/sandbox:1', imagePullPolicy: Never, command: [/bin/sh, -c, '{script}']}}
"
    )
}

/// The binary with the libraries of the host, and a folder: items of `volumes` and of `volumeMounts`.
fn mounts(binary: &Path, folder: &Path, more: &[(&str, &Path)]) -> Result<(String, String)> {
    let programs = binary.parent().context("no folder")?;
    let libraries = Path::new("/usr/lib");
    let own =
        [("/opt/agent", programs), ("/usr/lib", libraries), ("/lib", libraries), ("/lib64", Path::new("/usr/lib64"))];
    let folder = folder.display();
    let mut volumes = vec![format!("{{name: work, hostPath: {{path: '{folder}'}}}}")];
    let mut points = vec![format!("{{name: work, mountPath: '{folder}'}}")];
    for (at, (point, path)) in own.iter().chain(more).enumerate() {
        volumes.push(format!("{{name: v{at}, hostPath: {{path: '{}'}}}}", path.display()));
        points.push(format!("{{name: v{at}, mountPath: {point}, readOnly: true}}"));
    }
    Ok((volumes.join(", "), points.join(", ")))
}

/// The agent on every node, with the host's pids; the binary and its libraries are the host's.
pub(crate) fn daemon_set(binary: &Path, config: &Path, folder: &Path) -> Result<String> {
    let (volumes, points) = mounts(binary, folder, &[("/host", Path::new("/"))])?;
    Ok(format!(
        "apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: schedscope}}
spec:
  selector: {{matchLabels: {{app: schedscope}}}}
  template:
    metadata: {{labels: {{app: schedscope}}}}
    spec:
      serviceAccountName: agent
      hostPID: true
      hostNetwork: true
      containers:
        - name: agent
          image: docker.io/library/sandbox:1
          imagePullPolicy: Never
          command: [/opt/agent/schedscope, --config, '{}']
          securityContext: {{privileged: true}}
          volumeMounts: [{points}]
      volumes: [{volumes}]
",
        config.display()
    ))
}

/// An application and the agent beside it, which begins after it; they see each other's processes and no others.
pub(crate) fn with_sidecar(binary: &Path, config: &Path, folder: &Path) -> Result<String> {
    let (volumes, points) = mounts(binary, folder, &[])?;
    Ok(format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: guarded}}
spec:
  shareProcessNamespace: true
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers:
    - {{name: app, image: 'docker.io/library/sandbox:1', imagePullPolicy: Never, command: [/bin/sh, -c, '{BUSY}']}}
    - name: agent
      image: docker.io/library/sandbox:1
      imagePullPolicy: Never
      command: [/opt/agent/schedscope, --config, '{}']
      env:
        - {{name: K8S_POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        - {{name: K8S_POD_UID, valueFrom: {{fieldRef: {{fieldPath: metadata.uid}}}}}}
        - {{name: K8S_NAMESPACE_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}
      securityContext: {{privileged: true}}
      volumeMounts: [{points}]
  volumes: [{volumes}]
",
        config.display()
    ))
}
