//! Small files in the first spool directory that hold what must outlive the process: read at the start, and
//! written anew, synced and put in place of the old one at each change.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that is larger was not written here.
const BYTES_MAX: u64 = 8 << 20;

/// Where something is kept.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    /// What it is, to follow "cannot read".
    what: &'static str,
}

impl KeptFile {
    pub(crate) fn new(directory: &Path, name: &str, what: &'static str) -> KeptFile {
        KeptFile { path: directory.join(name), what }
    }

    /// Reads what an earlier server kept; nothing, where there is no file.
    ///
    /// # Errors
    /// When the file is there and can't be read or understood: what stood in it must not be undone because of
    /// that.
    pub(crate) fn read<T: DeserializeOwned + Default>(&self) -> Result<T, String> {
        let failed = |why: &dyn std::fmt::Display| {
            let (what, path) = (self.what, self.path.display());
            format!("cannot read {what} from {path}: {why}; mend or remove the file")
        };
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(error) => Err(failed(&error)),
            Ok(meta) if meta.len() > BYTES_MAX => Err(failed(&"it is too long")),
            Ok(_) => {
                let bytes = fs::read(&self.path).map_err(|error| failed(&error))?;
                serde_json::from_slice(&bytes).map_err(|error| failed(&error))
            }
        }
    }

    /// Writes another file, syncs it and puts it in place of the old one.
    ///
    /// # Errors
    /// A sentence; the old file is in place then.
    pub(crate) fn write(&self, value: &impl Serialize) -> Result<(), String> {
        let written = || -> io::Result<()> {
            let fresh = self.path.with_extension("json.new");
            let mut file = File::create(&fresh)?;
            file.write_all(&serde_json::to_vec_pretty(value)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_what_is_not_ours_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeptFile::new(directory.path(), "numbers.json", "numbers");
        assert_eq!(file.read::<Vec<u32>>(), Ok(Vec::new()));
        file.write(&[1, 2, 3]).unwrap();
        assert_eq!(file.read::<Vec<u32>>(), Ok(vec![1, 2, 3]));
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        for (content, why) in
            [(b"[1".to_vec(), "EOF"), (vec![b' '; BYTES_MAX as usize + 1], "it is too long")]
        {
            fs::write(directory.path().join("numbers.json"), content).unwrap();
            let error = file.read::<Vec<u32>>().unwrap_err();
            assert!(
                error.starts_with("cannot read numbers from ") && error.contains(why),
                "{error}"
            );
        }
        let nowhere = KeptFile::new(Path::new("/nonexistent"), "x.json", "x");
        assert!(nowhere.write(&1).unwrap_err().starts_with("cannot write /nonexistent/x.json"));
    }
}
