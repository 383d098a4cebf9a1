//! Pure: where a gRPC endpoint is, from the ways people write it.

use std::fmt;

/// An endpoint as it will be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A host, by name or address.
    Tcp {
        /// Without brackets.
        host: String,
        /// 1 to 65535.
        port: u16,
        /// Secured by TLS.
        tls: bool,
    },
    /// A socket in the file system; plaintext, authority `localhost`.
    Unix {
        /// Absolute.
        path: String,
    },
}

impl Endpoint {
    /// The `:authority` of requests.
    pub fn authority(&self) -> String {
        match self {
            // A zone (fe80::1%eth0) means nothing to the other side.
            Self::Tcp { host, port, .. } if host.contains(':') => {
                format!("[{}]:{port}", host.split('%').next().unwrap_or(host))
            }
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
            Self::Unix { .. } => "localhost".to_owned(),
        }
    }

    /// Secured by TLS.
    pub fn tls(&self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { .. } => out.write_str(&self.authority()),
            Self::Unix { path } => write!(out, "unix:{path}"),
        }
    }
}

/// Reads an endpoint: `host:port`, with `http://` (plaintext), `https://` (TLS) or `dns:///` before it, or
/// `unix:///path`. Without a scheme, `insecure` decides. The error names the key.
pub fn parse(text: &str, insecure: bool) -> Result<Endpoint, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("endpoint is required: host:port, such as localhost:4317".to_owned());
    }
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("unix:") {
        return unix(text.get("unix:".len()..).unwrap_or_default());
    }
    let (rest, tls) = match lower.split_once("://").map(|(scheme, _)| scheme) {
        None => (text, !insecure),
        Some("http") => (text.get("http://".len()..).unwrap_or_default(), false),
        Some("https") => (text.get("https://".len()..).unwrap_or_default(), true),
        Some("dns" | "passthrough") => {
            let target = text.split_once("://").map_or("", |(_, rest)| rest);
            (target.split_once('/').map_or(target, |(_, target)| target), !insecure)
        }
        Some(scheme) => {
            return Err(format!(
                "endpoint has the scheme `{scheme}`; use host:port, http://, https:// or unix:///path"
            ));
        }
    };
    let (host, port) = host_and_port(rest.strip_suffix('/').unwrap_or(rest))?;
    Ok(Endpoint::Tcp { host, port, tls })
}

fn unix(rest: &str) -> Result<Endpoint, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return Err("endpoint has an empty socket path; write unix:///run/otel/otlp.sock".to_owned());
    }
    if !path.starts_with('/') {
        return Err("endpoint needs an absolute socket path; write unix:///run/otel/otlp.sock".to_owned());
    }
    Ok(Endpoint::Unix { path: path.to_owned() })
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    if let Some(at) = text.find(['/', '?', '#']) {
        let extra = text.get(at..).unwrap_or_default();
        return Err(format!("endpoint has the path `{extra}`, which gRPC does not know; end it after the port"));
    }
    if text.contains('@') {
        return Err("endpoint holds a user name; credentials belong in headers or auth".to_owned());
    }
    let no_port = || format!("endpoint `{text}` has no port; write {text}:4317");
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) =
                rest.split_once(']').ok_or_else(|| format!("endpoint `{text}` lacks the bracket after its address"))?;
            (host, rest.strip_prefix(':').ok_or_else(no_port)?)
        }
        None => {
            let (host, port) = text.rsplit_once(':').ok_or_else(no_port)?;
            if host.contains(':') {
                return Err(format!(
                    "endpoint `{text}` has too many colons; an IPv6 address goes in brackets, with the port after them"
                ));
            }
            (host, port)
        }
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() {
        return Err(format!("endpoint `{text}` has no host; write localhost:{port}"));
    }
    if !host.chars().all(legal) || (text.starts_with('[') && !host.contains(':')) {
        return Err(format!("endpoint `{text}` has no legal host name or address"));
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok((host.to_owned(), port)),
        _ if port.is_empty() => Err(no_port()),
        _ => Err(format!("endpoint `{text}` has the port `{port}`; it must be a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16, tls: bool) -> Result<Endpoint, String> {
        Ok(Endpoint::Tcp { host: host.to_owned(), port, tls })
    }

    #[test]
    fn the_ways_people_write_it() {
        assert_eq!(parse("collector:4317", true), tcp("collector", 4317, false));
        assert_eq!(parse(" collector:4317", false), tcp("collector", 4317, true));
        assert_eq!(parse("http://collector:4317/", false), tcp("collector", 4317, false));
        assert_eq!(parse("HTTPS://collector:443", true), tcp("collector", 443, true));
        assert_eq!(parse("dns:///collector:4317", true), tcp("collector", 4317, false));
        assert_eq!(parse("dns://8.8.8.8/collector:4317", true), tcp("collector", 4317, false));
        assert_eq!(parse("[2001:db8::7]:4317", true), tcp("2001:db8::7", 4317, false));
        assert_eq!(parse("my_collector:4317", true), tcp("my_collector", 4317, false));
        assert_eq!(parse("unix:///run/o.sock", false), Ok(Endpoint::Unix { path: "/run/o.sock".into() }));
        assert_eq!(parse("unix:/run/o.sock", false), Ok(Endpoint::Unix { path: "/run/o.sock".into() }));
        assert_eq!(parse("[fe80::1%eth0]:1", true).unwrap().authority(), "[fe80::1]:1");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_the_key() {
        for (text, word) in [
            ("", "required"),
            ("collector", "port"),
            ("https://collector", "port"),
            ("collector:", "port"),
            ("collector:0", "port"),
            ("collector:99999", "port"),
            ("collector:http", "port"),
            (":4317", "host"),
            ("[2001:db8::7]", "port"),
            ("[2001:db8::7", "bracket"),
            ("2001:db8::7:4317", "brackets"),
            ("https://collector:443/api", "path"),
            ("http://collector:4317?x=1", "path"),
            ("user:secret@collector:4317", "credentials"),
            ("ftp://collector:4317", "scheme"),
            ("unix://", "path"),
            ("unix://relative.sock", "absolute"),
            ("colle ctor:4317", "host"),
        ] {
            let told = parse(text, true).unwrap_err();
            assert!(told.starts_with("endpoint") && told.contains(word), "{text}: {told}");
            assert!(!told.contains("secret"));
        }
    }
}
