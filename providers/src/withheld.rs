//! Variables of this process's environment that programs started by it do not get.
//!
//! A variable cannot be taken out of one's own environment soundly once there are threads. So what is secret is
//! remembered by name, and left out wherever a program is started.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Remembers that `variable` holds a secret.
#[cfg(feature = "inline")]
pub(crate) fn withhold(variable: &str) {
    VARIABLES.lock().unwrap_or_else(PoisonError::into_inner).insert(variable.to_owned());
}

/// Whether `variable` is kept from other programs: whatever an [`EnvProvider`](crate::EnvProvider) was made for, and all
/// by which oneseal itself is configured.
#[cfg(feature = "kubernetes")]
pub(crate) fn is_withheld(variable: &str) -> bool {
    variable.starts_with(CONFIGURATION)
        || VARIABLES.lock().unwrap_or_else(PoisonError::into_inner).contains(variable)
}

/// Of the server's configuration; a key may be among it.
#[cfg(feature = "kubernetes")]
const CONFIGURATION: &str = "ONESEAL";

static VARIABLES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
