//! Value type of config fields: a number of bytes, as a whole number or with a unit.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes: `67108864`, `64MiB`, `1.5 GiB`, `500kB`. Shows as the whole number, which the Collector takes too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ByteSize {
    bytes: u64,
    /// Written with a unit: it can only be meant as bytes.
    has_unit: bool,
}

impl ByteSize {
    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self { bytes, has_unit: false }
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.bytes
    }

    /// Whether a unit of bytes was written, where the number alone could mean something else.
    pub const fn has_unit(self) -> bool {
        self.has_unit
    }
}

/// Units in lower case, bytes each.
const UNITS: [(&str, u64); 9] = [
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a size; write bytes as a whole number or with a unit (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB), such as 64MiB"
            )
        };
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let unit = unit.trim_start().to_ascii_lowercase();
        if unit.is_empty() {
            return number.parse().map(Self::new).map_err(|_| wrong());
        }
        let (_, each) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let bytes = match number.parse::<u64>() {
            Ok(whole) => whole.checked_mul(*each),
            Err(_) => {
                let bytes = number.parse::<f64>().map_err(|_| wrong())? * *each as f64;
                // Above 2^53 a fraction says nothing any more.
                (bytes < 9e15).then_some(bytes.round() as u64)
            }
        };
        let bytes = bytes.ok_or_else(|| format!("`{text}` is more than a size can be"))?;
        Ok(Self { bytes, has_unit: true })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes.fmt(out)
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.bytes)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(bytes) => Ok(Self::new(bytes)),
            Written::Text(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {
                    "type": "string",
                    "format": "byte-size",
                    "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtT][iI]?)?[bB]?\s*$",
                },
                {"type": "integer", "format": "uint64", "minimum": 0},
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_units_are_bytes() {
        for (text, bytes) in [
            ("0", 0),
            ("3670016", 3_670_016),
            ("64MiB", 64 << 20),
            (" 1.5 GiB ", 3 << 29),
            ("500kB", 500_000),
            ("1TB", 1_000_000_000_000),
            ("7b", 7),
        ] {
            assert_eq!(text.parse::<ByteSize>().map(ByteSize::get), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "64M", "1.5", "-1", "1 2", "64MiBs", "1e3"] {
            assert!(text.parse::<ByteSize>().unwrap_err().contains("such as 64MiB"), "{text}");
        }
        assert!("99999999999TiB".parse::<ByteSize>().unwrap_err().contains("more than"));
        assert!("64MiB".parse::<ByteSize>().unwrap().has_unit() && !"64".parse::<ByteSize>().unwrap().has_unit());
    }

    #[test]
    fn it_shows_as_the_number() {
        let read = |yaml: &str| serde_yaml::from_str::<ByteSize>(yaml).unwrap();
        assert_eq!(serde_json::to_string(&read("64MiB")).unwrap(), "67108864");
        assert_eq!(read("12"), ByteSize::new(12));
    }
}
