//! `bearertokenauth`: a token in a header of every request of the exporters that name it.
//!
//! Refuses to know: where the token comes from and how long it lasts; a file that is renewed in place is
//! followed. It checks no incoming requests.

use http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Opaque, Section};
use crate::pipeline::client::headers::header;
use crate::pipeline::client::secret::Secret;
use crate::pipeline::client::signing::Signing;
use crate::pipeline::factory::Built;
use crate::pipeline::{Authenticator, BuildContext, Extension, ExtensionFactory, Settings};

/// `bearertokenauth`.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    name: "bearertokenauth",
    aliases: &[],
    about: "Signs outgoing requests with a bearer token",
    stability: "beta",
    settings: Settings::of::<BearerTokenSettings>(),
    build,
};

/// Keys of `bearertokenauth`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BearerTokenSettings {
    /// The header that carries the token.
    pub header: String,
    /// The word before the token; empty for none.
    pub scheme: String,
    /// The token.
    pub token: Opaque,
    /// Several tokens, of which requests carry the first.
    pub tokens: Vec<Opaque>,
    /// A file whose first word is the token, read again when it is older than a second; wins over `token`.
    pub filename: String,
}

impl Default for BearerTokenSettings {
    fn default() -> Self {
        Self {
            header: "Authorization".to_owned(),
            scheme: "Bearer".to_owned(),
            token: Opaque::default(),
            tokens: Vec::new(),
            filename: String::new(),
        }
    }
}

impl BearerTokenSettings {
    /// The token in place.
    fn inline(&self) -> &str {
        self.tokens.first().unwrap_or(&self.token).reveal()
    }
}

impl Section for BearerTokenSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        if self.inline().is_empty() && self.filename.is_empty() {
            at.problem("token", "is missing; give token or filename");
        }
        if !self.token.reveal().is_empty() && !self.tokens.is_empty() {
            at.problem("tokens", "is given beside token; keep one of them");
        }
        if let Err(why) = header(&self.header, "") {
            at.problem("header", why);
        }
        if header("authorization", &format!("{} {}", self.scheme, self.inline())).is_err() {
            at.problem("token", "has a character that no header can hold, such as a newline inside");
        }
    }
}

fn build(body: &Body, _: &BuildContext) -> Built<dyn Extension> {
    let settings: BearerTokenSettings = body.decode()?;
    let token = Secret::new(&Opaque::new(settings.inline()), &format!("{}::filename", body.path), &settings.filename);
    let BearerTokenSettings { header, scheme, .. } = settings;
    Ok(Box::new(Signing::new(Signature { header, scheme, token })))
}

struct Signature {
    header: String,
    scheme: String,
    token: Secret,
}

impl Authenticator for Signature {
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let content = self.token.current()?;
        let token = content.reveal().split_whitespace().next().unwrap_or_default();
        let value = if self.scheme.is_empty() { token.to_owned() } else { format!("{} {token}", self.scheme) };
        Ok(vec![header(&self.header, &value).map_err(|why| format!("header {} {why}", self.header))?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    fn built(yaml: &str) -> Result<Box<dyn Extension>, String> {
        let body = Body::from_yaml("extensions::bearertokenauth", yaml).unwrap();
        let context = BuildContext::new("bearertokenauth".into(), Telemetry::default(), "0");
        build(&body, &context).map_err(|problems| problems.to_string())
    }

    fn sent(yaml: &str) -> (String, String) {
        let headers = built(yaml).unwrap().authenticator().unwrap().headers().unwrap();
        assert!(headers.len() == 1 && headers[0].1.is_sensitive(), "{headers:?}");
        (headers[0].0.to_string(), headers[0].1.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_header_is_made_of_scheme_and_token() {
        let of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(sent("{token: s3cr3t}"), of("authorization", "Bearer s3cr3t"));
        assert_eq!(sent("{token: s3cr3t, scheme: '', header: X-Api-Key}"), of("x-api-key", "s3cr3t"));
        assert_eq!(sent("{tokens: [first, second]}"), of("authorization", "Bearer first"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "\nfr0m-file  a comment\nsecond\n").unwrap();
        let yaml = format!("{{token: unused, filename: '{}'}}", file.path().display());
        assert_eq!(sent(&yaml), of("authorization", "Bearer fr0m-file"));
    }

    #[tokio::test]
    async fn mistakes_are_told_without_the_secret() {
        let told = |yaml: &str| built(yaml).err().unwrap();
        assert!(told("{}").contains("extensions::bearertokenauth::token: is missing"));
        assert!(told("{token: a, tokens: [b]}").contains("keep one"));
        assert!(told("{token: a, header: 'a b'}").contains("::header"));
        let newline = told("{token: \"s3cr3t\\nx: y\"}");
        assert!(newline.contains("no header can hold") && !newline.contains("s3cr3t"), "{newline}");
        let missing = built("{filename: /nowhere/token}").unwrap().start().await.unwrap_err();
        assert!(missing.message.contains("filename") && missing.message.contains("/nowhere/token"), "{missing}");
    }
}
