//! Damaged texts of others: what /proc says of a process' cgroups, and a config. Any bytes give an identity or none,
//! a config or problems that say something; never a panic.
//!
//! `SCHEDSCOPE_MUTATIONS` counts here as in `mutate`; of configs, a hundredth.

use schedscope::config::{Document, ProcessEnvironment, resolve_documents};
use schedscope::processors::container::grammar::parse_text;

use super::mutate::{mutate, rounds};

const CGROUPS: [&str; 4] = [
    "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5e7e822e_50b5_4cdc_9981_e4805a3b8670.slice/cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n",
    "12:cpu,cpuacct:/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n1:name=systemd:/system.slice/docker.service\n0::/\n",
    "0::/machine.slice/libpod-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope/container (deleted)\n",
    "0::/user.slice/user-1000.slice/user@1000.service/app.slice/app-x\\x2dy@1.service\n0::/../../lxc.payload.web\n",
];
const MOUNTS: &str = "1 0 8:1 /var/lib/docker/containers/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef/hostname /etc/hostname rw - ext4 /dev/sda1 rw\n";

#[test]
fn damaged_texts_of_proc_name_something_or_nothing() {
    let mut random = fastrand::Rng::with_seed(6);
    for round in 0..rounds() {
        let (mut cgroup, mut mounts) = (CGROUPS[round % CGROUPS.len()].as_bytes().to_vec(), MOUNTS.as_bytes().to_vec());
        mutate(&mut cgroup, &mut random);
        mutate(&mut mounts, &mut random);
        let (cgroup, mounts) = (String::from_utf8_lossy(&cgroup), String::from_utf8_lossy(&mounts));
        let found = parse_text(&cgroup, Some(&mounts));
        let id = found.container.map(|container| container.id.to_string()).unwrap_or_default();
        assert!(cgroup.contains(&id) || mounts.contains(&id), "round {round}: {id} of {cgroup:?} {mounts:?}");
    }
}

#[test]
fn damaged_configs_have_problems_that_say_something() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..rounds() / 100 {
        let mut text = include_bytes!("../../config/default.yaml").to_vec();
        mutate(&mut text, &mut random);
        let text = String::from_utf8_lossy(&text).into_owned();
        let document = Document { name: "damaged.yaml".into(), text };
        if let Err(problems) = resolve_documents(&[document], &[], &ProcessEnvironment) {
            assert!(!problems.to_string().is_empty(), "round {round}");
        }
    }
}
