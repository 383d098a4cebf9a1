//! Pure: what an OTLP response in JSON says. Counts may be text or numbers; unknown fields do not matter.

use serde_json::Value;

use crate::pipeline::Exported;

/// The outcome that the body tells; the error says why it is no OTLP response.
pub fn decode_response(body: &[u8]) -> Result<Exported, String> {
    if body.trim_ascii().is_empty() {
        return Ok(Exported::default());
    }
    let response: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let response = response.as_object().ok_or("not a JSON object")?;
    let Some(partial) = response.get("partialSuccess").and_then(Value::as_object) else {
        return Ok(Exported::default());
    };
    let rejected = ["rejectedSpans", "rejectedDataPoints", "rejectedLogRecords"];
    let rejected = rejected.into_iter().filter_map(|key| partial.get(key)).find_map(count);
    let message = partial.get("errorMessage").and_then(Value::as_str).filter(|message| !message.is_empty());
    Ok(Exported { rejected_items: rejected.unwrap_or(0), message: message.map(str::to_owned) })
}

fn count(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_as_text_or_number() {
        for body in [
            r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"future"}}"#,
            r#"{"partialSuccess":{"rejectedDataPoints":3,"errorMessage":"future","more":[1]}}"#,
        ] {
            let told = decode_response(body.as_bytes()).unwrap();
            assert_eq!(told, Exported { rejected_items: 3, message: Some("future".into()) });
        }
        for body in ["", "{}", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":null}"#] {
            assert_eq!(decode_response(body.as_bytes()).unwrap(), Exported::default());
        }
        assert!(decode_response(b"<html>ok</html>").is_err());
        assert!(decode_response(b"[]").is_err());
    }
}
