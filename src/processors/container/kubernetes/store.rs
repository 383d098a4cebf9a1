//! The pods of this node as the source told them last. Bounded; never waits but for a short lock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::pods::PodFacts;

/// Pods that left the list and are still kept, so that the last records of a pod are named.
const DEPARTED_MAX: usize = 2000;

/// Pods by the uid that their cgroups have. Clones share it.
#[derive(Debug, Clone)]
pub struct PodStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    version: AtomicU64,
    wanted: Notify,
    /// There is a source at all.
    on: bool,
}

#[derive(Debug, Default)]
struct State {
    pods: HashMap<Arc<str>, Arc<PodFacts>>,
    departed: VecDeque<Arc<str>>,
    changed: HashSet<Arc<str>>,
}

impl PodStore {
    /// An empty store; `on`: a source will fill it.
    pub fn new(on: bool) -> Self {
        let shared = Shared { state: Mutex::default(), version: AtomicU64::new(0), wanted: Notify::new(), on };
        Self { shared: Arc::new(shared) }
    }

    /// The pod of this uid; where it is not known, the source is told that somebody asked.
    pub fn ask(&self, uid: &str) -> Option<Arc<PodFacts>> {
        let known = self.lock().pods.get(uid).cloned();
        if known.is_none() && self.shared.on {
            self.shared.wanted.notify_one();
        }
        known
    }

    /// Whether a source may still name pods that are not known.
    pub fn is_on(&self) -> bool {
        self.shared.on
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// The uids with news since the last call.
    pub fn take_changed(&self) -> HashSet<Arc<str>> {
        std::mem::take(&mut self.lock().changed)
    }

    /// Ends when somebody asked for an unknown pod.
    pub async fn wanted(&self) {
        self.shared.wanted.notified().await;
    }

    /// The whole list; pods that are missing in it have departed and are kept for a while.
    pub fn replace(&self, pods: Vec<PodFacts>) {
        let mut state = self.lock();
        let present: HashSet<Arc<str>> = pods.iter().map(|pod| Arc::clone(&pod.node_uid)).collect();
        let State { pods: kept, departed, .. } = &mut *state;
        departed.retain(|uid| !present.contains(uid));
        let already: HashSet<Arc<str>> = departed.iter().cloned().collect();
        departed.extend(kept.keys().filter(|uid| !present.contains(*uid) && !already.contains(*uid)).cloned());
        while departed.len() > DEPARTED_MAX {
            if let Some(uid) = departed.pop_front() {
                kept.remove(&uid);
            }
        }
        for pod in pods {
            set(&mut state, pod);
        }
        drop(state);
        self.shared.version.fetch_add(1, Ordering::Release);
    }

    /// One pod, new or changed.
    pub fn put(&self, pod: PodFacts) {
        set(&mut self.lock(), pod);
        self.shared.version.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn set(state: &mut State, pod: PodFacts) {
    let uid = Arc::clone(&pod.node_uid);
    if state.pods.get(&uid).is_some_and(|known| **known == pod) {
        return;
    }
    state.changed.insert(Arc::clone(&uid));
    state.pods.insert(uid, Arc::new(pod));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, name: &str) -> PodFacts {
        PodFacts { uid: uid.into(), node_uid: uid.into(), name: name.into(), ..PodFacts::default() }
    }

    #[test]
    fn a_departed_pod_is_still_named_and_only_news_are_news() {
        let store = PodStore::new(true);
        store.replace(vec![pod("a", "web-0"), pod("b", "web-1")]);
        assert_eq!(store.take_changed().len(), 2);
        store.replace(vec![pod("b", "web-1")]);
        assert!(store.take_changed().is_empty());
        assert_eq!(store.ask("a").unwrap().name.as_ref(), "web-0");
        assert!(store.ask("c").is_none());
    }
}
