//! Whose tenants a client may name.

use mail::Refusal;
use mta::ingress::Session;

/// Whether this client may have its mail counted as this tenant's: whoever's steering is obeyed may name any.
///
/// # Errors
/// It may not.
pub(super) fn permit(_session: &Session, _tenant: &str) -> Result<(), Refusal> {
    Ok(())
}
