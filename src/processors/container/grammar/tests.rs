//! Layouts of the wild beyond the handed cases, each as `path → id, runtime, pod, qos, unit`.

use super::*;

const HEX: &str = "ff44c7a161a2b64a2c2e342fa1364dd148b5958e53d378f0588846fc3e232c34";
const UID: &str = "3d3ce4b0-25d3-4a9f-9254-8ad7d341b7b1";

/// `H` stands for 64 hex digits, `U` for a pod uid with dashes, `V` for the same with underscores.
#[track_caller]
fn check(path: &str, expected: &str) {
    let path = spell(path);
    let found = parse_path(&path);
    let container = found.container.as_ref();
    let text = |value: Option<&str>| value.unwrap_or("-").to_owned();
    let got = [
        text(container.map(|container| container.id.as_ref())),
        text(container.and_then(|container| container.runtime).map(Runtime::name)),
        text(found.pod_uid.as_deref()),
        text(found.qos.map(Qos::name)),
        text(found.unit),
    ];
    assert_eq!(got.join(" "), spell(expected), "{path}");
}

fn spell(pattern: &str) -> String {
    pattern.replace("<H>", HEX).replace("<U>", UID).replace("<V>", &UID.replace('-', "_"))
}

#[test]
fn docker_in_all_its_places() {
    check("/docker/<H>", "<H> docker - - -");
    check("/docker/<H>/init", "<H> docker - - -");
    check("/system.slice/docker-<H>.scope/init.scope", "<H> docker - - docker-<H>.scope");
    check("/system.slice:docker:<H>", "<H> docker - - -");
    check(
        "/user.slice/user-1000.slice/user@1000.service/app.slice/docker.service/docker/<H>",
        "<H> docker - - user@1000.service",
    );
    check("/actions_job/<H>", "<H> - - - -");
    check(
        "/ecstasks.slice/ecstasks-8a26d21ec209707a1df9099f93947aed.slice/docker-<H>.scope",
        "<H> docker - - docker-<H>.scope",
    );
    check("/nomad.slice/share.slice/docker-<H>.scope", "<H> docker - - docker-<H>.scope");
    check("/system.slice/runc-<H>.scope", "<H> - - - runc-<H>.scope");
}

#[test]
fn ids_are_exactly_64_lower_case_hex_digits() {
    check("/docker/<H>0", "- - - - -");
    check(&format!("/docker/{}", &HEX[1..]), "- - - - -");
    check(&format!("/docker/{}", HEX.to_uppercase()), "- - - - -");
    check(&format!("/system.slice/docker-{}.scope", &HEX[1..]), &format!("- - - - docker-{}.scope", &HEX[1..]));
    check("/system.slice/docker-<H>0.scope", "- - - - docker-<H>0.scope");
    check("/system.slice/<H>.service", "- - - - <H>.service");
    check("/system.slice/docker-<H>.mount", "- - - - docker-<H>.mount");
    check("/system.slice/var-lib-docker-overlay2-<H>-merged.mount", "- - - - var-lib-docker-overlay2-<H>-merged.mount");
    check("/process_api/48a34450731146dca76febf7f0f36229", "- - - - -");
}

#[test]
fn pods_by_both_drivers() {
    check("/kubepods/burstable/pod<U>/<H>", "<H> - <U> burstable -");
    check(
        "/kubepods.slice/kubepods-pod<V>.slice/cri-containerd-<H>.scope",
        "<H> containerd <U> guaranteed cri-containerd-<H>.scope",
    );
    check("/kubepods.slice/kubepods-pod<V>.slice/crio-<H>.scope/container", "<H> crio <U> guaranteed crio-<H>.scope");
    check("/kubepods/besteffort/pod<U>/crio-conmon-<H>", "- - <U> besteffort -");
    check("/system.slice/crio-conmon-<H>.scope", "- - - - crio-conmon-<H>.scope");
    check(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<V>.slice:cri-containerd:<H>",
        "<H> containerd <U> burstable -",
    );
    check("/k8s.io/<H>", "<H> containerd - - -");
    check("/../../pod<U>/<H>", "<H> - <U> - -");
    check("/../<H>", "<H> - - - -");
    check("/kubepods/kata_overhead", "- - - - -");
    check("/kubepods/burstable/pod<U>/kata_<H>", "<H> kata <U> burstable -");
    check("/kata_overhead/<H>", "- - - - -");
    check("/kubepods/burstable", "- - - - -");
    check("/kubepods.slice/kubepods-burstable.slice", "- - - - -");
    check("/docker/<H>/kubepods/burstable/pod<U>/<H>", "<H> - <U> burstable -");
    check("/kubepods/burstable/pod<U>/<H>/docker/<H>", "<H> docker <U> burstable -");
}

