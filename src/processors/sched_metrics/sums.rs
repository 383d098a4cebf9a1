//! Pure: the part of totals that can be told of a container, a process or a thread alike.

use crate::model::{CgroupTotals, StateTimes, ThreadTotals};

/// Sums that only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) times: StateTimes,
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    /// `None` where they are not counted.
    pub(super) migrations: Option<u64>,
}

impl Sums {
    pub(super) fn of(totals: &CgroupTotals) -> Self {
        let CgroupTotals { times, voluntary, involuntary, migrations, .. } = totals;
        Self { times: *times, voluntary: *voluntary, involuntary: *involuntary, migrations: *migrations }
    }

    /// Puts them in the place of those of `totals`.
    pub(super) fn put(self, totals: &mut CgroupTotals) {
        let Self { times, voluntary, involuntary, migrations } = self;
        (totals.times, totals.voluntary, totals.involuntary, totals.migrations) =
            (times, voluntary, involuntary, migrations);
    }

    pub(super) fn of_thread(totals: &ThreadTotals) -> Self {
        Self {
            times: totals.times,
            voluntary: totals.voluntary,
            involuntary: totals.involuntary,
            migrations: Some(totals.migrations),
        }
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.times.merge(&more.times);
        self.voluntary += more.voluntary;
        self.involuntary += more.involuntary;
        if let Some(migrations) = more.migrations {
            *self.migrations.get_or_insert(0) += migrations;
        }
    }

    /// What came since `before`; nothing where it has more.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            times: self.times.since(&before.times),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            migrations: self.migrations.map(|count| count.saturating_sub(before.migrations.unwrap_or(0))),
        }
    }

    /// Waits instead of falling below `last`.
    pub(super) fn never_fall(&mut self, last: &Self) {
        self.times.never_fall(&last.times);
        self.voluntary = self.voluntary.max(last.voluntary);
        self.involuntary = self.involuntary.max(last.involuntary);
        self.migrations = self.migrations.max(last.migrations);
    }

    /// Whether there is anything to tell.
    pub(super) fn is_zero(&self) -> bool {
        let slept_or_ran = crate::model::SchedState::ALL.into_iter().any(|state| self.times.get(state) > Some(0));
        !slept_or_ran && self.voluntary == 0 && self.involuntary == 0 && self.migrations.unwrap_or(0) == 0
    }
}
