//! The kernel's list of mount points, read without touching the file systems, since one may hang.

use rustix::fs::Mode;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The table of this process's mounts (proc_pid_mountinfo(5)).
const TABLE: &str = "/proc/self/mountinfo";

/// The current mount points; empty if unknown.
pub(super) fn mount_points() -> Vec<PathBuf> {
    // It is no file on a disk.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let opened = rustix::fs::open(TABLE, flags, Mode::empty());
    let Ok(file) = opened.map(std::fs::File::from) else { return Vec::new() };
    let mut table = Vec::new();
    let read = std::io::Read::read_to_end(&mut { file }, &mut table);
    let mut all = if read.is_ok() { points_in(&table) } else { Vec::new() };
    all.sort();
    all.dedup();
    all
}

fn points_in(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let fifth = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    fifth.map(|written| PathBuf::from(OsString::from_vec(unescaped(written)))).collect()
}

/// Blanks, line ends and backslashes are written as `\040` and so on.
fn unescaped(written: &[u8]) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::with_capacity(written.len()), written);
    while let Some((byte, more)) = rest.split_first() {
        let digits = more.first_chunk::<3>().filter(|_| *byte == b'\\');
        let number =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match number {
            Some(number) => {
                text.push(number);
                rest = &more[3..];
            }
            None => {
                text.push(*byte);
                rest = more;
            }
        }
    }
    text
}

/// The mount points below a directory.
pub(super) fn below(root: &Path, mounts: &[PathBuf]) -> Vec<PathBuf> {
    let absolute = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
    let is_below = |mount: &&PathBuf| mount.starts_with(&absolute) && **mount != absolute;
    let as_in_root = |mount: &PathBuf| Some(root.join(mount.strip_prefix(&absolute).ok()?));
    mounts.iter().filter(is_below).filter_map(as_in_root).collect()
}

/// The innermost of these that a path is on.
pub(super) fn of<'m>(path: &Path, mounts: &'m [PathBuf]) -> Option<&'m PathBuf> {
    let on = mounts.iter().filter(|mount| path.starts_with(mount));
    on.max_by_key(|mount| mount.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_where_file_systems_are() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      23 22 0:5 / /a\\040b\\134c rw shared:3 - fuse x rw\nodd\n";
        assert_eq!(points_in(table), [Path::new("/"), Path::new("/a b\\c")]);
        assert!(mount_points().contains(&PathBuf::from("/")));
        assert_eq!(unescaped(b"\\9\\04"), b"\\9\\04");
    }

    #[test]
    fn a_path_is_on_the_innermost() {
        let mounts = ["/", "/mail", "/mail/u1", "/mail/u1/deep", "/mailing"].map(PathBuf::from);
        let below = below(Path::new("/mail"), &mounts);
        assert_eq!(below, [Path::new("/mail/u1"), Path::new("/mail/u1/deep")]);
        let on = |path: &str| of(Path::new(path), &below).map(|path| path.display().to_string());
        assert_eq!(on("/mail/u1/deep/new").as_deref(), Some("/mail/u1/deep"));
        assert_eq!(on("/mail/u1").as_deref(), Some("/mail/u1"));
        assert_eq!(on("/mail/u10/new"), None);
        // A root is named as the configuration names it.
        let here = std::env::current_dir().unwrap();
        assert_eq!(super::below(Path::new("x"), &[here.join("x/y")]), [Path::new("x/y")]);
    }
}
