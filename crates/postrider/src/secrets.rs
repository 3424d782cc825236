//! Secrets in files: those of `[srs]`, and the logins of routes.

use crate::console::ConsoleLog;
use crate::file_stamp::{FileIdentity, Settling};
use crate::file_watch::FileWatch;
use crate::secret_place::SecretLocation;
use crate::services::{Adoption, CandidateConfig, Service};
use crate::under_way::WorkRegistry;
use crate::world::clock::wall_now;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use channels::{PASSWORD_BYTES_MAX, X400};
use config::{Config, Problem, Secret, SecretFile};
use mta::console::Console;
use mta::problems::{Conditions, DetectedProblem};
use mta::srs::RewrittenSenders;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Weak};

/// A file has no more bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Loads the secrets into the configuration.
///
/// Returns the unavailable ones. `progress` is called with each file.
pub(crate) fn read(config: &mut Config, progress: &dyn Fn(&str)) -> Vec<Problem> {
    let mut mistakes = Vec::new();
    let is_at = |path: &Path| progress(&format!("secrets in {}", path.display()));
    for (route, file) in config.secret_files() {
        file.path().into_iter().for_each(is_at);
        if let Err(why) = read_login(file) {
            let why = format!("cannot load the login of route \"{}\": {why}", route.name);
            let key = format!("route[{}].smtp.login.password_file", route.index);
            mistakes.push(config.mistake_at(&key, why));
        }
    }
    mistakes.extend(read_peers(config, &is_at));
    config.of::<RewrittenSenders>().into_iter().for_each(|srs| is_at(&srs.secret_file));
    if let Err(why) = read_srs(config) {
        mistakes.push(config.mistake_at("srs.secret_file", why));
    }
    mistakes
}

/// Reads the passwords of X.400 peers from files. Returns the unavailable ones. `before` is called with each file.
pub(crate) fn read_peers(config: &Config, before: &dyn Fn(&Path)) -> Vec<Problem> {
    let mut mistakes = Vec::new();
    let peers = config.of::<X400>().into_iter().flat_map(|x400| &x400.peers);
    for (index, peer) in peers.enumerate() {
        let passwords = [
            ("their_password_file", &peer.their_password),
            ("our_password_file", &peer.our_password),
        ];
        for (key, password) in passwords {
            let Some(file) = &password.file else { continue };
            before(file);
            match line_of(file, PASSWORD_BYTES_MAX) {
                Ok(line) => password.set(Secret(line.into())),
                Err(why) => {
                    let why =
                        format!("cannot load a password of peer \"{}\" from {why}", peer.name);
                    let key = format!("x400.peer[{index}].{key}");
                    mistakes.push(config.mistake_at(&key, why));
                }
            }
        }
    }
    mistakes
}

fn read_srs(config: &mut Config) -> Result<(), String> {
    let Some(srs) = config.of::<RewrittenSenders>() else { return Ok(()) };
    let wrong = |why: &dyn std::fmt::Display| {
        format!("cannot load the secrets of [srs] from {}: {why}", srs.secret_file.display())
    };
    let place = SecretLocation::of(&srs.secret_file).map_err(|why| wrong(&why))?;
    let content = place.read(FILE_BYTES_MAX).map_err(|error| wrong(&error))?;
    let trimmed = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let secrets = trimmed.filter(|line| !line.is_empty()).map(|line| Secret(line.into()));
    let secrets: Vec<Secret> = secrets.collect();
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    if secrets.is_empty() {
        return Err(wrong(&"no secret in it"));
    }
    let srs = RewrittenSenders { secrets, ..srs.clone() };
    config.set::<RewrittenSenders>(srs);
    Ok(())
}

/// Mode bits for users other than the owner and the group, which a secret must not have.
const OTHERS: u32 = 0o007;

/// Reads the login secret of a route: the only line of a file.
///
/// # Errors
/// Returns the reason with the file's path if there is no secret.
fn read_login(file: &SecretFile) -> Result<(), String> {
    // Other secrets are fetched.
    let Some(written) = file.path() else { return Ok(()) };
    let line = line_of(written, auth::sasl::client::SECRET_BYTES_MAX)?;
    file.put(Ok(Secret(line.into())));
    Ok(())
}

