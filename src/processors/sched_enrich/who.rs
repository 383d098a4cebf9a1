//! Pure: who the culprits of a thread's cycles are, as far as anybody has told the history.

use std::collections::HashMap;
use std::sync::Arc;

use crate::history::History;
use crate::model::{CgroupKey, CulpritKind, Cycle, Owner, OwnerKind, Resource};
use crate::processors::intervals::attributes::Names;

/// The owners of all cgroups in some cycles.
pub(super) struct Who {
    named: HashMap<CgroupKey, Arc<Owner>>,
    owner: Arc<Owner>,
}

/// One that no name is known of.
fn unnamed(word: &str) -> Arc<Owner> {
    Arc::new(Owner {
        key: word.into(),
        kind: OwnerKind::Container,
        display_name: word.into(),
        resource: Arc::new(Resource::new()),
        provisional: false,
    })
}

impl Who {
    /// Without a `container` processor beside us, a cgroup is our own or some other one: more is not known.
    pub(super) fn of(history: &History, cycles: &[Arc<Cycle>]) -> Self {
        let own = cycles.last().map(|cycle| cycle.cgroup).unwrap_or_default();
        let owner = match history.owner(own) {
            Some(Some(owner)) => owner,
            Some(None) => unnamed("host"),
            None => unnamed("self"),
        };
        let mut named = HashMap::new();
        for cycle in cycles {
            let culprits = cycle.culprits.iter().filter_map(|culprit| match &culprit.kind {
                CulpritKind::Task { cgroup, .. } => Some(*cgroup),
                _ => None,
            });
            for cgroup in culprits.chain(cycle.waker.iter().map(|waker| waker.cgroup)) {
                let found = match history.owner(cgroup) {
                    _ if cgroup == own => Some(Arc::clone(&owner)),
                    Some(known) => known,
                    None => Some(unnamed("other")),
                };
                named.extend(found.map(|found| (cgroup, found)));
            }
        }
        Self { named, owner }
    }

    /// As spans tell them.
    pub(super) fn names<'a>(&'a self, throttle_source: &'a str) -> Names<'a> {
        Names { named: &self.named, owner: &self.owner, throttle_source }
    }
}
