//! What is kept of an authority: the account, each certificate with its key, when each was ordered. Files
//! that only their owner reads, each written beside its place, synced and put there by its name.

use super::schedule::{JITTER_RANGE, renewal};
use crate::kept_secret::damaged;
use crate::world::clock::wall_now;
use crate::{crypto, pem, sealed_text};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail::Wall;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// A file has no more bytes.
const FILE_BYTES_MAX: u64 = 256 * 1_024;

/// Certificates that lead from one to a root, with it.
const CHAIN_MAX: usize = 16;

/// Names of a certificate that are looked at.
const NAMES_MAX: usize = 1_000;

/// How the line begins that says where a certificate comes from.
const FROM: &str = "Issued by ";

/// The directory of one configuration.
#[derive(Clone, Debug)]
pub(super) struct Store(PathBuf);

impl Store {
    pub(super) fn new(directory: &Path) -> Store {
        Store(directory.to_owned())
    }

    /// What it keeps of the account with an authority. `None`: there is none.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) fn account(&self, directory: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(content) = read(&self.account_path(directory))? else { return Ok(None) };
        let text = sealed_text::checked(&content).map_err(io::Error::other)?;
        Ok(Some(text.strip_suffix(b"\n").unwrap_or(text).to_owned()))
    }

    /// The file of the account with an authority.
    pub(super) fn account_file(&self, directory: &str) -> PathBuf {
        self.account_path(directory)
    }

    /// Puts aside what is no account; where it is then.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn put_account_aside(&self, directory: &str) -> io::Result<PathBuf> {
        let path = self.account_path(directory);
        let aside = damaged(&path);
        fs::rename(&path, &aside)?;
        self.sync()?;
        Ok(aside)
    }

    /// # Errors
    /// As the operating system says.
    pub(super) fn put_account(&self, directory: &str, account: &[u8]) -> io::Result<()> {
        let sealed = sealed_text::sealed([account, b"\n"].concat());
        self.write(&self.account_path(directory), &sealed)
    }

    /// The authority knows it no more: it is put aside, with its key.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn forget_account(&self, directory: &str) -> io::Result<()> {
        let path = self.account_path(directory);
        fs::rename(&path, path.with_extension("gone"))?;
        self.sync()
    }

    fn account_path(&self, directory: &str) -> PathBuf {
        let hash = digest(&SHA256, directory.as_bytes());
        let name: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.join(format!("account-{name}.json"))
    }

    /// When a certificate was ordered last, as far as is known.
    ///
    /// # Errors
    /// Why that is not known exactly, and the moment at which it was written down: nobody orders sooner for that.
    pub(super) fn ordered(&self, certificate: &Path) -> Result<Option<Wall>, (Wall, String)> {
        let path = ordered_path(certificate);
        let moment = |content: &[u8]| -> Result<Wall, String> {
            let text = sealed_text::checked(content).map_err(str::to_owned)?;
            let number = str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
            number.map(Wall).ok_or_else(|| "not a time".to_owned())
        };
        let read = match read(&path) {
            Ok(None) => return Ok(None),
            Ok(Some(content)) => moment(&content),
            Err(error) => Err(error.to_string()),
        };
        read.map(Some).map_err(|why| {
            let written = fs::metadata(&path).and_then(|meta| meta.modified()).ok();
            let since = written.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let at = since.and_then(|since| u64::try_from(since.as_millis()).ok()).map(Wall);
            (at.unwrap_or_else(wall_now), format!("cannot read {}: {why}", path.display()))
        })
    }

    /// It is ordered now.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn put_ordered(&self, certificate: &Path, now: Wall) -> io::Result<()> {
        let sealed = sealed_text::sealed(format!("{}\n", now.0).into_bytes());
        self.write(&ordered_path(certificate), &sealed)
    }

    /// # Errors
    /// As the operating system says.
    pub(super) fn put_certificate(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        self.write(path, content)
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let fresh = path.with_extension("new");
        // Whoever made what is there by this name may have it open.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()
    }
}

/// The file that says when a certificate was ordered.
pub(super) fn ordered_path(certificate: &Path) -> PathBuf {
    certificate.with_extension("ordered")
}

/// Whether an issued certificate is what was written.
///
/// # Errors
/// It is not, in words.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let content = read(path).map_err(|error| error.to_string())?.unwrap_or_default();
    sealed_text::checked(&content).map(drop).map_err(str::to_owned)
}

fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FILE_BYTES_MAX).read_to_end(&mut content)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(content))
}

/// What is known of a certificate that was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Issued {
    pub(super) begins: Wall,
    pub(super) ends: Wall,
    /// Those that it is for, in lower case.
    names: Vec<String>,
    /// The directory that it comes from.
    directory: String,
    /// Its own, the same whenever it is read.
    jitter: u64,
}

impl Issued {
    /// The certificate of a file. `None`: there is none that can be used.
    pub(super) fn read(path: &Path) -> Option<Issued> {
        let content = read(path).ok()??;
        sealed_text::checked(&content).ok()?;
        let chain = pem::certificates(path).ok()?;
        pem::key(path).ok()?;
        let first = content.split(|byte| *byte == b'\n').next()?;
        let directory = str::from_utf8(first).ok()?.strip_prefix(FROM)?;
        Issued::of(chain.first()?, directory)
    }

    fn of(certificate: &CertificateDer<'_>, directory: &str) -> Option<Issued> {
        let parsed = Certificate::from_der(certificate).ok()?;
        let tbs = parsed.tbs_certificate();
        let wall = |time: &x509_cert::time::Time| {
            Wall(u64::try_from(time.to_unix_duration().as_millis()).unwrap_or(u64::MAX))
        };
        let names = tbs.get_extension::<SubjectAltName>().ok().flatten();
        let names = names.map(|(_, names)| names.0).unwrap_or_default();
        let host = |name: &GeneralName| match name {
            GeneralName::DnsName(host) => Some(host.as_str().to_ascii_lowercase()),
            _ => None,
        };
        let hash = digest(&SHA256, certificate);
        let jitter = hash.as_ref().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        Some(Issued {
            begins: wall(&tbs.validity().not_before),
            ends: wall(&tbs.validity().not_after),
            names: names.iter().take(NAMES_MAX).filter_map(host).collect(),
            directory: directory.to_owned(),
            jitter: jitter % JITTER_RANGE,
        })
    }

    /// From when on another one is wanted.
    pub(super) fn wanted(&self, names: &[String], directory: &str) -> Wall {
        match self.directory == directory && self.has(names) {
            true => renewal(self.begins, self.ends, self.jitter),
            false => Wall(0),
        }
    }

    fn has(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }
}

/// What an authority has issued for a key, as it is kept: where it comes from, key and certificates.
///
/// # Errors
/// It is not what was ordered, in words.
pub(super) fn content(
    directory: &str,
    (key, chain): (&[u8], &str),
    names: &[String],
    now: Wall,
) -> Result<(Vec<u8>, Issued), String> {
    let certificates = pem::certificates_in(chain.as_bytes())?;
    if certificates.len() > CHAIN_MAX {
        return Err(format!("it sent more than {CHAIN_MAX} certificates"));
    }
    let secret = PrivateKeyDer::try_from(key.to_vec()).map_err(str::to_owned)?;
    let own = certificates.first().cloned().unwrap_or_else(|| Vec::new().into());
    CertifiedKey::from_der(certificates.clone(), secret, &crypto::provider())
        .map_err(|error| format!("its certificate is unusable: {error}"))?;
    let issued = Issued::of(&own, directory).ok_or("its reply is not a certificate")?;
    if !issued.has(names) {
        return Err("its certificate is not for the ordered names".to_owned());
    }
    if issued.ends <= now {
        return Err(format!("its certificate expired at {}, by this machine's clock", issued.ends));
    }
    let mut text = format!("{FROM}{directory}\n");
    write_pem(&mut text, "PRIVATE KEY", key);
    certificates.iter().for_each(|one| write_pem(&mut text, "CERTIFICATE", one));
    // Who reads PEM passes over what is between its blocks (RFC 7468 §2).
    Ok((sealed_text::sealed(text.into_bytes()), issued))
}

