//! `schedscope container`: the resource attributes that a process or a saved cgroup file would get.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use crate::model::{Resource, Value};
use crate::processors::container::{grammar, look};

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A live process, by its pid as this shell sees it.
    Pid(u32),
    /// A saved `/proc/PID/cgroup`, with the `mountinfo` that goes with it.
    Files {
        /// The cgroup file.
        cgroup: PathBuf,
        /// The mountinfo file.
        mountinfo: Option<PathBuf>,
    },
}

/// One JSON object, `{}` where nothing is known; an error is a message for a person.
pub fn run(target: &Target) -> Result<String, String> {
    let (cgroup, mountinfo) = read(target)?;
    let identity = grammar::parse_text(&cgroup, mountinfo.as_deref());
    let resource = match target {
        // only of a live process the runtimes can be asked
        Target::Pid(_) => look::with_names(&identity),
        Target::Files { .. } => look::without_names(&identity),
    };
    Ok(json(&resource).to_string())
}

fn read(target: &Target) -> Result<(String, Option<String>), String> {
    match target {
        Target::Pid(pid) => {
            let folder = PathBuf::from(format!("/proc/{pid}"));
            let cgroup = read_text(&folder.join("cgroup"))
                .map_err(|why| format!("{why}; is there a process {pid}, seen from here?"))?;
            // a process that ends meanwhile, or one that we may not look into: the path alone decides
            Ok((cgroup, read_text(&folder.join("mountinfo")).ok()))
        }
        Target::Files { cgroup, mountinfo } => {
            let text = read_text(cgroup)?;
            if !text.trim().is_empty() && !text.lines().any(|line| line.splitn(3, ':').count() == 3) {
                return Err(format!(
                    "{}: no line of the form `number:controllers:path`, as in /proc/PID/cgroup",
                    cgroup.display()
                ));
            }
            Ok((text, mountinfo.as_deref().map(read_text).transpose()?))
        }
    }
}

/// The text of a file; what is not UTF-8 is replaced, as a cgroup's name may hold any bytes.
fn read_text(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A Resource as one JSON object.
fn json(resource: &Resource) -> Json {
    let mut object = Map::new();
    for (key, value) in resource.iter() {
        object.insert(key.to_owned(), json_value(value));
    }
    Json::Object(object)
}

fn json_value(value: &Value) -> Json {
    match value {
        Value::Text(text) => Json::from(text.as_ref()),
        Value::Int(number) => Json::from(*number),
        Value::Bool(flag) => Json::from(*flag),
        Value::Double(number) => Json::from(*number),
        Value::Texts(texts) => texts.iter().map(|text| Json::from(text.as_ref())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(cgroup: &Path) -> Target {
        Target::Files { cgroup: cgroup.to_owned(), mountinfo: None }
    }

    #[test]
    fn nothing_known_is_an_empty_object() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cgroup");
        std::fs::write(&file, "0::/\n").unwrap();
        assert_eq!(run(&files(&file)), Ok("{}".into()));
        std::fs::write(&file, b"0::/a\xff\n").unwrap();
        assert_eq!(run(&files(&file)), Ok("{}".into()));
    }

    #[test]
    fn unreadable_input_is_told() {
        let missing = run(&files(Path::new("/nonexistent/cgroup"))).unwrap_err();
        assert!(missing.starts_with("cannot read /nonexistent/cgroup: "), "{missing}");
        let folder = tempfile::tempdir().unwrap();
        assert!(run(&files(folder.path())).is_err());
        let file = folder.path().join("other");
        std::fs::write(&file, "hello\n").unwrap();
        assert!(run(&files(&file)).unwrap_err().contains("number:controllers:path"));
        assert!(run(&Target::Pid(u32::MAX)).unwrap_err().contains("is there a process"));
    }

    #[test]
    fn a_live_process_can_be_read() {
        assert!(run(&Target::Pid(std::process::id())).unwrap().starts_with('{'));
    }
}
