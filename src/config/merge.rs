//! Pure: one document laid over another.

use super::node::{Entry, Node, Value};

/// Lays `over` over `base`: maps join, everything else is replaced; nothing (null) erases, `{}` does not.
pub(super) fn merge(base: &mut Node, over: Node) {
    match (&mut base.value, over.value) {
        (Value::Map(entries), Value::Map(news)) => {
            for new in news {
                match entries.iter_mut().find(|entry| entry.key == new.key) {
                    Some(old) => {
                        merge(&mut old.value, new.value);
                        old.at = new.at;
                    }
                    None => entries.push(new),
                }
            }
        }
        (_, value) => *base = Node::new(over.at, value),
    }
}

/// Spreads keys with `::` at the top of a document into maps, as `a::b: v` stands for `{a: {b: v}}`.
pub(super) fn spread_keys(root: Node) -> Node {
    let Value::Map(entries) = root.value else { return root };
    let mut spread = Node::new(root.at, Value::map());
    for entry in entries {
        let mut parts: Vec<String> = entry.key.split("::").map(str::to_owned).collect();
        let Some(last) = parts.pop() else { continue };
        let at = entry.at;
        let innermost = Entry { key: last, at: at.clone(), value: entry.value };
        let branch = parts.into_iter().rev().fold(innermost, |inner, key| Entry {
            key,
            at: at.clone(),
            value: Node::new(at.clone(), Value::Map(vec![inner])),
        });
        let branch = Node::new(at.clone(), Value::Map(vec![branch]));
        merge(&mut spread, branch);
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse::parse;

    fn merged(documents: &[&str]) -> String {
        let mut base = Node::new(crate::config::Position::default(), Value::map());
        for text in documents {
            merge(&mut base, spread_keys(parse(&"t".into(), text).unwrap()));
        }
        drawn(&base)
    }

    fn drawn(node: &Node) -> String {
        match &node.value {
            Value::Scalar(scalar) => scalar.text.clone(),
            Value::List(items) => format!("[{}]", items.iter().map(drawn).collect::<Vec<_>>().join(",")),
            Value::Map(entries) => {
                let pairs: Vec<_> =
                    entries.iter().map(|entry| format!("{}:{}", entry.key, drawn(&entry.value))).collect();
                format!("{{{}}}", pairs.join(","))
            }
        }
    }

    #[test]
    fn maps_join_lists_replace_null_erases() {
        assert_eq!(merged(&["a: {b: 1, c: 2}", "a: {c: 3, d: 4}"]), "{a:{b:1,c:3,d:4}}");
        assert_eq!(merged(&["a: [1, 2]", "a: [3]"]), "{a:[3]}");
        assert_eq!(merged(&["a: {b: 1}", "a:"]), "{a:}");
        assert_eq!(merged(&["a: {b: 1}", "a: {}"]), "{a:{b:1}}");
        assert_eq!(merged(&["a:", "a: {b: 1}"]), "{a:{b:1}}");
        assert_eq!(merged(&["a: {b: 1}", "a: 5"]), "{a:5}");
    }

    #[test]
    fn keys_spread_at_the_top_only() {
        assert_eq!(merged(&["a::b::c: 1\na::b::d: 2\na: {e: 3}"]), "{a:{b:{c:1,d:2},e:3}}");
        assert_eq!(merged(&["a: {'x::y': 1}"]), "{a:{x::y:1}}");
    }
}
