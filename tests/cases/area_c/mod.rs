//! Area C: endpoints, headers, answers, sizes, JSON, points and spans, each through the public function that
//! the product itself uses for it.

mod answers;
mod content;
mod endpoints;
mod series;

use serde_json::Value;

/// Runs one case; the error says what was expected and what was got.
pub fn run(case: &Value) -> Result<(), String> {
    let kind = case.get("kind").and_then(Value::as_str).ok_or("the case has no kind")?;
    let expect = case.get("expect").ok_or("the case expects nothing")?;
    match kind {
        "endpoint" => endpoints::endpoint(case, expect),
        "headers_env" => endpoints::headers_env(case, expect),
        "headers_yaml" => endpoints::headers_yaml(case, expect),
        "http_response" => answers::http(case, expect),
        "grpc_status" => answers::grpc(case, expect),
        "batch" => content::batch(case, expect),
        "utf8" => content::utf8(case, expect),
        "json" => content::json(case, expect),
        "temporality" => series::temporality(case, expect),
        "histogram" => series::histogram(case, expect),
        "span" => series::span(case, expect),
        other => Err(format!("no kind `{other}` in this area")),
    }
}

/// Compares by the cases' own rules: `any_of`, `min`, `max`, a subset of an object's keys, equal otherwise.
fn holds(expected: &Value, got: &Value) -> bool {
    if let Some(choices) = expected.get("any_of").and_then(Value::as_array) {
        return choices.iter().any(|choice| holds(choice, got));
    }
    if let (Some(low), Some(got)) = (expected.get("min").and_then(Value::as_f64), got.as_f64()) {
        return got >= low && expected.get("max").and_then(Value::as_f64).is_none_or(|high| got <= high);
    }
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            expected.iter().all(|(key, value)| holds(value, got.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(expected), Value::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(expected, got)| holds(expected, got))
        }
        (Value::Number(expected), Value::Number(got)) => expected.as_f64() == got.as_f64(),
        _ => expected == got,
    }
}

fn check(expected: &Value, got: &Value) -> Result<(), String> {
    if holds(expected, got) { Ok(()) } else { Err(format!("expected {expected}\ngot {got}")) }
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn count(case: &Value, key: &str) -> u64 {
    case.get(key).and_then(Value::as_u64).unwrap_or(0)
}

fn bytes_of_hex(hex: &str) -> Vec<u8> {
    let digit = |at: usize| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    (0..hex.len()).step_by(2).filter_map(digit).collect()
}
