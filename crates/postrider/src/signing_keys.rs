//! Private signing keys: loaded, added to the settings, and reloaded when their files change.

use crate::commands::load::one_line;
use crate::console::ConsoleLog;
use crate::file_stamp::{Device, FileIdentity, Stamp, StampWatch};
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::pem;
use crate::services::{Adoption, CandidateConfig, Service};
use crate::under_way::WorkRegistry;
use auth::dkim::SigningKey;
use channels::{KeyFile, key_files};
use config::{Config, Problem};
use mta::console::Console;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Mode bits for users other than the owner and the group.
const OTHERS: u32 = 0o007;

/// The keys of the configuration in force.
pub(crate) struct SigningKeys {
    state: Mutex<State>,
    console: Arc<ConsoleLog>,
    /// Looks at their files.
    pub(crate) under_way: WorkRegistry,
}

#[derive(Default)]
struct State {
    keys: Vec<Arc<WatchedKeyFile>>,
    /// Looks at them, once there is one.
    watch: Option<Arc<FileWatch>>,
}

/// A key file, watched independently, since one may hang.
struct WatchedKeyFile {
    config: Arc<Config>,
    file: Arc<KeyFile>,
    read: Mutex<ReadFile>,
}

struct ReadFile {
    stamps: Vec<Stamp>,
    /// The reason why the current file is not used.
    unread: Option<String>,
}

/// A loaded key, with the stamp of its file.
struct LoadedSigningKey {
    key: SigningKey,
    stamps: Vec<Stamp>,
}

impl SigningKeys {
    /// None, before a configuration is adopted.
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> Arc<SigningKeys> {
        let (state, under_way) = Default::default();
        Arc::new(SigningKeys { state, console: Arc::clone(console), under_way })
    }

    /// Looks at their files from now on.
    pub(crate) fn watch(self: &Arc<SigningKeys>, watch: &Arc<FileWatch>) {
        let mut state = lock(&self.state);
        state.watch = Some(Arc::clone(watch));
        self.follow(&state);
    }

    /// Puts them into a configuration, which is in force from then on.
    fn adopt(self: &Arc<SigningKeys>, config: &Arc<Config>, all: Vec<LoadedSigningKey>) {
        let followed = |(file, read): (&Arc<KeyFile>, LoadedSigningKey)| {
            file.set(Arc::new(read.key));
            let read = Mutex::new(ReadFile { stamps: read.stamps, unread: None });
            Arc::new(WatchedKeyFile { config: Arc::clone(config), file: Arc::clone(file), read })
        };
        let mut state = lock(&self.state);
        state.keys = key_files(config).zip(all).map(followed).collect();
        self.follow(&state);
    }

    /// Looks at each for as long as it is in force.
    fn follow(self: &Arc<SigningKeys>, state: &State) {
        let Some(watch) = &state.watch else { return };
        for key in &state.keys {
            let (these, device) = (Arc::downgrade(self), key.device());
            let (key, mut looks) = (Arc::downgrade(key), StampWatch::default());
            watch.add(device, move || {
                let both = these.upgrade().zip(key.upgrade());
                both.map(|(these, key)| these.look(&key, &mut looks)).is_some()
            });
        }
    }

    /// Looks at a file, and reads it when it has changed.
    fn look(&self, key: &Arc<WatchedKeyFile>, looks: &mut StampWatch) {
        let stamps = lock(&key.read).stamps.clone();
        let mut work = None;
        let mut before =
            |path: &Path| work = Some(self.under_way.begin(path.display().to_string()));
        if looks.find_change(&stamps, &mut before) {
            self.read_anew(key, &mut before);
        } else if looks.is_same() {
            // The unusable file is gone, and the one in use is back.
            lock(&key.read).unread = None;
        }
    }

