//! Area D, configuration. Two kinds: `expand` puts a value into a field of a type, `config` validates documents
//! through the same functions as the command line.
//!
//! RECV is read as `sched`. In the cases it feeds OTLP exporters directly; here a converter stands between
//! (`sched_metrics`, `sched_spans`), and leaving it out is an error of its own. So RECV stands for a `sched`
//! that gives whatever its pipeline carries; everything else is the stock list.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::sync::OnceLock;

use schedscope::cli::command_result::CommandResult;
use schedscope::cli::print_config::{Format, PrintOptions, print_config};
use schedscope::cli::validate::validate;
use schedscope::components::COMPONENTS;
use schedscope::config::{Body, Environment, Period, Resolved, Section, resolve};
use schedscope::pipeline::{Components, Fork, Plan, ReceiverFactory, Signal, plan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What a case may say; anything else cannot be judged.
const KEYS: [&str; 16] = [
    "id",
    "kind",
    "problem",
    "value",
    "field_type",
    "env",
    "files",
    "set",
    "sets",
    "config",
    "config_files",
    "config_files_hex",
    "expect",
    "why",
    "confidence",
    "title",
];

pub fn run(case: &Value) -> Result<(), String> {
    let keys = case.as_object().ok_or("a case is an object")?.keys();
    if let Some(key) = keys.clone().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!("no rule for the key `{key}`"));
    }
    let outcome = match text_of(case, "kind") {
        "expand" => expand(case)?,
        "config" => config(case)?,
        kind => return Err(format!("no rule for the kind `{kind}`")),
    };
    judge(case.get("expect").ok_or("no `expect`")?, &outcome)
}

