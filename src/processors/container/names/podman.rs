//! podman: its own files, which are always there, and its API where a socket is.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::catalog::{Catalog, CatalogError, Seen};
use super::docker::Daemons;
use super::{Names, image, text};
use crate::processors::container::grammar::Runtime;

/// podman's usual socket; rootless ones are below `/run/user/<uid>`.
pub(super) const PODMAN_SOCKETS: [&str; 1] = ["/run/podman/podman.sock"];
/// Rootless podman's.
pub(super) const PODMAN_USER_SOCKET: &str = "podman/podman.sock";
/// Where containers/storage keeps its list of containers, below a graph root.
const LISTS: [&str; 3] =
    ["overlay-containers/containers.json", "vfs-containers/containers.json", "btrfs-containers/containers.json"];
/// Graph root of root, and below a user's home.
const ROOT_STORAGE: &str = "var/lib/containers/storage";
const USER_STORAGE: &str = ".local/share/containers/storage";
/// Homes that are looked into.
const HOMES_MAX: usize = 1000;
/// Bytes of one list.
const LIST_MAX_BYTES: u64 = 32 << 20;
/// Containers that are known, those that are gone from the lists included.
const KNOWN_MAX: usize = 50_000;
/// How often the lists are looked at for new containers.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// One entry of `containers.json`.
#[derive(Debug, Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    image: String,
    #[serde(default)]
    metadata: String,
}

/// The text in an entry's `metadata`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    #[serde(rename = "image-name")]
    image_name: String,
    #[serde(rename = "image-id")]
    image_id: String,
    name: String,
}

/// podman of root and of every user.
pub(super) struct Podman {
    root: PathBuf,
    apis: Option<Daemons>,
    lists: Mutex<HashMap<PathBuf, SystemTime>>,
    known: Mutex<HashMap<Arc<str>, Names>>,
}

impl Podman {
    /// podman on the host whose files lie below `root`; `None` where it has left no trace.
    pub(super) fn open(root: &Path, apis: Option<Daemons>) -> Option<Self> {
        let podman = Self { root: root.to_owned(), apis, lists: Mutex::default(), known: Mutex::default() };
        (podman.apis.is_some() || !podman.list_files().is_empty()).then_some(podman)
    }

    fn list_files(&self) -> Vec<PathBuf> {
        let homes = std::fs::read_dir(self.root.join("home")).into_iter().flatten().flatten();
        let of_users = homes.take(HOMES_MAX).map(|home| home.path().join(USER_STORAGE));
        let storages = std::iter::once(self.root.join(ROOT_STORAGE))
            .chain(std::iter::once(self.root.join("root").join(USER_STORAGE)))
            .chain(of_users);
        storages.flat_map(|storage| LISTS.map(|list| storage.join(list))).filter(|list| list.is_file()).collect()
    }

    /// Reads the lists that have changed; gives what is new in them.
    fn read_lists(&self) -> Vec<Seen> {
        let mut new = Vec::new();
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        for file in self.list_files() {
            let Ok(about) = std::fs::metadata(&file) else { continue };
            let Ok(changed) = about.modified() else { continue };
            if about.len() > LIST_MAX_BYTES || lists.get(&file) == Some(&changed) {
                continue;
            }
            let Ok(text) = std::fs::read(&file) else { continue };
            // written anew in one go by podman; a torn read is read again when it has changed
            let Ok(listed) = serde_json::from_slice::<Vec<Listed>>(&text) else { continue };
            lists.insert(file, changed);
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() > KNOWN_MAX {
                known.clear();
            }
            for entry in listed.into_iter().take(KNOWN_MAX) {
                let (id, names) = names_of(&entry);
                if known.get(&id) != Some(&names) {
                    known.insert(Arc::clone(&id), names.clone());
                    new.push((id, names));
                }
            }
        }
        new
    }
}

fn names_of(entry: &Listed) -> Seen {
    let about: Metadata = serde_json::from_str(&entry.metadata).unwrap_or_default();
    let (image_name, image_tags) = image(&about.image_name);
    let image_id = if about.image_id.is_empty() { &entry.image } else { &about.image_id };
    let names = Names {
        name: text(&about.name).or_else(|| entry.names.first().and_then(|name| text(name))),
        runtime: Some(Runtime::Podman),
        image_name,
        image_id: text(image_id),
        image_tags,
        ..Names::default()
    };
    (entry.id.as_str().into(), names)
}

#[async_trait]
impl Catalog for Podman {
    async fn greet(&self) -> Result<String, CatalogError> {
        match &self.apis {
            Some(apis) => apis.greet().await,
            None => Ok("files".into()),
        }
    }

    async fn find(&self, id: &str) -> Result<Option<Names>, CatalogError> {
        self.read_lists();
        let listed = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let Some(apis) = &self.apis else { return Ok(listed) };
        match apis.find(id).await {
            Ok(Some(more)) => {
                let mut names = listed.unwrap_or_default();
                names.merge(more);
                Ok(Some(names))
            }
            Ok(None) => Ok(listed),
            // the files still know
            Err(_) if listed.is_some() => Ok(listed),
            Err(why) => Err(why),
        }
    }

    async fn follow(&self, seen: &mpsc::Sender<Seen>) -> Result<(), CatalogError> {
        self.read_lists();
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            for new in self.read_lists() {
                if seen.send(new).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "7f3b5f9a4bb5d86dd64b2b80c9cf3b9a4f0a3b1d2c4e5f60718293a4b5c6d7e8";

    #[tokio::test]
    async fn names_stand_in_podmans_own_files() {
        let root = tempfile::tempdir().unwrap();
        assert!(Podman::open(root.path(), None).is_none());
        let list = root.path().join("home/ann/.local/share/containers/storage/overlay-containers/containers.json");
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        let metadata = r#"{\"image-name\":\"docker.io/shop/web:1.2\",\"image-id\":\"abc\",\"name\":\"web\"}"#;
        let text = format!(r#"[{{"id":"{ID}","names":["web"],"image":"abc","layer":"l","metadata":"{metadata}"}}]"#);
        std::fs::write(&list, text).unwrap();
        let podman = Podman::open(root.path(), None).unwrap();
        let names = podman.find(ID).await.unwrap().unwrap();
        assert_eq!(names.name.as_deref(), Some("web"));
        assert_eq!(names.image_name.as_deref(), Some("docker.io/shop/web"));
        assert_eq!(names.image_tags, vec!["1.2".into()]);
        assert_eq!(podman.find("other").await, Ok(None));
    }

    #[tokio::test]
    async fn a_broken_list_names_nobody() {
        let root = tempfile::tempdir().unwrap();
        let list = root.path().join("var/lib/containers/storage/overlay-containers/containers.json");
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        std::fs::write(&list, "[{\"id\": 7}").unwrap();
        let podman = Podman::open(root.path(), None).unwrap();
        assert_eq!(podman.find(ID).await, Ok(None));
    }
}
