//! An extension that is no more than an authenticator: what it signs with is tried at start.

use std::sync::Arc;

use async_trait::async_trait;

use crate::pipeline::{Authenticator, Extension, StartError};

/// The extension around a signature.
pub struct Signing<S>(Arc<S>);

impl<S: Authenticator> Signing<S> {
    /// Signs with this.
    pub fn new(signature: S) -> Self {
        Self(Arc::new(signature))
    }
}

#[async_trait]
impl<S: Authenticator + 'static> Extension for Signing<S> {
    async fn start(&self) -> Result<(), StartError> {
        self.0.headers().map(drop).map_err(StartError::new)
    }

    async fn shutdown(&self) {}

    fn authenticator(&self) -> Option<Arc<dyn Authenticator>> {
        Some(self.0.clone())
    }
}
