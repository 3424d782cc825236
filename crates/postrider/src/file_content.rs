//! Contents of files written by other programs: databases and snapshots.
//!
//! These files may be truncated, overwritten, unreadable or on a disk that hangs, each of which would kill or block the
//! process if they were mapped into memory. So a small file is read into memory as a whole. A large one is read
//! piecewise, on the calling thread only if the kernel has the piece in its page cache (`RWF_NOWAIT`).

use lookup::database::{DatabaseBytes, Unread};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::io::{self, IoSliceMut, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

/// Maximum size of a file read as a whole, so that lookups need no system calls.
const WHOLE_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of a file read as a whole if the file system does not support `RWF_NOWAIT` (FUSE, NFS).
const WHOLE_AFAR_BYTES_MAX: u64 = 256 << 20;

/// Opens the bytes of the current file. They stay those of this file after it is replaced.
///
/// # Errors
/// Returns the operating system's error, and an error if it is no regular file.
pub(crate) fn open(path: &Path) -> io::Result<Arc<dyn DatabaseBytes>> {
    open_with(path, [WHOLE_BYTES_MAX, WHOLE_AFAR_BYTES_MAX])
}

fn open_with(path: &Path, [near, afar]: [u64; 2]) -> io::Result<Arc<dyn DatabaseBytes>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let paged = PagedFile { file, bytes_count: meta.len() };
    let whole_max = if paged.knows_what_is_at_hand() { near } else { afar };
    if meta.len() > whole_max {
        return Ok(Arc::new(paged));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    // A file that grows now is being written in place; its user detects the damage.
    paged.file.take(whole_max + 1).read_to_end(&mut bytes)?;
    Ok(Arc::new(bytes))
}

/// A file that is read a piece at a time.
struct PagedFile {
    file: File,
    bytes_count: u64,
}

impl PagedFile {
    /// Returns true if the file system supports reads that do not wait.
    fn knows_what_is_at_hand(&self) -> bool {
        let mut byte = [0];
        let read = self.pread_now(0, &mut byte);
        !matches!(read, Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
    }

    fn pread_now(&self, offset: u64, into: &mut [u8]) -> rustix::io::Result<usize> {
        preadv2(&self.file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT)
    }
}

impl DatabaseBytes for PagedFile {
    fn bytes_count(&self) -> u64 {
        self.bytes_count
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread> {
        self.file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Unread::Short,
            _ => Unread::Failed(error.to_string().into()),
        })
    }

    fn read_now(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread> {
        match self.pread_now(offset, into) {
            Ok(count) if count == into.len() => Ok(()),
            // Only a part is cached, or the file ends here; a read that may wait decides.
            Ok(_) | Err(_) => Err(Unread::Away),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn all(content: &dyn DatabaseBytes) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(content.bytes_count()).unwrap()];
        content.read(0, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn no_file_is_mapped_however_large_and_all_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let max = 1 << 20;
        for bytes in [0, 1, max, max + 1, 4 * max] {
            let written: Vec<u8> = (0..bytes).map(|n| (n % 251) as u8).collect();
            fs::write(&path, &written).unwrap();
            let content = open_with(&path, [max; 2]).unwrap();
            assert_eq!(all(&*content), written);
            let mut piece = [0; 8];
            if bytes > 1 {
                content.read(bytes - 8, &mut piece).unwrap();
                assert_eq!(piece, written[written.len() - 8..]);
            }
            assert_eq!(content.read(bytes.saturating_sub(7), &mut piece), Err(Unread::Short));
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            assert!(!maps.contains(path.to_str().unwrap()), "{bytes}");
        }
    }

    #[test]
    fn what_was_just_written_is_at_hand_where_the_file_system_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, vec![7; 4 << 20]).unwrap();
        let paged = PagedFile { file: File::open(&path).unwrap(), bytes_count: 4 << 20 };
        let mut piece = [0; 512];
        match paged.knows_what_is_at_hand() {
            true => assert_eq!((paged.read_now(1 << 20, &mut piece), piece), (Ok(()), [7; 512])),
            // It is read whole then.
            false => assert_eq!(open(&path).unwrap().read_now(1 << 20, &mut piece), Ok(())),
        }
    }

    #[test]
    fn a_file_that_is_shortened_ends_there_and_one_that_was_replaced_stays() {
        let directory = tempfile::tempdir().unwrap();
        let (path, fresh) = (directory.path().join("file"), directory.path().join("fresh"));
        fs::write(&path, vec![1; 4 << 20]).unwrap();
        let old = open_with(&path, [0; 2]).unwrap();
        fs::write(&fresh, vec![2; 4 << 20]).unwrap();
        fs::rename(&fresh, &path).unwrap();
        let new = open_with(&path, [0; 2]).unwrap();
        assert!(all(&*old).iter().all(|&byte| byte == 1));
        assert!(all(&*new).iter().all(|&byte| byte == 2));
        File::options().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
        let mut piece = [0; 64];
        assert_eq!(new.read(3 << 20, &mut piece), Err(Unread::Short));
        assert_eq!(new.read_now(3 << 20, &mut piece), Err(Unread::Away), "who may wait finds out");
        fs::remove_file(&path).unwrap();
        assert!(all(&*old).iter().all(|&byte| byte == 1));
    }

    #[test]
    fn a_directory_is_no_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(open(directory.path()).is_err());
        assert!(open(&directory.path().join("missing")).is_err());
    }
}
