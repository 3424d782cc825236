//! LDAP for clients (RFC 4511), without I/O: requests are written to bytes, and responses are read
//! from bytes.
//!
//! A filter ([`Filter`]) and a name ([`DnTemplate`]) are read once, with places for parts of a
//! [`Key`]. A filter is sent as a tree, not as text, so a key is always a value, whatever its
//! characters. The placeholders are those of Postfix's tables. Tables of other kinds use [`Template`] and
//! [`KeyComponent`] too.

mod ber;
mod control;
mod dn;
mod filter;
mod key;
mod outcome;
mod request;
mod response;

pub use ber::{Malformed, frame};
pub use control::{
    EntryState, EntryUuid, RequestControl, ResponseControl, SYNC_OID, SyncInfo, SyncNews,
};
pub use dn::{DnTemplate, normalise};
pub use filter::{Filter, Keyed};
pub use key::{Key, KeyComponent, Template, TemplateError};
pub use outcome::{Outcome, code};
pub use request::{BindAs, Scope, Search, abandon, bind, start_tls, unbind};
pub use response::{Attribute, Entry, Op, Response};