/// RFC 7468.
fn write_pem(text: &mut String, label: &str, der: &[u8]) {
    let encoded = STANDARD.encode(der);
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    for line in encoded.as_bytes().chunks(64) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};
    use std::os::unix::fs::PermissionsExt as _;

    const DIRECTORY: &str = "https://ca.test/dir";

    fn made(names: &[&str]) -> (Vec<u8>, String) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        (key.serialize_der(), certificate.pem())
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_was_issued_is_kept_for_its_owner_alone_and_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(&dir.path().join("spool/acme"));
        let path = dir.path().join("spool/acme/mx.test.pem");
        let now = Wall(1_800_000_000_000);
        let (key, chain) = made(&["mx.test", "www.test"]);
        let wanted = names(&["mx.test"]);
        let (text, issued) = content(DIRECTORY, (&key, &chain), &wanted, now).unwrap();
        assert_eq!(Issued::read(&path), None);
        store.put_certificate(&path, &text).unwrap();
        assert_eq!(Issued::read(&path).as_ref(), Some(&issued));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        // What is left of a write that was cut does no harm.
        fs::write(path.with_extension("new"), "half").unwrap();
        store.put_certificate(&path, &text).unwrap();
        assert!(!path.with_extension("new").exists());
        // Of other names or another authority it is wanted at once.
        assert!(issued.wanted(&wanted, DIRECTORY) > now);
        assert_eq!(issued.wanted(&names(&["other.test"]), DIRECTORY), Wall(0));
        assert_eq!(issued.wanted(&wanted, "https://other.test/dir"), Wall(0));
        fs::write(&path, "nothing").unwrap();
        assert_eq!(Issued::read(&path), None);
        assert_eq!(store.ordered(&path), Ok(None));
        store.put_ordered(&path, now).unwrap();
        assert_eq!(store.ordered(&path), Ok(Some(now)));
        fs::write(ordered_path(&path), "17").unwrap();
        assert_eq!(store.ordered(&path), Ok(Some(Wall(17))), "of an earlier version");
        fs::write(ordered_path(&path), "never").unwrap();
        let (at, why) = store.ordered(&path).unwrap_err();
        assert!(at > Wall(1_700_000_000_000) && why.contains("mx.test.ordered"), "{at:?} {why}");
        // Whatever becomes of it, it is no certificate.
        for octet in (0..text.len() - sealed_text::SEAL_BYTES).step_by(7) {
            let mut turned = text.clone();
            turned[octet] ^= 1;
            fs::write(&path, turned).unwrap();
            assert_eq!(Issued::read(&path), None, "{octet}");
        }
    }

    #[test]
    fn what_was_not_ordered_is_not_kept() {
        let now = Wall(1_800_000_000_000);
        let (key, chain) = made(&["mx.test"]);
        let (other_key, other) = made(&["mx.test"]);
        let wanted = names(&["mx.test"]);
        let why = |key: &[u8], chain: &str, names: &[String], now| {
            content(DIRECTORY, (key, chain), names, now).unwrap_err()
        };
        assert!(why(&other_key, &chain, &wanted, now).contains("is unusable"));
        assert!(why(&key, &chain, &names(&["a.test"]), now).contains("not for the ordered names"));
        assert!(why(&key, &chain, &wanted, Wall(u64::MAX)).contains("expired"));
        assert!(why(&key, "garbage", &wanted, now).contains("no certificate found"));
        assert!(why(&key, &chain.repeat(CHAIN_MAX + 1), &wanted, now).contains("more than 16"));
        assert!(content(DIRECTORY, (&key, &chain.repeat(CHAIN_MAX)), &wanted, now).is_ok());
        // What comes with it is not kept: neither text nor a key of the authority's choice.
        let forged = format!(
            "Issued by nobody\n{}{chain}{other}",
            KeyPair::generate().unwrap().serialize_pem()
        );
        let (text, _) = content(DIRECTORY, (&key, &forged), &wanted, now).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("Issued by https://ca.test/dir\n"));
        assert_eq!(text.matches("PRIVATE KEY-----\n").count(), 2);
        assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
    }

    #[test]
    fn an_account_that_is_gone_or_damaged_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        assert_eq!(store.account(DIRECTORY).unwrap(), None);
        store.put_account(DIRECTORY, b"{}").unwrap();
        assert_eq!(store.account(DIRECTORY).unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(store.account("https://other.test/dir").unwrap(), None);
        store.forget_account(DIRECTORY).unwrap();
        assert_eq!(store.account(DIRECTORY).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        store.put_account(DIRECTORY, b"{\"key\":1}").unwrap();
        let path = store.account_file(DIRECTORY);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(":1", ":7")).unwrap();
        assert!(store.account(DIRECTORY).is_err());
        let aside = store.put_account_aside(DIRECTORY).unwrap();
        assert!(aside.exists() && store.account(DIRECTORY).unwrap().is_none());
    }
}
