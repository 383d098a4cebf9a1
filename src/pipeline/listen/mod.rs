//! Listening on the address of a config key, in plaintext or by TLS, with errors that say what to do.

mod secured;
mod tls;

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::component::StartError;

pub use self::secured::Secured;
pub use self::tls::{ServerTls, ServerTlsSettings};

/// Listens on `host:port`. Of a name with several addresses the IPv4 one is taken, as the Collector does, so
/// that `localhost` is where clients look for it. `key` is the config path that the error names.
pub async fn listen(endpoint: &str, key: &str) -> Result<TcpListener, StartError> {
    let wrong = |why: String| StartError::new(format!("cannot listen on {endpoint} ({key}): {why}"));
    let endpoint_or_any = if endpoint.starts_with(':') { format!("0.0.0.0{endpoint}") } else { endpoint.to_owned() };
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&endpoint_or_any)
        .await
        .map_err(|error| wrong(format!("{error}; write host:port, such as localhost:4317")))?
        .collect();
    let address = addresses.iter().find(|address| address.is_ipv4()).or_else(|| addresses.first());
    let address = address.ok_or_else(|| wrong("the name has no address".into()))?;
    TcpListener::bind(address).await.map_err(|error| {
        wrong(match error.kind() {
            ErrorKind::AddrInUse => format!(
                "the port is in use; `ss -ltnp 'sport = :{}'` shows by whom, another port goes into {key}",
                address.port()
            ),
            ErrorKind::PermissionDenied => format!("{error}; ports below 1024 need CAP_NET_BIND_SERVICE"),
            ErrorKind::AddrNotAvailable => format!("{error}; this host has no such address"),
            _ => error.to_string(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn localhost_is_where_clients_look_and_a_taken_port_says_so() {
        let listener = listen("localhost:0", "extensions::health_check::endpoint").await.unwrap();
        let address = listener.local_addr().unwrap();
        assert!(address.is_ipv4());
        let error = listen(&format!("localhost:{}", address.port()), "a::endpoint").await.unwrap_err();
        assert!(error.message.contains("(a::endpoint): the port is in use"), "{error}");
    }

    #[tokio::test]
    async fn no_address_is_an_error() {
        let error = listen("nonsense", "a::endpoint").await.unwrap_err();
        assert!(error.message.contains("host:port"), "{error}");
    }
}
