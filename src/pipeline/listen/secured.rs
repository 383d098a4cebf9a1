//! Accepting by TLS: handshakes run beside each other, so that a peer that stays silent holds up nobody.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::Stream;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::tls::ServerTls;
use crate::pipeline::client::failure;

/// Handshakes under way at once; further peers wait in the kernel's queue.
const HANDSHAKES_MAX: usize = 256;
/// How long a peer may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often failures are told, those between counted.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Rest after the system gave no connection (no file descriptors left, say).
const PAUSE: Duration = Duration::from_secs(1);

/// A listener whose connections have shaken hands.
pub struct Secured {
    listener: TcpListener,
    tls: ServerTls,
    shaking: JoinSet<Result<(TlsStream<TcpStream>, SocketAddr), String>>,
    failures: Failures,
}

#[derive(Default)]
struct Failures {
    told: Option<Instant>,
    untold: u64,
}

impl Secured {
    /// Serves TLS on this listener.
    pub fn new(listener: TcpListener, tls: ServerTls) -> Self {
        Self { listener, tls, shaking: JoinSet::new(), failures: Failures::default() }
    }

    /// The next peer that has shown what it must. Dropped while it waits, it loses none.
    pub async fn accept(&mut self) -> (TlsStream<TcpStream>, SocketAddr) {
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if self.shaking.len() < HANDSHAKES_MAX => match accepted {
                    Ok((stream, peer)) => {
                        let acceptor = TlsAcceptor::from(self.tls.current());
                        self.shaking.spawn(shake(acceptor, stream, peer));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "no connection");
                        if !is_the_peers(&error) {
                            tokio::time::sleep(PAUSE).await;
                        }
                    }
                },
                Some(shaken) = self.shaking.join_next() => match shaken {
                    Ok(Ok(connection)) => return connection,
                    Ok(Err(why)) => self.failures.tell(&why),
                    Err(error) => tracing::error!(%error, "a TLS handshake ended by itself"),
                },
            }
        }
    }

    /// The connections, for ever.
    pub fn into_stream(self) -> impl Stream<Item = Result<TlsStream<TcpStream>, Infallible>> + Send {
        futures_util::stream::unfold(self, |mut listener| async {
            let (connection, _) = listener.accept().await;
            Some((Ok(connection), listener))
        })
    }
}

impl axum::serve::Listener for Secured {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        Self::accept(self).await
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl Failures {
    fn tell(&mut self, why: &str) {
        if self.told.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
            self.untold += 1;
            return;
        }
        let untold = std::mem::take(&mut self.untold);
        tracing::warn!(untold_failures = untold, "a client could not connect by TLS: {why}");
        self.told = Some(Instant::now());
    }
}

async fn shake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
) -> Result<(TlsStream<TcpStream>, SocketAddr), String> {
    // Without it small answers wait for more; that it cannot be set shows at the first read.
    let _slower = stream.set_nodelay(true);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Ok((stream, peer)),
        Ok(Err(error)) => Err(format!("{peer}: {}", failure::chain(&error))),
        Err(_) => Err(format!("{peer} did not finish the handshake within {HANDSHAKE_TIMEOUT:?}")),
    }
}

/// The peer went away before it was accepted.
fn is_the_peers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
