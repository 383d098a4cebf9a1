//! Pure: OTLP in JSON as the specification has it: lowerCamelCase keys, ids in hex, 64-bit integers as
//! text, enums as numbers, doubles that are not finite as `NaN`, `Infinity`, `-Infinity`. Defaults are left out.
//!
//! Written by hand because the serde form of the generated types gives `null` for such doubles, which
//! makes a receiver refuse the whole request.

mod common;
mod logs;
mod metrics;
mod response;
mod traces;
mod write;

use self::write::{Object, list};
use super::Data;

pub use self::response::decode_response;

/// The request (or line of a file) that holds this batch, without a newline.
pub fn encode(data: &Data) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let mut object = Object::open(&mut out);
    match data {
        Data::Sched(_) => {}
        Data::Traces(resources) => object.field("resourceSpans", |out| list(out, resources, traces::resource)),
        Data::Metrics(resources) => object.field("resourceMetrics", |out| list(out, resources, metrics::resource)),
        Data::Logs(resources) => object.field("resourceLogs", |out| list(out, resources, logs::resource)),
    }
    object.close();
    out
}

#[cfg(test)]
mod tests;
