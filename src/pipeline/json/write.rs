//! Pure: JSON text, piece by piece.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    begun: bool,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, begun: false }
    }

    pub(super) fn close(self) {
        self.out.push(b'}');
    }

    /// A field with whatever `value` writes; the name is written as it is.
    pub(super) fn field(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        if std::mem::replace(&mut self.begun, true) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        value(self.out);
    }

    /// Text, unless empty.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.field(name, |out| text(out, value));
        }
    }

    /// An id in hex, unless empty.
    pub(super) fn id(&mut self, name: &str, id: &[u8]) {
        if !id.is_empty() {
            self.field(name, |out| hex(out, id));
        }
    }

    /// A 64-bit integer.
    pub(super) fn long(&mut self, name: &str, value: u64) {
        self.field(name, |out| quoted(out, value));
    }

    /// A small integer or an enum, unless 0.
    pub(super) fn number(&mut self, name: &str, value: i64) {
        if value != 0 {
            self.field(name, |out| out.extend_from_slice(value.to_string().as_bytes()));
        }
    }

    /// A truth, unless false.
    pub(super) fn flag(&mut self, name: &str, value: bool) {
        if value {
            self.field(name, |out| out.extend_from_slice(b"true"));
        }
    }

    /// A double, where there is one.
    pub(super) fn double(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.field(name, |out| double(out, value));
        }
    }

    /// A list, unless empty.
    pub(super) fn list<T>(&mut self, name: &str, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
        if !items.is_empty() {
            self.field(name, |out| list(out, items, write));
        }
    }
}

pub(super) fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

pub(super) fn text(out: &mut Vec<u8>, value: &str) {
    // Text into memory: the one error serde_json knows here is that of the writer, and a Vec has none.
    let _never = serde_json::to_writer(&mut *out, value);
}

/// An integer as text.
pub(super) fn quoted(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    out.push(b'"');
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'"');
}

pub(super) fn double(out: &mut Vec<u8>, value: f64) {
    match value {
        value if value.is_nan() => out.extend_from_slice(b"\"NaN\""),
        f64::INFINITY => out.extend_from_slice(b"\"Infinity\""),
        f64::NEG_INFINITY => out.extend_from_slice(b"\"-Infinity\""),
        // As above: no error can come.
        value => drop(serde_json::to_writer(&mut *out, &value)),
    }
}

fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
        }
    }
    out.push(b'"');
}

pub(super) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}
