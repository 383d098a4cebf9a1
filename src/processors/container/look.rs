//! One identity at once, as a person asks for it: its attributes, with names from whichever runtime answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::attributes;
use super::grammar::Identity;
use super::names::{Names, runtimes};
use super::owner::add_names;
use super::settings::RuntimeName;
use crate::model::Resource;

/// Longest wait for all runtimes together.
const LOOK_WAIT: Duration = Duration::from_secs(2);

/// What the path tells.
pub fn without_names(identity: &Identity<'_>) -> Resource {
    attributes::of_identity(identity)
}

/// What the path and the runtimes tell; a runtime that is away, hung or broken adds nothing.
pub fn with_names(identity: &Identity<'_>) -> Resource {
    let mut resource = without_names(identity);
    if let Some(container) = &identity.container
        && let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build()
        && let Some(names) = runtime.block_on(async { timeout(LOOK_WAIT, names_of(container)).await.ok().flatten() })
    {
        add_names(&mut resource, &names);
    }
    resource
}

/// Every runtime that can be asked, and what it says of itself; `None`: no socket or store of it was found.
pub fn runtimes() -> Vec<(&'static str, Option<Result<String, String>>)> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let greet = |name: RuntimeName| {
        // some clients want to be made inside a runtime
        runtime.block_on(async {
            let catalog = runtimes::open(name, None, Vec::new().into())()?;
            let greeted = timeout(LOOK_WAIT, catalog.greet()).await;
            Some(
                greeted
                    .map_or_else(|_| Err("it does not answer".to_owned()), |said| said.map_err(|why| why.to_string())),
            )
        })
    };
    RuntimeName::ALL.into_iter().map(|name| (name.name(), greet(name))).collect()
}

async fn names_of(container: &super::grammar::Container<'_>) -> Option<Names> {
    let labels: Arc<[String]> = Vec::new().into();
    for name in RuntimeName::ALL {
        let can_know = container.runtime.is_none_or(|runtime| runtimes::containers_of(name).contains(&runtime));
        if !can_know {
            continue;
        }
        let Some(catalog) = runtimes::open(name, None, Arc::clone(&labels))() else { continue };
        if catalog.greet().await.is_ok()
            && let Ok(Some(names)) = catalog.find(&container.id).await
        {
            return Some(names);
        }
    }
    None
}
