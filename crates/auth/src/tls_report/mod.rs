//! TLS reports to owners of domains about TLS to their hosts (RFC 8460).

mod counts;
mod record;
mod report;
mod session;

pub use counts::{Added, Counts, DETAILS_MAX, POLICIES_MAX};
pub use record::{
    DESTINATIONS_MAX, Destination, RECORD_BYTES_MAX, URI_BYTES_MAX, WebAddress, destinations,
    record_name,
};
pub use report::TlsReport;
pub use session::{
    Details, POLICY_BYTES_MAX, Policy, PolicyType, ResultType, TlsSession, VALUE_BYTES_MAX,
};

#[cfg(test)]
mod tests;
