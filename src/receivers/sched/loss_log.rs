//! Pure: the one log line a collection interval about what was lost. Refuses to know: why, who wants spans.

use crate::model::{LossReason, Losses};

/// Losses that a config asks for, or that a start brings along: counted, not told.
const EXPECTED: [LossReason; 3] = [LossReason::RateLimited, LossReason::UnknownStart, LossReason::NotShown];

/// What has been told.
#[derive(Debug, Default)]
pub(super) struct LossLog {
    told: Losses,
}

impl LossLog {
    /// What was lost since the last call; `None`: nothing worth a line.
    pub(super) fn news(&mut self, all: &Losses) -> Option<String> {
        let worth = all.iter().filter(|(reason, _)| !EXPECTED.contains(reason));
        let new = worth.map(|(reason, count)| (reason, count.saturating_sub(self.told.get(reason))));
        let parts: Vec<String> =
            new.filter(|(_, count)| *count > 0).map(|(reason, count)| format!("{count} ({})", reason.name())).collect();
        self.told = *all;
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each loss is told once, and expected ones never.
    #[test]
    fn told_once() {
        let (mut log, mut all) = (LossLog::default(), Losses::default());
        all.add(LossReason::RateLimited, 9);
        assert_eq!(log.news(&all), None);
        all.add(LossReason::RingFull, 3);
        assert_eq!(log.news(&all).as_deref(), Some("3 (ring_full)"));
        assert_eq!(log.news(&all), None);
        all.add(LossReason::RingFull, 1);
        assert_eq!(log.news(&all).as_deref(), Some("1 (ring_full)"));
    }
}
