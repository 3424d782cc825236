//! A set-up, written for both servers.

use std::net::Ipv4Addr;

/// The client of `mynetworks` and `relay_from`.
pub(super) use crate::interop::restrictions::FRIEND;

pub(super) const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Words of conversations.
#[derive(Clone)]
pub(super) struct Words {
    pub(super) clients: &'static [Ipv4Addr],
    pub(super) greetings: &'static [&'static str],
    pub(super) senders: &'static [&'static str],
    pub(super) recipients: &'static [&'static str],
    /// Header fields.
    pub(super) fields: &'static [&'static str],
    /// Octets of large messages.
    pub(super) sizes: &'static [usize],
    /// The domain of recipients in large numbers.
    pub(super) crowd_domain: &'static str,
}

impl Words {
    pub(super) const USUAL: Words = Words {
        clients: &[FRIEND, STRANGER],
        greetings: &["EHLO client.test"],
        senders: &["jo@a.test", "jo+x@a.test", "Jo@Sub.A.test", "al@b.test", "al@here.test", ""],
        recipients: &["al@here.test", "bo@far.test", "bo@other.test"],
        fields: &[],
        sizes: &[],
        crowd_domain: "",
    };
}

/// A set-up. In all texts `{a}` to `{f}`, `{t}` (TLS) and `{s}` (login) are addresses of next hops, `{dead}` one without
/// a listener, `{port}` is the port of all, `{dir}` the directory of the files.
#[derive(Clone)]
pub(super) struct SetUp {
    pub(super) name: &'static str,
    /// Lines of main.cf.
    pub(super) main: &'static str,
    /// Options of smtpd(8) in master.cf, and further services there.
    pub(super) services: &'static str,
    /// Keys of the listener here.
    pub(super) listener: &'static str,
    /// `recipient_delimiter` of both.
    pub(super) delimiter: &'static str,
    /// The address behind `<postmaster>` here, which must have a mailbox.
    pub(super) postmaster: &'static str,
    /// Sections here.
    pub(super) sections: &'static str,
    /// Commands to the server here before the first conversation.
    pub(super) commands: &'static [&'static [&'static str]],
    /// Files of both; one that begins with `ours-` replaces the other's of that name here.
    pub(super) files: &'static [(&'static str, &'static str)],
    pub(super) words: Words,
    /// A listener for users.
    pub(super) is_submission: bool,
    /// It needs the hops with TLS.
    pub(super) has_tls: bool,
    /// Permille of conversations with more than a hundred recipients.
    pub(super) crowds: u32,
}

impl SetUp {
    pub(super) const PLAIN: SetUp = SetUp {
        name: "",
        main: "",
        services: "",
        listener: "",
        delimiter: "+",
        postmaster: "postmaster@here.test",
        sections: "",
        commands: &[],
        files: &[],
        words: Words::USUAL,
        is_submission: false,
        has_tls: false,
        crowds: 0,
    };
}
