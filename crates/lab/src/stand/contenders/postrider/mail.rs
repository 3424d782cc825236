//! Postrider's routes where it keeps mail for the users of a directory.

use crate::stand::directory::slapd::{PATH_ATTRIBUTE, PEOPLE};
use crate::stand::directory::{DOMAIN, Lookup, OWNER};
use crate::stand::error::{Error, Result};
use crate::stand::place::Place;
use crate::stand::system;
use std::path::PathBuf;
use std::process::Command;

/// What users are looked up in, for people.
pub(super) fn shown(lookup: Lookup) -> &'static str {
    match lookup {
        Lookup::Text => "a text file",
        Lookup::Database => "a constant database",
        Lookup::Ldap => "LDAP, asked as mail comes",
        Lookup::LdapProxy => "LDAP, asked by a proxy",
    }
}

/// The users' table, and the route that asks it.
///
/// # Errors
/// When a database can't be built.
pub(super) fn routes(place: &Place, lookup: Lookup) -> Result<String> {
    let table = table(place, lookup)?;
    let root = place.mail()?.root.display();
    Ok(format!(
        r#"[[table]]
name = "users"
{table}

[[route]]
domains = ["{DOMAIN}"]
recipients = {{ table = "users" }}
maildir = {{ path = "{root}/{{domain}}/{{local}}", user = "{OWNER}", group = "{OWNER}" }}

"#
    ))
}

fn table(place: &Place, lookup: Lookup) -> Result<String> {
    let population = &place.mail()?.population;
    match lookup {
        Lookup::Text => Ok(format!("file = {{ path = \"{}\" }}", population.text().display())),
        Lookup::Database => {
            let path = database(place)?;
            Ok(format!("database = {{ path = \"{}\" }}", path.display()))
        }
        Lookup::Ldap => Ok(format!(
            "ldap = {{ servers = [\"ldap://{}\"], base = \"{PEOPLE}\", filter = \"(mail=%s)\", \
             attributes = [\"{PATH_ATTRIBUTE}\"] }}",
            place.mail()?.ldap()?
        )),
        Lookup::LdapProxy => {
            Err(Error::Missing("Postrider has no proxy before a directory".to_owned()))
        }
    }
}

/// Built by Postrider's own command.
fn database(place: &Place) -> Result<PathBuf> {
    let population = &place.mail()?.population;
    population.once("users.db", |path| {
        let mut build = Command::new(&place.postrider);
        build.args(["table", "build", "--from"]).arg(population.text()).arg("--to").arg(path);
        system::run(&mut build).map(drop)
    })
}
