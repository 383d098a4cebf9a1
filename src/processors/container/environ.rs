//! Pure: the allow-listed variables of a process' environment, and the attributes in them.

use crate::model::Resource;

/// Bytes of one value that are kept; longer ones are taken as unreadable.
const VALUE_MAX_BYTES: usize = 8192;
/// Attributes of `OTEL_RESOURCE_ATTRIBUTES` that are kept.
const ATTRIBUTES_MAX: usize = 64;

/// The allowed variables out of the NUL-separated text of `/proc/PID/environ`; nothing else is kept.
pub(super) fn allowed(environ: &[u8], names: &[String]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in environ.split(|byte| *byte == 0) {
        let Some(equals) = entry.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = entry.split_at(equals);
        let Some(name) = names.iter().find(|allowed| allowed.as_bytes() == name) else { continue };
        let value = value.get(1..).unwrap_or_default();
        let known = found.iter().any(|(known, _)| known == name);
        if let (false, true, Ok(value)) = (known, value.len() <= VALUE_MAX_BYTES, std::str::from_utf8(value)) {
            found.push((name.clone(), value.to_owned()));
        }
    }
    found
}

/// What OpenTelemetry's own variables say: `OTEL_SERVICE_NAME` wins over `OTEL_RESOURCE_ATTRIBUTES`, where
/// one error discards everything in it, as the specification has it. Empty text is as if unset.
pub(super) fn attributes(variables: &[(String, String)]) -> Resource {
    let of = |wanted: &str| variables.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
    let mut resource = of("OTEL_RESOURCE_ATTRIBUTES").and_then(resource_attributes).unwrap_or_default();
    if let Some(name) = of("OTEL_SERVICE_NAME").filter(|name| !name.is_empty()) {
        resource.set("service.name", name);
    }
    resource
}

/// `key=value,key=value`, values percent-encoded.
fn resource_attributes(text: &str) -> Option<Resource> {
    let mut resource = Resource::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (percent_decode(key.trim())?, percent_decode(value.trim())?);
        if key.is_empty() {
            return None;
        }
        if resource.len() < ATTRIBUTES_MAX && !value.is_empty() {
            resource.set(key, value);
        }
    }
    Some(resource)
}

fn percent_decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte == b'%' {
            let digit = |offset: usize| char::from(*bytes.get(at + offset)?).to_digit(16);
            plain.push(u8::try_from(digit(1)? * 16 + digit(2)?).ok()?);
            at += 3;
        } else {
            plain.push(*byte);
            at += 1;
        }
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["OTEL_SERVICE_NAME".into(), "OTEL_RESOURCE_ATTRIBUTES".into()]
    }

    #[test]
    fn only_allowed_variables_leave() {
        let environ = b"SECRET=1\0OTEL_SERVICE_NAME=shop\0OTEL_SERVICE_NAME=late\0XOTEL_SERVICE_NAME=no\0\xff=\xff\0";
        assert_eq!(allowed(environ, &names()), vec![("OTEL_SERVICE_NAME".into(), "shop".into())]);
        assert_eq!(allowed(b"OTEL_SERVICE_NAME=\xff\0", &names()), vec![]);
        assert_eq!(allowed(environ, &[]), vec![]);
    }

    #[test]
    fn the_service_name_wins_and_one_error_discards_all() {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let both = [
            variable("OTEL_RESOURCE_ATTRIBUTES", "service.name=a, service.namespace=n%20s,x="),
            variable("OTEL_SERVICE_NAME", "b"),
        ];
        let resource = attributes(&both);
        assert_eq!(resource.text("service.name"), Some("b"));
        assert_eq!(resource.text("service.namespace"), Some("n s"));
        assert_eq!(resource.get("x"), None);
        for broken in ["service.name=a,b", "service.name=%zz", "=x", "service.name=%ff"] {
            assert!(attributes(&[variable("OTEL_RESOURCE_ATTRIBUTES", broken)]).is_empty(), "{broken}");
        }
    }
}
