//! Which runtimes there are to ask, and by what.

use std::path::Path;
use std::sync::Arc;

use super::catalog::{Catalog, Open};
use super::cri::{CONTAINERD_SOCKETS, CRIO_SOCKETS, CriApi};
use super::docker::{DOCKER_SOCKETS, DOCKER_USER_SOCKET, Daemons, DockerApi};
use super::podman::{PODMAN_SOCKETS, PODMAN_USER_SOCKET, Podman};
use super::socket::sockets;
use crate::processors::container::grammar::Runtime;
use crate::processors::container::settings::RuntimeName;

/// The runtimes whose containers a source can name.
pub fn containers_of(name: RuntimeName) -> &'static [Runtime] {
    match name {
        RuntimeName::Docker => &[Runtime::Docker],
        RuntimeName::Containerd => &[Runtime::Containerd, Runtime::Kata],
        RuntimeName::Crio => &[Runtime::Crio, Runtime::Kata],
        RuntimeName::Podman => &[Runtime::Podman],
    }
}

/// How to reach one, whenever it is there. Only sockets and files are looked for; nothing is started.
pub fn open(name: RuntimeName, endpoint: Option<String>, labels: Arc<[String]>) -> Open {
    match name {
        RuntimeName::Docker => Box::new(move || {
            let found = sockets(endpoint.as_deref(), &DOCKER_SOCKETS, Some(DOCKER_USER_SOCKET));
            daemons(&found, Runtime::Docker, &labels).map(|daemons| Arc::new(daemons) as Arc<dyn Catalog>)
        }),
        RuntimeName::Containerd => cri(endpoint, &CONTAINERD_SOCKETS, Runtime::Containerd, labels),
        RuntimeName::Crio => cri(endpoint, &CRIO_SOCKETS, Runtime::Crio, labels),
        RuntimeName::Podman => Box::new(move || {
            let found = sockets(endpoint.as_deref(), &PODMAN_SOCKETS, Some(PODMAN_USER_SOCKET));
            let podman = Podman::open(Path::new("/"), daemons(&found, Runtime::Podman, &labels))?;
            Some(Arc::new(podman) as Arc<dyn Catalog>)
        }),
    }
}

fn cri(endpoint: Option<String>, usual: &'static [&'static str], runtime: Runtime, labels: Arc<[String]>) -> Open {
    Box::new(move || {
        let found = sockets(endpoint.as_deref(), usual, None);
        let socket = found.first()?;
        Some(Arc::new(CriApi::new(socket, runtime, Arc::clone(&labels))) as Arc<dyn Catalog>)
    })
}

fn daemons(found: &[std::path::PathBuf], runtime: Runtime, labels: &Arc<[String]>) -> Option<Daemons> {
    let apis = found.iter().filter_map(|socket| {
        let api = DockerApi::new(socket, runtime, Arc::clone(labels)).ok()?;
        Some((socket.clone(), api))
    });
    let apis: Vec<_> = apis.collect();
    (!apis.is_empty()).then_some(Daemons { apis })
}