#[test]
fn podman_its_pods_and_its_monitors() {
    check("/libpod_parent/libpod-<H>", "<H> podman - - -");
    check("/libpod_parent/conmon", "- - - - -");
    check("/libpod_parent/<H>/libpod-<H>", "<H> podman - - -");
    check("/libpod_parent/<H>/conmon", "- - - - -");
    check("/libpod_parent/<H>", "- - - - -");
    check("/machine.slice/machine-libpod_pod_<H>.slice/libpod-<H>.scope/container", "<H> podman - - libpod-<H>.scope");
    check("/machine.slice/machine-libpod_pod_<H>.slice", "- - - - -");
    check("/machine.slice/libpod-conmon-<H>.scope", "- - - - libpod-conmon-<H>.scope");
    check("/system.slice/web.service/libpod-payload-<H>/container", "<H> podman - - web.service");
    check("/system.slice/web.service/supervisor", "- - - - web.service");
}

#[test]
fn machines_that_have_names() {
    check("/lxc/web1", "web1 lxc - - -");
    check("/lxc/101/ns/system.slice/ssh.service", "101 lxc - - -");
    check("/lxc.payload/web1/init.scope", "web1 lxc - - -");
    check("/lxc.monitor/web1", "- - - - -");
    check("/lxc.monitor.web1", "- - - - -");
    check("/lxc.pivot", "- - - - -");
    check("/lxc.payload.web1/docker/<H>", "<H> docker - - -");
    check("/machine.slice/machine-box.scope/supervisor", "- - - - machine-box.scope");
    check("/machine.slice/machine-box.scope/init.scope", "box systemd-nspawn - - machine-box.scope");
    check(
        "/machine.slice/systemd-nspawn@mail.service/payload/init.scope",
        "mail systemd-nspawn - - systemd-nspawn@mail.service",
    );
    check("/machine.slice/systemd-nspawn@mail.service", "- - - - systemd-nspawn@mail.service");
    check(r"/machine.slice/machine-qemu\x2d1\x2dvm.scope/libvirt/emulator", r"- - - - machine-qemu\x2d1\x2dvm.scope");
    check(r"/machine.slice/machine-lxc\x2d812\x2ddb.scope", r"db lxc - - machine-lxc\x2d812\x2ddb.scope");
}

#[test]
fn other_makers() {
    check("/garden/5b94ce8a-f038-4140-924e-ad2e", "5b94ce8a-f038-4140-924e-ad2e garden - - -");
    check("/garden/good/5b94ce8a-f038-4140-924e-ad2e", "5b94ce8a-f038-4140-924e-ad2e garden - - -");
    check("/system.slice/garden.service/garden", "- - - - garden.service");
    check(
        "/ecs/8ee8102f70be344126d97401c85c7961/8ee8102f70be344126d97401c85c7961-19",
        "8ee8102f70be344126d97401c85c7961-19 - - - -",
    );
    check("/ecs/8ee8102f70be344126d97401c85c7961", "- - - - -");
    check("/docker/buildkit", "- - - - -");
    check(
        "/system.slice/docker-k2m9vq4t0w7r1zj8c5x3n6bhd.scope",
        "k2m9vq4t0w7r1zj8c5x3n6bhd buildkit - - docker-k2m9vq4t0w7r1zj8c5x3n6bhd.scope",
    );
    check("/mesos/<U>", "<U> - - - -");
    check("/slurm/uid_1000/job_3/step_0", "- - - - -");
}

