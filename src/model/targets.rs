//! Pure: which cgroups and containers give spans, as a receiver's `include` and `exclude` say.
//!
//! A path is decided on in the kernel. Names are known only to whoever resolves owners, so the rule travels
//! with the batches. Refuses to know: where names come from.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::Resource;

/// The globs of one side; what one of them names is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetGlobs {
    /// Paths of cgroups; each means all below it too.
    pub cgroups: Vec<String>,
    /// systemd units, anywhere in a path.
    pub units: Vec<String>,
    /// Kubernetes namespaces.
    pub namespaces: Vec<String>,
    /// Pods.
    pub pods: Vec<String>,
    /// Containers, by the name in their pod or their runtime's.
    pub containers: Vec<String>,
}

/// One side, ready to match.
#[derive(Debug, Clone, Default)]
struct Side {
    globs: TargetGlobs,
    cgroups: GlobSet,
    units: GlobSet,
    namespaces: GlobSet,
    pods: GlobSet,
    containers: GlobSet,
}

/// Both sides.
#[derive(Debug, Clone, Default)]
pub struct Targets {
    include: Option<Side>,
    exclude: Side,
}

impl PartialEq for Targets {
    fn eq(&self, other: &Self) -> bool {
        let globs = |of: &Self| (of.include.as_ref().map(|side| side.globs.clone()), of.exclude.globs.clone());
        globs(self) == globs(other)
    }
}

/// A glob that is none is left out: configs are checked before.
fn set<'a>(globs: impl Iterator<Item = &'a str>) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        // `*` stays inside one path component, `**` does not
        if let Ok(glob) = GlobBuilder::new(glob).literal_separator(true).build() {
            builder.add(glob);
        }
    }
    builder.build().unwrap_or_default()
}

impl Side {
    fn new(globs: TargetGlobs) -> Self {
        let words = |list: &[String]| set(list.iter().map(String::as_str));
        let below: Vec<String> =
            globs.cgroups.iter().map(|glob| format!("{}/**", glob.trim_end_matches('/'))).collect();
        Self {
            cgroups: set(globs.cgroups.iter().chain(&below).map(String::as_str)),
            units: words(&globs.units),
            namespaces: words(&globs.namespaces),
            pods: words(&globs.pods),
            containers: words(&globs.containers),
            globs,
        }
    }

    fn has_names(&self) -> bool {
        !(self.globs.namespaces.is_empty() && self.globs.pods.is_empty() && self.globs.containers.is_empty())
    }

    fn names_path(&self, path: &str) -> bool {
        self.cgroups.is_match(path) || path.split('/').any(|component| self.units.is_match(component))
    }

    fn names(&self, path: Option<&str>, resource: &Resource) -> bool {
        let fits = |set: &GlobSet, key: &str| resource.text(key).is_some_and(|name| set.is_match(name));
        path.is_some_and(|path| self.names_path(path))
            || fits(&self.namespaces, "k8s.namespace.name")
            || fits(&self.pods, "k8s.pod.name")
            || fits(&self.containers, "k8s.container.name")
            || fits(&self.containers, "container.name")
    }
}

impl Targets {
    /// Without `include` everything is included; `exclude` wins.
    pub fn new(include: TargetGlobs, exclude: TargetGlobs) -> Self {
        let include = (include != TargetGlobs::default()).then(|| Side::new(include));
        Self { include, exclude: Side::new(exclude) }
    }

    /// Nothing is left out.
    pub fn is_all(&self) -> bool {
        self.include.is_none() && self.exclude.globs == TargetGlobs::default()
    }

    /// Names decide, not paths alone.
    pub fn needs_names(&self) -> bool {
        self.exclude.has_names() || self.include.as_ref().is_some_and(Side::has_names)
    }

    /// What the path alone decides: false where no name can change it.
    pub fn may_give_spans(&self, path: Option<&str>) -> bool {
        let named = |side: &Side| path.is_some_and(|path| side.names_path(path));
        !named(&self.exclude) && self.include.as_ref().is_none_or(|side| side.has_names() || named(side))
    }

    /// The decision, by all that is known.
    pub fn gives_spans(&self, path: Option<&str>, resource: &Resource) -> bool {
        !self.exclude.names(path, resource) && self.include.as_ref().is_none_or(|side| side.names(path, resource))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(include: TargetGlobs, exclude: TargetGlobs) -> Targets {
        Targets::new(include, exclude)
    }

    fn list(globs: &[&str]) -> Vec<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    /// Check that a glob means a cgroup and all below it, and that exclude wins.
    #[test]
    fn paths() {
        assert!(Targets::default().is_all());
        let include = TargetGlobs { cgroups: list(&["/kubepods/**"]), ..TargetGlobs::default() };
        let exclude = TargetGlobs {
            cgroups: list(&["/kubepods/besteffort"]),
            units: list(&["ssh*.service"]),
            ..TargetGlobs::default()
        };
        let chosen = targets(include, exclude);
        assert!(!chosen.needs_names());
        assert!(chosen.may_give_spans(Some("/kubepods/burstable/pod1/c")));
        for path in [Some("/kubepods/besteffort/pod1/c"), Some("/system.slice/sshd.service"), Some("/"), None] {
            assert!(!chosen.may_give_spans(path), "{path:?}");
        }
        let units = TargetGlobs { units: list(&["sshd.service"]), ..TargetGlobs::default() };
        assert!(targets(units, TargetGlobs::default()).may_give_spans(Some("/system.slice/sshd.service/child")));
    }

    /// Check that one kind that matches suffices, and that a path is not refused where a name may still include it.
    #[test]
    fn names() {
        let include = TargetGlobs {
            cgroups: list(&["/docker/*"]),
            namespaces: list(&["shop"]),
            containers: list(&["mail-?"]),
            ..TargetGlobs::default()
        };
        let exclude = TargetGlobs { pods: list(&["debug-*"]), ..TargetGlobs::default() };
        let chosen = targets(include, exclude);
        assert!(chosen.needs_names() && chosen.may_give_spans(None));
        let of = |pairs: &[(&'static str, &'static str)]| {
            let mut resource = Resource::new();
            for (key, value) in pairs {
                resource.set(*key, *value);
            }
            resource
        };
        assert!(chosen.gives_spans(None, &of(&[("k8s.namespace.name", "shop")])));
        assert!(!chosen.gives_spans(None, &of(&[("k8s.namespace.name", "shop"), ("k8s.pod.name", "debug-1")])));
        assert!(chosen.gives_spans(Some("/x"), &of(&[("container.name", "mail-1")])));
        assert!(chosen.gives_spans(Some("/docker/abc"), &of(&[])));
        assert!(!chosen.gives_spans(Some("/x"), &of(&[("k8s.namespace.name", "other")])));
    }
}
