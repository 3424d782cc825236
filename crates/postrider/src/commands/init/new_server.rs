//! The facts that decide a new server's files: from flags, or from answers at a terminal.

use super::questions::{Prompt, Questions};
use crate::cli::{InitArgs, ServerKind, parse_domain, parse_user};
use clap::ValueEnum as _;
use config::{HostPort, IpNet};
use std::path::PathBuf;
use zeroize::Zeroizing;

/// The port of a smarthost without one (RFC 6409 §3.1).
const SUBMISSION_PORT: u16 = 587;

/// A server to be configured.
#[derive(Debug)]
pub(super) struct NewServer {
    pub(super) domain: String,
    pub(super) hostname: String,
    pub(super) role: Role,
    /// User that the server becomes after its start, if root starts it.
    pub(super) account: Option<String>,
}

/// The kind of server, with its own facts.
#[derive(Debug)]
pub(super) enum Role {
    MailHost { user: String, certificate: CertificateSource },
    Sender { user: String, certificate: CertificateSource },
    Relay { smarthost: HostPort, login: Option<SmarthostLogin>, networks: Vec<IpNet> },
    Local,
}

/// The origin of the certificate.
#[derive(Debug)]
pub(super) enum CertificateSource {
    /// Ordered from Let's Encrypt.
    Acme,
    Files {
        chain: PathBuf,
        key: PathBuf,
    },
}

/// A login at the smarthost.
#[derive(Debug)]
pub(super) struct SmarthostLogin {
    pub(super) user: String,
    pub(super) password: PasswordSource,
}

/// The origin of the password for the smarthost.
pub(super) enum PasswordSource {
    /// An existing file.
    File(PathBuf),
    /// Typed at the terminal.
    Typed(Zeroizing<String>),
}

/// Shows no password.
impl std::fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PasswordSource::File(path) => path.fmt(f),
            PasswordSource::Typed(_) => f.write_str("Typed"),
        }
    }
}

impl NewServer {
    /// Takes facts from the flags, and asks for the missing ones.
    ///
    /// # Errors
    /// Returns the missing flags if there is no terminal, or the error of the terminal.
    pub(super) fn read(
        args: &InitArgs,
        prompt: Option<&mut dyn Prompt>,
    ) -> Result<NewServer, String> {
        let mut questions = Questions::new(prompt);
        let kind = questions.answer(
            args.kind,
            ("--kind", "Kind of server (mail-host, relay, sender, local)", ""),
            |text| ServerKind::from_str(text, true),
        )?;
        let first = match kind {
            Some(ServerKind::Relay) => "relay.",
            Some(ServerKind::Sender) => "out.",
            Some(ServerKind::MailHost) | None => "mx.",
            // Its domain is the machine's name.
            Some(ServerKind::Local) => "",
        };
        let usual = format!("{first}{}", args.domain);
        let hostname = questions.answer(
            args.hostname.clone(),
            ("--hostname", "Name of this server", &usual),
            parse_domain,
        )?;
        let role = match kind {
            None => None,
            Some(ServerKind::Local) => Some(Role::Local),
            Some(ServerKind::Relay) => relay(args, &mut questions)?,
            Some(kind) => with_users(args, kind, &mut questions)?,
        };
        questions.finish()?;
        match (hostname, role) {
            (Some(hostname), Some(role)) => {
                let domain = args.domain.clone();
                Ok(NewServer { domain, hostname, role, account: None })
            }
            _ => Err("the command line is incomplete".to_owned()),
        }
    }

    /// The first user's address, which is also its login name.
    pub(super) fn login(&self) -> Option<String> {
        match &self.role {
            Role::MailHost { user, .. } | Role::Sender { user, .. } => {
                Some(format!("{user}@{}", self.domain))
            }
            Role::Relay { .. } | Role::Local => None,
        }
    }

