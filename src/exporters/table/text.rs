//! Pure: a table as text of a given width.

use std::fmt::Write as _;

use super::rows::{Row, Table};

/// What stands above and below the rows.
pub(crate) struct Frame {
    pub(crate) version: String,
    pub(crate) kernel: String,
    pub(crate) cpus: usize,
    /// Wall clock of the points, `12:00:10`.
    pub(crate) clock: String,
    /// Seconds that the differences cover.
    pub(crate) seconds: f64,
    /// What was sent, and to whom.
    pub(crate) sent: String,
    pub(crate) top: usize,
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s <= 0.0 => "-".into(),
        s if s < 0.0005 => format!("{:.0} us", s * 1e6),
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 1000.0 => format!("{s:.2} s"),
        s => format!("{s:.0} s"),
    }
}

pub(crate) fn culprits(row: &Row) -> String {
    let throttled = row.throttled.unwrap_or(0.0);
    if throttled > row.wait {
        return "(own quota)".into();
    }
    let all: f64 = row.culprits.iter().map(|(_, seconds)| seconds).sum();
    if all <= 0.0 {
        return "-".into();
    }
    let told = row.culprits.iter().filter(|(_, seconds)| seconds / all >= 0.05).take(3);
    let told: Vec<String> = told.map(|(who, seconds)| format!("{who} {:.0} %", seconds / all * 100.0)).collect();
    told.join(", ")
}

pub(crate) fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    let head: String = name.chars().take(width.saturating_sub(1)).collect();
    format!("{head}…")
}

/// The whole table, lines ended.
pub(crate) fn render(table: &Table, frame: &Frame) -> String {
    let mut out = String::new();
    let containers = table.rows.len();
    let head = format!(
        "schedscope {}  kernel {}  {}  {} CPUs  {containers} {}",
        frame.version,
        frame.kernel,
        table.backend,
        frame.cpus,
        if containers == 1 { "owner" } else { "owners" },
    );
    let _ = writeln!(out, "{head:<76}  {}, last {:.0} s", frame.clock, frame.seconds);
    let width = table.rows.iter().take(frame.top).map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(20, 44);
    let _ = writeln!(
        out,
        "{:<width$} {:>9} {:>9} {:>10} {:>7} {:>7} {:>11}   WHO HAD THE CPU",
        "CONTAINER, UNIT", "RUN", "WAIT", "THROTTLED", "INVOL", "VOL", "WORST WAIT"
    );
    for row in table.rows.iter().take(frame.top) {
        let starving = if row.starving > 0.0 { format!("; {:.0} still waiting", row.starving) } else { String::new() };
        let _ = writeln!(
            out,
            "{:<width$} {:>9} {:>9} {:>10} {:>7.0} {:>7.0} {:>11}   {}{starving}",
            cut(&row.name, width),
            time(row.run),
            time(row.wait),
            row.throttled.map_or_else(|| "n/a".to_owned(), time),
            row.involuntary,
            row.voluntary,
            time(row.longest),
            culprits(row),
        );
    }
    if containers > frame.top {
        let _ = writeln!(out, "and {} more", containers - frame.top);
    }
    // a cycle over the rate of `select` is no loss: it is in the totals, and was not to be a span
    let (limited, lost): (Vec<_>, Vec<_>) = table.losses.iter().partition(|(reason, _)| reason == "rate_limited");
    let lost: Vec<String> = lost.iter().map(|(reason, count)| format!("{count:.0} {reason}")).collect();
    let lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
    let limited = limited.first().map(|(_, count)| format!("  (over the span rate: {count:.0} cycles)"));
    let _ = writeln!(out, "losses: {lost}{}    {}", limited.unwrap_or_default(), frame.sent);
    out
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    /// Check that a person can read it: worst first, `-` for none, `n/a` for not measurable.
    #[test]
    fn sketch() {
        let row = |name: &str, run, wait, throttled| Row {
            name: name.into(),
            run,
            wait,
            throttled,
            involuntary: 412.0,
            voluntary: 3.0,
            longest: 0.0121,
            ..Row::default()
        };
        let mut neighbour = row("batch-7f2 (docker)", 8.02, 1.9, Some(0.0));
        neighbour.culprits = vec![("shop/web-0/app".into(), 0.61), ("kernel".into(), 0.39)];
        let table = Table {
            rows: vec![row("shop/web-0/app", 1.98, 0.04, Some(7.91)), neighbour, row("ssh.service", 0.0004, 0.0, None)],
            backend: "tp_btf".into(),
            ..Table::default()
        };
        let frame = Frame {
            version: "0.1.0".into(),
            kernel: "6.18".into(),
            cpus: 2,
            clock: "12:00:10".into(),
            seconds: 10.0,
            sent: "sent: 212 spans, 140 points".into(),
            top: 20,
        };
        expect![[r#"
            schedscope 0.1.0  kernel 6.18  tp_btf  2 CPUs  3 owners                       12:00:10, last 10 s
            CONTAINER, UNIT            RUN      WAIT  THROTTLED   INVOL     VOL  WORST WAIT   WHO HAD THE CPU
            shop/web-0/app          1.98 s    0.04 s     7.91 s     412       3      0.01 s   (own quota)
            batch-7f2 (docker)      8.02 s    1.90 s          -     412       3      0.01 s   shop/web-0/app 61 %, kernel 39 %
            ssh.service             400 us         -        n/a     412       3      0.01 s   -
            losses: none    sent: 212 spans, 140 points
        "#]]
        .assert_eq(&render(&table, &frame));
    }
}
