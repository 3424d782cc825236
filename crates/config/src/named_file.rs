//! Files and directories that the configuration names, and their use by the server.

use std::path::PathBuf;

/// A file or directory that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The key, as a path: `certificate[0].key`.
    pub key: Box<str>,
    pub path: PathBuf,
}

/// The server's use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileUse {
    /// It is read, at a start and by reloads.
    Read,
    /// It is read, and replaced by the server.
    Replace,
    /// The server makes and changes files in it, or beside it.
    Directory,
    /// A socket of the server.
    Socket,
}

impl NamedFile {
    /// The server's use of the file.
    #[must_use]
    pub fn usage(&self) -> FileUse {
        let last = self.key.rsplit('.').next().unwrap_or_default();
        match (&*self.key, last) {
            ("events.path", _) => FileUse::Directory,
            (key, _) if key.starts_with("spool.") => FileUse::Directory,
            ("admin.control", _) | (_, "socket") => FileUse::Socket,
            (_, "refresh_token_file") => FileUse::Replace,
            _ => FileUse::Read,
        }
    }

    /// Returns true if only the server should be able to read it: keys, passwords and other secrets. `env:NAME` is no
    /// file.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        let last = self.key.rsplit('.').next().unwrap_or_default();
        let is_key = matches!(last, "key" | "key_file" | "secret_file");
        is_key
            || last.ends_with("password_file")
            || last.ends_with("token_file")
            || last == "client_secret_file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(key: &str) -> NamedFile {
        NamedFile { key: key.into(), path: PathBuf::new() }
    }

    #[test]
    fn use_follows_from_the_key() {
        for (key, expected) in [
            ("certificate[0].chain", FileUse::Read),
            ("table[2].file.path", FileUse::Read),
            ("spool.path", FileUse::Directory),
            ("spool.paths[1]", FileUse::Directory),
            ("events.path", FileUse::Directory),
            ("admin.control", FileUse::Socket),
            ("listener[0].socket", FileUse::Socket),
            ("route[0].smtp.login.oauth.refresh_token_file", FileUse::Replace),
        ] {
            assert_eq!(named(key).usage(), expected, "{key}");
        }
        let secrets =
            ["certificate[0].key", "srs.secret_file", "route[1].smtp.login.password_file"];
        assert!(secrets.iter().all(|key| named(key).is_secret()));
        let others = ["certificate[0].chain", "dns.ca_file", "table[0].database.path"];
        assert!(!others.iter().any(|key| named(key).is_secret()));
    }
}
