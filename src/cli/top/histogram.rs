//! Pure: waits by length as a line of bars.

use crate::exporters::table::rows::Bucket;

/// Levels of a bar, none included.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The bar of a share of the tallest.
pub(super) fn bar(value: f64, tallest: f64) -> char {
    if value <= 0.0 || tallest <= 0.0 {
        return BARS[0];
    }
    // whatever is there is seen
    let level = (value / tallest * 8.0).ceil().clamp(1.0, 8.0) as usize;
    BARS.get(level).copied().unwrap_or(' ')
}

/// Values as bars, the newest last.
pub(super) fn bars(values: impl Iterator<Item = f64> + Clone) -> String {
    let tallest = values.clone().fold(0.0, f64::max);
    values.map(|value| bar(value, tallest)).collect()
}

/// A bound as a person says it.
pub(super) fn bound(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} us", s * 1e6),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => format!("{s:.0} s"),
    }
}

/// One line a bucket, from the first to the last that has anything.
pub(super) fn lines(buckets: &[Bucket], width: usize) -> Vec<String> {
    let all: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
    let has = |bucket: &Bucket| bucket.count > 0;
    let (Some(first), Some(last)) = (buckets.iter().position(has), buckets.iter().rposition(has)) else {
        return Vec::new();
    };
    let shown = buckets.iter().enumerate().skip(first).take(last - first + 1);
    let lines = shown.map(|(at, bucket)| {
        let name = match bucket.below {
            Some(below) => format!("< {}", bound(below)),
            None => format!(
                "≥ {}",
                buckets.get(at.wrapping_sub(1)).and_then(|one| one.below).map_or_else(String::new, bound)
            ),
        };
        let length = (bucket.count as f64 / most as f64 * width as f64).round() as usize;
        let share = bucket.count as f64 / all as f64 * 100.0;
        format!("{name:>9} {:<width$} {share:>3.0} %", "█".repeat(length.max(usize::from(bucket.count > 0))))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_there_is_seen() {
        assert_eq!(bars([0.0, 0.001, 0.5, 1.0].into_iter()), " ▁▄█");
        assert_eq!(bars([0.0, 0.0].into_iter()), "  ");
    }

    #[test]
    fn buckets_from_the_first_to_the_last() {
        let bucket = |below, count| Bucket { below, count };
        let all = [bucket(Some(1e-6), 0), bucket(Some(5e-4), 6), bucket(Some(0.005), 0), bucket(None, 2)];
        assert_eq!(lines(&all, 6), [" < 500 us ██████  75 %", "   < 5 ms          0 %", "   ≥ 5 ms ██      25 %"]);
        assert!(lines(&all[..1], 6).is_empty());
    }
}
