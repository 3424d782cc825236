//! Delivery status notifications (RFC 3461, RFC 3462, RFC 3464, RFC 6533).

pub mod xtext;
