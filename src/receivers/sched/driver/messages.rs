//! What libbpf says while it loads: kept for the error that may follow, and for the log at debug level.

use std::cell::RefCell;
use std::collections::VecDeque;

/// Lines kept; the verifier's reason stands at the end of its log.
const LINES: usize = 12;

thread_local! {
    // libbpf takes a bare function for its messages; loading happens on one thread, and only that thread reads
    static WARNINGS: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

// libbpf-rs hands the text over
#[allow(clippy::needless_pass_by_value)]
fn take(level: libbpf_rs::PrintLevel, text: String) {
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        tracing::debug!(target: "libbpf", "{line}");
        if level == libbpf_rs::PrintLevel::Warn {
            WARNINGS.with_borrow_mut(|lines| {
                if lines.len() == LINES {
                    lines.pop_front();
                }
                lines.push_back(line.to_owned());
            });
        }
    }
}

/// Listens to libbpf instead of letting it write to standard error.
pub(super) fn listen() {
    WARNINGS.with_borrow_mut(VecDeque::clear);
    libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Debug, take)));
}

/// What libbpf had to say about a program that did not load: the verifier's last word first.
pub(super) fn reason() -> Option<String> {
    WARNINGS.with_borrow(|lines| {
        let program = lines.iter().rev().find(|line| line.contains("prog '"))?;
        let end = lines.iter().position(|line| line.starts_with("processed ") || line.contains("END PROG LOAD LOG"));
        let word = end.and_then(|at| at.checked_sub(1)).and_then(|at| lines.get(at));
        let program = program.trim_start_matches("libbpf: ");
        Some(word.map_or_else(|| program.to_owned(), |word| format!("{program}; the verifier: {word}")))
    })
}
