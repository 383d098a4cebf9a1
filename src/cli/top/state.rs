//! Pure: what a person has chosen to see, and what the keys do to it.

use std::collections::{HashMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::feed::Reading;
use super::threads::Thread;
use crate::exporters::table::rows::{Bucket, Row, Table};

/// Readings that the sparklines hold.
pub(super) const HISTORY: usize = 60;

/// What the rows are ordered by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// Waited and throttled.
    #[default]
    Pain,
    Run,
    Wait,
    Throttled,
    Switches,
    Name,
}

impl Order {
    const ALL: [Self; 6] = [Self::Pain, Self::Run, Self::Wait, Self::Throttled, Self::Switches, Self::Name];

    /// As the header calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pain => "wait + throttled",
            Self::Run => "run",
            Self::Wait => "wait",
            Self::Throttled => "throttled",
            Self::Switches => "switches",
            Self::Name => "name",
        }
    }

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Self::ALL.get(at + 1).copied().unwrap_or_default()
    }

    fn key(self, row: &Row) -> f64 {
        let throttled = row.throttled.unwrap_or(0.0);
        match self {
            Self::Pain => row.wait + throttled,
            Self::Run => row.run,
            Self::Wait => row.wait,
            Self::Throttled => throttled,
            Self::Switches => row.voluntary + row.involuntary,
            Self::Name => 0.0,
        }
    }
}

/// What the caller has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// An owner was opened: its threads are to be read.
    Opened,
}

/// What is on the screen beside the list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    List,
    /// One owner, by id and name.
    Owner(String, String),
    Help,
    /// A filter is typed.
    Filter,
}

/// The past of one owner: waited and throttled of each reading, and waits by length in all of them.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) pain: VecDeque<f64>,
    pub(super) waits: Vec<Bucket>,
    seen: u64,
}

/// All of it.
#[derive(Default)]
pub(super) struct State {
    pub(super) reading: Option<Reading>,
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) paused: bool,
    pub(super) mode: Mode,
    pub(super) selected: usize,
    pub(super) threads: Vec<Thread>,
    pub(super) losses: Vec<(String, f64)>,
    past: HashMap<String, Past>,
    readings: u64,
}

impl State {
    /// Takes a reading; while paused only the past grows.
    pub(super) fn take(&mut self, reading: Reading) {
        self.readings += 1;
        for row in &reading.table.rows {
            let past = self.past.entry(key(row)).or_default();
            let missed = self.readings - 1 - past.seen;
            past.pain.extend((0..missed.min(HISTORY as u64)).map(|_| 0.0));
            past.pain.push_back((row.wait + row.throttled.unwrap_or(0.0)) / reading.seconds.max(0.001));
            while past.pain.len() > HISTORY {
                past.pain.pop_front();
            }
            past.seen = self.readings;
            add(&mut past.waits, &row.waits);
        }
        // who has done nothing for the whole of a sparkline is forgotten
        let readings = self.readings;
        self.past.retain(|_, past| readings - past.seen < HISTORY as u64);
        for (reason, count) in &reading.table.losses {
            match self.losses.iter_mut().find(|(known, _)| known == reason) {
                Some((_, all)) => *all += count,
                None => self.losses.push((reason.clone(), *count)),
            }
        }
        if !self.paused {
            self.reading = Some(reading);
        }
    }

