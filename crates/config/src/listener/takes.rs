//! What comes to a listener, which its protocol says.

/// What comes to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Internet mail of whoever connects.
    Mail,
    /// Internet mail of users: only who has logged in may send, and then to any domain. That takes encryption, and
    /// networks are no matter.
    MailOfUsers,
    /// Something else than internet mail. Who sends it has shown who it is, and may send to wherever a route leads.
    Foreign,
}
