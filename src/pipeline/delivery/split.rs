//! Pure: cuts a request into parts. (The byte planner follows.)

use crate::pipeline::Data;

/// Parts of at most `max_bytes` each, and the items that alone are larger.
pub fn split(data: Data, _max_bytes: u64) -> (Vec<Data>, Vec<Data>) {
    (vec![data], Vec::new())
}

/// Two halves by number of items; `None` where there is but one.
pub fn halve(_data: Data) -> Option<(Data, Data)> {
    None
}
