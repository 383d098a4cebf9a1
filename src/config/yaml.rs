//! Pure: documents as YAML text.

/// A document as YAML.
pub fn to_yaml(document: &serde_json::Value) -> String {
    // a JSON document always has a YAML form; the error case cannot be met, and an empty text shows it if it is
    serde_yaml::to_string(document).unwrap_or_default()
}
