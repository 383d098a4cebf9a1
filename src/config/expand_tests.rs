use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;

use super::*;
use crate::config::parse::parse;

struct World(BTreeMap<&'static str, &'static str>);

impl Environment for World {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.0.get(name).map(OsString::from)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.get(path).map(|text| text.as_bytes().to_vec()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn expanded(text: &str, world: &[(&'static str, &'static str)]) -> Result<(Node, Vec<String>), String> {
    let world = World(world.iter().copied().collect());
    let mut node = parse(&"t.yaml".into(), text).unwrap();
    let mut expander = Expander::new(&world);
    expander.expand(&mut node);
    let shown = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
    if expander.problems.is_empty() {
        Ok((node, shown(&expander.warnings)))
    } else {
        Err(shown(&expander.problems).join("\n"))
    }
}

/// The text that a text field gets for a value in double quotes.
fn text(value: &str, world: &[(&'static str, &'static str)]) -> String {
    let (root, _) = expanded(&format!("k: '{value}'"), world).unwrap();
    root.get("k").unwrap().text().unwrap().to_owned()
}

#[test]
fn escapes_as_the_collector_has_them() {
    let world = [
        ("V", "value"),
        ("ONE", "here is 1 $$"),
        ("TWO", "here are 2 $$$"),
        ("NESTED", "${env:V} came"),
        ("PASSWORD", "qu$ack9!"),
    ];
    for (value, expected) in [
        ("$$V", "$V"),
        ("$$$$V", "$$V"),
        ("$$${V}", "$value"),
        ("some${V}text", "somevaluetext"),
        ("some$${V}text", "some${V}text"),
        ("$${ONE}$${TWO}", "${ONE}${TWO}"),
        ("text$$", "text$"),
        ("$$", "$"),
        ("$${1}$${env:2}", "${1}${env:2}"),
        ("$${env:${V}}", "${env:value}"),
        ("$${env:$${V}}", "${env:${V}}"),
        ("env:M}$${V}{", "env:M}${V}{"),
        ("$V", "$V"),
        ("${env:ONE}", "here is 1 $"),
        ("${env:TWO}", "here are 2 $$"),
        ("${env:NESTED}", "value came"),
        ("${env:NOPE:-d}", "d"),
        ("${env:NOPE:-$${env:NOPE}}", "${env:NOPE:-${env:NOPE}}"),
        ("${env:PASSWORD}", "qu$ack9!"),
        ("$${V}-${V}", "${V}-value"),
        ("${env:NOPE:-${env:V}}", "value"),
        ("a ${ b } c", "a ${ b } c"),
    ] {
        if value.contains("${ b }") {
            assert!(expanded(&format!("k: '{value}'"), &world).is_err());
        } else {
            assert_eq!(text(value, &world), expected, "{value}");
        }
    }
}

#[test]
fn a_whole_reference_gives_any_shape_and_keeps_its_text() {
    let (root, _) = expanded("k: '${env:A}'", &[("A", "{x: 0123, y: [a, b]} # c")]).unwrap();
    let k = root.get("k").unwrap();
    assert_eq!(k.get("x").unwrap().text(), Some("0123"));
    assert_eq!(k.get("y").unwrap().items().len(), 2);
    assert_eq!((k.text(), k.get("x").unwrap().at.column), (Some("{x: 0123, y: [a, b]} # c"), 4));
    assert_eq!(text("${env:A}", &[("A", "\"0123\"")]), "\"0123\"");
    assert_eq!(text("${env:A}", &[("A", "[\"a\",")]), "[\"a\",");
    assert_eq!(text("${env:A}", &[("A", "true # ${env:no.name}")]), "true");
    assert_eq!(text("x ${env:A}", &[("A", "The ${env:B} is"), ("B", "v ${env:C}"), ("C", "1")]), "x The v 1 is");
}

#[test]
fn maps_expand_inside_variables() {
    let world =
        [("A", "{e: \"${env:B}\", inline: \"inline ${env:B}\"}"), ("B", "{f: \"${env:C}\"}"), ("C", "{value: 123}")];
    let (root, _) = expanded("k: ${env:A}", &world).unwrap();
    let k = root.get("k").unwrap();
    assert_eq!(k.get("e").unwrap().get("f").unwrap().get("value").unwrap().text(), Some("123"));
    assert_eq!(k.get("inline").unwrap().text(), Some("inline {f: \"{value: 123}\"}"));
}

#[test]
fn files_keep_their_own_places() {
    let world = [("x.yaml", "a: 1\nb: ${env:V}\n"), ("token", "s3cr3t\n"), ("bad.yaml", "a: [\n"), ("V", "v")];
    let (root, _) = expanded("k: ${file:x.yaml}\nt: ${file:token}", &world).unwrap();
    let b = root.get("k").unwrap().get("b").unwrap();
    assert_eq!(b.text(), Some("v"));
    let a = root.get("k").unwrap().entry("a").unwrap();
    assert_eq!((a.at.file.as_ref(), a.at.line), ("x.yaml", 1));
    assert_eq!(root.get("t").unwrap().text(), Some("s3cr3t"));
    assert!(expanded("k: ${file:none.yaml}", &world).unwrap_err().contains("none.yaml: no such file"));
    assert!(expanded("k: ${file:bad.yaml}", &world).unwrap_err().starts_with("bad.yaml:"));
}

#[test]
fn mistakes_and_what_is_not_set() {
    let (root, warnings) = expanded("a:\n  k: ${env:NOPE}", &[]).unwrap();
    assert!(root.get("a").unwrap().get("k").unwrap().is_null());
    assert!(warnings[0].starts_with("t.yaml:2:6: a::k: environment variable `NOPE` is not set"), "{}", warnings[0]);
    for (value, word) in [
        ("${env:MY-VAR}", "`MY-VAR`"),
        ("${1}", "`1`"),
        ("${env:}", "``"),
        ("${http://x/y}", "`http:`"),
        ("${vault:x}", "`vault`"),
        ("${HOME:-x}", "${env:HOME:-x}"),
        ("${env:A}", "100 references"),
        ("x${env:A}", "100 references"),
        ("${env:L}", "a config"),
        ("${env:D}", "100 references"),
    ] {
        let mut world = vec![("A", "${env:A}"), ("L", "[\"${env:L}\", \"${env:L}\"]"), ("D", "${E}${E}")];
        world.push(("E", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx${env:D}"));
        let why = expanded(&format!("k: '{value}'"), &world).unwrap_err();
        assert!(why.contains(word), "{value}: {why}");
    }
}
