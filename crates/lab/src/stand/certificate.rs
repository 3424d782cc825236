//! A certificate for a stand that encrypts.

use super::error::Result;
use super::system;
use load::file;
use load::tls::Handshakes;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The host that it is for.
pub(crate) const NAME: &str = "relay.bench.grey";

/// What a key signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// What most authorities issue today.
    EcdsaP256,
    Rsa2048,
}

impl KeyKind {
    /// For people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            KeyKind::EcdsaP256 => "ECDSA P-256",
            KeyKind::Rsa2048 => "RSA 2048",
        }
    }

    /// As `openssl req -newkey` has it.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            KeyKind::EcdsaP256 => &["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
            KeyKind::Rsa2048 => &["rsa:2048"],
        }
    }
}

/// A certificate that nobody vouches for and its key, as PEM files.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Makes one below `directory`. Others than root read it, too: servers run as users of their own.
    ///
    /// # Errors
    /// When there is no `openssl`, or a file can't be written.
    pub(crate) fn make(directory: &Path, kind: KeyKind) -> Result<Certificate> {
        file::create_directory(directory)?;
        let certificate =
            Certificate { chain: directory.join("chain.pem"), key: directory.join("key.pem") };
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-nodes", "-days", "30", "-newkey"]).args(kind.arguments());
        command.args(["-subj", &format!("/CN={NAME}")]);
        command.args(["-addext", &format!("subjectAltName=DNS:{NAME}")]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-keyout").arg(&certificate.key).arg("-out").arg(&certificate.chain);
        system::run(&mut command)?;
        Ok(certificate)
    }

    /// The section of Postrider's configuration that names it.
    pub(crate) fn section(&self) -> String {
        let (chain, key) = (self.chain.display(), self.key.display());
        format!("[[certificate]]\nnames = [\"{NAME}\"]\nchain = \"{chain}\"\nkey = \"{key}\"\n\n")
    }
}

/// How a stand encrypts: mail that comes in, and mail that goes out.
#[derive(Clone, Debug)]
pub(crate) struct Encryption {
    /// Of the server under test, and of the sink.
    pub(crate) certificate: Certificate,
    pub(crate) handshakes: Handshakes,
}

impl Encryption {
    /// What a sink is told.
    pub(crate) fn sink_arguments(&self) -> [String; 6] {
        [
            "--tls-certificate".to_owned(),
            self.certificate.chain.display().to_string(),
            "--tls-key".to_owned(),
            self.certificate.key.display().to_string(),
            "--tls-handshakes".to_owned(),
            self.handshakes.name().to_owned(),
        ]
    }
}
