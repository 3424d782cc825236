//! Postfix as it keeps mail: its `virtual` delivers to Maildirs of users whom it looks up in a file or in
//! a directory. Limits of `virtual` are Postfix's own.

use super::postfix;
use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::directory::{DOMAIN, Lookup, OWNER, Population, slapd};
use crate::stand::error::{Error, Result};
use crate::stand::place::{MailPlace, ServerSetup};
use crate::stand::server::Server;
use crate::stand::system;
use load::file::{self, FileError};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian puts what Postfix loads for some kinds of tables.
const MODULES: &str = "/usr/lib/postfix";
/// As `dynamicmaps.cf` has them.
const DYNAMIC_MAPS: &str = "ldap postfix-ldap.so dict_ldap_open
lmdb postfix-lmdb.so dict_lmdb_open mkmap_lmdb_open
";

/// The contender, with what it looks users up in.
#[derive(Debug)]
pub(crate) struct PostfixVirtual {
    name: &'static str,
    lookup: Lookup,
}

impl PostfixVirtual {
    pub(crate) fn with(name: &'static str, lookup: Lookup) -> PostfixVirtual {
        PostfixVirtual { name, lookup }
    }
}

impl Contender for PostfixVirtual {
    fn name(&self) -> &str {
        self.name
    }

    fn title(&self) -> String {
        let table = match self.lookup {
            Lookup::Text => "texthash (read by each process)",
            Lookup::Database => "lmdb",
            Lookup::Ldap => "ldap",
            Lookup::LdapProxy => "ldap behind proxymap",
            Lookup::Snapshot => "a copy of ldap",
        };
        format!("Postfix, virtual delivery, users in {table}")
    }

    fn durability(&self) -> Durability {
        postfix::Postfix.durability()
    }

    fn find(&self, postrider: &Path) -> Result<String> {
        let module = match self.lookup {
            Lookup::Text => None,
            Lookup::Database => Some("lmdb"),
            Lookup::Ldap | Lookup::LdapProxy | Lookup::Snapshot => Some("ldap"),
        };
        if let Some(module) = module
            && !Path::new(MODULES).join(format!("postfix-{module}.so")).exists()
        {
            let text = format!("{module} is not installed (Debian: package postfix-{module})");
            return Err(Error::Missing(text));
        }
        if self.lookup.is_by_ldap() {
            slapd::find()?;
        }
        postfix::Postfix.find(postrider)
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let mail = place.mail()?;
        let map = match self.lookup {
            Lookup::Text => format!("texthash:{}", mail.population.text().display()),
            Lookup::Database => format!("lmdb:{}", database(&mail.population)?.display()),
            Lookup::Ldap => format!("ldap:{}", ldap(place, mail)?.display()),
            Lookup::LdapProxy => format!("proxy:ldap:{}", ldap(place, mail)?.display()),
            Lookup::Snapshot => {
                return Err(Error::Missing("Postfix keeps no copy of a directory".to_owned()));
            }
        };
        let virtual_service = "virtual unix - n n - - virtual\n";
        postfix::start(place, &main_cf(mail, &map), virtual_service, DYNAMIC_MAPS)
    }

    fn rough_rates(&self) -> RoughRates {
        postfix::Postfix.rough_rates()
    }

    fn lookup(&self) -> Option<Lookup> {
        Some(self.lookup)
    }
}

fn main_cf(mail: &MailPlace, map: &str) -> String {
    let root = mail.root.display();
    format!(
        "virtual_mailbox_domains = {DOMAIN}
virtual_mailbox_base = {root}
virtual_mailbox_maps = {map}
virtual_uid_maps = static:{OWNER}
virtual_gid_maps = static:{OWNER}
"
    )
}

/// The text with postmap's index beside it: the name by which Postfix knows both.
fn database(population: &Population) -> Result<PathBuf> {
    let directory = population.once("postfix", |directory| {
        file::create_directory(directory)?;
        file::write(&directory.join("main.cf"), "")?;
        file::write(&directory.join("dynamicmaps.cf"), DYNAMIC_MAPS)?;
        let users = directory.join("users");
        std::fs::copy(population.text(), &users).map_err(FileError::at(&users))?;
        let map = format!("lmdb:{}", users.display());
        let mut postmap = Command::new("postmap");
        system::run(postmap.arg("-c").arg(directory).arg(map)).map(drop)
    })?;
    Ok(directory.join("users"))
}

/// As ldap_table(5) has it.
fn ldap(place: &ServerSetup, mail: &MailPlace) -> Result<PathBuf> {
    let text = format!(
        "server_host = ldap://{}
version = 3
bind = no
search_base = {}
query_filter = (mail=%s)
result_attribute = {}
",
        mail.ldap()?,
        slapd::PEOPLE,
        slapd::PATH_ATTRIBUTE
    );
    file::create_directory(&place.directory.join("config"))?;
    place.write("config/ldap.cf", &text)?;
    Ok(place.directory.join("config/ldap.cf"))
}
