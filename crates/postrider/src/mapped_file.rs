//! Files that are mapped into memory.
//!
//! A file that is shortened while it is mapped kills who reads the lost part (SIGBUS), and one that is
//! written to changes under the reader. So whatever is mapped is **replaced by rename, never written in
//! place**: `postrider table build` does so, and `docs/tables.md` asks it of everybody else.

use memmap2::{Advice, Mmap};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// Files up to this size are read instead: a few pages are not worth a mapping, and small files are those
/// that people edit in place.
const READ_BYTES_MAX: u64 = 64 << 10;

/// The bytes of a file as it is now. They stay those of this file after another was put in its place.
pub(crate) fn open(path: &Path) -> io::Result<Arc<dyn AsRef<[u8]> + Send + Sync>> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    if meta.len() <= READ_BYTES_MAX {
        let mut bytes = Vec::new();
        // One that grows meanwhile is written in place; what it is for says that it is broken.
        (&mut file).take(READ_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        return Ok(Arc::new(bytes));
    }
    Ok(Arc::new(map(&file)?))
}

#[allow(unsafe_code, reason = "only a promise makes a slice of a file that others can change")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is of pages of the file, which lives as long as it is mapped, even without a
    // name. Whoever writes such files replaces them by rename (see above). Against an operator who does
    // not there is no defence within the process; who reads the bytes checks all that it uses and takes
    // none of them twice for what they were.
    let map = unsafe { Mmap::map(file) }?;
    // Lookups jump: what lies beside what was asked for is not worth reading.
    map.advise(Advice::Random)?;
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn small_files_are_read_and_large_ones_are_mapped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        for bytes in [0, 1, READ_BYTES_MAX, READ_BYTES_MAX + 1, 1 << 20] {
            let content: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
            fs::write(&path, &content).unwrap();
            let opened = open(&path).unwrap();
            assert_eq!((*opened).as_ref(), content);
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            let mapped = maps.contains(path.to_str().unwrap());
            assert_eq!(mapped, bytes > READ_BYTES_MAX, "{bytes}");
        }
    }

    #[test]
    fn a_file_that_was_replaced_or_removed_stays_readable() {
        let directory = tempfile::tempdir().unwrap();
        let (path, fresh) = (directory.path().join("file"), directory.path().join("fresh"));
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let old = open(&path).unwrap();
        fs::write(&fresh, vec![2; 1 << 20]).unwrap();
        fs::rename(&fresh, &path).unwrap();
        let new = open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!((*old).as_ref().iter().all(|&byte| byte == 1));
        assert!((*new).as_ref().iter().all(|&byte| byte == 2));
    }

    #[test]
    fn a_directory_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(open(directory.path()).is_err());
        assert!(open(&directory.path().join("missing")).is_err());
    }
}
