//! Pure: the paths and enumeration words of the subset, by kind of item.

use super::condition::Path;

/// The kind of item that a condition is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Span,
    Metric,
    Datapoint,
    LogRecord,
}

impl Context {
    /// The word that may stand before a path.
    fn word(self) -> &'static str {
        match self {
            Self::Span => "span",
            Self::Metric => "metric",
            Self::Datapoint => "datapoint",
            Self::LogRecord => "log",
        }
    }

    /// What a path may be, for errors.
    fn paths(self) -> &'static str {
        match self {
            Self::Span => {
                "name, kind, status.code, status.message, start_time_unix_nano, end_time_unix_nano, \
                 trace_id.string, span_id.string, parent_span_id.string, attributes[\"key\"]"
            }
            Self::Metric => "name, unit, type",
            Self::Datapoint => "metric.name, metric.unit, metric.type, value_int, value_double, attributes[\"key\"]",
            Self::LogRecord => "severity_number, severity_text, body, attributes[\"key\"]",
        }
    }
}

/// The path of a word, with the key that followed it in brackets.
pub(super) fn path(word: &str, key: Option<String>, context: Context) -> Result<Path, String> {
    let own = word.strip_prefix(context.word()).and_then(|rest| rest.strip_prefix('.')).unwrap_or(word);
    let known = match (own, key.clone()) {
        ("attributes", Some(key)) if context != Context::Metric => Some(Path::Attribute(key)),
        ("resource.attributes", Some(key)) => Some(Path::ResourceAttribute(key)),
        (_, Some(_)) => None,
        ("instrumentation_scope.name" | "scope.name", None) => Some(Path::ScopeName),
        ("instrumentation_scope.version" | "scope.version", None) => Some(Path::ScopeVersion),
        (own, None) => match context {
            Context::Span => span_path(own),
            Context::Metric => metric_path(own),
            Context::Datapoint => match own {
                "value_int" => Some(Path::ValueInt),
                "value_double" => Some(Path::ValueDouble),
                own => own.strip_prefix("metric.").and_then(metric_path),
            },
            Context::LogRecord => match own {
                "severity_number" => Some(Path::SeverityNumber),
                "severity_text" => Some(Path::SeverityText),
                "body" | "body.string" => Some(Path::Body),
                _ => None,
            },
        },
    };
    known.ok_or_else(|| {
        let shown = key.map_or_else(|| word.to_owned(), |key| format!("{word}[{key:?}]"));
        format!(
            "the path `{shown}` is not supported; there are {}, resource.attributes[\"key\"], scope.name, scope.version",
            context.paths()
        )
    })
}

fn span_path(own: &str) -> Option<Path> {
    Some(match own {
        "name" => Path::Name,
        "kind" => Path::Kind,
        "status.code" => Path::StatusCode,
        "status.message" => Path::StatusMessage,
        "start_time_unix_nano" => Path::StartTime,
        "end_time_unix_nano" => Path::EndTime,
        "trace_id.string" => Path::TraceId,
        "span_id.string" => Path::SpanId,
        "parent_span_id.string" => Path::ParentSpanId,
        _ => return None,
    })
}

fn metric_path(own: &str) -> Option<Path> {
    Some(match own {
        "name" => Path::MetricName,
        "unit" => Path::MetricUnit,
        "type" => Path::MetricType,
        _ => return None,
    })
}

/// The number behind an enumeration word.
pub(super) fn enumerated(word: &str) -> Option<i64> {
    const WORDS: [(&str, i64); 21] = [
        ("SPAN_KIND_UNSPECIFIED", 0),
        ("SPAN_KIND_INTERNAL", 1),
        ("SPAN_KIND_SERVER", 2),
        ("SPAN_KIND_CLIENT", 3),
        ("SPAN_KIND_PRODUCER", 4),
        ("SPAN_KIND_CONSUMER", 5),
        ("STATUS_CODE_UNSET", 0),
        ("STATUS_CODE_OK", 1),
        ("STATUS_CODE_ERROR", 2),
        ("METRIC_DATA_TYPE_NONE", 0),
        ("METRIC_DATA_TYPE_GAUGE", 1),
        ("METRIC_DATA_TYPE_SUM", 2),
        ("METRIC_DATA_TYPE_HISTOGRAM", 3),
        ("METRIC_DATA_TYPE_EXPONENTIAL_HISTOGRAM", 4),
        ("METRIC_DATA_TYPE_SUMMARY", 5),
        ("SEVERITY_NUMBER_TRACE", 1),
        ("SEVERITY_NUMBER_DEBUG", 5),
        ("SEVERITY_NUMBER_INFO", 9),
        ("SEVERITY_NUMBER_WARN", 13),
        ("SEVERITY_NUMBER_ERROR", 17),
        ("SEVERITY_NUMBER_FATAL", 21),
    ];
    WORDS.iter().find(|(name, _)| *name == word).map(|(_, number)| *number)
}
