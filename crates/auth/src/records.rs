//! DNS queries of the checks, performed by their caller.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;

/// No answer at present, with the reason: a later query may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The name servers gave none.
    NoAnswer(Box<str>),
    /// A local limit prevented the query, or the wait for its answer. Third parties can cause that, so no check passes
    /// by this result.
    OurLimit(Box<str>),
}

impl Unanswered {
    #[must_use]
    pub fn is_our_limit(&self) -> bool {
        matches!(self, Unanswered::OurLimit(_))
    }
}

/// The verdicts of a check by the names of RFC 8601, and those about which the DNS gave no answer.
macro_rules! verdicts {
    ($(#[$about:meta])* enum $type:ident { $($(#[$each:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$each])* $name,)*
            /// There was no answer.
            TempError,
            /// A limit of our own cut the check short ([`crate::records::Unanswered::OurLimit`]).
            CutShort,
        }

        impl $type {
            /// Of a check that got no answer.
            #[must_use]
            pub fn of(unanswered: &$crate::records::Unanswered) -> $type {
                if unanswered.is_our_limit() { $type::CutShort } else { $type::TempError }
            }

            /// The name in RFC 8601.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $($type::$name => $text,)*
                    $type::TempError | $type::CutShort => "temperror",
                }
            }
        }
    };
}
pub(crate) use verdicts;

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Unanswered::NoAnswer(why) | Unanswered::OurLimit(why)) = self;
        f.write_str(why)
    }
}

/// The records of a name, none if it has none or doesn't exist.
pub type DnsAnswer<T> = Result<Vec<T>, Unanswered>;

/// Address family of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The one of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }
}

/// DNS queries. Names are ASCII, without a final dot.
pub trait Records {
    /// TXT records, each with its character strings joined (RFC 7208 §3.3).
    fn txt(&self, name: &str) -> impl Future<Output = DnsAnswer<Vec<u8>>>;

    fn addresses(&self, host: &str, family: Family) -> impl Future<Output = DnsAnswer<IpAddr>>;

    /// The hosts of MX records, those first that are preferred.
    fn mail_hosts(&self, domain: &str) -> impl Future<Output = DnsAnswer<String>>;

    /// The names of an address (PTR).
    fn names(&self, address: IpAddr) -> impl Future<Output = DnsAnswer<String>>;
}

/// Returns true if `name` is `domain` or lies below it.
pub(crate) fn is_at_or_below(name: &str, domain: &str) -> bool {
    let Some(before) = name.len().checked_sub(domain.len()) else { return false };
    name.get(before..).is_some_and(|end| end.eq_ignore_ascii_case(domain))
        && (before == 0 || name.as_bytes()[before - 1] == b'.')
}
