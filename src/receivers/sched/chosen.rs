//! Pure: who gives spans and who is seen at all, by the receiver's targets and scope together. Refuses to know: how
//! the kernel side is told.

use std::sync::Arc;

use super::assemble::Assembled;
use super::cgroups::CgroupPaths;
use super::view::View;
use crate::model::{CgroupKey, CulpritKind, Targets};

/// What the config leaves of the host.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    targets: Arc<Targets>,
    view: View,
}

impl Chosen {
    pub(super) fn new(targets: Targets, view: View) -> Self {
        Self { targets: Arc::new(targets), view }
    }

    /// Nothing is left out.
    pub(super) fn is_all(&self) -> bool {
        self.targets.is_all() && self.view.is_host()
    }

    /// What the kernel is told of a cgroup; names may still exclude it later.
    pub(super) fn gives_spans(&self, id: u64, path: Option<&str>) -> bool {
        self.view.holds(id, path) && self.targets.may_give_spans(path)
    }

    /// Whether it is inside the scope.
    pub(super) fn sees(&self, key: CgroupKey, paths: &CgroupPaths) -> bool {
        self.view.is_host() || self.view.holds(key.id, paths.get(key.id).as_deref())
    }

    /// The rule that travels with the batches; `None` where the kernel decides alone.
    pub(super) fn by_name(&self) -> Option<Arc<Targets>> {
        self.targets.needs_names().then(|| Arc::clone(&self.targets))
    }

    /// Leaves out what the scope does not hold; as a culprit it is nobody in particular.
    pub(super) fn narrow(&self, assembled: &mut Assembled, paths: &CgroupPaths) {
        if self.view.is_host() {
            return;
        }
        let sees = |key: CgroupKey| self.sees(key, paths);
        assembled.cycles.retain(|cycle| sees(cycle.cgroup));
        for cycle in &mut assembled.cycles {
            cycle.waker.take_if(|waker| !sees(waker.cgroup));
            for culprit in Arc::make_mut(&mut cycle.culprits) {
                if matches!(&culprit.kind, CulpritKind::Task { cgroup, .. } if !sees(*cgroup)) {
                    culprit.kind = CulpritKind::Other;
                }
            }
        }
        assembled.named.retain(|key| sees(*key));
    }
}
