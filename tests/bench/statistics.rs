//! Medians, and what they are worth: bootstrap intervals of paired differences and of their ratios.

/// The middle value.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// A number with its 90 % interval.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Draws rounds with replacement; `statistic` sees the indices of a draw.
pub(crate) fn bootstrap(rounds: usize, statistic: impl Fn(&[usize]) -> f64) -> Estimate {
    let all: Vec<usize> = (0..rounds).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut draws: Vec<f64> = (0..2000)
        .map(|_| statistic(&(0..rounds).map(|_| random.usize(0..rounds)).collect::<Vec<_>>()))
        .filter(|value| value.is_finite())
        .collect();
    draws.sort_by(f64::total_cmp);
    let at = |share: f64| draws.get((draws.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    Estimate { value: statistic(&all), low: at(0.05), high: at(0.95) }
}
