//! The `file_storage` extension: keeps records in a folder, so that queues outlive the process.
//!
//! One file for each record, named by its number, with a checksum. An embedded database was weighed and
//! not taken: its records share pages, so that one damaged page costs more than the record it lies in, and
//! the usual ones sync the disk at each durable commit whatever `fsync` says. The file system keeps both
//! promises: a rename is all or nothing, and files share nothing.
//!
//! What survives: a kill of the process at any moment, always. A loss of power, with `fsync: true`, at the
//! cost of two syncs (file and folder) for each request; without it, what the kernel had not yet written
//! (some 30 s) is lost, and a file that was half written is found by its checksum and counted.

pub mod record;
pub mod settings;
pub mod store;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;

pub use self::settings::FileStorageSettings;
use self::store::FolderStore;
use crate::pipeline::{Extension, ExtensionFactory, RecordStore, Settings, StartError, Storage};

/// Of the folders of queues: what is in them may hold anything that applications have sent.
const PRIVATE: u32 = 0o700;

/// The type `file_storage`.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    name: "file_storage",
    aliases: &["filestorage"],
    about: "keeps sending queues on disk, so that they survive the process",
    stability: "beta",
    settings: Settings::of::<FileStorageSettings>(),
    build: |body, _context| {
        let settings: FileStorageSettings = body.decode()?;
        Ok(Box::new(FileStorage(Arc::new(Folders(settings)))))
    },
};

struct FileStorage(Arc<Folders>);

#[async_trait]
impl Extension for FileStorage {
    async fn start(&self) -> Result<(), StartError> {
        self.0.make_directory()
    }

    async fn shutdown(&self) {}

    fn storage(&self) -> Option<Arc<dyn Storage>> {
        Some(self.0.clone())
    }
}

/// A folder for each user below the one of the settings.
struct Folders(FileStorageSettings);

impl Folders {
    fn make_directory(&self) -> Result<(), StartError> {
        let directory = &self.0.directory;
        if self.0.create_directory {
            DirBuilder::new()
                .recursive(true)
                .mode(self.0.mode().unwrap_or(PRIVATE))
                .create(directory)
                .map_err(|error| StartError::new(format!("directory: cannot make {directory}: {error}")))?;
        }
        if !PathBuf::from(directory).is_dir() {
            let message = format!("directory: {directory} is no directory; make it, or set create_directory: true");
            return Err(StartError::new(message));
        }
        Ok(())
    }
}

impl Storage for Folders {
    fn open(&self, name: &str) -> Result<Arc<dyn RecordStore>, StartError> {
        self.make_directory()?;
        let folder = PathBuf::from(&self.0.directory).join(file_name(name));
        let store = FolderStore::open(&folder, self.0.fsync, self.0.timeout.0)
            .map_err(|error| StartError::new(format!("file_storage: cannot open {}: {error}", folder.display())))?;
        Ok(Arc::new(store))
    }
}

/// A name as a file name: what is not a letter, a digit, `-` or `_` becomes `~` and its code in hex.
fn file_name(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') => char::from(byte).to_string(),
            byte => format!("~{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests;
