//! Pure: which item goes in which part, by sizes alone.

use std::collections::{HashMap, HashSet};

/// One item: what it costs, under which headers it stands, what it belongs together with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    /// Cost of the item itself.
    pub(super) cost: u64,
    /// Indexes into [`Outline::headers`]: resource, scope and, for points, metric.
    pub(super) under: [Option<u32>; 3],
    /// Items of one group stay together while they fit.
    pub(super) group: Option<u64>,
    /// Goes first where its group must be cut.
    pub(super) leads: bool,
}

/// A request without its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outline {
    /// Cost of each resource, scope, metric, which every part that has items of it pays.
    pub(super) headers: Vec<u64>,
    /// The items in their order.
    pub(super) leaves: Vec<Leaf>,
}

impl Outline {
    /// Makes the costs numbers of items.
    pub(super) fn count_items(&mut self) {
        self.headers.fill(0);
        self.leaves.iter_mut().for_each(|leaf| leaf.cost = 1);
    }

    fn header(&self, at: u32) -> u64 {
        self.headers.get(at as usize).copied().unwrap_or(0)
    }
}

/// The part that is being filled.
struct Filling<'a> {
    outline: &'a Outline,
    max: u64,
    part: usize,
    cost: u64,
    headers: HashSet<u32>,
    places: Vec<Option<usize>>,
}

/// The part of each item (`None`: it alone exceeds `max`), and the number of parts.
pub(super) fn plan(outline: &Outline, max: u64) -> (Vec<Option<usize>>, usize) {
    let places = vec![None; outline.leaves.len()];
    let mut filling = Filling { outline, max, part: 0, cost: 0, headers: HashSet::new(), places };
    for group in groups(outline) {
        filling.add_group(&group);
    }
    let parts = filling.places.iter().flatten().max().map_or(0, |last| last + 1);
    (filling.places, parts)
}

/// Indexes of the items by group, groups in order of their first item.
fn groups(outline: &Outline) -> Vec<Vec<usize>> {
    let mut order: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<u64, usize> = HashMap::new();
    for (at, leaf) in outline.leaves.iter().enumerate() {
        let slot = match leaf.group {
            Some(group) => *known.entry(group).or_insert(order.len()),
            None => order.len(),
        };
        match order.get_mut(slot) {
            Some(group) => group.push(at),
            None => order.push(vec![at]),
        }
    }
    order
}

impl Filling<'_> {
    /// Cost of adding these items to a part that has `headers`.
    fn cost_of(&self, items: &[usize], headers: &HashSet<u32>) -> u64 {
        let mut added = HashSet::new();
        let leaves = items.iter().filter_map(|at| self.outline.leaves.get(*at));
        leaves.fold(0, |cost, leaf| {
            let news = leaf.under.into_iter().flatten().filter(|at| !headers.contains(at) && added.insert(*at));
            cost + leaf.cost + news.map(|at| self.outline.header(at)).sum::<u64>()
        })
    }

    fn begin_part(&mut self) {
        if self.cost > 0 {
            self.part += 1;
            self.cost = 0;
            self.headers.clear();
        }
    }

    fn put(&mut self, items: &[usize], cost: u64) {
        self.cost += cost;
        for at in items {
            if let Some(leaf) = self.outline.leaves.get(*at) {
                self.headers.extend(leaf.under.into_iter().flatten());
            }
            if let Some(place) = self.places.get_mut(*at) {
                *place = Some(self.part);
            }
        }
    }

    fn add_group(&mut self, group: &[usize]) {
        if self.try_add(group) {
            return;
        }
        let leads = |at: &usize| self.outline.leaves.get(*at).is_some_and(|leaf| leaf.leads);
        let (first, rest): (Vec<usize>, Vec<usize>) = group.iter().copied().partition(leads);
        for at in first.into_iter().chain(rest) {
            self.try_add(&[at]);
        }
    }

    /// Adds all of them to the part being filled, or to a new one; `false` where even that cannot hold them.
    fn try_add(&mut self, items: &[usize]) -> bool {
        let cost = self.cost_of(items, &self.headers);
        if self.cost + cost <= self.max {
            self.put(items, cost);
            return true;
        }
        let alone = self.cost_of(items, &HashSet::new());
        if alone > self.max {
            return false;
        }
        self.begin_part();
        self.put(items, alone);
        true
    }
}