    fn read_anew(&self, key: &Arc<WatchedKeyFile>, before: &mut dyn FnMut(&Path)) {
        let (console, path): (&dyn Console, _) = (&*self.console, key.file.path().display());
        let read = read(&key.file, before);
        // A reload may have replaced the keys.
        if !lock(&self.state).keys.iter().any(|known| Arc::ptr_eq(known, key)) {
            return;
        }
        match read {
            Ok(LoadedSigningKey { key: fresh, stamps }) => {
                key.file.set(Arc::new(fresh));
                *lock(&key.read) = ReadFile { stamps, unread: None };
                console.info("signing", format_args!("signing key {path} reloaded"));
            }
            Err(why) => {
                let mistake = key.config.mistake_at(key.file.at(), why);
                let why = one_line(&key.config.errors(vec![mistake]));
                let text = format!("signing key {path} unchanged: {why}");
                console.error("signing", format_args!("{text}"));
                lock(&key.read).unread = Some(text);
            }
        }
    }
}

impl WatchedKeyFile {
    fn device(&self) -> Option<Device> {
        lock(&self.read).stamps.first().map(Stamp::device)
    }
}

/// Files that have changed and are not used.
impl ProblemKind for SigningKeys {
    fn name(&self) -> &'static str {
        "signing_key"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        // The lock is not held while a file is read.
        for key in &lock(&self.state).keys {
            if let Some(why) = &lock(&key.read).unread {
                let one =
                    DetectedProblem::warning(key.file.path().display().to_string(), why.clone());
                found(one.next_step("correct the file: it is reloaded when it changes"));
            }
        }
    }

    fn has_own_lines(&self) -> bool {
        true
    }
}

impl Service for Arc<SigningKeys> {
    fn name(&self) -> &'static str {
        "signing keys"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (mut all, mut mistakes) = (Vec::new(), Vec::new());
        let mut before = |path: &Path| (next.progress)(&format!("signing key {}", path.display()));
        for file in key_files(next.config) {
            match read(file, &mut before) {
                Ok(read) => all.push(read),
                Err(why) => mistakes.push(next.config.mistake_at(file.at(), why)),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let (this, config) = (Arc::clone(self), Arc::clone(next.config));
        Ok(Box::new(move || this.adopt(&config, all)))
    }
}

/// Reads a key that a configuration names. `before` is called with the file.
///
/// # Errors
/// What is wrong with it.
fn read(file: &KeyFile, before: &mut dyn FnMut(&Path)) -> Result<LoadedSigningKey, String> {
    before(file.path());
    // Take the stamp before the read, so that a change in between is noticed.
    let seen = FileIdentity::at(file.path()).map(|seen| Stamp::new(file.path(), seen));
    let key = read_one(file.path())?;
    Ok(LoadedSigningKey { key, stamps: seen.into_iter().collect() })
}

/// The key that a file has.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub(crate) fn read_one(path: &Path) -> Result<SigningKey, String> {
    let sentence = |why: &dyn std::fmt::Display| format!("signing key {}: {why}", path.display());
    let mode = std::fs::metadata(path).map_err(|error| sentence(&error))?.mode();
    if mode & OTHERS != 0 {
        return Err(sentence(&"all users can read or change it (chmod o=)"));
    }
    let key = pem::key(path).map_err(|error| format!("signing key {error}"))?;
    SigningKey::from_der(key.secret_der()).map_err(|error| sentence(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    #[test]
    fn keys_are_told_from_what_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.pem");
        let make = |words: &[&str]| {
            let made = Command::new("openssl").args(words).output().unwrap();
            std::fs::write(&path, made.stdout).unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            read_one(&path).map(|key| key.algorithm().as_str())
        };
        assert!(read_one(&path).unwrap_err().contains("No such file"));
        assert_eq!(make(&["genpkey", "-algorithm", "ed25519"]), Ok("ed25519-sha256"));
        assert_eq!(make(&["genrsa", "2048"]), Ok("rsa-sha256"));
        assert_eq!(make(&["genrsa", "-traditional", "2048"]), Ok("rsa-sha256"));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(read_one(&path).unwrap_err().ends_with("(chmod o=)"));
        for small in [&["genrsa", "1024"][..], &["genrsa", "-traditional", "1024"]] {
            assert!(make(small).unwrap_err().ends_with("an RSA key with less than 2048 bits"));
        }
        let other = make(&["ecparam", "-genkey", "-noout", "-name", "prime256v1"]);
        assert!(other.unwrap_err().ends_with("neither an RSA nor an Ed25519 private key"));
        assert!(make(&["version"]).is_err());
    }
}
