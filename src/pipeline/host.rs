//! What a component may ask of the extensions when it starts: a place to keep records, credentials.
//!
//! Refuses to know: which extensions exist; they are looked up by the id that the config names.

use std::collections::HashMap;
use std::sync::Arc;

use super::component::{Extension, StartError};

/// The started extensions, by id. Clones share them.
#[derive(Clone, Default)]
pub struct Host {
    extensions: Arc<HashMap<Arc<str>, Arc<dyn Extension>>>,
}

impl Host {
    /// A host with these extensions.
    pub fn new(extensions: HashMap<Arc<str>, Arc<dyn Extension>>) -> Self {
        Self { extensions: Arc::new(extensions) }
    }

    /// The storage that the extension `id` offers.
    pub fn storage(&self, id: &str) -> Result<Arc<dyn Storage>, StartError> {
        self.find(id)?.storage().ok_or_else(|| {
            StartError::new(format!("extension `{id}` offers no storage; name a `file_storage` extension instead"))
        })
    }

    /// The credentials that the extension `id` offers.
    pub fn authenticator(&self, id: &str) -> Result<Arc<dyn Authenticator>, StartError> {
        self.find(id)?.authenticator().ok_or_else(|| {
            StartError::new(format!("extension `{id}` offers no credentials for outgoing requests; name one that does"))
        })
    }

    fn find(&self, id: &str) -> Result<&Arc<dyn Extension>, StartError> {
        self.extensions.get(id).ok_or_else(|| {
            StartError::new(format!("extension `{id}` is not running; define it and list it in service::extensions"))
        })
    }
}

/// Credentials for outgoing requests, asked for each request so that a rotated secret takes effect.
pub trait Authenticator: Send + Sync {
    /// Headers to add; names are lower case, values are marked sensitive. The error names no secret.
    fn headers(&self) -> Result<Vec<(http::HeaderName, http::HeaderValue)>, String>;
}

/// Gives each user of a storage extension a store of its own.
pub trait Storage: Send + Sync {
    /// Opens the store of that name, which has at most one user at a time.
    fn open(&self, name: &str) -> Result<Arc<dyn RecordStore>, StartError>;
}

/// Why a record was not kept or cannot be had back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// No room: nothing of the record was kept.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The record is there and is not what was written.
    #[error("a stored record is damaged: {0}")]
    Damaged(String),
    /// Anything else the system says.
    #[error("{0}")]
    Failed(String),
}

/// An ordered set of records that outlives the process. Calls block on the disk.
pub trait RecordStore: Send + Sync {
    /// The ids of all records, oldest first.
    fn ids(&self) -> Result<Vec<u64>, StorageError>;

    /// Keeps a record. When this returns, a kill of the process cannot lose it (and, where the store
    /// syncs, neither can a loss of power).
    fn append(&self, record: &[u8]) -> Result<u64, StorageError>;

    /// A record as it was written; `Damaged` where its checksum says otherwise.
    fn read(&self, id: u64) -> Result<Vec<u8>, StorageError>;

    /// Forgets a record; unknown ids are no error.
    fn remove(&self, id: u64) -> Result<(), StorageError>;
}