    /// Returns true if mail to its domain is kept here.
    pub(super) fn has_mailboxes(&self) -> bool {
        matches!(self.role, Role::MailHost { .. } | Role::Local)
    }

    /// The origin of the smarthost's password.
    pub(super) fn smarthost_password(&self) -> Option<&PasswordSource> {
        match &self.role {
            Role::Relay { login: Some(login), .. } => Some(&login.password),
            _ => None,
        }
    }
}

fn with_users(
    args: &InitArgs,
    kind: ServerKind,
    questions: &mut Questions<'_>,
) -> Result<Option<Role>, String> {
    let (question, usual) = match kind {
        ServerKind::Sender => ("User name of the first application", "app"),
        _ => ("First user, without the domain", "postmaster"),
    };
    let user = questions.answer(args.user.clone(), ("--user", question, usual), parse_user)?;
    let certificate = certificate(args, questions)?;
    Ok(user.zip(certificate).map(|(user, certificate)| match kind {
        ServerKind::Sender => Role::Sender { user, certificate },
        _ => Role::MailHost { user, certificate },
    }))
}

fn certificate(
    args: &InitArgs,
    questions: &mut Questions<'_>,
) -> Result<Option<CertificateSource>, String> {
    let files = args.tls_chain.clone().zip(args.tls_key.clone());
    let given = match files {
        Some((chain, key)) => Some(CertificateSource::Files { chain, key }),
        None => args.acme.then_some(CertificateSource::Acme),
    };
    if given.is_some() {
        return Ok(given);
    }
    let question = "Certificate file (PEM); empty to order one from Let's Encrypt and agree to \
                    its terms";
    let flag = "--acme (or --tls-chain and --tls-key)";
    let chain = questions.answer(None, (flag, question, ""), |text| Ok(PathBuf::from(text)))?;
    match chain {
        None => Ok(None),
        Some(none) if none.as_os_str().is_empty() => Ok(Some(CertificateSource::Acme)),
        Some(chain) => {
            let key = questions.answer(
                None,
                ("--tls-key", "Key file of the certificate (PEM)", ""),
                path,
            )?;
            Ok(key.map(|key| CertificateSource::Files { chain, key }))
        }
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("a path is needed".to_owned()) } else { Ok(text.into()) }
}

fn relay(args: &InitArgs, questions: &mut Questions<'_>) -> Result<Option<Role>, String> {
    let smarthost = args.smarthost.as_deref().map(host).transpose()?;
    let smarthost = questions.answer(
        smarthost,
        ("--smarthost", "Smarthost, HOST or HOST:PORT (the port is 587 without one)", ""),
        host,
    )?;
    let user = match &args.smarthost_user {
        Some(user) => Some(user.clone()),
        None => questions.optional("User name at the smarthost; empty for no login")?,
    };
    let login = match user.filter(|user| !user.is_empty()) {
        None => None,
        Some(user) => {
            let password = match &args.smarthost_password_file {
                Some(file) => Some(PasswordSource::File(file.clone())),
                None => questions
                    .secret("--smarthost-password-file", "Password at the smarthost")?
                    .map(PasswordSource::Typed),
            };
            password.map(|password| SmarthostLogin { user, password })
        }
    };
    let networks = args.relay_from.clone();
    Ok(smarthost.map(|smarthost| Role::Relay { smarthost, login, networks }))
}

