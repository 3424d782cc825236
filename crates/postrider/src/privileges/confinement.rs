//! The part of the file system that the server reaches (Landlock), and that a reload may name.

use config::{Config, FileUse, NamedFile};
use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, path_beneath_rules,
};
use mta::event::EventSettings;
use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

/// Places that the C library, the resolver and TLS read: users, hosts, time zones, root certificates.
const SYSTEM: [&str; 12] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    // The whole: the kernel may replace the inode of /proc/PID, and a rule for that would be lost.
    "/proc",
    "/sys/fs/cgroup",
    "/dev/urandom",
    "/dev/null",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/var/lib/sss",
];

/// Variables of the environment that name files or directories to read.
const VARIABLES: [&str; 3] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "CREDENTIALS_DIRECTORY"];

/// Directories in reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// Files and directories to read.
    read: BTreeSet<PathBuf>,
    /// Directories in which files are made and changed.
    write: BTreeSet<PathBuf>,
}

impl Confinement {
    /// The places that a configuration names. `file` is the configuration's own, read again by reloads.
    pub(crate) fn of(config: &Config, file: Option<&Path>) -> Confinement {
        let mut all = Confinement::default();
        all.read.extend(SYSTEM.map(PathBuf::from));
        let named = VARIABLES.iter().filter_map(env::var_os).map(PathBuf::from);
        for path in named.chain(file.map(Path::to_owned)) {
            all.reads(&path);
        }
        for directory in written_directories(config) {
            all.writes(&directory);
        }
        for file in &config.files {
            match file.usage() {
                FileUse::Read => all.reads(&file.path),
                FileUse::Replace => {
                    all.reads(&file.path);
                    all.writes(&above(&file.path));
                }
                FileUse::Directory | FileUse::Socket => {}
            }
        }
        all
    }

    /// A file is replaced under its name, so its directory must be in reach, and that of its target.
    fn reads(&mut self, path: &Path) {
        self.read.insert(if path.is_dir() { path.to_owned() } else { above(path) });
        if let Ok(target) = path.canonicalize() {
            self.read.insert(if target.is_dir() { target } else { above(&target) });
        }
    }

    /// A directory that is not there yet is made in the one above.
    fn writes(&mut self, directory: &Path) {
        let is_there = directory.is_dir();
        self.write.insert(if is_there { directory.to_owned() } else { above(directory) });
    }

    /// The files of another configuration that are out of reach, with their keys.
    pub(crate) fn out_of_reach(&self, config: &Config) -> Vec<(String, PathBuf)> {
        let is_below = |path: &Path, all: &BTreeSet<PathBuf>| {
            let path = real(path);
            all.iter().any(|root| path.starts_with(real(root)))
        };
        let is_out = |file: &&NamedFile| match file.usage() {
            FileUse::Read => {
                !is_below(&file.path, &self.read) && !is_below(&file.path, &self.write)
            }
            FileUse::Replace => !is_below(&file.path, &self.write),
            // A reload opens no other ones.
            FileUse::Directory | FileUse::Socket => false,
        };
        let files = config.files.iter().filter(is_out);
        let files = files.map(|file| (file.key.to_string(), file.path.clone()));
        let mailboxes =
            channels::mailbox_roots(config).filter(|(_, root)| !is_below(root, &self.write));
        let mailboxes = mailboxes.filter_map(|(name, root)| {
            let at = config.routes.iter().find(|route| *route.name == *name)?.index;
            Some((format!("route[{at}].maildir"), root.to_owned()))
        });
        files.chain(mailboxes).collect()
    }

    /// Restricts this thread, and those that it starts. Returns the state of the enforcement.
    ///
    /// # Errors
    /// Returns a sentence if the rules cannot be set.
    pub(super) fn restrict(&self) -> Result<&'static str, String> {
        // The newest rights of files that this release knows; older kernels enforce fewer.
        let abi = ABI::V5;
        let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
        // No program is started from here on.
        let read = AccessFs::from_read(abi) & !AccessFs::Execute;
        let write = AccessFs::from_all(abi) & !(devices | AccessFs::Execute);
        let null = AccessFs::from_file(abi) & !(AccessFs::Execute | AccessFs::IoctlDev);
        let status = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))
            .and_then(Ruleset::create)
            .and_then(|rules| rules.add_rules(path_beneath_rules(&self.read, read)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(&self.write, write)))
            .and_then(|rules| rules.add_rules(path_beneath_rules(["/dev/null"], null)))
            .and_then(|rules| rules.restrict_self())
            .map_err(|error| format!("cannot confine the file system (Landlock): {error}"))?;
        Ok(match status.ruleset {
            RulesetStatus::FullyEnforced => "enforced",
            RulesetStatus::PartiallyEnforced => "partly",
            RulesetStatus::NotEnforced => "unavailable",
        })
    }
}

/// Directories in which sendmail(1) leaves messages.
pub(super) fn drop_directories(config: &Config) -> impl Iterator<Item = &Path> {
    config.listeners.iter().filter_map(|listener| listener.protocol.drop_directory())
}

/// Directories in which the server makes files: spools, mailboxes, logs, sockets, dropped messages.
pub(super) fn written_directories(config: &Config) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<PathBuf> = config.spool.paths.iter().cloned().collect();
    all.extend(channels::mailbox_roots(config).map(|(_, root)| root.to_owned()));
    all.extend(config.of::<EventSettings>().map(|events| above(&events.file.path)));
    let sockets = config.listeners.iter().filter_map(|listener| listener.socket.as_deref());
    all.extend(sockets.chain([&*config.admin.control]).map(above));
    all.extend(drop_directories(config).map(Path::to_owned));
    all
}

/// The path without links; of a missing file, that of its directory and the name.
fn real(path: &Path) -> PathBuf {
    let beside = || Some(above(path).canonicalize().ok()?.join(path.file_name()?));
    path.canonicalize().ok().or_else(beside).unwrap_or_else(|| path.to_owned())
}

/// The directory that a path is in.
fn above(path: &Path) -> PathBuf {
    crate::beside_spool::above(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        let all = format!("[[route]]\ndiscard = {{}}\n{text}");
        crate::sections::schema().parse(&all, "test.toml").unwrap_or_else(|all| panic!("{all}"))
    }

    #[test]
    fn named_places_and_no_others_are_in_reach() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        std::fs::create_dir(at("spool")).unwrap();
        std::fs::create_dir(at("real")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link")).unwrap();
        std::fs::write(at("real/key"), "").unwrap();
        let text = |key: &str| {
            format!(
                "[spool]\npath = \"{}\"\n[[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
                 [[table]]\nname = \"t\"\nfile = {{ path = \"{key}\" }}\n",
                at("spool")
            )
        };
        let first = config(&text(&at("link/key")));
        let all = Confinement::of(&first, Some(Path::new("/x/postrider.toml")));
        for path in ["/x", &at("link"), "/etc"] {
            assert!(all.read.contains(Path::new(path)), "{path}: {all:?}");
        }
        let real = PathBuf::from(at("real")).canonicalize().unwrap();
        assert!(all.read.contains(&real), "{all:?}");
        assert_eq!(all.write, BTreeSet::from([PathBuf::from(at("spool"))]));
        assert!(!all.read.contains(Path::new("/")) && !all.read.contains(Path::new("/root")));
        let out = |key: &str| all.out_of_reach(&config(&text(key))).len();
        assert_eq!([out(&at("real/other")), out("/etc/key"), out("/srv/key")], [0, 0, 1]);
    }
}
