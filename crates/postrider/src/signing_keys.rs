//! Private keys that sign mail: read, put where the settings want them, and read anew when their files
//! change.

use crate::commands::load::one_line;
use crate::console::ConsoleLog;
use crate::file_stamp::{Looks, Seen, Stamp};
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::pem;
use crate::services::{Adoption, Next, Service};
use crate::under_way::UnderWay;
use crate::world::clock::wall_now;
use auth::dkim::SigningKey;
use channels::key_files;
use config::{Config, Problem};
use mta::answer::Answer;
use mta::console::Console;
use mta::problems::{Conditions, Found};
use mta::seams::{KeyFiles, ReadKey};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Bits of a file's mode that let others than its owner and group at it.
const OTHERS: u32 = 0o007;

/// The keys of the configuration in force.
pub(crate) struct SigningKeys {
    state: Mutex<State>,
    console: Arc<ConsoleLog>,
    /// Looks at their files.
    pub(crate) under_way: UnderWay,
    /// Why files that have changed are not used.
    pub(crate) troubles: Conditions,
}

/// What the troubles are about.
const ALL: &str = "signing keys";

#[derive(Default)]
struct State {
    config: Option<Arc<Config>>,
    stamps: Vec<Stamp>,
}

/// Keys as they were read, in the order in which the configuration names their files.
struct Read {
    keys: Vec<Arc<SigningKey>>,
    stamps: Vec<Stamp>,
}

impl SigningKeys {
    /// None, before a configuration is adopted.
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> Arc<SigningKeys> {
        let (state, under_way) = Default::default();
        let (console, troubles) = (Arc::clone(console), Conditions::new("signing_key"));
        Arc::new(SigningKeys { state, console, under_way, troubles })
    }

    /// Looks at their files from now on.
    pub(crate) fn watch(self: &Arc<SigningKeys>, watch: &FileWatch) {
        let mut looks = Looks::default();
        watch.follow(self, move |these| these.look(&mut looks));
    }

    /// Puts them into a configuration, which is in force from then on.
    fn adopt(&self, config: &Arc<Config>, read: Read) {
        lock(&self.state).take(config, read);
        self.troubles.clear(ALL);
    }

    /// Looks at the files, and reads them when they have changed.
    fn look(&self, looks: &mut Looks) {
        let stamps = lock(&self.state).stamps.clone();
        let work = self.under_way.begin("a file of signing keys");
        if looks.find_change(&stamps) {
            self.read_anew();
        } else if looks.is_same() {
            // What could not be used is gone, and what is in use is there again.
            self.troubles.clear(ALL);
        }
        drop(work);
    }

    fn read_anew(&self) {
        let console: &dyn Console = &*self.console;
        let Some(config) = lock(&self.state).config.clone() else { return };
        match read(&config) {
            Ok(read) => {
                let mut state = lock(&self.state);
                // A reload may have come in between.
                if state.config.as_ref().is_some_and(|current| Arc::ptr_eq(current, &config)) {
                    state.take(&config, read);
                    self.troubles.clear(ALL);
                    console.info("signing", format_args!("signing keys read anew"));
                }
            }
            Err(mistakes) => {
                let why = one_line(&config.errors(mistakes));
                let text = format!("signing keys stay as they were: {why}");
                console.error("signing", format_args!("{text}"));
                let step = "mend the file: it is read anew when it changes";
                self.troubles.set(Found::warning(ALL, text).next_step(step), wall_now());
            }
        }
    }
}

impl State {
    fn take(&mut self, config: &Arc<Config>, read: Read) {
        for (file, key) in key_files(config).zip(read.keys) {
            file.set(key);
        }
        self.config = Some(Arc::clone(config));
        self.stamps = read.stamps;
    }
}

impl Service for Arc<SigningKeys> {
    fn name(&self) -> &'static str {
        "signing keys"
    }

    fn prepare(&self, next: &Next<'_>) -> Result<Adoption, Vec<Problem>> {
        let read = read(next.config)?;
        let (this, config) = (Arc::clone(self), Arc::clone(next.config));
        Ok(Box::new(move || this.adopt(&config, read)))
    }
}

/// Reads the keys that a configuration names.
///
/// # Errors
/// What is wrong with them.
fn read(config: &Config) -> Result<Read, Vec<Problem>> {
    let (mut keys, mut stamps, mut mistakes) = (Vec::new(), Vec::new(), Vec::new());
    for file in key_files(config) {
        // Before it is read: what is written in between is noticed then.
        stamps.extend(Seen::at(file.path()).map(|seen| Stamp::new(file.path(), seen)));
        match read_one(file.path()) {
            Ok(key) => keys.push(Arc::new(key)),
            Err(why) => mistakes.push(config.mistake_at(file.at(), why)),
        }
    }
    if mistakes.is_empty() { Ok(Read { keys, stamps }) } else { Err(mistakes) }
}

/// Reads keys that tables name, where no shard has to wait for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedKeys;

impl KeyFiles for NamedKeys {
    fn read(&self, path: &Path) -> Answer<'static, ReadKey> {
        let path = path.to_owned();
        Answer::later(async move {
            let read = tokio::task::spawn_blocking(move || read_one(&path).map(Arc::new)).await;
            read.unwrap_or_else(|error| Err(format!("a key was not read: {error}")))
        })
    }

    fn parse(&self, text: &str) -> ReadKey {
        let read = pem::key_in(text.as_bytes()).and_then(|key| {
            SigningKey::from_der(key.secret_der()).map_err(|error| error.to_string())
        });
        read.map(Arc::new).map_err(|why| format!("a signing key of a table: {why}"))
    }
}

/// The key that a file has.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub(crate) fn read_one(path: &Path) -> Result<SigningKey, String> {
    let sentence = |why: &dyn std::fmt::Display| format!("signing key {}: {why}", path.display());
    let mode = std::fs::metadata(path).map_err(|error| sentence(&error))?.mode();
    if mode & OTHERS != 0 {
        return Err(sentence(&"everybody on this machine may read or change it (chmod o=)"));
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
            assert!(make(small).unwrap_err().ends_with("an RSA key of less than 2048 bits"));
        }
        let other = make(&["ecparam", "-genkey", "-noout", "-name", "prime256v1"]);
        assert!(other.unwrap_err().ends_with("neither an RSA nor an Ed25519 private key"));
        assert!(make(&["version"]).is_err());
    }
}
