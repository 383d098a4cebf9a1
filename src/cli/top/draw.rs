//! Puts the state on a screen of any size, 80 columns and no colour included.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Clear, Paragraph, Row as TableRow, Table as TableWidget, TableState};

use super::histogram::{bars, lines};
use super::state::{Mode, State};
use crate::exporters::table::rows::Row;
use crate::exporters::table::text::{culprits, cut, time};

const KEYS: &str = " q quit  ↑↓ choose  Enter open  s sort  / filter  p pause  ? help";
const HELP: &str = "\
Who ran, who waited for a CPU, who was throttled by its own quota, and who had
the CPU meanwhile: per container, and per systemd unit for what is in none.
Times are thread-seconds of the last interval; two threads can wait two seconds
in one.

RUN         on a CPU
WAIT        runnable, but another had the CPU
THROTTLED   runnable, but the quota was used up; n/a where the kernel does not tell
WORST       the longest wait of the interval
TREND       wait and throttled of the last readings, the newest on the right

↑ ↓ j k  choose          Enter →  open: waits by length, culprits, threads
s  sort by another       /  filter by name, Esc ends it
p  pause                 Esc ← q  back, q in the list quits

Press Esc.";

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(3), Constraint::Length(1)]).areas(frame.area());
    frame.render_widget(Paragraph::new(title(state)), head);
    frame.render_widget(Paragraph::new(footer(state)), foot);
    match state.mode.clone() {
        Mode::Owner(id, name) => owner(frame, body, state, &id, &name),
        mode => {
            list(frame, body, state);
            if mode == Mode::Help {
                help(frame, body);
            }
        }
    }
}

fn title(state: &State) -> Line<'static> {
    let Some(reading) = &state.reading else { return Line::from("schedscope top: measuring the first interval") };
    let of = reading.frame(0);
    let paused = if state.paused { "  PAUSED" } else { "" };
    let text = format!(
        "schedscope {}  kernel {}  {}  {} CPUs  {} owners  {}, last {:.1} s  by {}{paused}",
        of.version,
        of.kernel,
        reading.table.backend,
        of.cpus,
        reading.table.rows.len(),
        of.clock,
        of.seconds,
        state.order.name(),
    );
    Line::styled(text, Style::new().add_modifier(Modifier::BOLD))
}

fn footer(state: &State) -> Line<'static> {
    if state.mode == Mode::Filter || !state.filter.is_empty() {
        let cursor = if state.mode == Mode::Filter { "_" } else { "  (Esc: all)" };
        return Line::from(format!(" filter: {}{cursor}", state.filter));
    }
    let lost: Vec<String> = state
        .losses
        .iter()
        .filter(|(reason, _)| reason != "rate_limited")
        .map(|(why, n)| format!("{n:.0} {why}"))
        .collect();
    let lost = if lost.is_empty() { String::new() } else { format!("   losses: {}", lost.join(", ")) };
    Line::from(format!("{KEYS}{lost}"))
}

/// One column: its title, its width, and what it says of a row.
struct Column {
    title: &'static str,
    width: usize,
    says: fn(&State, &Row, usize) -> String,
}

/// The columns between the name and who had the CPU; the first width has room for all of them.
fn columns(is_wide: bool) -> Vec<Column> {
    let width = |wide, narrow| if is_wide { wide } else { narrow };
    let mut columns = vec![
        Column { title: "RUN", width: 8, says: |_, row, _| time(row.run) },
        Column { title: "WAIT", width: 8, says: |_, row, _| time(row.wait) },
        Column { title: "THROTTLED", width: 9, says: |_, row, _| row.throttled.map_or_else(|| "n/a".to_owned(), time) },
        Column { title: "WORST", width: 8, says: |_, row, _| time(row.longest) },
        Column { title: "TREND", width: width(20, 6), says: trend },
    ];
    if is_wide {
        let says = |_: &State, row: &Row, _| format!("{:.0}", row.voluntary + row.involuntary);
        columns.insert(3, Column { title: "SWITCHES", width: 8, says });
    }
    columns
}

fn trend(state: &State, row: &Row, width: usize) -> String {
    let Some(past) = state.past(row) else { return String::new() };
    bars(past.pain.iter().copied().skip(past.pain.len().saturating_sub(width)))
}

