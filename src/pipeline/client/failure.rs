//! Pure: an error with its whole chain of causes, in words a person can act on.

use std::error::Error;
use std::io;

/// What went wrong on the way to `target`.
pub fn describe(target: &str, error: &(dyn Error + 'static)) -> String {
    let io = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>().map(io::Error::kind));
    let chain = chain(error);
    match io {
        Some(io::ErrorKind::ConnectionRefused) => format!("{target} refused the connection"),
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => {
            format!("{target} closed the connection: {chain}")
        }
        Some(io::ErrorKind::NotFound) => format!("{target} does not exist: {chain}"),
        Some(io::ErrorKind::PermissionDenied) => format!("{target} may not be opened: {chain}"),
        _ if chain.contains("invalid peer certificate") => {
            format!("{target} is not trusted: {chain}; see tls::ca_file and tls::server_name_override")
        }
        _ if chain.contains("corrupt message") || chain.contains("InvalidContentType") => {
            format!("{target} does not speak TLS: {chain}; for plaintext set tls::insecure or use http://")
        }
        _ => format!("{target}: {chain}"),
    }
}

/// The error and what caused it, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// All messages of the chain, without those that the message before already holds.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in causes(error) {
        let message = cause.to_string();
        if message.is_empty() || text.contains(&message) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&message);
    }
    text
}

/// At most `max` characters of what a server sent, control characters made harmless.
pub fn excerpt(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut cut: String = text.trim().chars().take(max).map(clean).collect();
    if text.trim().chars().nth(max).is_some() {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("transport error")]
    struct Outer(#[source] io::Error);

    #[test]
    fn the_cause_is_what_is_told() {
        let refused = Outer(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert_eq!(describe("localhost:4317", &refused), "localhost:4317 refused the connection");
        let other = Outer(io::Error::other("no route"));
        assert_eq!(describe("localhost:4317", &other), "localhost:4317: transport error: no route");
    }

    #[test]
    fn an_excerpt_is_short_and_harmless() {
        assert_eq!(excerpt(" a\n\u{1b}[31mb ", 100), "a  [31mb");
        assert_eq!(excerpt("abcdef", 3), "abc…");
    }
}
