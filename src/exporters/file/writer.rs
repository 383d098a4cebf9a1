//! The open file. Several exporters may write to one path (one for each signal): a record is one write at
//! the end of the file under the file's lock, and whoever finds it rotated by another opens the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

use super::settings::{FileSettings, Rotation};

const MEBIBYTE: u64 = 1024 * 1024;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) struct Writer {
    path: PathBuf,
    rotation: Option<Rotation>,
    file: File,
}

impl Writer {
    pub(super) fn open(settings: &FileSettings) -> io::Result<Self> {
        let path = PathBuf::from(&settings.path);
        if settings.create_directory
            && let Some(folder) = path.parent()
        {
            fs::create_dir_all(folder)?;
        }
        let file = open(&path)?;
        if !settings.append && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(Self { path, rotation: settings.rotation.clone(), file })
    }

    pub(super) fn write(&mut self, record: &[u8]) -> io::Result<()> {
        if self.rotation.is_none() {
            return self.file.write_all(record);
        }
        self.lock_current()?;
        if self.is_full(record.len() as u64)? {
            self.rotate()?;
            self.lock_current()?;
        }
        let written = self.file.write_all(record);
        flock(&self.file, FlockOperation::Unlock)?;
        written
    }

    /// Locks the file that has the path now.
    fn lock_current(&mut self) -> io::Result<()> {
        loop {
            flock(&self.file, FlockOperation::LockExclusive)?;
            let mine = self.file.metadata()?;
            match fs::metadata(&self.path) {
                Ok(there) if (there.dev(), there.ino()) == (mine.dev(), mine.ino()) => return Ok(()),
                _ => self.file = open(&self.path)?,
            }
        }
    }

    fn is_full(&self, more: u64) -> io::Result<bool> {
        let Some(rotation) = &self.rotation else { return Ok(false) };
        let size = self.file.metadata()?.len();
        Ok(size > 0 && size + more > rotation.max_megabytes * MEBIBYTE)
    }

    /// Gives the full file another name, and removes what is too old or too many.
    fn rotate(&self) -> io::Result<()> {
        let Some(rotation) = &self.rotation else { return Ok(()) };
        let zone = if rotation.localtime { jiff::tz::TimeZone::system() } else { jiff::tz::TimeZone::UTC };
        let now = zone.to_datetime(jiff::Timestamp::now()).strftime("%Y-%m-%dT%H-%M-%S%.3f").to_string();
        let (stem, extension) = names(&self.path);
        fs::rename(&self.path, self.path.with_file_name(format!("{stem}-{now}{extension}")))?;
        let mut old = backups(&self.path)?;
        old.sort();
        let surplus = if rotation.max_backups == 0 { 0 } else { old.len().saturating_sub(rotation.max_backups) };
        for (at, file) in old.iter().enumerate() {
            if at < surplus || (rotation.max_days > 0 && age(file) > DAY * rotation.max_days.min(100_000) as u32) {
                fs::remove_file(file)?;
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Name without extension, and the extension with its dot.
fn names(path: &Path) -> (String, String) {
    let part =
        |name: Option<&std::ffi::OsStr>| name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let extension = part(path.extension());
    (part(path.file_stem()), if extension.is_empty() { extension } else { format!(".{extension}") })
}

/// The old files of `path`, as rotation names them.
fn backups(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (stem, extension) = names(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let time = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
        if time.is_some_and(|time| jiff::civil::DateTime::strptime("%Y-%m-%dT%H-%M-%S%.f", time).is_ok()) {
            found.push(file);
        }
    }
    Ok(found)
}

fn age(file: &Path) -> Duration {
    let changed = fs::metadata(file).and_then(|metadata| metadata.modified());
    changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok()).unwrap_or_default()
}
