//! Opens the connections of a channel: the name is resolved at each, every address is tried.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::proxy::Proxy;
use crate::pipeline::client::tls::Tls;

/// A byte stream, secured or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

pub(super) type Io = TokioIo<Pin<Box<dyn Stream>>>;

/// What is needed to connect.
pub(super) struct Connector {
    pub(super) endpoint: Endpoint,
    pub(super) tls: Option<Tls>,
    /// Where connections go through, if they do.
    pub(super) proxy: Option<Proxy>,
    /// Where each connection begins among the addresses, with `round_robin`.
    pub(super) turn: Option<AtomicUsize>,
}

impl Connector {
    pub(super) async fn connect(self: Arc<Self>) -> io::Result<Io> {
        let (host, port) = match &self.endpoint {
            Endpoint::Unix { path } => return Ok(TokioIo::new(Box::pin(UnixStream::connect(path).await?))),
            Endpoint::Tcp { host, port, .. } => (host.as_str(), *port),
        };
        let stream = match &self.proxy {
            None => self.tcp(host, port).await?,
            Some(proxy) => proxy.connect(&self.endpoint.authority()).await?,
        };
        let Some(tls) = &self.tls else { return Ok(TokioIo::new(Box::pin(stream))) };
        let name = ServerName::try_from(tls.server_name().unwrap_or(host).to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{host}: {error}")))?;
        let stream = TlsConnector::from(tls.current()).connect(name, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            let message = "the server speaks TLS and not HTTP/2; is this a gRPC endpoint?";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(TokioIo::new(Box::pin(stream)))
    }

    async fn tcp(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let found = lookup_host((host, port)).await;
        let mut addresses: Vec<_> =
            found.map_err(|error| io::Error::other(format!("cannot resolve {host}: {error}")))?.collect();
        if addresses.is_empty() {
            return Err(io::Error::other(format!("the name {host} has no address")));
        }
        if let Some(turn) = &self.turn {
            let begin = turn.fetch_add(1, Ordering::Relaxed) % addresses.len();
            addresses.rotate_left(begin);
        }
        let mut last = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| io::Error::other("no address")))
    }
}