/// The only line of a file that is not world-readable.
fn line_of(written: &Path, max: usize) -> Result<Vec<u8>, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", written.display());
    let place = SecretLocation::of(written).map_err(|why| wrong(&why))?;
    if let SecretLocation::File(path) = &place {
        let mode = std::fs::metadata(path).map_err(|error| wrong(&error))?.mode();
        if mode & OTHERS != 0 {
            let mode = mode & 0o777;
            let why = format_args!("readable by all users (mode {mode:04o}): chmod o= FILE");
            return Err(wrong(&why));
        }
    }
    let content = place.read(FILE_BYTES_MAX).map_err(|error| wrong(&error))?;
    let line = content.strip_suffix(b"\n").unwrap_or(&content);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.len() > max {
        return Err(wrong(&format_args!("expected a line of 1 to {max} bytes")));
    }
    if line.iter().any(u8::is_ascii_control) {
        return Err(wrong(&"expected one line without control characters"));
    }
    Ok(line.to_owned())
}

/// Characters of a key in base64url.
const KEY_MAX: usize = 4_096;

/// A base64url key, the only line of a file, as issued by authorities for an external account binding (RFC 8555
/// §7.3.4).
///
/// # Errors
/// Returns the reason with the file's path if there is no key.
pub(crate) fn read_base64url(path: &Path) -> Result<Secret, String> {
    let line = line_of(path, KEY_MAX)?;
    let bare = line.trim_ascii();
    let bare = bare.strip_suffix(b"==").or(bare.strip_suffix(b"=")).unwrap_or(bare);
    match URL_SAFE_NO_PAD.decode(bare) {
        Ok(key) => Ok(Secret(key.into())),
        Err(error) => Err(format!("{}: expected a key in base64url: {error}", path.display())),
    }
}

/// The files that routes log in with, read again when they change.
#[derive(Clone, Debug)]
pub(crate) struct WatchedSecrets {
    console: Arc<ConsoleLog>,
    watch: Arc<FileWatch>,
    /// The reasons why changed files are not used.
    pub(crate) troubles: Conditions,
    /// Looks at them.
    pub(crate) under_way: WorkRegistry,
}

/// One file, as it was seen.
struct WatchedSecret {
    file: Weak<SecretFile>,
    seen: Settling<Option<FileIdentity>>,
    /// It can't be used as it is: where it is, as that was reported.
    reported: Option<String>,
}

impl WatchedSecrets {
    pub(crate) fn new(watch: &Arc<FileWatch>, console: &Arc<ConsoleLog>) -> WatchedSecrets {
        let (console, watch) = (Arc::clone(console), Arc::clone(watch));
        let (troubles, under_way) = (Conditions::new("secret"), WorkRegistry::default());
        WatchedSecrets { console, watch, troubles, under_way }
    }

    /// The secrets of a configuration, with the current state of their files.
    fn seen(&self, config: &Config) -> Vec<WatchedSecret> {
        let seen = |file: &Arc<SecretFile>| {
            let (seen, file) = (Settling::on(self.see(file)), Arc::downgrade(file));
            WatchedSecret { file, seen, reported: None }
        };
        config.secret_files().map(|(_, file)| seen(file)).collect()
    }

    /// Looks at each for as long as the configuration that names it is in force.
    fn watch(&self, all: Vec<WatchedSecret>) {
        for mut watched in all {
            let this = self.clone();
            let device = watched.seen.read().as_ref().map(FileIdentity::device);
            self.watch.add(device, move || this.look(&mut watched));
        }
    }

    fn see(&self, file: &SecretFile) -> Option<FileIdentity> {
        let _work = self.under_way.begin(file.source().to_string());
        match SecretLocation::of(file.path()?).ok()? {
            SecretLocation::File(path) => FileIdentity::at(&path),
            // The environment does not change after the start.
            SecretLocation::Variable(_) => None,
        }
    }

