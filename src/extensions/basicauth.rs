//! `basicauth`: user name and password in every request of the exporters that name it.
//!
//! It checks no incoming requests: the Collector's `htpasswd` is refused as an unknown key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Body, Checker, Opaque, Section};
use crate::pipeline::client::headers::header;
use crate::pipeline::client::secret::Secret;
use crate::pipeline::client::signing::Signing;
use crate::pipeline::factory::Built;
use crate::pipeline::{Authenticator, BuildContext, Extension, ExtensionFactory, Settings};

/// `basicauth`.
pub const FACTORY: ExtensionFactory = ExtensionFactory {
    name: "basicauth",
    aliases: &[],
    about: "Signs outgoing requests with a user name and a password",
    stability: "beta",
    settings: Settings::of::<BasicAuthSettings>(),
    build,
};

/// Keys of `basicauth`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BasicAuthSettings {
    /// Who signs.
    pub client_auth: ClientAuth,
}

/// Keys of `client_auth`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientAuth {
    /// The user name.
    pub username: String,
    /// A file that holds the user name, read again when it is older than a second; wins over `username`.
    pub username_file: String,
    /// The password.
    pub password: Opaque,
    /// A file that holds the password, read again when it is older than a second; wins over `password`.
    pub password_file: String,
}

impl Section for BasicAuthSettings {
    fn validate(&self, at: &mut Checker<'_>) {
        let ClientAuth { username, username_file, password, password_file } = &self.client_auth;
        if username.is_empty() && username_file.is_empty() {
            at.problem("client_auth::username", "is missing; give username or username_file");
        }
        if username.contains(':') {
            at.problem("client_auth::username", "has a colon, which would end it");
        }
        if password.reveal().is_empty() && password_file.is_empty() {
            at.problem("client_auth::password", "is missing; give password or password_file");
        }
    }
}

fn build(body: &Body, _: &BuildContext) -> Built<dyn Extension> {
    let BasicAuthSettings { client_auth } = body.decode()?;
    let key = |name: &str| format!("{}::client_auth::{name}", body.path);
    Ok(Box::new(Signing::new(Signature {
        username: Secret::new(&Opaque::new(client_auth.username), &key("username_file"), &client_auth.username_file),
        password: Secret::new(&client_auth.password, &key("password_file"), &client_auth.password_file),
    })))
}

struct Signature {
    username: Secret,
    password: Secret,
}

impl Authenticator for Signature {
    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let (username, password) = (self.username.current()?, self.password.current()?);
        let credentials = STANDARD.encode(format!("{}:{}", username.reveal(), password.reveal()));
        let signed = header(AUTHORIZATION.as_str(), &format!("Basic {credentials}"));
        Ok(vec![signed.map_err(|why| format!("header authorization {why}"))?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Telemetry;

    fn built(yaml: &str) -> Result<Box<dyn Extension>, String> {
        let body = Body::from_yaml("extensions::basicauth", yaml).unwrap();
        let context = BuildContext::new("basicauth".into(), Telemetry::default(), "0");
        build(&body, &context).map_err(|problems| problems.to_string())
    }

    #[test]
    fn name_and_password_come_from_the_config_or_from_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "open sesame\n").unwrap();
        let from_file = format!("{{client_auth: {{username: Aladdin, password_file: '{}'}}}}", file.path().display());
        for yaml in ["{client_auth: {username: Aladdin, password: open sesame}}", &from_file] {
            let headers = built(yaml).unwrap().authenticator().unwrap().headers().unwrap();
            // the example of RFC 7617
            assert_eq!(headers, [(AUTHORIZATION, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==".parse().unwrap())]);
            assert!(headers[0].1.is_sensitive());
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let told = |yaml: &str| built(yaml).err().unwrap();
        assert!(told("{}").contains("client_auth::username: is missing"));
        assert!(told("{client_auth: {username: 'a:b', password: c}}").contains("colon"));
        assert!(told("{client_auth: {username: a}}").contains("client_auth::password: is missing"));
        assert!(told("{htpasswd: {inline: a}}").contains("htpasswd"));
    }
}
