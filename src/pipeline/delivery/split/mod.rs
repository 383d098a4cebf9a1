//! Pure: cuts a request into parts, each with the resource and scope of what is in it.
//!
//! A trace is kept whole while it fits in one part; where it does not, its root goes in the first.

mod distribute;
mod outline;
mod plan;

use self::distribute::distribute;
use self::outline::outline;
use self::plan::plan;
use super::settings::Sizer;
use super::size;
use crate::pipeline::Data;

/// A request in parts.
#[derive(Debug, Clone)]
pub struct Split {
    /// Each at most as large as asked, in order.
    pub parts: Vec<Data>,
    /// Items that alone are larger, and are in no part.
    pub oversize_items: u64,
}

/// Cuts `data` into parts of at most `max` of the sizer's units (0: no limit). Cycles are never cut.
pub fn split(data: Data, max: u64, sizer: Sizer) -> Split {
    if max == 0 || sizer == Sizer::Requests || matches!(data, Data::Sched(_)) || size::weight(&data, sizer) <= max {
        return Split { parts: vec![data], oversize_items: 0 };
    }
    let mut outline = outline(&data);
    if sizer == Sizer::Items {
        outline.count_items();
    }
    let (places, parts) = plan(&outline, max);
    let oversize_items = places.iter().filter(|place| place.is_none()).count() as u64;
    Split { parts: distribute(data, &places, parts), oversize_items }
}

/// Two halves by number of items; the data itself where it has fewer than two or cannot be cut.
pub fn halve(data: Data) -> Result<(Data, Data), Data> {
    let items = data.items();
    if items < 2 || matches!(data, Data::Sched(_)) {
        return Err(data);
    }
    let places: Vec<_> = (0..items).map(|at| Some(usize::from(at >= items / 2))).collect();
    let mut halves = distribute(data, &places, 2).into_iter();
    match (halves.next(), halves.next()) {
        (Some(first), Some(second)) => Ok((first, second)),
        (Some(only), None) | (None, Some(only)) => Err(only),
        (None, None) => Err(Data::Traces(Vec::new())),
    }
}

#[cfg(test)]
mod tests;
