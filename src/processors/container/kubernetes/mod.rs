//! What Kubernetes knows of pods, fetched in the background, looked up without waiting.

pub mod pods;
pub mod store;

pub use pods::PodFacts;
pub use store::PodStore;