fn host(text: &str) -> Result<HostPort, String> {
    match HostPort::parse(text, SUBMISSION_PORT)? {
        HostPort { port: 0, .. } => Err("a socket cannot be a smarthost".to_owned()),
        host => Ok(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;
    use std::io;

    /// An operator with these answers, in order, and the questions that were asked.
    struct Answers(Vec<&'static str>, Vec<String>);

    impl Prompt for Answers {
        fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
            self.1.push(question.to_owned());
            Ok((!self.0.is_empty()).then(|| format!("{}\n", self.0.remove(0))))
        }

        fn ask_secret(&mut self, question: &str) -> io::Result<Option<String>> {
            self.ask(question)
        }
    }

    fn args(words: &str) -> InitArgs {
        match Cli::parse_from(format!("postrider init {words}").split(' ')).command {
            Command::Init(args) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn read(words: &str, answers: &[&'static str]) -> (Result<NewServer, String>, Vec<String>) {
        let mut answers = Answers(answers.to_vec(), Vec::new());
        let server = NewServer::read(&args(words), Some(&mut answers));
        assert!(answers.0.is_empty(), "not asked for: {:?}", answers.0);
        (server, answers.1)
    }

    #[test]
    fn five_questions_configure_each_kind() {
        let (server, asked) =
            read("example.org", &["mail-host", "", "Jo", "/etc/ssl/a.pem", "/etc/ssl/a.key"]);
        let server = server.unwrap();
        assert_eq!((server.login().as_deref(), asked.len()), (Some("jo@example.org"), 5));
        assert_eq!(server.hostname, "mx.example.org");
        assert!(matches!(
            server.role,
            Role::MailHost { certificate: CertificateSource::Files { .. }, .. }
        ));
        let (server, asked) = read("example.org", &["sender", "", "", ""]);
        let server = server.unwrap();
        assert_eq!((server.login().as_deref(), asked.len()), (Some("app@example.org"), 4));
        assert!(matches!(server.role, Role::Sender { certificate: CertificateSource::Acme, .. }));
        let (server, asked) = read("app1.example.org", &["local", ""]);
        let server = server.unwrap();
        assert_eq!((server.hostname.as_str(), asked.len()), ("app1.example.org", 2));
        assert!(matches!(server.role, Role::Local) && server.has_mailboxes());
        let answers = ["relay", "app1.example.org", "smtp.example.net", "me", "pass word"];
        let (server, asked) = read("example.org", &answers);
        let server = server.unwrap();
        assert_eq!((server.hostname.as_str(), asked.len()), ("app1.example.org", 5));
        let Role::Relay { smarthost, login: Some(login), .. } = &server.role else {
            panic!("{server:?}");
        };
        assert_eq!((smarthost.to_string().as_str(), &*login.user), ("smtp.example.net:587", "me"));
        assert!(matches!(&login.password, PasswordSource::Typed(word) if **word == "pass word"));
    }

    #[test]
    fn invalid_answers_are_asked_again() {
        let (server, asked) =
            read("example.org --acme", &["mx", "sender", "a b", "", "x@y", "b-1"]);
        assert_eq!(server.unwrap().login().as_deref(), Some("b-1@example.org"));
        assert_eq!(asked.len(), 6);
        let (server, _) = read("example.org --kind relay --hostname a.test", &["/run/lmtp"]);
        assert!(server.unwrap_err().contains("input ended"));
    }

    #[test]
    fn flags_leave_no_question() {
        let words = "example.org --kind relay --hostname a.test --smarthost b.test:465 \
                     --smarthost-user me --smarthost-password-file /p --relay-from 10.0.0.0/8";
        let (server, asked) = read(words, &[]);
        assert!(asked.is_empty(), "{asked:?}");
        assert!(matches!(
            server.unwrap().smarthost_password(),
            Some(PasswordSource::File(path)) if path.as_os_str() == "/p"
        ));
    }

    #[test]
    fn missing_flags_are_named_without_a_terminal() {
        for (words, missing) in [
            ("a.test", "--kind, --hostname"),
            ("a.test --kind sender", "--hostname, --user, --acme (or --tls-chain and --tls-key)"),
            ("a.test --kind relay --hostname b.test", "--smarthost"),
            (
                "a.test --kind relay --hostname b.test --smarthost c.test --smarthost-user me",
                "--smarthost-password-file",
            ),
        ] {
            let why = NewServer::read(&args(words), None).unwrap_err();
            assert!(why.ends_with(&format!("are missing: {missing}")), "{words}: {why}");
        }
    }
}
