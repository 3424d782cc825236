//! Where a server under test works, and what it talks to.

use super::certificate::Encryption;
use super::directory::Population;
use super::egress::Egress;
use super::error::{Error, Result};
use super::group::ControlGroup;
use super::ways::Ways;
use load::file;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// A configuration file, or a command line, as it was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Where a server keeps mail for the users of a directory.
#[derive(Clone, Debug)]
pub(crate) struct MailPlace {
    /// All users, and what they are looked up in.
    pub(crate) population: Rc<Population>,
    /// Below it are the Maildirs.
    pub(crate) root: PathBuf,
    /// Where the directory is asked, `HOST:PORT`, for those that ask it.
    pub(crate) ldap: Option<String>,
}

impl MailPlace {
    /// Where the directory is asked, `HOST:PORT`.
    ///
    /// # Errors
    /// When none runs.
    pub(crate) fn ldap(&self) -> Result<&str> {
        let none = || Error::Missing("no directory runs".to_owned());
        self.ldap.as_deref().ok_or_else(none)
    }
}

/// Where a server works and what it talks to. The same for a restart.
#[derive(Clone, Debug)]
pub(crate) struct ServerSetup {
    /// Its own, for configuration, spool and logs.
    pub(crate) directory: PathBuf,
    /// The next hop, `HOST:PORT`.
    pub(crate) sink: String,
    /// Others, where mail goes to several.
    pub(crate) more_sinks: Vec<String>,
    /// What mail comes in and goes out by.
    pub(crate) ways: Ways,
    /// Where it is to listen.
    pub(crate) port: u16,
    /// For its metrics, if it has such.
    pub(crate) admin_port: u16,
    /// The postrider program.
    pub(crate) postrider: PathBuf,
    pub(crate) egress: Egress,
    /// Where mail is encrypted on its way in and out.
    pub(crate) encryption: Option<Encryption>,
    /// Where the DNS is asked, `HOST:PORT`, if next hops are found by it.
    pub(crate) dns: Option<String>,
    /// For one that keeps mail instead of relaying it.
    pub(crate) mail: Option<MailPlace>,
    /// For all its processes, where there is such a thing.
    pub(crate) group: Option<Rc<ControlGroup>>,
}

impl ServerSetup {
    /// A command whose processes are counted with the server.
    pub(crate) fn command(&self, program: &Path) -> Command {
        self.group.as_ref().map_or_else(|| Command::new(program), |group| group.command(program))
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// All next hops.
    pub(crate) fn sinks(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.sink).chain(&self.more_sinks).map(String::as_str)
    }

    /// Where it keeps mail.
    ///
    /// # Errors
    /// When it is to relay.
    pub(crate) fn mail(&self) -> Result<&MailPlace> {
        let none = || Error::Missing("no mailboxes are used here".to_owned());
        self.mail.as_ref().ok_or_else(none)
    }

    /// Host and port of the next hop.
    pub(crate) fn next_hop(&self) -> (&str, &str) {
        self.sink.rsplit_once(':').unwrap_or((&self.sink, "25"))
    }

    /// Writes a configuration file into the directory.
    ///
    /// # Errors
    /// When it can't be written.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<ConfigFile> {
        file::write(&self.directory.join(name), text)?;
        Ok(ConfigFile { name: name.to_owned(), text: text.to_owned() })
    }
}
