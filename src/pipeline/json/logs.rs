//! Pure: log records.

use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};

use super::common::{self, any_value, attribute};
use super::write::Object;

pub(super) fn resource(out: &mut Vec<u8>, resource: &ResourceLogs) {
    let mut object = Object::open(out);
    common::resource(&mut object, resource.resource.as_ref(), &resource.schema_url);
    object.list("scopeLogs", &resource.scope_logs, scope);
    object.close();
}

fn scope(out: &mut Vec<u8>, scope: &ScopeLogs) {
    let mut object = Object::open(out);
    common::scope(&mut object, scope.scope.as_ref(), &scope.schema_url);
    object.list("logRecords", &scope.log_records, record);
    object.close();
}

fn record(out: &mut Vec<u8>, record: &LogRecord) {
    let mut object = Object::open(out);
    object.long("timeUnixNano", record.time_unix_nano);
    object.long("observedTimeUnixNano", record.observed_time_unix_nano);
    object.number("severityNumber", record.severity_number.into());
    object.text("severityText", &record.severity_text);
    if let Some(body) = &record.body {
        object.field("body", |out| any_value(out, body));
    }
    object.list("attributes", &record.attributes, attribute);
    object.number("droppedAttributesCount", record.dropped_attributes_count.into());
    object.number("flags", record.flags.into());
    object.id("traceId", &record.trace_id);
    object.id("spanId", &record.span_id);
    object.text("eventName", &record.event_name);
    object.close();
}