    /// The rows as they are shown.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let all = self.table().into_iter().flat_map(|table| &table.rows);
        let filter = self.filter.to_lowercase();
        let mut rows: Vec<&Row> = all.filter(|row| row.name.to_lowercase().contains(&filter)).collect();
        match self.order {
            Order::Name => rows.sort_by(|a, b| a.name.cmp(&b.name)),
            order => rows.sort_by(|a, b| order.key(b).total_cmp(&order.key(a)).then(b.run.total_cmp(&a.run))),
        }
        rows
    }

    /// The table in view.
    pub(super) fn table(&self) -> Option<&Table> {
        self.reading.as_ref().map(|reading| &reading.table)
    }

    /// What is known of a row's past.
    pub(super) fn past(&self, row: &Row) -> Option<&Past> {
        self.past.get(&key(row))
    }

    /// The id of the owner that is opened; the host has none.
    pub(super) fn opened(&self) -> Option<String> {
        match &self.mode {
            Mode::Owner(id, _) if !id.is_empty() => Some(id.clone()),
            _ => None,
        }
    }

    /// What a key does.
    pub(super) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Action {
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        if self.mode == Mode::Filter {
            self.typed(code);
            return Action::None;
        }
        match code {
            KeyCode::Char('q') if self.mode == Mode::List => return Action::Quit,
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.back(),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Down | KeyCode::Char('j') => self.selected = self.selected.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = self.selected.saturating_add(10),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(10),
            KeyCode::Home => self.selected = 0,
            KeyCode::Enter | KeyCode::Right if self.mode == Mode::List => {
                let chosen = self.rows().get(self.selected).map(|row| (row.id.clone(), row.name.clone()));
                if let Some((id, name)) = chosen {
                    self.mode = Mode::Owner(id, name);
                    self.threads.clear();
                    return Action::Opened;
                }
            }
            _ => {}
        }
        self.selected = self.selected.min(self.rows().len().saturating_sub(1));
        Action::None
    }

    fn back(&mut self) {
        if self.mode == Mode::List {
            self.filter.clear();
        }
        self.mode = Mode::List;
    }

    fn typed(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Enter => self.mode = Mode::List,
            _ => {}
        }
        self.selected = 0;
    }
}

/// Who a row is about from one reading to the next.
fn key(row: &Row) -> String {
    if row.id.is_empty() { row.name.clone() } else { row.id.clone() }
}

fn add(all: &mut Vec<Bucket>, more: &[Bucket]) {
    if all.len() != more.len() {
        *all = more.to_vec();
        return;
    }
    for (mine, theirs) in all.iter_mut().zip(more) {
        mine.count += theirs.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(rows: &[(&str, f64, f64)]) -> Reading {
        let row = |(name, run, wait): &(&str, f64, f64)| Row {
            name: (*name).into(),
            id: format!("{name}-id"),
            run: *run,
            wait: *wait,
            waits: vec![Bucket { below: None, count: 1 }],
            ..Row::default()
        };
        Reading { table: Table { rows: rows.iter().map(row).collect(), ..Table::default() }, seconds: 1.0 }
    }

    fn press(state: &mut State, keys: &str) -> Action {
        keys.chars().fold(Action::None, |_, key| match key {
            '\n' => state.key(KeyCode::Enter, KeyModifiers::NONE),
            '<' => state.key(KeyCode::Esc, KeyModifiers::NONE),
            key => state.key(KeyCode::Char(key), KeyModifiers::NONE),
        })
    }

    fn names(state: &State) -> Vec<&str> {
        state.rows().iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn sorted_filtered_opened() {
        let mut state = State::default();
        state.take(reading(&[("web", 1.0, 0.1), ("batch", 2.0, 0.5), ("mail", 0.1, 0.0)]));
        assert_eq!(names(&state), ["batch", "web", "mail"]);
        press(&mut state, "ss");
        assert_eq!((state.order, names(&state)), (Order::Wait, vec!["batch", "web", "mail"]));
        press(&mut state, "/MA\n");
        assert_eq!(names(&state), ["mail"]);
        assert_eq!(press(&mut state, "\n"), Action::Opened);
        assert_eq!(state.opened().as_deref(), Some("mail-id"));
        press(&mut state, "<<");
        assert_eq!((state.mode.clone(), names(&state).len()), (Mode::List, 3));
        assert_eq!(press(&mut state, "jjjjj"), Action::None);
        assert_eq!(state.selected, 2);
        assert_eq!(press(&mut state, "q"), Action::Quit);
    }

    #[test]
    fn the_past_goes_on_while_paused() {
        let mut state = State::default();
        state.take(reading(&[("web", 1.0, 0.1)]));
        press(&mut state, "p");
        state.take(reading(&[("batch", 1.0, 0.1)]));
        state.take(reading(&[("web", 1.0, 0.3)]));
        assert_eq!(names(&state), ["web"]);
        let row = state.rows()[0].clone();
        let past = state.past(&row).unwrap();
        assert_eq!(past.pain, [0.1, 0.0, 0.3]);
        assert_eq!(past.waits, [Bucket { below: None, count: 2 }]);
        for _ in 0..HISTORY {
            state.take(reading(&[]));
        }
        assert!(state.past(&row).is_none());
    }
}
