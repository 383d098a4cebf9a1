//! Pure: headers from the config, checked before anything is sent. No message holds a value.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{Checker, Opaque};

/// Header names and their secret values, as the user wrote them.
pub type Headers = BTreeMap<String, Opaque>;

/// The headers ready to send: names in lower case, values trimmed and marked sensitive. The error holds
/// each bad name with what is wrong about it.
pub fn prepare(headers: &Headers) -> Result<HeaderMap, Vec<(String, &'static str)>> {
    let mut map = HeaderMap::new();
    let mut wrong = Vec::new();
    for (name, value) in headers {
        match header(name, value.reveal()) {
            Ok((key, _)) if map.contains_key(&key) => wrong.push((name.clone(), "is there twice, in other letters")),
            Ok((key, value)) => {
                map.insert(key, value);
            }
            Err(why) => wrong.push((name.clone(), why)),
        }
    }
    if wrong.is_empty() { Ok(map) } else { Err(wrong) }
}

/// One header from its name and its secret.
pub fn header(name: &str, secret: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name: HeaderName = name.trim().to_ascii_lowercase().parse().map_err(|_| "is no legal header name")?;
    let mut value = HeaderValue::from_str(secret.trim())
        .or_else(|_| HeaderValue::from_bytes(secret.trim().as_bytes()))
        .map_err(|_| "has a value with a character that no header can hold, such as a newline inside")?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Tells every bad header.
pub fn validate(headers: &Headers, at: &mut Checker<'_>) {
    for (name, why) in prepare(headers).err().unwrap_or_default() {
        at.problem(&format!("headers::{name}"), why);
    }
}

/// The headers of an `OTEL_EXPORTER_OTLP_HEADERS` variable: `name=value` joined by commas, values
/// percent-encoded, cut at the first `=`. Members without a name or a `=` are left out, as the specification asks.
pub fn from_variable(text: &str) -> Headers {
    let member = |member: &str| {
        let (name, value) = member.split_once('=')?;
        let name = name.trim().to_ascii_lowercase();
        (!name.is_empty()).then(|| (name, Opaque::new(percent_decode(value.trim()))))
    };
    text.split(',').filter_map(member).collect()
}

/// `%XX` as bytes, bad sequences as they are.
fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok());
        let code = code.filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str, value: &str) -> Headers {
        Headers::from([(name.to_owned(), Opaque::new(value))])
    }

    #[test]
    fn values_are_trimmed_and_names_lowered() {
        let map = prepare(&headers("X-Scope-OrgID", " Bearer s3cr3t\n")).unwrap();
        assert_eq!(map.get("x-scope-orgid").unwrap(), "Bearer s3cr3t");
        assert!(!format!("{map:?}").contains("s3cr3t"));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_its_value() {
        let wrong = prepare(&headers("authorization", "s3cr3t\r\nx: y")).unwrap_err();
        assert!(wrong[0].0 == "authorization" && !wrong[0].1.contains("s3cr3t"));
        assert!(prepare(&headers("a b", "x")).is_err());
        assert!(prepare(&headers("", "x")).is_err());
        let mut twice = headers("A", "1");
        twice.insert("a".into(), Opaque::new("2"));
        assert!(prepare(&twice).is_err());
    }

    #[test]
    fn the_variable_is_decoded() {
        let map = prepare(&from_variable("Authorization=Basic%20ZGVtbzpvcGVuIHNlc2FtZQ==, ,=x,y,b=%zz%")).unwrap();
        assert_eq!(map.get("authorization").unwrap(), "Basic ZGVtbzpvcGVuIHNlc2FtZQ==");
        assert_eq!(map.get("b").unwrap(), "%zz%");
        assert_eq!(map.len(), 2);
    }
}