fn list(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let is_wide = area.width >= 110;
    let columns = columns(is_wide);
    let rows = state.rows();
    let line = |row: &&Row| {
        let starving = if row.starving > 0.0 { format!("{:.0} still waiting; ", row.starving) } else { String::new() };
        let told = columns.iter().map(|column| right(&(column.says)(state, row, column.width), column.width));
        let all = std::iter::once(cut(&row.name, name_width(&rows, is_wide))).chain(told);
        TableRow::new(all.chain([format!("{starving}{}", culprits(row))]))
    };
    let head = columns.iter().map(|column| right(column.title, column.width));
    let head = std::iter::once("CONTAINER, UNIT".to_owned()).chain(head).chain(["WHO HAD THE CPU".to_owned()]);
    let widths = std::iter::once(name_width(&rows, is_wide)).chain(columns.iter().map(|column| column.width));
    let widths = widths.map(|width| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    let count = rows.len();
    let table = TableWidget::new(rows.iter().map(line), widths.chain([Constraint::Min(16)]))
        .header(TableRow::new(head).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    state.selected = state.selected.min(count.saturating_sub(1));
    let mut chosen = TableState::new().with_selected((count > 0).then_some(state.selected));
    frame.render_stateful_widget(table, area, &mut chosen);
}

fn name_width(rows: &[&Row], is_wide: bool) -> usize {
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    longest.clamp(15, if is_wide { 40 } else { 16 })
}

fn right(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn owner(frame: &mut Frame<'_>, area: Rect, state: &State, id: &str, name: &str) {
    let row = state.table().and_then(|table| table.rows.iter().find(|row| row.id == id && row.name == name));
    let [sums, middle, below] =
        Layout::vertical([Constraint::Length(4), Constraint::Length(12), Constraint::Min(4)]).areas(area);
    let [left, side] = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(middle);
    frame.render_widget(Paragraph::new(facts(row)).block(boxed(name)), sums);
    let past = row.and_then(|row| state.past(row));
    let waits = past.map(|past| lines(&past.waits, usize::from(left.width).saturating_sub(22))).unwrap_or_default();
    frame.render_widget(
        several(waits, "no wait since top began").block(boxed("waits by length, since top began")),
        left,
    );
    frame.render_widget(
        several(row.map(who).unwrap_or_default(), "nobody in this interval").block(boxed("who had the CPU")),
        side,
    );
    frame.render_widget(threads(state, id, below), below);
}

fn boxed(title: &str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(format!(" {title} "))
}

fn several(lines: Vec<String>, none: &str) -> Paragraph<'static> {
    let lines = if lines.is_empty() { vec![none.to_owned()] } else { lines };
    Paragraph::new(Text::from_iter(lines))
}

fn facts(row: Option<&Row>) -> Text<'static> {
    let Some(row) = row else { return Text::from("did nothing in this interval") };
    Text::from_iter([
        format!(
            "run {}   wait {}   throttled {}   worst wait {}",
            time(row.run),
            time(row.wait),
            row.throttled.map_or_else(|| "n/a".to_owned(), time),
            time(row.longest)
        ),
        format!(
            "switches: {:.0} voluntary, {:.0} involuntary   still waiting: {:.0}   {}",
            row.voluntary, row.involuntary, row.starving, row.id
        ),
    ])
}

fn who(row: &Row) -> Vec<String> {
    let all: f64 = row.culprits.iter().map(|(_, seconds)| seconds).sum();
    let shown = row.culprits.iter().filter(|(_, seconds)| *seconds > 0.0);
    shown.map(|(name, seconds)| format!("{:>4.0} %  {:>9}  {name}", seconds / all * 100.0, time(*seconds))).collect()
}

fn threads(state: &State, id: &str, area: Rect) -> Paragraph<'static> {
    if id.is_empty() {
        return Paragraph::new("what is in no container and no unit; its threads are not listed")
            .block(boxed("threads"));
    }
    let head =
        format!("{:>8} {:>8} {:<16} S {:>6} {:>16} {:>8}", "PID", "TID", "NAME", "RUN", "WAIT+THROTTLED", "SLICES");
    let room = usize::from(area.height).saturating_sub(2);
    let lines = state.threads.iter().take(room).map(|thread| {
        let (run, delay) = (thread.run * 100.0, thread.delay * 100.0);
        format!(
            "{:>8} {:>8} {:<16} {} {run:>4.0} % {delay:>14.0} % {:>8}",
            thread.pid, thread.tid, thread.name, thread.state, thread.runs
        )
    });
    let text = Text::from_iter(std::iter::once(head).chain(lines));
    Paragraph::new(text).block(boxed("threads, by their own counters: per cent of the time since the last look"))
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (84.min(area.width), 20.min(area.height));
    let place = Rect::new(area.x + (area.width - width) / 2, area.y + (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::new().borders(Borders::ALL).title(" help ")), place);
}
