//! Docker's API over its socket; podman's speaks it too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, EventActor};
use bollard::query_parameters::EventsOptions;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use futures_util::StreamExt;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;

use super::catalog::{Catalog, CatalogError, Seen};
use super::socket::CappedStream;
use super::{Names, allowed_labels, image, text, texts};
use crate::processors::container::grammar::Runtime;

/// Docker's usual sockets; rootless ones are below `/run/user/<uid>`.
pub(super) const DOCKER_SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/docker.sock"];
/// Rootless Docker's.
pub(super) const DOCKER_USER_SOCKET: &str = "docker.sock";
/// Images whose tags and digests are kept.
const IMAGES_MAX: usize = 1000;
/// Of the client library, which has its own; ours are around it.
const LIBRARY_TIMEOUT_SECONDS: u64 = 30;

/// Tags and digests of an image.
type Image = (Vec<Arc<str>>, Vec<Arc<str>>);

/// One daemon.
pub(super) struct DockerApi {
    docker: Docker,
    runtime: Runtime,
    labels: Arc<[String]>,
    images: Mutex<HashMap<String, Image>>,
}

impl DockerApi {
    /// The daemon behind a socket. Nothing is sent yet.
    pub(super) fn new(socket: &Path, runtime: Runtime, labels: Arc<[String]>) -> Result<Self, CatalogError> {
        let path: Arc<Path> = socket.into();
        let transport = move |request: BollardRequest| send(Arc::clone(&path), request);
        let docker = Docker::connect_with_custom_transport(
            transport,
            Some("http://localhost"),
            LIBRARY_TIMEOUT_SECONDS,
            API_DEFAULT_VERSION,
        );
        let docker = docker.map_err(failure)?;
        Ok(Self { docker, runtime, labels, images: Mutex::default() })
    }

    async fn image(&self, id: &str) -> Image {
        let images = || self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = images().get(id) {
            return known.clone();
        }
        let Ok(about) = self.docker.inspect_image(id).await else { return Image::default() };
        let tags = about.repo_tags.unwrap_or_default();
        let tags = tags.iter().flat_map(|reference| image(reference).1);
        let digests = about.repo_digests.unwrap_or_default();
        let found: Image =
            (texts(tags.collect::<Vec<_>>().iter().map(AsRef::as_ref)), texts(digests.iter().map(String::as_str)));
        let mut images = images();
        if images.len() >= IMAGES_MAX {
            images.clear();
        }
        images.insert(id.to_owned(), found.clone());
        found
    }
}

