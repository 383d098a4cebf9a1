//! Intervals as OTLP spans: what the processors that make them share, so that one fact has one shape whatever trace it
//! stands in.
//!
//! `pieces` orders and sums, `ids` names, `attributes` and `writer` write OTLP. No component, hence no settings; refuses
//! to know: which trace an interval belongs to, and why.

pub(crate) mod attributes;
pub(crate) mod ids;
pub(crate) mod pieces;
pub(crate) mod writer;
