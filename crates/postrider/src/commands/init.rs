//! `postrider init`: a whole configuration for a domain, with its secrets and DNS records.

mod configuration;
mod dns_records;
pub(super) mod new_files;
mod new_server;
mod questions;

use super::check::check;
use super::dkim::new_key;
use crate::cli::{CheckArgs, ConfigFile, InitArgs, exit};
use crate::system_user::{Owner, own, user_named};
use auth::dkim::Algorithm;
use auth::password::Password;
use auth::password::scram_keys::{SaltForm, Salted};
use configuration::{Places, SELECTOR};
use new_files::{Access, NewFile};
use new_server::{NewServer, PasswordSource, Role};
use questions::{Prompt, Terminal};
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use zeroize::Zeroizing;

/// The reason why the command ends early, with its exit code.
struct InitError(u8, String);

/// A random secret has this many bytes: more than any guesser can try.
const SECRET_BYTES: usize = 15;

/// The account that packages create for the server.
const ACCOUNT: &str = "postrider";

/// Runs `postrider init`.
pub(crate) fn run(args: &InitArgs) -> ExitCode {
    let made = match make(args) {
        Ok(made) => made,
        Err(InitError(code, why)) => {
            eprintln!("postrider: {why}");
            return ExitCode::from(code);
        }
    };
    super::print(&made.shown());
    check(&CheckArgs {
        file: ConfigFile { config: Some(made.configuration) },
        dns: args.dns,
        domain: Vec::new(),
        user: None,
        json: false,
    })
}

/// The result, for the operator.
struct InitResult {
    configuration: PathBuf,
    written: Vec<PathBuf>,
    /// User and password, shown once.
    login: Option<(String, String)>,
    records: String,
}

impl InitResult {
    fn shown(&self) -> String {
        let files: String =
            self.written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
        let login = self.login.as_ref().map_or(String::new(), |(user, password)| {
            format!("\nUser {user}, password {password} (shown only now)\n")
        });
        let records = match self.records.is_empty() {
            true => String::new(),
            false => format!("\n{}", self.records),
        };
        format!("{files}{login}{records}\n")
    }
}

fn make(args: &InitArgs) -> Result<InitResult, InitError> {
    let usage = |why| InitError(exit::USAGE, why);
    let failed = |why| InitError(exit::FAILED, why);
    let places = Places::of(args).map_err(usage)?;
    // Before any question: the answers would be lost.
    new_files::refuse_existing(&places.configuration()).map_err(failed)?;
    let mut terminal = Terminal;
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let prompt = is_terminal.then_some(&mut terminal as &mut dyn Prompt);
    let mut server = NewServer::read(args, prompt).map_err(usage)?;
    let owner = owner_of(args).map_err(usage)?;
    server.account = account(args, owner);
    let secrets = Secrets::new(&server).map_err(failed)?;
    let files = files(&server, &places, &secrets);
    let directories = directories(&server, &places);
    let written = new_files::write_all(&directories, &files, owner).map_err(failed)?;
    let addresses = dns_records::public_addresses(&args.address);
    Ok(InitResult {
        configuration: places.configuration(),
        written,
        records: dns_records::text(&server, &addresses, secrets.dkim_record.as_deref()),
        login: server.login().zip(secrets.password),
    })
}

/// The owner of secrets, spool and mailboxes.
fn owner_of(args: &InitArgs) -> Result<Option<Owner>, String> {
    let is_root = own().user == 0;
    match &args.owner {
        None if !is_root => Ok(None),
        None => Ok(user_named(ACCOUNT).ok()),
        Some(name) => user_named(name).map(Some),
    }
}

/// The name of the owner, which the server becomes; none for root.
fn account(args: &InitArgs, owner: Option<Owner>) -> Option<String> {
    owner.filter(|owner| owner.user != 0)?;
    Some(args.owner.clone().unwrap_or_else(|| ACCOUNT.to_owned()))
}

/// Random values.
struct Secrets {
    /// The PEM text of the signing key, and its TXT record.
    dkim_key: Option<Zeroizing<String>>,
    dkim_record: Option<String>,
    /// The first user's password, and its stored form.
    password: Option<String>,
    stored: Option<String>,
    srs: String,
}