/// One request on a connection of its own, so that a bad answer spoils no other.
async fn send(socket: Arc<Path>, request: BollardRequest) -> Result<http::Response<hyper::body::Incoming>, Error> {
    let stream = CappedStream::connect(&socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    head.headers.insert(http::header::HOST, http::HeaderValue::from_static("localhost"));
    if let Some(path) = head.uri.path_and_query() {
        head.uri = http::Uri::from(path.clone());
    }
    Ok(sender.send_request(BollardRequest::from_parts(head, body)).await?)
}

#[async_trait]
impl Catalog for DockerApi {
    async fn greet(&self) -> Result<String, CatalogError> {
        // the oldest of both sides' versions from now on
        self.docker.clone().negotiate_version().await.map_err(failure)?;
        let version = self.docker.version().await.map_err(failure)?;
        Ok(version.version.unwrap_or_else(|| "unknown".into()))
    }

    async fn find(&self, id: &str) -> Result<Option<Names>, CatalogError> {
        match self.docker.inspect_container(id, None).await {
            Ok(about) if about.id.as_deref() == Some(id) => {
                let mut names = names_of(&about, self.runtime, &self.labels);
                if let Some(image) = names.image_id.clone() {
                    let (tags, digests) = self.image(&image).await;
                    if names.image_tags.is_empty() {
                        names.image_tags = tags;
                    }
                    names.image_repo_digests = digests;
                }
                Ok(Some(names))
            }
            Ok(_) => Err(CatalogError::Answer("it answered about another container".into())),
            Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
            Err(why) => Err(failure(why)),
        }
    }

    async fn follow(&self, seen: &mpsc::Sender<Seen>) -> Result<(), CatalogError> {
        let filter = |key: &str, values: &[&str]| (key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect());
        let filters = HashMap::from([filter("type", &["container"]), filter("event", &["create", "start"])]);
        let mut events =
            Box::pin(self.docker.events(Some(EventsOptions { filters: Some(filters), ..Default::default() })));
        while let Some(event) = events.next().await {
            if let Some(seen_now) = event.map_err(failure)?.actor.and_then(|actor| self.names_of_event(actor))
                && seen.send(seen_now).await.is_err()
            {
                break;
            }
        }
        Ok(())
    }
}

impl DockerApi {
    /// What an event alone tells: enough for a container that is gone before it can be asked for.
    fn names_of_event(&self, actor: EventActor) -> Option<Seen> {
        let id = actor.id.filter(|id| id.len() == 64)?;
        let about = actor.attributes.unwrap_or_default();
        let of = |key: &str| about.get(key).map(String::as_str).unwrap_or_default();
        let (image_name, image_tags) = image(of("image"));
        let labels = allowed_labels(about.iter().map(|(key, value)| (key.as_str(), value.as_str())), &self.labels);
        let names = Names {
            name: text(of("name")),
            runtime: Some(self.runtime),
            image_name,
            image_tags,
            labels,
            ..Names::default()
        };
        Some((id.into(), names))
    }
}

fn names_of(about: &ContainerInspectResponse, runtime: Runtime, labels: &[String]) -> Names {
    let config = about.config.as_ref();
    let reference = config.and_then(|config| config.image.as_deref()).unwrap_or_default();
    let (image_name, image_tags) = image(reference);
    let all = config.and_then(|config| config.labels.as_ref());
    let pairs = all.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    Names {
        name: about.name.as_deref().and_then(|name| text(name.trim_start_matches('/'))),
        runtime: Some(runtime),
        image_name,
        image_id: about.image.as_deref().and_then(text),
        image_tags,
        labels: allowed_labels(pairs, labels),
        restart_count: about.restart_count,
        ..Names::default()
    }
}

/// Errors of a daemon are about one question; everything else is about the connection.
fn failure(why: Error) -> CatalogError {
    match why {
        Error::DockerResponseServerError { status_code, message } => {
            let message: String = message.chars().take(200).collect();
            CatalogError::Answer(format!("status {status_code}: {message}"))
        }
        Error::JsonDataError { message, .. } => {
            let message: String = message.chars().take(200).collect();
            CatalogError::Answer(format!("not as documented: {message}"))
        }
        Error::JsonSerdeError { err } => CatalogError::Answer(format!("not as documented: {err}")),
        other => CatalogError::Unreachable(chain(&other)),
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}

/// Several daemons of one host: the system's and those of users.
pub(super) struct Daemons {
    /// Each by its socket.
    pub(super) apis: Vec<(PathBuf, DockerApi)>,
}

#[async_trait]
impl Catalog for Daemons {
    async fn greet(&self) -> Result<String, CatalogError> {
        let mut failed = CatalogError::Unreachable("no socket".into());
        for (path, api) in &self.apis {
            match api.greet().await {
                Ok(version) => return Ok(version),
                Err(why) => failed = CatalogError::Unreachable(format!("{}: {why}", path.display())),
            }
        }
        Err(failed)
    }

    async fn find(&self, id: &str) -> Result<Option<Names>, CatalogError> {
        let mut result = Ok(None);
        for (_, api) in &self.apis {
            match api.find(id).await {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(why) => result = Err(why),
            }
        }
        result
    }

    async fn follow(&self, seen: &mpsc::Sender<Seen>) -> Result<(), CatalogError> {
        let all = self.apis.iter().map(|(_, api)| api.follow(seen));
        let (ended, _, _) = futures_util::future::select_all(all).await;
        ended
    }
}

#[cfg(test)]
mod tests;
