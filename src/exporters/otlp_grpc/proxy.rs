//! The proxy that the environment names, by the rules of gRPC: `HTTPS_PROXY` for every endpoint, whatever its
//! scheme, a tunnel by HTTP CONNECT, and never for this host itself.

use std::io;

use http::uri::Authority;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::endpoint::Endpoint;
use crate::pipeline::client::{failure, is_this_host};

/// The longest answer to a CONNECT.
const HEAD_MAX_BYTES: usize = 8192;

/// A proxy to go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proxy {
    uri: Uri,
    auth: Option<HeaderValue>,
}

impl Proxy {
    /// The proxy for an endpoint, if the environment has one. The error names what is not supported.
    pub(super) fn of(endpoint: &Endpoint, environment: &Matcher) -> Result<Option<Self>, String> {
        let Endpoint::Tcp { host, .. } = endpoint else { return Ok(None) };
        if is_this_host(host) {
            return Ok(None);
        }
        let target = format!("https://{}", endpoint.authority());
        let target = target.parse::<Uri>().map_err(|error| format!("endpoint: {error}"))?;
        let Some(found) = environment.intercept(&target) else { return Ok(None) };
        match found.uri().scheme_str() {
            None | Some("http") => {}
            Some(scheme) => {
                return Err(format!(
                    "HTTPS_PROXY names a proxy of the kind `{scheme}`; only http:// is supported, or name this endpoint in \
                     NO_PROXY"
                ));
            }
        }
        Ok(Some(Self { uri: found.uri().clone(), auth: found.basic_auth().cloned() }))
    }

    /// A connection to `authority` by way of the proxy.
    pub(super) async fn connect(&self, authority: &str) -> io::Result<TcpStream> {
        let failed = |why: &dyn std::fmt::Display| {
            let name = self.uri.authority().map(Authority::as_str).unwrap_or_default();
            io::Error::other(format!("the proxy {name} gave no way through: {why}"))
        };
        let host = self.uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let mut stream =
            TcpStream::connect((host, self.uri.port_u16().unwrap_or(80))).await.map_err(|error| failed(&error))?;
        stream.set_nodelay(true)?;
        let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        if let Some(auth) = &self.auth {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(auth.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await?;
        let head = head(&mut stream).await.map_err(|error| failed(&error))?;
        let (status, _) = head.split_once("\r\n").unwrap_or_default();
        match status.split(' ').nth(1) {
            Some(code) if code.len() == 3 && code.starts_with('2') => Ok(stream),
            _ => Err(failed(&format!("it answered `{}`", failure::excerpt(status, 100)))),
        }
    }
}

/// An answer's head, and not a byte more: an HTTP/2 server may speak first, right behind it.
async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_MAX_BYTES {
            return Err(io::Error::other("its answer has no end"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exporters::otlp_grpc::endpoint::parse;

    fn chosen(endpoint: &str, proxy: &str) -> Result<Option<String>, String> {
        let environment = Matcher::builder().https(proxy).no("inside.example,10.0.0.0/8").build();
        let proxy = Proxy::of(&parse(endpoint, true).unwrap(), &environment)?;
        Ok(proxy.map(|proxy| proxy.uri.authority().unwrap().to_string()))
    }

    #[test]
    fn the_environment_is_read_as_grpc_reads_it() {
        let proxy = || Ok(Some("proxy:3128".to_owned()));
        assert_eq!(chosen("out.example:4317", "http://proxy:3128"), proxy());
        assert_eq!(chosen("http://out.example:4317", "proxy:3128"), proxy(), "plaintext too");
        for endpoint in
            ["localhost:4317", "127.0.0.1:4317", "[::1]:4317", "unix:///run/otlp", "a.inside.example:1", "10.1.2.3:1"]
        {
            assert_eq!(chosen(endpoint, "http://proxy:3128"), Ok(None), "{endpoint}");
        }
        assert_eq!(chosen("out.example:4317", ""), Ok(None));
        assert!(chosen("out.example:4317", "socks5://proxy:1080").unwrap_err().contains("NO_PROXY"));
    }

    #[tokio::test]
    async fn a_tunnel_is_asked_for_with_the_credentials() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let read = stream.read(&mut asked).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\nhello").await.unwrap();
            String::from_utf8_lossy(&asked[..read]).into_owned()
        });
        let environment = Matcher::builder().https(format!("http://user:secret@{at}")).build();
        let proxy = Proxy::of(&parse("out.example:4317", true).unwrap(), &environment).unwrap().unwrap();
        let mut stream = proxy.connect("out.example:4317").await.unwrap();
        let mut said = [0; 5];
        stream.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"hello");
        let asked = serving.await.unwrap();
        assert!(asked.starts_with("CONNECT out.example:4317 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.to_lowercase().contains("proxy-authorization: basic dxnlcjpzzwnyzxq="), "{asked}");
    }
    #[tokio::test]
    async fn a_refusal_is_told_with_the_proxys_words() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n").await.unwrap();
        });
        let environment = Matcher::builder().https(at.to_string()).build();
        let proxy = Proxy::of(&parse("out.example:4317", true).unwrap(), &environment).unwrap().unwrap();
        let told = proxy.connect("out.example:4317").await.unwrap_err().to_string();
        assert!(told.contains(&at.to_string()) && told.contains("407 Who are you"), "{told}");
    }
}
