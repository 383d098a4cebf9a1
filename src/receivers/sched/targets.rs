//! Pure: which cgroups give spans, by globs over their paths.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::settings::SchedSettings;

/// The globs of `include` and `exclude`.
#[derive(Debug, Clone, Default)]
pub(super) struct Chosen {
    include: Option<GlobSet>,
    exclude: GlobSet,
}

fn set(globs: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for glob in globs {
        // `*` stays inside one path component, `**` does not; a glob names a cgroup and all below it
        for pattern in [glob.clone(), format!("{}/**", glob.trim_end_matches('/'))] {
            if let Ok(glob) = GlobBuilder::new(&pattern).literal_separator(true).build() {
                builder.add(glob);
            }
        }
    }
    builder.build().unwrap_or_default()
}

impl Chosen {
    /// From settings that passed their check.
    pub(super) fn new(settings: &SchedSettings) -> Self {
        let include = &settings.include.cgroups;
        Self { include: (!include.is_empty()).then(|| set(include)), exclude: set(&settings.exclude.cgroups) }
    }

    /// Nothing is left out.
    pub(super) fn is_all(&self) -> bool {
        self.include.is_none() && self.exclude.is_empty()
    }

    /// Whether the cgroup at `path` gives spans.
    pub(super) fn gives_spans(&self, path: &str) -> bool {
        self.include.as_ref().is_none_or(|include| include.is_match(path)) && !self.exclude.is_match(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a glob means a cgroup and all below it, and that exclude wins.
    #[test]
    fn include_and_exclude() {
        let mut settings = SchedSettings::default();
        assert!(Chosen::new(&settings).is_all());
        settings.include.cgroups = vec!["/kubepods/**".into()];
        settings.exclude.cgroups = vec!["/kubepods/besteffort".into(), "/system.slice/*.service".into()];
        let chosen = Chosen::new(&settings);
        assert!(chosen.gives_spans("/kubepods/burstable/pod1/c"));
        assert!(!chosen.gives_spans("/kubepods/besteffort/pod1/c"));
        assert!(!chosen.gives_spans("/system.slice/ssh.service"));
        assert!(!chosen.gives_spans("/"));
    }
}
