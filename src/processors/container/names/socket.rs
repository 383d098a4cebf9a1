//! Unix sockets of runtimes: where they usually are, and a stream that ends where an answer has no end.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

/// Bytes of one answer.
const ANSWER_MAX_BYTES: u64 = 8 << 20;

/// A connection that reads at most [`ANSWER_MAX_BYTES`], then fails.
pub(super) struct CappedStream {
    inner: UnixStream,
    left_bytes: u64,
}

impl CappedStream {
    /// Connects for one answer.
    pub(super) async fn connect(path: &Path) -> io::Result<Self> {
        Ok(Self { inner: UnixStream::connect(path).await?, left_bytes: ANSWER_MAX_BYTES })
    }
}

impl AsyncRead for CappedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left_bytes == 0 {
            let text = format!("the answer is longer than {} MiB", ANSWER_MAX_BYTES >> 20);
            return Poll::Ready(Err(io::Error::other(text)));
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.inner).poll_read(context, buffer);
        let read = buffer.filled().len().saturating_sub(before) as u64;
        self.left_bytes = self.left_bytes.saturating_sub(read);
        result
    }
}

impl AsyncWrite for CappedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// Whether there is a socket; a plain file under that name is none.
pub(super) fn is_socket(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_socket())
}

/// The endpoint's path, or those of the usual ones that are there now.
pub(super) fn sockets(endpoint: Option<&str>, usual: &[&str], of_users: Option<&str>) -> Vec<PathBuf> {
    if let Some(endpoint) = endpoint {
        let path = PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
        return if is_socket(&path) { vec![path] } else { Vec::new() };
    }
    let mut found: Vec<PathBuf> = Vec::new();
    let usual = usual.iter().map(PathBuf::from);
    let of_users = of_users.into_iter().flat_map(|file| {
        let users = std::fs::read_dir("/run/user").into_iter().flatten().flatten();
        users.take(1000).map(move |user| user.path().join(file))
    });
    for path in usual.chain(of_users) {
        // /var/run is a link to /run
        let real = path.canonicalize().unwrap_or(path);
        if is_socket(&real) && !found.contains(&real) {
            found.push(real);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_file_is_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("docker.sock");
        std::fs::write(&file, "").unwrap();
        let endpoint = format!("unix://{}", file.display());
        assert!(sockets(Some(&endpoint), &[], None).is_empty());
        std::fs::remove_file(&file).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&file).unwrap();
        assert_eq!(sockets(Some(&endpoint), &[], None), vec![file]);
    }

    #[tokio::test]
    async fn an_endless_answer_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            while peer.write_all(&[b'x'; 65536]).await.is_ok() {}
        });
        let mut stream = CappedStream::connect(&path).await.unwrap();
        let mut all = Vec::new();
        let failed = stream.read_to_end(&mut all).await.unwrap_err();
        assert!(failed.to_string().contains("longer than 8 MiB"));
        assert_eq!(all.len() as u64, ANSWER_MAX_BYTES);
    }
}
