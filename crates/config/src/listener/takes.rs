//! Kinds of input of a listener, determined by its protocol.

/// Kind of input of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Internet mail from any client.
    Mail,
    /// Internet mail of users: only authenticated clients may send, to any domain. Requires encryption; networks are
    /// ignored.
    MailOfUsers,
    /// Internet mail of users of this machine, at a Unix socket: each client has a user id, and may send to any domain.
    LocalMail,
    /// Other input than internet mail. The sender is authenticated, and may send to any destination of a route.
    Foreign,
}
