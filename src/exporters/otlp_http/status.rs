//! Pure: what an HTTP answer means for the request that got it. The time is an argument.

use std::time::{Duration, SystemTime};

/// The part of an outcome that status and headers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Taken; the body may tell of a partial success.
    Done,
    /// Worth another attempt, not before this long where the server says so.
    Retry(Option<Duration>),
    /// Too large for this server.
    TooLarge,
    /// Final.
    Permanent,
}

/// The verdict on `status`; `retry_after` is the header, where there is one.
pub fn classify(status: u16, retry_after: Option<&str>, now: SystemTime) -> Verdict {
    match status {
        200..=299 => Verdict::Done,
        // Only these two are defined to carry the header.
        429 | 503 => Verdict::Retry(retry_after.and_then(|text| parse_retry_after(text, now))),
        502 | 504 => Verdict::Retry(None),
        413 => Verdict::TooLarge,
        _ => Verdict::Permanent,
    }
}

/// Seconds, or an HTTP date (zero where it is past); `None` for anything else.
pub fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_four_answers_are_worth_another_attempt() {
        let now = SystemTime::UNIX_EPOCH;
        let retried: Vec<u16> =
            (100..600).filter(|code| matches!(classify(*code, None, now), Verdict::Retry(_))).collect();
        assert_eq!(retried, [429, 502, 503, 504]);
        assert_eq!(classify(204, None, now), Verdict::Done);
        assert_eq!(classify(413, None, now), Verdict::TooLarge);
        for code in [301, 400, 401, 404, 408, 421, 500, 501] {
            assert_eq!(classify(code, Some("3"), now), Verdict::Permanent);
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 01 Mar 2026 12:00:00 GMT").unwrap();
        let parsed = |text| parse_retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(parsed("7"), Some(7));
        assert_eq!(parsed(" 0 "), Some(0));
        assert_eq!(parsed("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(parsed("Sun, 01 Mar 2026 12:00:20 GMT"), Some(20));
        assert_eq!(parsed("Sun, 01 Mar 2020 12:00:20 GMT"), Some(0));
        for garbage in ["soon", "-5", "1.5", "", "7 s"] {
            assert_eq!(parsed(garbage), None, "{garbage}");
        }
        assert_eq!(classify(502, Some("7"), now), Verdict::Retry(None));
    }
}
