//! Pure: a condition of the OTTL subset that `filter` takes, and what it says of one item.
//!
//! Comparison of paths and literals, `and`, `or`, `not`, parentheses, `IsMatch(path, "regex")`. Values of
//! different types are unequal and in no order, except that whole and other numbers compare by value.

use std::cmp::Ordering;

use regex::Regex;

/// A condition.
#[derive(Debug, Clone)]
pub(super) enum Condition {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Compare(Operand, Comparison, Operand),
    IsMatch(Operand, Regex),
    Fixed(bool),
}

/// One side of a comparison.
#[derive(Debug, Clone)]
pub(super) enum Operand {
    Literal(Scalar),
    Path(Path),
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Nil,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
}

/// How two sides are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Where a value is found; each kind of item has some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Path {
    Attribute(String),
    ResourceAttribute(String),
    ScopeName,
    ScopeVersion,
    Name,
    Kind,
    StatusCode,
    StatusMessage,
    StartTime,
    EndTime,
    TraceId,
    SpanId,
    ParentSpanId,
    MetricName,
    MetricUnit,
    MetricType,
    ValueInt,
    ValueDouble,
    SeverityNumber,
    SeverityText,
    Body,
}

/// An item that a condition is asked about.
pub(super) trait Subject {
    /// The value at a path; nil where there is none.
    fn value(&self, path: &Path) -> Scalar;
}

impl Condition {
    /// Whether it holds.
    pub(super) fn holds(&self, subject: &impl Subject) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.holds(subject)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(subject)),
            Self::Not(part) => !part.holds(subject),
            Self::Compare(left, comparison, right) => compare(&left.value(subject), *comparison, &right.value(subject)),
            Self::IsMatch(operand, pattern) => match operand.value(subject) {
                Scalar::Nil => false,
                Scalar::Text(text) => pattern.is_match(&text),
                Scalar::Bool(flag) => pattern.is_match(&flag.to_string()),
                Scalar::Int(number) => pattern.is_match(&number.to_string()),
                Scalar::Double(number) => pattern.is_match(&number.to_string()),
            },
            Self::Fixed(holds) => *holds,
        }
    }
}

impl Operand {
    fn value(&self, subject: &impl Subject) -> Scalar {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Path(path) => subject.value(path),
        }
    }
}

fn compare(left: &Scalar, comparison: Comparison, right: &Scalar) -> bool {
    let order = match (left, right) {
        (Scalar::Nil, Scalar::Nil) => Some(Ordering::Equal),
        (Scalar::Bool(a), Scalar::Bool(b)) => Some(a.cmp(b)),
        (Scalar::Int(a), Scalar::Int(b)) => Some(a.cmp(b)),
        (Scalar::Int(a), Scalar::Double(b)) => (*a as f64).partial_cmp(b),
        (Scalar::Double(a), Scalar::Int(b)) => a.partial_cmp(&(*b as f64)),
        (Scalar::Double(a), Scalar::Double(b)) => a.partial_cmp(b),
        (Scalar::Text(a), Scalar::Text(b)) => Some(a.cmp(b)),
        _ => None,
    };
    match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessOrEqual => order.is_some_and(Ordering::is_le),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}
