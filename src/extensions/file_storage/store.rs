//! Records as the files of one folder, which one process holds at a time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::record::{frame, unframe};
use crate::pipeline::{RecordStore, StorageError};

/// How long to rest between two tries to get the folder.
const PAUSE: Duration = Duration::from_millis(20);

/// A folder with a file for each record, `<number>.record`.
pub struct FolderStore {
    folder: PathBuf,
    fsync: bool,
    next: AtomicU64,
    /// Locked as long as it is open.
    _lock: File,
}

impl FolderStore {
    /// Opens the folder, makes it where it is missing, and removes what a killed process was writing.
    ///
    /// # Errors
    /// The folder cannot be used, or another process holds it for longer than `patience`.
    pub fn open(folder: &Path, fsync: bool, patience: Duration) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(super::PRIVATE).create(folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
        let began = Instant::now();
        while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(error.into());
            }
            if began.elapsed() >= patience {
                return Err(io::Error::other("another process uses it"));
            }
            std::thread::sleep(PAUSE);
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        let store = Self { folder: folder.to_owned(), fsync, next: AtomicU64::new(1), _lock: lock };
        store.next.store(store.numbers()?.last().map_or(1, |last| last + 1), Ordering::Relaxed);
        Ok(store)
    }

    fn path(&self, id: u64) -> PathBuf {
        self.folder.join(format!("{id:020}.record"))
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".record")?.parse::<u64>().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The whole file under its own name, or nothing: written under another name first.
    fn write(&self, id: u64, bytes: &[u8]) -> io::Result<()> {
        let part = self.folder.join(format!("{id:020}.part"));
        let written = File::create(&part).and_then(|mut file| {
            file.write_all(bytes)?;
            if self.fsync { file.sync_all() } else { Ok(()) }
        });
        let kept = written.and_then(|()| fs::rename(&part, self.path(id)));
        if let Err(error) = kept {
            // What cannot be removed either is removed at the next start.
            let _later = fs::remove_file(&part);
            return Err(error);
        }
        if self.fsync { File::open(&self.folder)?.sync_all() } else { Ok(()) }
    }
}

fn failure(error: &io::Error) -> StorageError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::Full(error.to_string()),
        _ => StorageError::Failed(error.to_string()),
    }
}

impl RecordStore for FolderStore {
    fn ids(&self) -> Result<Vec<u64>, StorageError> {
        self.numbers().map_err(|error| failure(&error))
    }

    fn append(&self, record: &[u8]) -> Result<u64, StorageError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(id, &frame(record)?).map_err(|error| failure(&error))?;
        Ok(id)
    }

    fn read(&self, id: u64) -> Result<Vec<u8>, StorageError> {
        unframe(fs::read(self.path(id)).map_err(|error| failure(&error))?)
    }

    fn remove(&self, id: u64) -> Result<(), StorageError> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure(&error)),
            _ => Ok(()),
        }
    }
}