/// A world of variables and files.
struct World {
    variables: BTreeMap<String, String>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Environment for World {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(OsString::from)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// What became of a case.
struct Outcome {
    /// The field of an `expand` case.
    value: Option<Value>,
    /// Mistakes, or nothing.
    error: Option<String>,
    /// Warnings.
    warnings: String,
    /// All that was printed anywhere.
    log: String,
    /// A `config` case that was right.
    config: Option<Config>,
}

/// A config that was accepted.
struct Config {
    plan: Plan,
    written: Value,
    effective: Value,
}

/// One field of each type.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Field {
    string: String,
    int: i64,
    float: f64,
    bool: bool,
    list: Vec<Value>,
    map: BTreeMap<String, Value>,
    duration: Period,
}

impl Section for Field {}

fn expand(case: &Value) -> Result<Outcome, String> {
    let world = World { variables: pairs(case, "env")?, files: files(case)? };
    let field = text_of(case, "field_type");
    let value = match case.get("value").ok_or("no `value`")? {
        // a text that is one plain scalar stands without quotes, so that it may mean a number
        Value::String(text) if needs_quotes(text) && !["list", "map"].contains(&field) => json!(text).to_string(),
        Value::String(text) if text.contains('$') => json!(text).to_string(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let outcome =
        |value, error, warnings: String| Outcome { value, log: warnings.clone(), error, warnings, config: None };
    let document = format!("yaml:field::{field}: {value}");
    let Resolved { root, warnings, .. } = match resolve(&[document], &[], &world) {
        Ok(resolved) => resolved,
        Err(problems) => return Ok(outcome(None, Some(problems.to_string()), String::new())),
    };
    let warnings = warnings.iter().map(|warning| format!("{warning}\n")).collect();
    let entry = root.entry("field").ok_or("the document has no `field`")?;
    let body = Body::new("field".into(), entry.at.clone(), entry.value.clone());
    Ok(match body.decode::<Field>() {
        Ok(settings) => {
            let settings = serde_json::to_value(settings).map_err(|error| error.to_string())?;
            let value = settings.get(field).ok_or_else(|| format!("no rule for the field type `{field}`"))?;
            outcome(Some(value.clone()), None, warnings)
        }
        Err(problems) => outcome(None, Some(problems.to_string()), warnings),
    })
}

fn needs_quotes(text: &str) -> bool {
    text.contains(['$', '\n', '\t', '#', ':', '"', '\''])
        || text.trim() != text
        || text.is_empty()
        || text.starts_with(['[', '{', '&', '*', '!', '|', '>', '%', '@', '`', '?', ',', '-'])
            && text.parse::<f64>().is_err()
}

fn config(case: &Value) -> Result<Outcome, String> {
    let mut world = World { variables: pairs(case, "env")?, files: files(case)? };
    let mut sources = Vec::new();
    for (index, content) in documents(case)?.into_iter().enumerate() {
        let name = format!("config-{}.yaml", index + 1);
        world.files.insert(name.clone(), content);
        sources.push(name);
    }
    sources.extend(texts(case.get("config")));
    let sets: Vec<String> = texts(case.get("set")).chain(texts(case.get("sets"))).map(|set| renamed(&set)).collect();
    let components = components();
    let checked = validate(&sources, &sets, &world, components);
    let printed = |options| print_config(&sources, &sets, options, &world, components);
    let json = PrintOptions { format: Format::Json, ..PrintOptions::default() };
    let (written, effective) = (printed(json), printed(PrintOptions { defaults: true, ..json }));
    let yaml = printed(PrintOptions::default());
    let text = |result: &CommandResult| format!("{}{}", result.output, result.messages);
    let log = [&checked, &written, &effective, &yaml].map(text).concat();
    if checked.code != 0 {
        return Ok(Outcome { value: None, error: Some(checked.messages), warnings: String::new(), log, config: None });
    }
    let planned = resolve(&sources, &sets, &world).and_then(|resolved| plan(&resolved.root, components));
    let parsed = |result: &CommandResult| serde_json::from_str(&result.output).map_err(|error| error.to_string());
    let config = Config {
        plan: planned.map_err(|problems| problems.to_string())?,
        written: parsed(&written)?,
        effective: parsed(&effective)?,
    };
    Ok(Outcome { value: None, error: None, warnings: checked.messages, log, config: Some(config) })
}

/// The stock list, with a receiver that gives what its pipeline carries.
fn components() -> &'static Components {
    static LIST: OnceLock<Components> = OnceLock::new();
    LIST.get_or_init(|| {
        let receivers = COMPONENTS.receivers.iter().map(|factory| match factory.name {
            "sched" => &*Box::leak(Box::new(ReceiverFactory {
                emits: &[Signal::Traces, Signal::Metrics, Signal::Logs],
                name: factory.name,
                aliases: factory.aliases,
                about: factory.about,
                stability: factory.stability,
                settings: factory.settings,
                build: factory.build,
            })),
            _ => *factory,
        });
        Components {
            receivers: Box::leak(receivers.collect::<Vec<_>>().into_boxed_slice()),
            processors: COMPONENTS.processors,
            exporters: COMPONENTS.exporters,
            extensions: COMPONENTS.extensions,
        }
    })
}

fn judge(expect: &Value, outcome: &Outcome) -> Result<(), String> {
    let expect = expect.as_object().ok_or("`expect` is no object")?;
    if let Some(ways) = expect.get("any_of").and_then(Value::as_array) {
        let refusals: Vec<String> = ways.iter().filter_map(|way| judge(way, outcome).err()).collect();
        return if refusals.len() < ways.len() { Ok(()) } else { Err(refusals.join(", or ")) };
    }
    if outcome.log.contains("panicked") {
        return Err("a panic's text was shown".into());
    }
    let wants_error = expect.contains_key("error_mentions") || expect.get("ok") == Some(&json!(false));
    match &outcome.error {
        Some(error) if !wants_error => return Err(format!("expected success, got: {error}")),
        None if wants_error => return Err(format!("expected an error, got {:?}", outcome.value)),
        _ => {}
    }
    for (key, wanted) in expect {
        judge_key(key, wanted, outcome).map_err(|why| format!("{key}: {why}"))?;
    }
    Ok(())
}

fn judge_key(key: &str, wanted: &Value, outcome: &Outcome) -> Result<(), String> {
    match key {
        "ok" => Ok(()),
        "error_mentions" => mentions(wanted, outcome.error.as_deref().unwrap_or_default()),
        "warns" => mentions(wanted, &outcome.warnings),
        "log_must_not_contain" => match texts(Some(wanted)).find(|word| outcome.log.contains(word.as_str())) {
            Some(word) => Err(format!("`{word}` was shown")),
            None => Ok(()),
        },
        "value" => same(wanted, outcome.value.as_ref().unwrap_or(&Value::Null)),
        _ => judge_config(key, wanted, outcome.config.as_ref().ok_or("there is no config")?),
    }
}

fn judge_config(key: &str, wanted: &Value, config: &Config) -> Result<(), String> {
    match key {
        "defaults_for" => texts(Some(wanted)).try_for_each(|path| is_default(&renamed(&path), config)),
        "not_started" => texts(Some(wanted)).try_for_each(|path| {
            let path = renamed(&path);
            let (section, id) = path.split_once('.').ok_or("no section")?;
            if started(config, section).contains(&id.to_owned()) { Err(format!("{path} starts")) } else { Ok(()) }
        }),
        "receivers" | "processors" | "exporters" | "extensions" => {
            let mut wanted: Vec<String> = texts(Some(wanted)).map(|id| renamed(&id)).collect();
            let mut got = started(config, key);
            wanted.sort();
            got.sort();
            if wanted == got { Ok(()) } else { Err(format!("expected {wanted:?}, got {got:?}")) }
        }
        "tls_insecure" => {
            let found = find(&config.effective, "exporters.otlp.tls.insecure").ok_or("no such key")?;
            same(wanted, found)
        }
        "durations_ms" => object(wanted)?.iter().try_for_each(|(path, wanted)| {
            let found = find(&config.effective, &renamed(path)).ok_or_else(|| format!("no {path}"))?;
            same(wanted, &milliseconds(found)?).map_err(|why| format!("{path}: {why}"))
        }),
        "resolved" => object(wanted)?.iter().try_for_each(|(path, wanted)| {
            resolved(&renamed(path), wanted, config).map_err(|why| format!("{path}: {why}"))
        }),
        "absent" | "not_resolved" => texts(Some(wanted)).try_for_each(|path| {
            find(&config.written, &renamed(&path)).map_or(Ok(()), |found| Err(format!("{path} is {found}")))
        }),
        _ => Err("no rule for this expectation".into()),
    }
}

/// A value of the effective config; a list against a map means its keys.
fn resolved(path: &str, wanted: &Value, config: &Config) -> Result<(), String> {
    let wanted: Value = serde_json::from_str(&renamed(&wanted.to_string())).map_err(|error| error.to_string())?;
    // what is written comes first: a section is a map of what was defined
    let found = find(&config.effective, path).or_else(|| find(&config.written, path));
    if let (Some(Value::Object(map)), Value::Array(keys)) = (found, &wanted) {
        let mut got: Vec<&str> = map.keys().map(String::as_str).collect();
        let mut keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        got.sort_unstable();
        keys.sort_unstable();
        return if got == keys { Ok(()) } else { Err(format!("expected {keys:?}, got {got:?}")) };
    }
    match (found, path.strip_suffix("_ms").and_then(|path| find(&config.effective, path))) {
        (Some(found), _) => same(&wanted, found),
        (None, Some(found)) => same(&wanted, &milliseconds(found)?),
        (None, None) if wanted.is_null() => Ok(()),
        (None, None) => Err("no such key".into()),
    }
}

/// The ids that run.
fn started(config: &Config, section: &str) -> Vec<String> {
    fn stages(fork: &Fork, ids: &mut Vec<String>) {
        for stage in &fork.stages {
            ids.push(stage.processor.id.to_string());
            stages(&stage.next, ids);
        }
    }
    let plan = &config.plan;
    match section {
        "receivers" => plan.receivers.iter().map(|one| one.id.to_string()).collect(),
        "exporters" => plan.exporters.iter().map(|one| one.id.to_string()).collect(),
        "extensions" => plan.extensions.iter().map(|one| one.id.to_string()).collect(),
        _ => {
            let mut ids = Vec::new();
            plan.trees.iter().for_each(|tree| stages(&tree.fork, &mut ids));
            ids.sort();
            ids.dedup();
            ids
        }
    }
}

/// Whether a component's settings are those of its type.
fn is_default(path: &str, config: &Config) -> Result<(), String> {
    let (section, id) = path.split_once('.').ok_or("no section")?;
    let name = id.split('/').next().unwrap_or(id);
    let list = components();
    let receiver = list.receivers.iter().find(|factory| factory.name == name).map(|factory| factory.settings);
    let processor = list.processors.iter().find(|factory| factory.name == name).map(|factory| factory.settings);
    let exporter = list.exporters.iter().find(|factory| factory.name == name || factory.aliases.contains(&name));
    let settings = match section {
        "receivers" => receiver,
        "processors" => processor,
        "exporters" => exporter.map(|factory| factory.settings),
        _ => None,
    };
    let defaults = (settings.ok_or_else(|| format!("no type for {path}"))?.defaults)();
    same(&defaults, find(&config.effective, path).ok_or_else(|| format!("no {path}"))?)
}

/// A value by a path with dots; keys may hold dots themselves.
fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let Value::Object(map) = value else {
        let (index, rest) = path.split_once('.').map_or((path, None), |(index, rest)| (index, Some(rest)));
        let item = value.get(index.parse::<usize>().ok()?)?;
        return rest.map_or(Some(item), |rest| find(item, rest));
    };
    if let Some(found) = map.get(path) {
        return Some(found);
    }
    map.iter().find_map(|(key, inner)| find(inner, path.strip_prefix(key.as_str())?.strip_prefix('.')?))
}

fn same(wanted: &Value, got: &Value) -> Result<(), String> {
    let equal = wanted == got || wanted.as_f64().is_some_and(|number| got.as_f64() == Some(number));
    if equal { Ok(()) } else { Err(format!("expected {wanted}, got {got}")) }
}

fn milliseconds(found: &Value) -> Result<Value, String> {
    let period: Period = found.as_str().ok_or("no duration")?.parse()?;
    Ok(json!(period.0.as_nanos() as f64 / 1e6))
}

/// Every word, in any case.
fn mentions(words: &Value, text: &str) -> Result<(), String> {
    let lower = text.to_lowercase();
    match texts(Some(words)).find(|word| !lower.contains(&renamed(word).to_lowercase())) {
        Some(word) => Err(format!("`{word}` is not in: {text}")),
        None => Ok(()),
    }
}

fn renamed(text: &str) -> String {
    text.replace("RECV", "sched")
}

fn text_of<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// One text or a list of them.
fn texts(value: Option<&Value>) -> impl Iterator<Item = String> {
    let list = match value {
        Some(Value::Array(items)) => items.clone(),
        Some(Value::Null) | None => Vec::new(),
        Some(one) => vec![one.clone()],
    };
    list.into_iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
}

fn object(value: &Value) -> Result<&serde_json::Map<String, Value>, String> {
    value.as_object().ok_or_else(|| "no object".to_owned())
}

fn pairs(case: &Value, key: &str) -> Result<BTreeMap<String, String>, String> {
    let Some(map) = case.get(key) else { return Ok(BTreeMap::new()) };
    let map = object(map)?.iter();
    Ok(map.map(|(key, value)| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))).collect())
}

fn files(case: &Value) -> Result<BTreeMap<String, Vec<u8>>, String> {
    Ok(pairs(case, "files")?.into_iter().map(|(name, text)| (name, renamed(&text).into_bytes())).collect())
}

/// The documents as bytes, RECV renamed.
fn documents(case: &Value) -> Result<Vec<Vec<u8>>, String> {
    let mut documents: Vec<Vec<u8>> = texts(case.get("config_files")).map(|text| renamed(&text).into_bytes()).collect();
    for hex in texts(case.get("config_files_hex")) {
        let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        let bytes: Result<Vec<u8>, _> = digits.chunks(2).map(byte).collect();
        let bytes = bytes.map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((first, tail)) = rest.split_first() {
            match rest.strip_prefix(b"RECV") {
                Some(after) => {
                    out.extend_from_slice(b"sched");
                    rest = after;
                }
                None => {
                    out.push(*first);
                    rest = tail;
                }
            }
        }
        documents.push(out);
    }
    Ok(documents)
}
