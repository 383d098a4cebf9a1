//! Value types of config fields: durations in Go's notation and secrets that never print.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration as the Collector writes it: a sequence of decimal number and unit, `1m30s`, `1.5s`, `200ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Period(pub Duration);

impl Period {
    /// Whole seconds.
    pub const fn secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// Milliseconds.
    pub const fn millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// Nanoseconds, saturating.
    pub fn as_ns(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Units by name, ns each.
const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("μs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a duration; write a number with a unit, such as 200ms, 1.5s or 1m30s");
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Self::default());
        }
        if rest.is_empty() || rest.starts_with('-') {
            return Err(wrong());
        }
        let mut total_ns = 0.0;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_end);
            let number: f64 = number.parse().map_err(|_| wrong())?;
            let (_, unit_ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            total_ns += number * unit_ns;
            rest = tail;
        }
        if total_ns > i64::MAX as f64 {
            return Err(format!("`{text}` is longer than a duration can be (about 292 years)"));
        }
        Ok(Self(Duration::from_nanos(total_ns.round() as u64)))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.as_ns();
        if ns == 0 {
            return out.write_str("0s");
        }
        if ns < 1_000_000_000 {
            return match ns {
                ns if ns % 1_000_000 == 0 => write!(out, "{}ms", ns / 1_000_000),
                ns if ns % 1_000 == 0 => write!(out, "{}us", ns / 1_000),
                ns => write!(out, "{ns}ns"),
            };
        }
        let (hours, minutes) = (ns / 3_600_000_000_000, ns / 60_000_000_000 % 60);
        let seconds_ns = ns % 60_000_000_000;
        if hours > 0 {
            write!(out, "{hours}h")?;
        }
        if minutes > 0 || (hours > 0 && seconds_ns > 0) {
            write!(out, "{minutes}m")?;
        }
        if seconds_ns > 0 {
            write!(out, "{}s", seconds_ns as f64 / 1e9)?;
        }
        Ok(())
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'_, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "duration",
            "pattern": r"^(0|([0-9]*\.?[0-9]+(ns|us|µs|ms|s|m|h))+)$",
        })
    }
}

/// A secret. Prints as `[REDACTED]` everywhere; only [`Opaque::reveal`] gives the text.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Opaque(String);

impl Opaque {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Opaque {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("[REDACTED]")
    }
}

impl Serialize for Opaque {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("[REDACTED]")
    }
}

impl JsonSchema for Opaque {
    fn schema_name() -> Cow<'static, str> {
        "Opaque".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "opaque", "writeOnly": true})
    }
}
