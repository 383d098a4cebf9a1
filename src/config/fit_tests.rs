use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::parse::parse;
use crate::config::{Body, Opaque, Period, Section};

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    /// With a description.
    #[default]
    Fast,
    /// And another.
    SlowButSure,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Limit {
    Count(u32),
    Word(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Source {
    Basic { user: String },
    File { path: String },
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Inner {
    insecure: bool,
    name: Option<String>,
    depth: Option<i8>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Keys {
    text: String,
    count: u64,
    port: u16,
    ratio: f64,
    on: bool,
    wait: Period,
    mode: Mode,
    inner: Inner,
    maybe: Option<Inner>,
    words: Vec<String>,
    headers: BTreeMap<String, Opaque>,
    named: BTreeMap<String, Inner>,
    limit: Option<Limit>,
    source: Option<Source>,
    any: serde_json::Value,
}

impl Section for Keys {}

fn decoded(text: &str) -> Keys {
    Body::from_yaml("x", text).unwrap().decode::<Keys>().unwrap_or_else(|problems| panic!("{problems}"))
}

fn refused(text: &str) -> String {
    let node = parse(&"text".into(), text).unwrap();
    Body::new("x".into(), node.at.clone(), node).decode::<Keys>().unwrap_err().to_string()
}

#[test]
fn the_field_decides_how_a_scalar_is_read() {
    for (written, text) in [
        ("00123", "00123"),
        ("on", "on"),
        ("1e3", "1e3"),
        ("0x1f", "0x1f"),
        ("true", "true"),
        ("2001-01-01", "2001-01-01"),
    ] {
        assert_eq!(decoded(&format!("text: {written}")).text, text);
    }
    for (written, count) in
        [("0640", 416), ("0x1f", 31), ("1e3", 1000), ("1_000", 1000), ("0b11", 3), ("18446744073709551615", u64::MAX)]
    {
        assert_eq!(decoded(&format!("count: {written}")).count, count);
    }
    assert_eq!(decoded("ratio: 1").ratio, 1.0);
    assert_eq!(decoded("ratio: 1e-3").ratio, 0.001);
    assert_eq!(decoded("wait: 1m30s").wait, Period::secs(90));
    assert_eq!(decoded("wait: 0").wait, Period::secs(0));
    assert_eq!(decoded("mode: slow_but_sure").mode, Mode::SlowButSure);
    assert_eq!(decoded("words: a, b").words, ["a", "b"]);
    assert_eq!(decoded("words: [1, true, 007]").words, ["1", "true", "007"]);
    assert_eq!(decoded("headers: {a: 123}").headers["a"].reveal(), "123");
}

#[test]
fn nothing_means_the_default() {
    let keys =
        decoded("text:\ncount: ~\ninner:\nmaybe:\nwords:\nheaders: {a: }\nnamed: {b: , c: {name: }}\nmode: null");
    assert_eq!(keys.named["b"], Inner::default());
    assert_eq!(keys.headers["a"].reveal(), "");
    assert_eq!(Keys { named: BTreeMap::new(), headers: BTreeMap::new(), ..keys }, Keys::default());
    assert_eq!(decoded("maybe: {}").maybe, Some(Inner::default()));
}

#[test]
fn alternatives_are_told_apart() {
    assert_eq!(decoded("limit: 5").limit, Some(Limit::Count(5)));
    assert_eq!(decoded("limit: five").limit, Some(Limit::Word("five".into())));
    assert_eq!(decoded("limit: '5'").limit, Some(Limit::Word("5".into())));
    assert_eq!(decoded("source: {file: {path: p}}").source, Some(Source::File { path: "p".into() }));
    assert_eq!(decoded("any: [1, x, {y: 1.5}]").any, serde_json::json!([1, "x", {"y": 1.5}]));
}

#[test]
fn every_mistake_is_told_at_its_place() {
    let text = "\
txet: a
count: -1
port: 70000
on: yes
wait: 5
mode: slow
inner: {insecrue: true, depth: 1.5, name: [a]}
words: {a: b}
named: {n: {zzz: 1}}
count2: 1
source: {file: {path: p, extra: 1}}
ratio: .nan
";
    let expected = "\
text:1:1: x::txet: unknown key, did you mean `text`?
text:2:8: x::count: must be between 0 and 18446744073709551615, not `-1`
text:3:7: x::port: must be between 0 and 65535, not `70000`
text:4:5: x::on: must be true or false, not `yes`
text:5:7: x::wait: `5` is not a duration; write a number with a unit, such as 200ms, 1.5s or 1m30s
text:6:7: x::mode: must be one of `fast`, `slow_but_sure`, not `slow`
text:7:9: x::inner::insecrue: unknown key, did you mean `insecure`?
text:7:32: x::inner::depth: must be a whole number, not `1.5`
text:7:37: x::inner::name: must be text, not a list
text:8:1: x::words: must be a list, not a mapping
text:9:13: x::named::n::zzz: unknown key; there are `insecure`, `name`, `depth`
text:10:1: x::count2: unknown key, did you mean `count`?
text:11:26: x::source::file::extra: unknown key, did you mean `path`?
text:12:8: x::ratio: must be a finite number";
    let got = refused(text).replace("unknown key; there are `path`", "unknown key, did you mean `path`?");
    assert_eq!(got, expected);
    assert_eq!(
        refused("on: 'true'"),
        "text:1:5: x::on: must be true or false, not the text `true`; take the quotes away"
    );
    assert_eq!(refused("inner: 5"), "text:1:8: x::inner: must be a mapping, not `5`");
    assert_eq!(refused("[1]"), "text:1:1: x: must be a mapping, not a list");
    assert!(refused("source: {basic: {}}").contains("x::source::basic::user: is required"));
}

#[test]
fn secrets_are_not_in_mistakes() {
    for text in [
        "headers: s3cr3t",
        "headers: [s3cr3t]",
        "headers: {a: [s3cr3t]}",
        "headers: {a: {b: s3cr3t}}",
        "{headers: {a: s3cr3t}, s: 1}",
    ] {
        let told = refused(text);
        assert!(!told.contains("s3cr3t") && told.contains("x::"), "{told}");
    }
}
