//! What must never be shown.

use std::fmt;

/// A password, token or identity. No `Display`, and a `Debug` that shows nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// For putting it on the wire, nowhere else.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}
