//! Passwords, which stand in files of their own.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// No password is longer.
const PASSWORD_BYTES_MAX: u64 = 1_024;

/// The password in a file: its first line. Read for each connection that is opened, so that a new one
/// needs no reload.
///
/// # Errors
/// Why there is none, with the path of the file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("password_file {}: {why}", path.display());
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let mut text = String::new();
    let read = file.take(PASSWORD_BYTES_MAX + 2).read_to_string(&mut text);
    read.map_err(|error| wrong(&error))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() {
        return Err(wrong(&"its first line is empty"));
    }
    if u64::try_from(password.len()).unwrap_or(u64::MAX) > PASSWORD_BYTES_MAX {
        return Err(wrong(&format!("its first line has more than {PASSWORD_BYTES_MAX} bytes")));
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        assert!(read(&path).unwrap_err().contains("No such file"));
        let longest = "p".repeat(1_024);
        for (text, password) in [
            ("secret\n", "secret"),
            (" se cret \r\nmore\n", " se cret "),
            (&*longest, &*longest),
            (&*format!("{longest}\r\n"), &*longest),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read(&path).as_deref(), Ok(password));
        }
        for (text, why) in
            [("", "is empty"), ("\nx", "is empty"), (&*format!("{longest}p"), "1024")]
        {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err();
            assert!(error.contains(why) && error.contains("/password: "), "{error}");
        }
    }
}
