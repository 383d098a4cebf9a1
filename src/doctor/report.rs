//! Pure: a report as text for a person, and as JSON.

use std::fmt::Write;

use serde_json::{Value, json as object};

use super::Report;
use super::finding::{Finding, Grade};
use super::verify::{Outcome, Row};

/// For a person.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let width = report.findings.iter().map(|finding| finding.about.len()).max().unwrap_or(0);
    for finding in &report.findings {
        let _ = writeln!(text, "{:<7}  {:<width$}  {}", finding.grade.word(), finding.about, finding.found);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "{:7}  {:<width$}  do: {remedy}", "", "");
        }
    }
    if !report.rows.is_empty() {
        table(&mut text, &report.rows);
    }
    let _ = writeln!(text, "\n{}", verdict(report));
    text
}

fn table(text: &mut String, rows: &[Row]) {
    let whose = rows.iter().map(|row| row.whose.len()).max().unwrap_or(0);
    let what = rows.iter().map(|row| row.what.len()).max().unwrap_or(0);
    let _ = writeln!(
        text,
        "\n         {:<whose$}  {:<what$}  {:>14}  {:>14}  {:>9}  {:>9}",
        "WHOSE", "WHAT", "OURS", "THE KERNEL'S", "OFF BY", "BOUND"
    );
    for row in rows {
        let word = match (&row.outcome, row.is_within()) {
            (Outcome::NotCompared(_), _) => "n/a",
            (_, true) => "ok",
            (_, false) => "off",
        };
        let _ = match &row.outcome {
            Outcome::Compared { ours, kernel, bound } => writeln!(
                text,
                "{word:<7}  {:<whose$}  {:<what$}  {:>14}  {:>14}  {:>9}  {:>9}",
                row.whose,
                row.what,
                number(*ours, row.unit),
                number(*kernel, row.unit),
                share((ours - kernel).abs(), *kernel),
                share(*bound, *kernel),
            ),
            Outcome::NotCompared(why) | Outcome::Failed(why) => {
                writeln!(text, "{word:<7}  {:<whose$}  {:<what$}  {why}", row.whose, row.what)
            }
        };
    }
}

/// Seconds with microseconds, counts as they are.
fn number(value: f64, unit: &str) -> String {
    if unit == "s" { format!("{value:.6} s") } else { format!("{value:.0}") }
}

fn share(part: f64, whole: f64) -> String {
    if part == 0.0 {
        return "0".to_owned();
    }
    if whole == 0.0 { "-".to_owned() } else { format!("{:.3} %", part / whole * 100.0) }
}

fn verdict(report: &Report) -> String {
    let missing: Vec<&str> = about(&report.findings, Grade::Missing);
    if !missing.is_empty() {
        return format!("this host cannot be measured: {}", missing.join(", "));
    }
    let off = report.rows.iter().filter(|row| !row.is_within()).count();
    let compared = report.rows.iter().filter(|row| !matches!(row.outcome, Outcome::NotCompared(_))).count();
    if off > 0 {
        return format!("{off} of {compared} numbers are off by more than their bound");
    }
    let less = about(&report.findings, Grade::Less);
    let mut verdict = "this host can be measured".to_owned();
    if !less.is_empty() {
        let _ = write!(verdict, ", with less: {}", less.join(", "));
    }
    if compared > 0 {
        let _ = write!(verdict, "; {compared} numbers agree with the kernel's");
    }
    verdict
}

fn about(findings: &[Finding], grade: Grade) -> Vec<&'static str> {
    findings.iter().filter(|finding| finding.grade == grade).map(|finding| finding.about).collect()
}

/// For programs.
pub fn json(report: &Report) -> String {
    let findings: Vec<Value> = report.findings.iter().map(finding_json).collect();
    let rows: Vec<Value> = report.rows.iter().map(row_json).collect();
    let mut all = object!({"good": report.is_good(), "findings": findings});
    if !rows.is_empty()
        && let Some(all) = all.as_object_mut()
    {
        all.insert("verify".to_owned(), rows.into());
    }
    format!("{all:#}\n")
}

fn finding_json(finding: &Finding) -> Value {
    object!({
        "about": finding.about,
        "grade": finding.grade.word(),
        "found": finding.found,
        "remedy": finding.remedy,
    })
}

fn row_json(row: &Row) -> Value {
    let head = |outcome: Value| object!({"whose": row.whose, "what": row.what, "unit": row.unit, "outcome": outcome});
    match &row.outcome {
        Outcome::Compared { ours, kernel, bound } => head(object!({
            "ours": ours, "kernel": kernel, "bound": bound, "within": row.is_within(),
        })),
        Outcome::NotCompared(why) => head(object!({"not_compared": why})),
        Outcome::Failed(why) => head(object!({"failed": why})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let outcome = |ours, kernel, bound| Outcome::Compared { ours, kernel, bound };
        let row = |what, outcome| Row { whose: "burners".into(), what, unit: "s", outcome };
        Report {
            findings: vec![
                Finding::ok("kernel", "Linux 6.18"),
                Finding::less("runtimes", "docker: it does not answer", "start it"),
            ],
            rows: vec![
                row("running", outcome(2.0, 2.0, 0.02)),
                row("throttled", Outcome::NotCompared("no quota".into())),
            ],
        }
    }

    #[test]
    fn a_person_reads_what_is_less_and_what_was_compared() {
        let mut report = report();
        let text = text(&report);
        assert!(text.contains("do: start it"), "{text}");
        assert!(text.contains("n/a      burners  throttled  no quota"), "{text}");
        assert!(text.ends_with("this host can be measured, with less: runtimes; 1 numbers agree with the kernel's\n"));
        report.rows.push(Row { outcome: Outcome::Failed("broken".into()), ..report.rows[0].clone() });
        assert!(super::text(&report).ends_with("1 of 2 numbers are off by more than their bound\n"));
        assert!(!report.is_good());
    }

    #[test]
    fn a_program_reads_the_same() {
        let value: Value = serde_json::from_str(&json(&report())).unwrap();
        assert_eq!(value["good"], true);
        assert_eq!(value["verify"][0]["outcome"]["within"], true);
        assert_eq!(value["verify"][1]["outcome"]["not_compared"], "no quota");
        assert_eq!(value["findings"][1]["grade"], "less");
    }
}
