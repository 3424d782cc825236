//! Private keys that sign mail: read, put where the settings want them, and read anew when their files
//! change.

use crate::console::ConsoleLog;
use crate::file_stamp::{LOOK_EVERY, Looks, Seen, Stamp};
use crate::mutex::lock;
use crate::pem;
use crate::under_way::UnderWay;
use crate::world::clock::wall_now;
use auth::dkim::SigningKey;
use channels::key_files;
use config::Config;
use mta::answer::Answer;
use mta::console::Console;
use mta::problems::{Conditions, Found};
use mta::seams::{KeyFiles, ReadKey};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;

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
    is_watched: bool,
}

/// Keys as they were read, in the order in which the configuration names their files.
pub(crate) struct Read {
    keys: Vec<Arc<SigningKey>>,
    stamps: Vec<Stamp>,
}

impl SigningKeys {
    /// Reads those of the configuration.
    ///
    /// # Errors
    /// What is wrong with one of them, in a sentence.
    pub(crate) fn open(
        config: &Arc<Config>,
        console: &Arc<ConsoleLog>,
    ) -> Result<Arc<SigningKeys>, String> {
        let (state, under_way) = Default::default();
        let (console, troubles) = (Arc::clone(console), Conditions::new("signing_key"));
        let keys = Arc::new(SigningKeys { state, console, under_way, troubles });
        keys.adopt(config, read(config)?)?;
        Ok(keys)
    }

    /// Puts them into a configuration, which is in force from then on.
    ///
    /// # Errors
    /// When the system gives no thread to watch their files.
    pub(crate) fn adopt(
        self: &Arc<SigningKeys>,
        config: &Arc<Config>,
        read: Read,
    ) -> Result<(), String> {
        let mut state = lock(&self.state);
        state.take(config, read);
        self.troubles.clear(ALL);
        if !state.is_watched && !state.stamps.is_empty() {
            let this = Arc::downgrade(self);
            let thread = thread::Builder::new().name("signing-keys".to_owned());
            let started = thread.spawn(move || look_on(&this));
            started.map_err(|error| format!("cannot start a thread: {error}"))?;
            state.is_watched = true;
        }
        Ok(())
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
            Err(why) => {
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

/// Looks at the files for as long as the keys live.
fn look_on(keys: &Weak<SigningKeys>) {
    let mut looks = Looks::default();
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(keys) = keys.upgrade() else { return };
        let stamps = lock(&keys.state).stamps.clone();
        let work = keys.under_way.begin("a file of signing keys");
        if looks.find_change(&stamps) {
            keys.read_anew();
        } else if looks.is_same() {
            // What could not be used is gone, and what is in use is there again.
            keys.troubles.clear(ALL);
        }
        drop(work);
    }
}

/// Reads the keys that a configuration names.
///
/// # Errors
/// What is wrong with one of them, in a sentence.
pub(crate) fn read(config: &Config) -> Result<Read, String> {
    let (mut keys, mut stamps) = (Vec::new(), Vec::new());
    for file in key_files(config) {
        // Before it is read: what is written in between is noticed then.
        stamps.extend(Seen::at(file.path()).map(|seen| Stamp::new(file.path(), seen)));
        let key = read_one(file.path()).map_err(|why| format!("{}: {why}", file.place()))?;
        keys.push(Arc::new(key));
    }
    Ok(Read { keys, stamps })
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
