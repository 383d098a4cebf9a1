//! Pure: what a span says of the thread that it ran on.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;

use super::missed::Missed;
use crate::model::WallNs;

/// Flags of an OTLP span: the W3C byte, of which bit 0 is `sampled`.
pub(super) const W3C_FLAGS: u32 = 0xff;

/// A span's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) start: WallNs,
    pub(super) end: WallNs,
}

/// A whole, positive number among attributes.
fn id(attributes: &[KeyValue], key: &str) -> Option<u32> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        Value::IntValue(number) => u32::try_from(*number).ok().filter(|number| *number > 0),
        _ => None,
    }
}

/// `process.pid` of a Resource.
pub(super) fn pid(attributes: &[KeyValue]) -> Option<u32> {
    id(attributes, "process.pid")
}

/// `container.id` of a Resource.
pub(super) fn container(attributes: &[KeyValue]) -> Option<&str> {
    let value = attributes.iter().find(|attribute| attribute.key == "container.id")?.value.as_ref()?;
    match value.value.as_ref()? {
        Value::StringValue(id) => Some(id),
        _ => None,
    }
}

/// What a span says, under a Resource with this `process.pid`.
///
/// # Errors
/// Why it can be told nothing.
pub(super) fn read(span: &Span, resource_pid: Option<u32>) -> Result<Subject, Missed> {
    let pid = resource_pid.or_else(|| pid(&span.attributes)).ok_or(Missed::NoProcess)?;
    let tid = id(&span.attributes, "linux.thread.id").or_else(|| id(&span.attributes, "thread.id"));
    let tid = tid.ok_or(Missed::NoThread)?;
    // no flags at all: a sender that does not tell them, and what it sends is recorded
    if span.flags & W3C_FLAGS & 1 == 0 && span.flags != 0 {
        return Err(Missed::NotSampled);
    }
    let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
    if start == 0 || end <= start || span.trace_id.len() != 16 || span.span_id.len() != 8 {
        return Err(Missed::NoTime);
    }
    Ok(Subject { pid, tid, start: WallNs(start), end: WallNs(end) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::otlp::attribute;

    fn span(flags: u32, attributes: Vec<KeyValue>) -> Span {
        Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            start_time_unix_nano: 5,
            end_time_unix_nano: 9,
            flags,
            attributes,
            ..Span::default()
        }
    }

    /// Check what a span must say, and which of two thread ids counts.
    #[test]
    fn words() {
        let thread = || vec![attribute("thread.id", 7_u32)];
        let told = Subject { pid: 3, tid: 7, start: WallNs(5), end: WallNs(9) };
        assert_eq!(read(&span(1, thread()), Some(3)), Ok(told));
        assert_eq!(read(&span(0, thread()), Some(3)), Ok(told));
        assert_eq!(read(&span(0x301, thread()), Some(3)), Ok(told));
        assert_eq!(read(&span(0x300, thread()), Some(3)), Err(Missed::NotSampled));
        assert_eq!(read(&span(1, thread()), None), Err(Missed::NoProcess));
        assert_eq!(read(&span(1, Vec::new()), Some(3)), Err(Missed::NoThread));
        let text = vec![attribute("thread.id", "7")];
        assert_eq!(read(&span(1, text), Some(3)), Err(Missed::NoThread));
        let own =
            vec![attribute("thread.id", 1_u32), attribute("linux.thread.id", 7_u32), attribute("process.pid", 3_u32)];
        assert_eq!(read(&span(1, own), None), Ok(told));
        let empty = Span { end_time_unix_nano: 5, ..span(1, thread()) };
        assert_eq!(read(&empty, Some(3)), Err(Missed::NoTime));
    }
}
