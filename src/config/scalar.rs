//! Pure: what a plain scalar means: the words of YAML 1.1 as the Collector's parser (go-yaml) reads them.

/// A typed plain scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Typed {
    /// Nothing: empty, `~`, `null`.
    Null,
    /// `true`, `false`; never `yes` or `on`.
    Bool(bool),
    /// A whole number, in any of the notations.
    Int(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Anything else.
    Text,
}

/// The meaning of a plain (not quoted) scalar.
pub(super) fn typed(text: &str) -> Typed {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Typed::Null,
        "true" | "True" | "TRUE" => return Typed::Bool(true),
        "false" | "False" | "FALSE" => return Typed::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Typed::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Typed::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Typed::Float(f64::NAN),
        _ => {}
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return Typed::Text;
    }
    let text = text.replace('_', "");
    integer(&text).map(Typed::Int).or_else(|| float(&text).map(Typed::Float)).unwrap_or(Typed::Text)
}

/// Decimal, `0x`, `0o`, `0b`, and a leading zero for octal, within 64 bits.
fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (digits, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (&digits[2..], 16),
        Some("0o" | "0O") => (&digits[2..], 8),
        Some("0b" | "0B") => (&digits[2..], 2),
        Some(two) if two.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from(u64::from_str_radix(digits, radix).ok()?);
    let value = if negative { -value } else { value };
    (value >= i128::from(i64::MIN)).then_some(value)
}

/// Digits with a point or an exponent.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|part| {
        let part = part.strip_prefix(['-', '+']).unwrap_or(part);
        !part.is_empty() && is_digits(part)
    });
    if (whole.is_empty() && fraction.is_empty()) || !is_digits(whole) || !is_digits(fraction) || !exponent_fits {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_yaml_1_1_as_go_yaml_reads_them() {
        for (text, meaning) in [
            ("", Typed::Null),
            ("~", Typed::Null),
            ("True", Typed::Bool(true)),
            ("yes", Typed::Text),
            ("on", Typed::Text),
            ("0640", Typed::Int(416)),
            ("0o17", Typed::Int(15)),
            ("0xff", Typed::Int(255)),
            ("-0x10", Typed::Int(-16)),
            ("0b101", Typed::Int(5)),
            ("1_000", Typed::Int(1000)),
            ("+12", Typed::Int(12)),
            ("0", Typed::Int(0)),
            ("00123", Typed::Int(83)),
            ("089", Typed::Float(89.0)),
            ("18446744073709551615", Typed::Int(18_446_744_073_709_551_615)),
            ("18446744073709551616", Typed::Float(18_446_744_073_709_551_616.0)),
            ("1e3", Typed::Float(1000.0)),
            ("1.5", Typed::Float(1.5)),
            (".5", Typed::Float(0.5)),
            ("5.", Typed::Float(5.0)),
            ("-.inf", Typed::Float(f64::NEG_INFINITY)),
            (".", Typed::Text),
            ("-", Typed::Text),
            ("1.2.3", Typed::Text),
            ("5s", Typed::Text),
            ("0x", Typed::Text),
            ("1e", Typed::Text),
            ("inf", Typed::Text),
            ("--5", Typed::Text),
            ("0xé", Typed::Text),
        ] {
            assert_eq!(typed(text), meaning, "{text}");
        }
    }
}