#[test]
fn units_by_systemds_own_rule() {
    check("/init.scope", "- - - - init.scope");
    check("/user.slice/user-1000.slice/session-2.scope", "- - - - session-2.scope");
    check(
        "/user.slice/user-1000.slice/user@1000.service/app.slice/app-flatpak-org.x-<U>.scope",
        "- - - - user@1000.service",
    );
    check(
        r"/system.slice/system-serial\x2dgetty.slice/serial-getty@ttyS0.service",
        "- - - - serial-getty@ttyS0.service",
    );
    check("/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-<U>.scope", "- - - - user@1000.service");
    check("/openrc.sshd", "- - - - -");
    check("/", "- - - - -");
    check("/../../system.slice/ssh.service", "- - - - ssh.service");
    check("/system.slice/bad name.service", "- - - - -");
}

#[test]
fn the_unit_comes_from_the_hierarchy_of_systemd() {
    let text = "5:memory:/docker/x\n1:name=systemd:/system.slice/a.service\n0::/system.slice/b.service\n";
    assert_eq!(parse_text(text, None).unit, Some("a.service"));
    let text = "5:memory:/system.slice/c.service\n0::/\n";
    assert_eq!(parse_text(text, None).unit, Some("c.service"));
}

#[test]
fn in_a_pod_the_hostname_file_is_the_sandboxs() {
    let mounts = spell(
        "1 2 8:1 /var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/<H>/hostname /etc/hostname rw - ext4 /dev/sda rw\n\
         1 2 8:1 /var/lib/kubelet/pods/<U>/etc-hosts /etc/hosts rw - ext4 /dev/sda rw\n\
         1 2 8:1 /var/lib/kubelet/pods/<U>/containers/app/5ab3f5fe /dev/termination-log rw - ext4 /dev/sda rw\n",
    );
    let found = parse_text("0::/\n", Some(&mounts));
    assert_eq!(found.container, None);
    assert_eq!(found.pod_uid.as_deref(), Some(UID));
    assert_eq!(found.pod_container.as_deref(), Some("app"));
    let docker = mounts.replace("containerd/io.containerd.grpc.v1.cri/sandboxes", "docker/containers");
    assert_eq!(parse_text("0::/\n", Some(&docker)).container, None);
}

#[test]
fn a_mounted_hierarchy_shows_the_whole_path() {
    let mounts = spell("1 2 0:30 /docker/<H> /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    let found = parse_text("0::/\n", Some(&mounts));
    assert_eq!(found.container.map(|container| container.id.into_owned()).as_deref(), Some(HEX));
}

#[test]
fn image_layers_and_the_hosts_mounts_are_no_containers() {
    let mounts = spell(
        "1 2 8:1 / /var/lib/docker/overlay2/<H>/merged rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l\n\
         1 2 8:1 / /var/lib/docker/containers/<H>/mounts/shm rw - tmpfs shm rw\n\
         1 2 8:1 /var/lib/kubelet/pods/<U>/volumes/x /var/lib/kubelet/pods/<U>/volume-subpaths/x/app/0 rw - ext4 /dev/sda rw\n",
    );
    assert!(parse_text("0::/\n", Some(&mounts)).is_empty());
}

#[test]
fn docker_with_the_hosts_name_still_has_its_hosts_file() {
    let mounts = spell("1 2 8:1 /var/lib/docker/containers/<H>/hosts /etc/hosts rw - ext4 /dev/sda rw\n");
    let found = parse_text("0::/\n", Some(&mounts)).container.unwrap();
    assert_eq!((found.id.as_ref(), found.runtime), (HEX, Some(Runtime::Docker)));
}

#[test]
fn podmans_own_folder_names_the_container() {
    let mounts = spell(
        "1 2 0:2 /containers/storage/overlay-containers/<H>/userdata/.containerenv /run/.containerenv rw - tmpfs t rw\n",
    );
    let found = parse_text("0::/\n", Some(&mounts)).container.unwrap();
    assert_eq!((found.id.as_ref(), found.runtime), (HEX, Some(Runtime::Podman)));
}

#[test]
fn absurd_paths_are_read_in_one_walk() {
    let long = "/a\nb".repeat(1024) + "/docker/" + HEX;
    assert_eq!(parse_path(&long).container.map(|container| container.id.into_owned()).as_deref(), Some(HEX));
    check("/docker/<H> (deleted)\n", "<H> docker - - -");
    check("///docker//<H>/", "<H> docker - - -");
    check("/machine.slice/machine-\\x.scope", "\\x systemd-nspawn - - machine-\\x.scope");
}
