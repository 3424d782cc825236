//! The secrets of `[srs]`, which stand in a file of their own.

use config::{Config, Secret};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// A file has no more bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// Puts the secrets into the configuration that names their file.
///
/// # Errors
/// Why there are none, with the path of the file.
pub(crate) fn read(config: &mut Config) -> Result<(), String> {
    let Some(srs) = &mut config.srs else { return Ok(()) };
    let wrong = |why: &dyn std::fmt::Display| {
        format!("cannot take the secrets of [srs] from {}: {why}", srs.secret_file.display())
    };
    let content = content_of(&srs.secret_file).map_err(|error| wrong(&error))?;
    let trimmed = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let secrets = trimmed.filter(|line| !line.is_empty()).map(|line| Secret(line.into()));
    let secrets: Vec<Secret> = secrets.collect();
    if content.len() as u64 > FILE_BYTES_MAX {
        return Err(wrong(&format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    if secrets.is_empty() {
        return Err(wrong(&"there is none in it"));
    }
    srs.secrets = secrets;
    Ok(())
}

fn content_of(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_secret() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let text = format!(
            "[srs]\ndomain = \"srs.test\"\nsecret_file = \"{}\"\n\
             [[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {{}}\n",
            path.display()
        );
        let mut config = crate::tables::schema().parse(&text, "test.toml").unwrap();
        assert!(read(&mut config).unwrap_err().contains("No such file"));
        let secrets = |config: &Config| config.srs.as_ref().unwrap().secrets.clone();
        std::fs::write(&path, " new one\r\n\nold\n").unwrap();
        assert_eq!(read(&mut config), Ok(()));
        assert_eq!(secrets(&config), [&b"new one"[..], b"old"].map(|secret| Secret(secret.into())));
        assert!(!format!("{config:?}").contains("110, 101, 119"), "nobody is shown them");
        std::fs::write(&path, "\n \n").unwrap();
        assert!(read(&mut config).unwrap_err().ends_with("there is none in it"));
        std::fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(read(&mut config).unwrap_err().contains("more than 65536 bytes"));
        std::fs::write(&path, vec![b'x'; FILE_BYTES_MAX as usize]).unwrap();
        assert_eq!(read(&mut config), Ok(()));
    }
}
