//! `postrider dkim`.

use super::load;
use crate::cli::{DkimArgs, DkimCheckArgs, DkimCommand, DkimNewArgs, KeyKind, exit};
use crate::signing_keys::read_one;
use crate::terminal::clean;
use crate::world::resolver::Resolver;
use auth::dkim::{Algorithm, SigningKey, findings};
use auth::records::Records;
use channels::{SigningName, signing_names};
use config::Config;
use mail::Domain;
use mta::seams::AsRecords;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use zeroize::Zeroizing;

/// A string of a TXT record has no more octets (RFC 1035 §3.3.14).
const STRING_BYTES_MAX: usize = 255;

/// Runs `postrider dkim …`.
pub(crate) fn run(args: &DkimArgs) -> ExitCode {
    match &args.command {
        DkimCommand::New(args) => new(args),
        DkimCommand::Check(args) => check(args),
    }
}

fn new(args: &DkimNewArgs) -> ExitCode {
    let failed = |code: u8, why: &str| {
        eprintln!("postrider: {why}");
        ExitCode::from(code)
    };
    let name = match key_name(&args.domain, &args.selector) {
        Ok(name) => name,
        Err(why) => return failed(exit::USAGE, &why),
    };
    let algorithm = match args.algorithm {
        KeyKind::Rsa => Algorithm::RsaSha256,
        KeyKind::Ed25519 => Algorithm::Ed25519Sha256,
    };
    let (pem, record) = match new_key(algorithm) {
        Ok(made) => made,
        Err(why) => return failed(exit::FAILED, why),
    };
    if let Err(error) = write_key(&args.out, pem.as_bytes()) {
        return failed(exit::FAILED, &format!("{}: {error}", args.out.display()));
    }
    super::print(&format!("{name}. IN TXT ( {} )\n", strings_of(&record)));
    ExitCode::SUCCESS
}

/// A new key in PEM, and the text of its TXT record.
///
/// # Errors
/// The system has no random numbers.
pub(super) fn new_key(algorithm: Algorithm) -> Result<(Zeroizing<String>, String), &'static str> {
    let made = SigningKey::generate(algorithm).ok();
    let parts = made.as_ref().and_then(|key| Some((key.pem()?, key.record()?)));
    parts.ok_or("key generation failed")
}

/// `SELECTOR._domainkey.DOMAIN` in ASCII.
fn key_name(domain: &str, selector: &str) -> Result<String, String> {
    let name = |text: &str| {
        Domain::dns_name(text).ok_or_else(|| format!("\"{}\" is not a DNS name", clean(text)))
    };
    Ok(format!("{}._domainkey.{}", name(selector)?, name(domain)?))
}

/// A new file that its owner alone can read.
fn write_key(path: &Path, pem: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(pem)?;
    file.sync_all()
}

/// The strings of a TXT record as zone files have them.
pub(super) fn strings_of(record: &str) -> String {
    let strings = record.as_bytes().chunks(STRING_BYTES_MAX);
    let quoted = |string: &[u8]| format!("\"{}\"", String::from_utf8_lossy(string));
    strings.map(quoted).collect::<Vec<_>>().join(" ")
}

/// The state of one key in the DNS.
#[derive(Debug, Serialize)]
pub(super) struct DkimKeyStatus {
    pub(super) name: String,
    /// From when on it signs, if not now.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    key: String,
    /// Nothing is wrong.
    pub(super) right: bool,
    pub(super) findings: Vec<String>,
    /// The correct record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) record: Option<String>,
}

fn check(args: &DkimCheckArgs) -> ExitCode {
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let usage = |why: String| {
        eprintln!("postrider: {why}");
        ExitCode::from(exit::USAGE)
    };
    let Some(domain) = Domain::dns_name(&args.domain) else {
        return usage(format!("\"{}\" is not a domain", clean(&args.domain)));
    };
    let (names, tables) = signing_names(&config, &domain);
    for table in &tables {
        eprintln!("postrider: keys in table \"{table}\" are not checked");
    }
    if names.is_empty() && tables.is_empty() {
        return usage(format!("no [[signer]] for {domain}"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let seen = match runtime {
        Ok(runtime) => runtime.block_on(look_all(&config, &names)),
        Err(error) => return usage(error.to_string()),
    };
    match args.json {
        true => super::print(&format!("{:#}\n", serde_json::json!(seen))),
        false => super::print(&seen.iter().map(shown).collect::<String>()),
    }
    match seen.iter().all(|seen| seen.right) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::FAILED),
    }
}

async fn look_all(config: &Config, names: &[SigningName<'_>]) -> Vec<DkimKeyStatus> {
    let resolver = Resolver::new(&config.dns);
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        all.push(look(&AsRecords(&resolver), name).await);
    }
    all
}

/// Holds the DNS against one key.
pub(super) async fn look<R: Records>(records: &R, key: &SigningName<'_>) -> DkimKeyStatus {
    let SigningName { name, file, from } = key;
    let (found, record) = match read_one(file.path()) {
        Err(why) => (vec![why], None),
        Ok(ours) => match records.txt(name).await {
            Err(error) => (vec![format!("lookup failed: {error}")], ours.record()),
            Ok(records) => {
                let found = findings(&records, &ours);
                (found.iter().map(ToString::to_string).collect(), ours.record())
            }
        },
    };
    DkimKeyStatus {
        name: name.clone(),
        from: from.map(|from| from.to_string()),
        key: file.path().display().to_string(),
        right: found.is_empty(),
        record: record.filter(|_| !found.is_empty()),
        findings: found,
    }
}

fn shown(seen: &DkimKeyStatus) -> String {
    let from = seen.from.as_ref().map_or(String::new(), |from| format!(" (from {from})"));
    let what = match seen.right {
        true => "matches".to_owned(),
        false => seen.findings.join("; "),
    };
    let mut text = format!("{}{from}: {}\n", seen.name, clean(&what));
    if let Some(record) = &seen.record {
        text.push_str(&format!("  {}. IN TXT ( {} )\n", seen.name, strings_of(record)));
    }
    text
}
