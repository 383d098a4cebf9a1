//! Pure: the URL of each signal. `endpoint` is a base to which `/v1/<signal>` is added; the endpoints of
//! single signals are used as they are.

use reqwest::Url;

use super::settings::OtlpHttpSettings;
use crate::pipeline::Signal;
use crate::pipeline::client::is_this_host;

/// Where one signal is posted to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL; its host is `localhost` for a socket.
    pub url: String,
    /// The socket in the file system, where it is one.
    pub socket: Option<String>,
}

impl Target {
    /// Secured by TLS.
    pub fn tls(&self) -> bool {
        self.url.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
    }

    /// On this host: a socket, or a loopback address.
    pub fn is_here(&self) -> bool {
        let url = Url::parse(&self.url).ok();
        self.socket.is_some() || url.as_ref().and_then(|url| url.host_str()).is_some_and(is_this_host)
    }

    /// `host:port`, or the socket: what a person calls it.
    pub fn name(&self) -> String {
        if let Some(path) = &self.socket {
            return format!("unix:{path}");
        }
        let url = Url::parse(&self.url).ok();
        let host = url.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
        host.map_or_else(|| self.url.clone(), |(host, port)| format!("{host}:{port}"))
    }
}

/// A key of the section and what is wrong with it.
pub type Wrong = (&'static str, String);

/// Last part of the path, the key for this signal alone, and what that key holds.
fn parts(settings: &OtlpHttpSettings, signal: Signal) -> (&'static str, &'static str, &str) {
    match signal {
        Signal::Metrics => ("metrics", "metrics_endpoint", &settings.metrics_endpoint),
        Signal::Logs => ("logs", "logs_endpoint", &settings.logs_endpoint),
        Signal::Traces | Signal::Sched => ("traces", "traces_endpoint", &settings.traces_endpoint),
    }
}

/// Where `signal` goes.
pub fn url(settings: &OtlpHttpSettings, signal: Signal) -> Result<Target, Wrong> {
    let (name, key, own) = parts(settings, signal);
    if !own.trim().is_empty() {
        return as_is(own.trim()).map_err(|message| (key, message));
    }
    let base = settings.endpoint.trim();
    if base.is_empty() {
        let message = format!("is required, or {key}: a URL such as http://localhost:4318");
        return Err(("endpoint", message));
    }
    below(base, name).map_err(|message| ("endpoint", message))
}

/// `base` with `/v1/<name>` added.
pub fn below(base: &str, name: &str) -> Result<Target, String> {
    let target = as_is(base)?;
    if target.url.contains('?') {
        return Err("has a query, to which no path can be added; use traces_endpoint and its like".to_owned());
    }
    Ok(Target { url: format!("{}/v1/{name}", target.url.trim_end_matches('/')), ..target })
}

/// A URL that is used as it is; without a path it gets `/`.
pub fn as_is(text: &str) -> Result<Target, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if !path.starts_with('/') {
            return Err("needs an absolute socket path; write unix:///run/otel/otlp.sock".to_owned());
        }
        return Ok(Target { url: "http://localhost/".to_owned(), socket: Some(path.to_owned()) });
    }
    if !text.contains("://") {
        return Err(format!("has no scheme; write http://{text}, or https://{text} for TLS"));
    }
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("has the scheme `{}`; use http:// or https://", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds credentials; those belong in headers or auth".to_owned());
    }
    if url.port() == Some(0) {
        return Err("has the port 0; it must be a number from 1 to 65535".to_owned());
    }
    if url.fragment().is_some() {
        return Err("has a fragment (#), which is never sent; remove it".to_owned());
    }
    let after_scheme = text.split_once("://").map_or("", |(_, rest)| rest);
    let slash = if after_scheme.contains(['/', '?']) { "" } else { "/" };
    Ok(Target { url: format!("{text}{slash}"), socket: None })
}

/// What the user should hear about an endpoint that is legal and most likely not meant.
pub fn warning(settings: &OtlpHttpSettings) -> Option<String> {
    let base = settings.endpoint.trim().trim_end_matches('/');
    let signal = ["traces", "metrics", "logs"].into_iter().find(|name| base.ends_with(&format!("/v1/{name}")))?;
    Some(format!(
        "endpoint already ends in /v1/{signal}, and /v1/<signal> is added to it; to use a URL as it is, set {signal}_endpoint"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(endpoint: &str, signal: Signal) -> Result<Target, Wrong> {
        url(&OtlpHttpSettings { endpoint: endpoint.into(), ..OtlpHttpSettings::default() }, signal)
    }

    #[test]
    fn the_base_keeps_its_path_and_gets_the_signal() {
        for (base, full) in [
            ("http://collector:4318", "http://collector:4318/v1/traces"),
            ("http://collector:4318/", "http://collector:4318/v1/traces"),
            (" https://collector/otel/ ", "https://collector/otel/v1/traces"),
            ("http://[2001:db8::7]:4318", "http://[2001:db8::7]:4318/v1/traces"),
        ] {
            assert_eq!(of(base, Signal::Traces).unwrap().url, full);
        }
        let unix = of("unix:///run/o.sock", Signal::Logs).unwrap();
        assert_eq!((unix.url.as_str(), unix.socket.as_deref()), ("http://localhost/v1/logs", Some("/run/o.sock")));
        assert_eq!(unix.name(), "unix:/run/o.sock");
        assert_eq!(of("https://collector", Signal::Traces).unwrap().name(), "collector:443");
    }

    #[test]
    fn the_endpoint_of_a_signal_is_used_as_it_is() {
        let settings = OtlpHttpSettings {
            endpoint: "http://other:4318".into(),
            traces_endpoint: "http://collector:4318".into(),
            ..OtlpHttpSettings::default()
        };
        assert_eq!(url(&settings, Signal::Traces).unwrap().url, "http://collector:4318/");
        assert_eq!(url(&settings, Signal::Metrics).unwrap().url, "http://other:4318/v1/metrics");
        assert_eq!(as_is("http://c/x?api=1").unwrap().url, "http://c/x?api=1");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (base, word) in [
            ("", "required"),
            ("collector:4318", "http://collector:4318"),
            ("ftp://collector", "scheme"),
            ("http://", "URL"),
            ("http://u:s3cret@collector", "credentials"),
            ("http://collector:99999", "port"),
            ("http://collector/#x", "fragment"),
            ("http://collector/?x=1", "query"),
            ("unix://", "socket"),
        ] {
            let (key, message) = of(base, Signal::Traces).unwrap_err();
            assert!(key == "endpoint" && message.contains(word), "{base}: {message}");
            assert!(!message.contains("s3cret"));
        }
    }

    #[test]
    fn a_doubled_path_is_told() {
        let settings = |endpoint: &str| OtlpHttpSettings { endpoint: endpoint.into(), ..OtlpHttpSettings::default() };
        assert!(warning(&settings("http://c:4318/v1/traces/")).unwrap().contains("traces_endpoint"));
        assert!(warning(&settings("http://c:4318/otel")).is_none());
    }
}
