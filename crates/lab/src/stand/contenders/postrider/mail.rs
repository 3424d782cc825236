//! Postrider's routes where it keeps mail for the users of a directory.

use crate::stand::directory::slapd::{PATH_ATTRIBUTE, PEOPLE};
use crate::stand::directory::{DOMAIN, Lookup, OWNER};
use crate::stand::error::{Error, Result};
use crate::stand::place::ServerSetup;
use crate::stand::system;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The copy of a directory may take so long, and so long for each user: a thousand times what it
/// takes.
const COPY_BASE_MAX: Duration = Duration::from_secs(60);
const COPY_PER_USER_MAX: Duration = Duration::from_millis(2);
/// Between two looks how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Between two lines that say so.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// What users are looked up in, for people.
pub(super) fn shown(lookup: Lookup) -> &'static str {
    match lookup {
        Lookup::Text => "a text file",
        Lookup::Database => "a constant database",
        Lookup::Ldap => "LDAP, asked as mail comes",
        Lookup::LdapProxy => "LDAP, asked by a proxy",
        Lookup::Snapshot => "a copy of an LDAP directory",
    }
}

/// The users' table, and the route that asks it.
///
/// # Errors
/// When a database can't be built.
pub(super) fn routes(place: &ServerSetup, lookup: Lookup) -> Result<String> {
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

fn table(place: &ServerSetup, lookup: Lookup) -> Result<String> {
    let population = &place.mail()?.population;
    match lookup {
        Lookup::Text => Ok(format!("file = {{ path = \"{}\" }}", population.text().display())),
        Lookup::Database => {
            let path = database(place)?;
            Ok(format!("database = {{ path = \"{}\" }}", path.display()))
        }
        Lookup::Ldap => ldap(place, ""),
        Lookup::Snapshot => ldap(place, "mode = \"snapshot\", "),
        Lookup::LdapProxy => {
            Err(Error::Missing("Postrider has no proxy before a directory".to_owned()))
        }
    }
}

fn ldap(place: &ServerSetup, mode: &str) -> Result<String> {
    Ok(format!(
        "ldap = {{ {mode}servers = [\"ldap://{}\"], base = \"{PEOPLE}\", filter = \"(mail=%s)\", \
         attributes = [\"{PATH_ATTRIBUTE}\"] }}",
        place.mail()?.ldap()?
    ))
}

/// Waits until the copy of the directory has so many users. `list` gives what `table list --json`
/// prints.
///
/// # Errors
/// When that takes too long, or can't be told.
pub(super) fn wait_for_copy(users: u64, mut list: impl FnMut() -> Result<String>) -> Result<()> {
    let max = COPY_BASE_MAX + COPY_PER_USER_MAX.mul_f64(users as f64);
    let (begun, mut told) = (Instant::now(), Instant::now());
    loop {
        let Copied { entries, trouble } = Copied::of(&list()?);
        if entries >= users {
            return Ok(());
        }
        let state = format!(
            "the copy of the directory has {entries} of {users} users after {:.0?}{}",
            begun.elapsed(),
            trouble.map(|trouble| format!(" ({trouble})")).unwrap_or_default()
        );
        if begun.elapsed() > max {
            return Err(Error::Server(state));
        }
        if told.elapsed() > TELL_EVERY {
            eprintln!("{state}");
            told = Instant::now();
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How far the copy of a directory is.
#[derive(Debug, Default, PartialEq, Eq)]
struct Copied {
    entries: u64,
    trouble: Option<String>,
}

impl Copied {
    /// Of what `table list --json` printed: a line for each table.
    fn of(lines: &str) -> Copied {
        let tables = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut copies = tables.filter(|table| table["snapshot"].is_object());
        copies.next().map_or_else(Copied::default, |copy| Copied {
            entries: copy["snapshot"]["entries"].as_u64().unwrap_or(0),
            trouble: copy["trouble"].as_str().map(str::to_owned),
        })
    }
}

/// Built by Postrider's own command.
fn database(place: &ServerSetup) -> Result<PathBuf> {
    let population = &place.mail()?.population;
    population.once("users.db", |path| {
        let mut build = Command::new(&place.postrider);
        build.args(["table", "build", "--from"]).arg(population.text()).arg("--to").arg(path);
        system::run(&mut build).map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::{Copied, wait_for_copy};
    use crate::stand::Error;

    /// As `table list --json` prints it.
    fn list(entries: u64) -> String {
        format!(
            "{{\"response\":\"table\",\"name\":\"users\",\"snapshot\":{{\"entries\":{entries}}}}}\n\
             {{\"response\":\"done\",\"matched\":0}}\n"
        )
    }

    #[test]
    fn a_copy_is_waited_for_until_all_users_are_in_it() {
        let mut entries = [0, 0, 7].into_iter();
        wait_for_copy(7, || Ok(list(entries.next().expect("asked no more")))).expect("it comes");
        assert_eq!(entries.next(), None);
        wait_for_copy(7, || Err(Error::Interrupted)).expect_err("it can't be told");
    }

    #[test]
    fn what_keeps_it_is_told() {
        let lines = "{\"name\":\"a\"}\n{\"trouble\":\"down\",\"snapshot\":{\"entries\":3}}\n";
        let copied = Copied { entries: 3, trouble: Some("down".to_owned()) };
        assert_eq!(Copied::of(lines), copied);
        assert_eq!(Copied::of("no JSON\n"), Copied::default());
    }
}