    /// Checks one secret. Returns true if it is still in use.
    fn look(&self, watched: &mut WatchedSecret) -> bool {
        let Some(file) = watched.file.upgrade() else {
            watched.reported.iter().for_each(|source| self.troubles.clear(source));
            return false;
        };
        if watched.seen.look(self.see(&file)) {
            watched.reported = self.read(&file);
        }
        true
    }

    /// Reads one that has changed; where it is, if it can't be used.
    fn read(&self, file: &SecretFile) -> Option<String> {
        let (console, source): (&dyn Console, _) = (&*self.console, file.source().to_string());
        let _work = self.under_way.begin(file.source().to_string());
        match read_login(file) {
            Ok(()) => {
                self.troubles.clear(&source);
                console.info("login", format_args!("{source} reloaded"));
                None
            }
            Err(why) => {
                let text = format!("the previous login stays in force: {why}");
                console.error("login", format_args!("{text}"));
                let found = DetectedProblem::warning(&source, text);
                let step = "correct the file: it is reloaded when it changes";
                self.troubles.set(found.next_step(step), wall_now());
                Some(source)
            }
        }
    }
}

impl Service for WatchedSecrets {
    fn name(&self) -> &'static str {
        "passwords"
    }

    /// They were read into the configuration.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, seen) = (self.clone(), self.seen(next.config));
        Ok(Box::new(move || this.watch(seen)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_login_is_one_line_that_not_everybody_may_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        let file = SecretFile::new(path.clone());
        assert!(read_login(&file).unwrap_err().contains("No such file"));
        let write = |content: &[u8], mode| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_login(&file)
        };
        assert!(
            write(b"secret\n", 0o644).unwrap_err().contains("readable by all users (mode 0644)")
        );
        assert_eq!(write(b" a b\r\n", 0o640), Ok(()));
        assert_eq!(file.secret(), Ok(Secret(b" a b"[..].into())));
        let most = auth::sasl::client::SECRET_BYTES_MAX;
        assert_eq!(write(&vec![b'x'; most], 0o600), Ok(()));
        for wrong in [&b""[..], b"\n", b"a\nb\n", &vec![b'x'; most + 1]] {
            assert!(write(wrong, 0o600).unwrap_err().contains("line"), "{}", wrong.len());
        }
        // What was there before stays.
        assert_eq!(file.secret().map(|secret| secret.0.len()), Ok(most));
    }

    #[test]
    fn a_key_is_in_base64url() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            read_base64url(&path)
        };
        let key = Ok(Secret([0xFB, 0xFF, 1, 2][..].into()));
        for text in ["-_8BAg", "-_8BAg==\n", " -_8BAg \r\n"] {
            assert_eq!(read(text), key, "{text:?}");
        }
        for text in ["+/8BAg", "a", "-_8B\nAg", ""] {
            assert!(read(text).unwrap_err().contains("key"), "{text:?}");
        }
    }

    #[test]
    fn each_line_is_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let text = format!(
            "[srs]\ndomain = \"srs.test\"\nsecret_file = \"{}\"\n\
             [[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n",
            path.display()
        );
        let mut config = crate::sections::schema().parse(&text, "test.toml").unwrap();
        let wrong = |config: &mut Config| read(config, &|_| ()).remove(0).message;
        assert!(wrong(&mut config).contains("No such file"));
        let secrets = |config: &Config| config.of::<RewrittenSenders>().unwrap().secrets.clone();
        std::fs::write(&path, " new one\r\n\nold\n").unwrap();
        assert_eq!(read(&mut config, &|_| ()), []);
        assert_eq!(secrets(&config), [&b"new one"[..], b"old"].map(|secret| Secret(secret.into())));
        assert!(!format!("{config:?}").contains("110, 101, 119"), "nobody is shown them");
        std::fs::write(&path, "\n \n").unwrap();
        assert!(wrong(&mut config).ends_with("no secret in it"));
        std::fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(wrong(&mut config).contains("more than 65536 bytes"));
        std::fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize]).unwrap();
        assert_eq!(read(&mut config, &|_| ()), []);
    }
}
