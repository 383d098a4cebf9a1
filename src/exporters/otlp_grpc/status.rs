//! Pure: what a gRPC status means for the request that got it (OTLP specification, and the Collector's list).

use std::time::Duration;

use tonic::Code;

use crate::pipeline::ExportError;

/// The outcome of a call that ended with `code`; `retry_delay` is from the RetryInfo, where there was one.
pub fn classify(code: Code, retry_delay: Option<Duration>, message: String) -> ExportError {
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => ExportError::Retry { message, after: retry_delay },
        Code::ResourceExhausted => match retry_delay {
            Some(delay) => ExportError::Retry { message, after: Some(delay) },
            None => ExportError::TooLarge(message),
        },
        _ => ExportError::Permanent(message),
    }
}

/// The code as the specification writes it.
pub fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_fate() {
        let retried: Vec<_> = (1..=16)
            .map(Code::from_i32)
            .filter(|code| matches!(classify(*code, None, String::new()), ExportError::Retry { .. }))
            .map(name)
            .collect();
        assert_eq!(retried, ["CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"]);
        let message = || "m".to_owned();
        assert_eq!(classify(Code::ResourceExhausted, None, message()), ExportError::TooLarge(message()));
        let after = Some(Duration::from_secs(5));
        assert_eq!(
            classify(Code::ResourceExhausted, after, message()),
            ExportError::Retry { message: message(), after }
        );
        assert_eq!(classify(Code::Internal, after, message()), ExportError::Permanent(message()));
    }
}
