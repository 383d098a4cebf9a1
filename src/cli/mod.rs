//! The command line: one file per subcommand.

pub mod container;
pub mod replay;
