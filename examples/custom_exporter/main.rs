//! An agent with a component of one's own: all of schedscope, and the exporter `alert`.

mod alert;

use std::process::ExitCode;

use schedscope::components::COMPONENTS;
use schedscope::pipeline::Components;

fn main() -> ExitCode {
    let exporters = [COMPONENTS.exporters, &[&alert::FACTORY]].concat();
    schedscope::cli::main(&Components { exporters: exporters.leak(), ..COMPONENTS })
}
