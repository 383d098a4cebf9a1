use super::*;

fn tree(text: &str) -> Node {
    parse(&"a.yaml".into(), text).unwrap()
}

fn refusal(text: &str) -> String {
    parse(&"a.yaml".into(), text).err().unwrap().to_string()
}

#[test]
fn scalars_keep_text_style_and_place() {
    let root = tree("a: 0123\nb:\n  c: \"x\"\n  d: [1, yes]\n");
    let a = root.entry("a").unwrap();
    assert_eq!((a.value.text(), a.at.line, a.at.column, a.value.at.column), (Some("0123"), 1, 1, 4));
    assert_eq!(root.place_of("b::c").map(|at| (at.line, at.column)), Some((3, 6)));
    assert_eq!(root.place_of("b::d::1").map(|at| (at.line, at.column)), Some((4, 10)));
    assert_eq!(root.place_of("b").map(|at| (at.line, at.column)), Some((2, 1)));
    assert_eq!(root.place_of("b::none::x").map(|at| (at.line, at.column)), Some((2, 1)));
    assert_eq!(root.place_of("none"), None);
}

#[test]
fn merge_keys_lie_under_own_keys() {
    let root = tree("base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\nm: {<<: [*b, *o], x: 9}\n");
    let m = root.get("m").unwrap();
    let got: Vec<_> = m.entries().iter().map(|entry| (entry.key.as_str(), entry.value.text().unwrap())).collect();
    assert_eq!(got, [("x", "9"), ("y", "2"), ("z", "4")]);
    assert!(refusal("m: {<<: 5}").contains("takes a mapping"));
    assert_eq!(tree("m: {'<<': 5}").get("m").unwrap().entries()[0].key, "<<");
}

#[test]
fn mistakes_name_the_line() {
    assert_eq!(refusal("a: 1\nb: 2\na: 3\n"), "a.yaml:3:1: duplicate key `a`, first in line 1");
    assert_eq!(refusal("a:\n  b:\n\tc: 1\n"), "a.yaml:3:1: a tab in the indentation; YAML takes only spaces there");
    assert!(refusal("a: [1, 2\n").starts_with("a.yaml:"), "{}", refusal("a: [1, 2\n"));
    assert!(refusal("[a]: 1\n").contains("a key must be a word"));
    assert!(refusal("a: 1\n---\nb: 2\n").contains("second document"));
    assert!(refusal("a: !include x\n").contains("!include"));
    assert!(refusal("a: &x [*x]\n").contains("alias"));
    assert!(refusal("a: *nope\n").starts_with("a.yaml:1:"));
}

#[test]
fn byte_order_mark_and_carriage_returns_vanish() {
    let root = tree("\u{feff}a: b\r\nc:\r\n  d: e\r\n");
    assert_eq!(root.get("a").unwrap().text(), Some("b"));
    assert_eq!(root.get("c").unwrap().get("d").unwrap().text(), Some("e"));
}

#[test]
fn bombs_end_early() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..12 {
        let items = vec![format!("*a{}", level - 1); 10].join(",");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(refusal(&bomb).contains("values"));
    assert!(refusal(&"[".repeat(100)).contains("levels"));
    assert!(refusal(&"[".repeat(100_000)).contains("recursion"));
    assert!(refusal(&format!("a: {}", "x".repeat(DOCUMENT_BYTES_MAX))).contains("MiB"));
}

#[test]
fn empty_documents_are_null() {
    for text in ["", "# nothing\n", "---\n", "---\n...\n", "\u{feff}"] {
        assert!(tree(text).is_null(), "{text:?}");
    }
}

#[test]
fn bytes_that_are_no_text_are_placed() {
    let file: Arc<str> = "a.yaml".into();
    let problem = decode_utf8(&file, b"a: 1\nb: \xc3\x28\n".to_vec()).err().unwrap();
    assert_eq!(problem.to_string(), "a.yaml:2:4: not UTF-8; save it as UTF-8");
    assert!(decode_utf8(&file, b"\xff\xfea\0".to_vec()).err().unwrap().to_string().contains("UTF-16"));
}
