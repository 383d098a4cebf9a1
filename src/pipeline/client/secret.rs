//! A secret that stands in the config, or in a file that somebody else renews.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::Opaque;

/// How old what was read of a file may be: a renewed secret is used after this long at the latest.
const FRESH: Duration = Duration::from_secs(1);

/// Asked for each request.
pub struct Secret(Source);

enum Source {
    Fixed(Opaque),
    File { key: String, path: PathBuf, last: Mutex<Option<Read>> },
}

struct Read {
    content: Opaque,
    at: Instant,
    /// The file could not be read since, which has been said.
    stale: bool,
}

impl Secret {
    /// What the file of `key` holds, or `fixed` where no file is named.
    pub fn new(fixed: &Opaque, key: &str, file: &str) -> Self {
        if file.is_empty() {
            return Self(Source::Fixed(fixed.clone()));
        }
        Self(Source::File { key: key.to_owned(), path: file.into(), last: Mutex::default() })
    }

    /// The secret, without white space around it. A file that cannot be read any more leaves the last content in
    /// use, which is said once.
    ///
    /// # Errors
    /// The file could not be read yet, or holds nothing.
    pub fn current(&self) -> Result<Opaque, String> {
        let (key, path, last) = match &self.0 {
            Source::Fixed(secret) => return Ok(secret.clone()),
            Source::File { key, path, last } => (key, path, last),
        };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.as_ref().filter(|known| known.at.elapsed() < FRESH) {
            return Ok(known.content.clone());
        }
        let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let read = read.and_then(|text| match text.trim() {
            "" => Err("it is empty".to_owned()),
            text => Ok(Opaque::new(text)),
        });
        match (read, last.as_mut()) {
            (Ok(content), _) => {
                *last = Some(Read { content: content.clone(), at: Instant::now(), stale: false });
                Ok(content)
            }
            (Err(why), None) => Err(format!("{key}: cannot read {}: {why}", path.display())),
            (Err(why), Some(known)) => {
                if !known.stale {
                    tracing::warn!("{key}: cannot read {} again, what it held stays in use: {why}", path.display());
                }
                known.at = Instant::now();
                known.stale = true;
                Ok(known.content.clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outdated(secret: &Secret) {
        let Source::File { last, .. } = &secret.0 else { return };
        if let Some(known) = last.lock().unwrap().as_mut() {
            known.at -= FRESH;
        }
    }

    #[test]
    fn a_renewed_file_is_used_and_a_lost_one_does_not_matter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let secret = Secret::new(&Opaque::new("unused"), "extensions::a::filename", path.to_str().unwrap());
        let told = secret.current().unwrap_err();
        assert!(told.contains("extensions::a::filename") && told.contains("token"), "{told}");
        std::fs::write(&path, " \n").unwrap();
        assert!(secret.current().unwrap_err().contains("empty"));
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(secret.current().unwrap().reveal(), "one");
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(secret.current().unwrap().reveal(), "one", "read at most once a second");
        outdated(&secret);
        assert_eq!(secret.current().unwrap().reveal(), "two");
        std::fs::remove_file(&path).unwrap();
        outdated(&secret);
        assert_eq!(secret.current().unwrap().reveal(), "two");
        assert_eq!(Secret::new(&Opaque::new("fixed"), "k", "").current().unwrap().reveal(), "fixed");
    }
}
