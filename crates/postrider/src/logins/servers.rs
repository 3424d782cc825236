//! The drivers of servers that know users.

use super::directory::LdapLoginServer;
use super::dovecot::Dovecot;
use super::introspection::Introspector;
use super::turns::LoginLines;
use config::HostPort;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// By their addresses and the names by which we are known there.
pub(super) type Introspectors = BTreeMap<(Box<str>, Box<str>), Introspector>;

/// The running drivers.
#[derive(Default)]
pub(crate) struct LoginServers {
    pub(super) dovecots: Mutex<BTreeMap<HostPort, Dovecot>>,
    /// By their tables' names.
    pub(super) directories: Mutex<BTreeMap<Arc<str>, LdapLoginServer>>,
    /// By their hosts and paths.
    pub(super) introspectors: Mutex<Introspectors>,
    pub(super) lines: LoginLines,
}

impl LoginServers {
    /// Shows how scarce turns at them are.
    pub(crate) fn gauge(&self) -> LoginLines {
        self.lines.clone()
    }
}
