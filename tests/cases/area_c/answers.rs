//! What an answer means for the request: done, retry, drop.

use std::time::{Duration, SystemTime};

use schedscope::exporters::otlp_grpc::status::{classify as grpc_fate, name};
use schedscope::exporters::otlp_http::status::{Verdict, classify};
use schedscope::pipeline::client::payload;
use schedscope::pipeline::delivery::RetryOnFailure;
use schedscope::pipeline::delivery::backoff::Backoff;
use schedscope::pipeline::{ExportError, Exported, json};
use serde_json::{Value, json};
use tonic::Code;

use super::{check, holds, text};

/// The clock of the cases.
const NOW: &str = "Sun, 01 Mar 2026 12:00:00 GMT";

pub fn http(case: &Value, expect: &Value) -> Result<(), String> {
    let header = |wanted: &str| {
        let headers = case.get("headers").and_then(Value::as_object)?;
        let (_, value) = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        value.as_str()
    };
    let now: SystemTime = httpdate::parse_http_date(NOW).map_err(|error| error.to_string())?;
    let status = case.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let got = match classify(status.ok_or("the case has no status")?, header("retry-after"), now) {
        Verdict::Done => done(header("content-type").unwrap_or_default(), text(case, "body")),
        Verdict::Retry(after) => retried(after)?,
        Verdict::TooLarge => too_large(),
        Verdict::Permanent => dropped(),
    };
    compare(expect, &got)
}

/// As the exporter reads a body that comes with success.
fn done(content_type: &str, body: &str) -> Value {
    let warning = Exported { rejected_items: 0, message: Some("not OTLP".to_owned()) };
    let exported = match content_type.split(';').next().unwrap_or_default().trim() {
        _ if body.is_empty() => Exported::default(),
        "application/json" => json::decode_response(body.as_bytes()).unwrap_or(warning),
        "application/x-protobuf" => payload::decode_response(body.as_bytes()).unwrap_or(warning),
        _ => warning,
    };
    let warns = exported.rejected_items > 0 || exported.message.is_some();
    json!({"action": "done", "rejected": exported.rejected_items, "log": if warns { "warn" } else { "none" }})
}

/// The shortest and the longest first wait after this answer.
fn retried(after: Option<Duration>) -> Result<Value, String> {
    let wait = |chance| {
        let wait = Backoff::new(&RetryOnFailure::default()).next(chance, after, Duration::ZERO);
        wait.map(|wait| wait.as_secs_f64())
    };
    // A wait over max_elapsed_time ends in a drop.
    let (Some(shortest), Some(longest)) = (wait(0.0), wait(1.0)) else { return Ok(dropped()) };
    if shortest <= 0.0 {
        return Err("a wait of zero".to_owned());
    }
    let own = after.is_none_or(|after| after.is_zero());
    let backoff = if own { "own" } else { "server" };
    Ok(json!({"action": "retry", "shortest": shortest, "longest": longest, "backoff": backoff}))
}

fn dropped() -> Value {
    json!({"action": "drop", "counter": "dropped", "log": "error", "rejected": 0})
}

/// Never sent again as it was: one item is dropped, more are halved.
fn too_large() -> Value {
    json!({"action": "split_and_resend", "counter": "dropped", "log": "error"})
}

pub fn grpc(case: &Value, expect: &Value) -> Result<(), String> {
    let code = (0..=16).map(Code::from_i32).find(|code| name(*code) == text(case, "code")).ok_or("no such code")?;
    if code == Code::Ok {
        return compare(expect, &json!({"action": "done"}));
    }
    let delay = case.get("retry_info").filter(|info| !info.is_null());
    let delay = delay.map(|info| info.get("retry_delay_s").and_then(Value::as_f64).unwrap_or(0.0));
    let got = match grpc_fate(code, delay.map(Duration::from_secs_f64), text(case, "message").to_owned()) {
        ExportError::Permanent(_) => dropped(),
        ExportError::Retry { after, .. } => retried(after)?,
        ExportError::TooLarge(_) => too_large(),
    };
    compare(expect, &got)
}

fn compare(expect: &Value, got: &Value) -> Result<(), String> {
    let mut expect = expect.clone();
    let Some(keys) = expect.as_object_mut() else { return Err("the case expects no object".to_owned()) };
    keys.remove("never");
    let limit = |value: Option<Value>| value.as_ref().and_then(Value::as_f64);
    let (min, max) = (limit(keys.remove("min_wait_s")), limit(keys.remove("max_wait_s")));
    let wait = |key: &str| got.get(key).and_then(Value::as_f64);
    if let (Some(min), Some(shortest)) = (min, wait("shortest"))
        && shortest < min
    {
        return Err(format!("waits {shortest} s, at least {min} s expected"));
    }
    if let (Some(max), Some(longest)) = (max, wait("longest"))
        && longest > max
    {
        return Err(format!("waits {longest} s, at most {max} s expected"));
    }
    // A request of one item that is too large is dropped: both words fit.
    if text(got, "action") == "split_and_resend"
        && keys.get("action").is_some_and(|action| holds(action, &json!("drop")))
    {
        keys.remove("action");
    }
    check(&expect, got)
}