impl Secrets {
    fn new(server: &NewServer) -> Result<Secrets, String> {
        let mut secrets = Secrets {
            dkim_key: None,
            dkim_record: None,
            password: None,
            stored: None,
            srs: random_text()?,
        };
        if server.login().is_some() {
            let (pem, record) = new_key(Algorithm::RsaSha256)?;
            (secrets.dkim_key, secrets.dkim_record) = (Some(pem), Some(record));
            let text = random_text()?;
            secrets.stored = Some(stored_form(&text)?);
            secrets.password = Some(text);
        }
        Ok(secrets)
    }
}

/// A random password of letters and digits without look-alikes.
fn random_text() -> Result<String, String> {
    const DIGITS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut text = String::new();
    for byte in random::<{ SECRET_BYTES * 8 / 5 }>()? {
        text.push(char::from(DIGITS[usize::from(byte % 32)]));
    }
    Ok(text)
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let flags = rustix::rand::GetRandomFlags::empty();
    match rustix::rand::getrandom(&mut bytes, flags) {
        Ok(count) if count == N => Ok(bytes),
        Ok(_) => Err("the system has no random numbers".to_owned()),
        Err(error) => Err(format!("the system has no random numbers: {error}")),
    }
}

/// The form for the table of passwords, which every mechanism can use.
fn stored_form(password: &str) -> Result<String, String> {
    let password = Password::new(password.as_bytes()).ok_or("an empty password")?;
    let salted = Salted::for_user(&random::<32>()?, "", SaltForm::default());
    Ok(salted.stored(&password))
}

fn directories(server: &NewServer, places: &Places) -> Vec<(PathBuf, Access)> {
    let mut all = vec![(places.out.clone(), Access::All), (places.spool.clone(), Access::Server)];
    if server.has_mailboxes() {
        all.push((places.mail.clone(), Access::Server));
    }
    all
}

/// The files. The configuration is the last one, so that it exists only if all files do.
fn files(server: &NewServer, places: &Places, secrets: &Secrets) -> Vec<NewFile> {
    let mut all = Vec::new();
    let mut add = |path: PathBuf, access, content: String| {
        all.push(NewFile { path, access, content });
    };
    let domain = &server.domain;
    let of = |name: &str| places.out.join(name);
    if let (Some(login), Some(stored)) = (server.login(), &secrets.stored) {
        add(
            of("passwords"),
            Access::Server,
            format!(
                "# User and stored password, as `doveadm pw -s SCRAM-SHA-256` prints it.\n\
                 {login}  {stored}\n"
            ),
        );
        let addresses = match server.role {
            Role::MailHost { .. } => format!(
                "# Mailbox, and the addresses that its user may send from.\n{login}  {login}\n"
            ),
            _ => {
                format!("# User, and the addresses or domains to send from.\n{login}  @{domain}\n")
            }
        };
        add(of("users"), Access::All, addresses);
        if matches!(server.role, Role::MailHost { .. }) {
            add(of("aliases"), Access::All, aliases(domain, &login));
            add(of("srs.secret"), Access::Server, format!("{}\n", secrets.srs));
        }
    }
    if matches!(server.role, Role::Local) {
        let root = format!("root@{domain}");
        let forwarded = format!("# {root}  you@example.org\n");
        add(of("aliases"), Access::All, aliases(domain, &root) + &forwarded);
    }
    if let Some(key) = &secrets.dkim_key {
        add(of(&format!("{SELECTOR}.pem")), Access::Server, key.to_string());
    }
    if let Some(PasswordSource::Typed(password)) = server.smarthost_password() {
        add(places.smarthost_password(), Access::Server, format!("{}\n", **password));
    }
    add(places.configuration(), Access::All, configuration::text(server, places));
    all
}

/// RFC 2142 names these for every domain with mail.
fn aliases(domain: &str, login: &str) -> String {
    let mut text = "# Address, and the addresses that replace it.\n".to_owned();
    for name in ["postmaster", "abuse"] {
        let address = format!("{name}@{domain}");
        if address != login {
            text.push_str(&format!("{address}  {login}\n"));
        }
    }
    text
}
