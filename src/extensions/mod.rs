//! The extensions: one folder or file each, named as in the YAML; this list is all that knows them.

pub mod basicauth;
pub mod bearertokenauth;
pub mod file_storage;
pub mod health_check;

use crate::pipeline::ExtensionFactory;

/// Every extension type.
pub const FACTORIES: &[&ExtensionFactory] =
    &[&basicauth::FACTORY, &bearertokenauth::FACTORY, &file_storage::FACTORY, &health_check::FACTORY];
