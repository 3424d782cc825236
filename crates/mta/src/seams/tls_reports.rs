//! Who is told what sessions with next hops have shown of TLS.

use auth::tls_report::Session;

/// Tells owners of domains of TLS to their hosts (RFC 8460).
pub trait TlsReports: 'static {
    /// Whether sessions are counted now.
    fn is_on(&self) -> bool;

    /// Counts a session. Nobody waits for that.
    fn note(&self, session: Session);

    /// So many sessions are not counted, for there are too many.
    fn leave_out(&self, count: u64);
}

/// Nobody is told anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTlsReports;

impl TlsReports for NoTlsReports {
    fn is_on(&self) -> bool {
        false
    }

    fn note(&self, _: Session) {}

    fn leave_out(&self, _: u64) {}
}
