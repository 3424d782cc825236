//! Files of messages that `sendmail` leaves in a directory while the server is down.
//!
//! Everyone may create files there, and only the server may list them (mode 1733). A file is written under a name that
//! the server ignores, synced, and then renamed. Names are random, because other users must not read the content.

use super::message::BYTES_MAX;
use super::session::{SubmittedContent, SubmittedEnvelope};
use rustix::fs::syncfs;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Begin of the name of a whole file.
pub(crate) const WHOLE: &str = "msg-";
/// Begin of the name of a file that is being written.
pub(crate) const PARTIAL: &str = "new-";
/// Recipients of one file: as many as each server accepts in one transaction.
const RECIPIENTS_MAX: usize = 100;
/// First line; the number is the version of the format.
const FIRST_LINE: &str = "postrider-drop 1";
/// Maximum length of the line with the envelope.
const HEAD_BYTES_MAX: u64 = 1024 * 1024;

/// The second line, as JSON. The content follows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DropHead {
    envelope: SubmittedEnvelope,
    content_bytes: u64,
}

/// Leaves a message for the server, durably.
///
/// # Errors
/// The directory is missing or full, or its disk fails. Some recipients may be left then, if there are over 100.
pub(super) fn leave(
    directory: &Path,
    envelope: &SubmittedEnvelope,
    content: &[u8],
) -> io::Result<()> {
    for recipients in envelope.recipients.chunks(RECIPIENTS_MAX) {
        let envelope = SubmittedEnvelope { recipients: recipients.to_vec(), ..envelope.clone() };
        let head = DropHead { envelope, content_bytes: content.len() as u64 };
        let head = format!("{FIRST_LINE}\n{}\n", serde_json::to_string(&head)?);
        write(directory, &[head.as_bytes(), content])?;
    }
    Ok(())
}

fn write(directory: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let name = random_name()?;
    let partial = directory.join(format!("{PARTIAL}{name}"));
    let written = (|| {
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o644).open(&partial)?;
        // The server may be another user, whatever the umask.
        file.set_permissions(Permissions::from_mode(0o644))?;
        pieces.iter().try_for_each(|piece| file.write_all(piece))?;
        file.sync_all()?;
        fs::rename(&partial, directory.join(format!("{WHOLE}{name}")))?;
        sync_names(directory, &file)
    })();
    written.inspect_err(|_| drop(fs::remove_file(&partial)))
}

/// Makes the names of a directory durable.
fn sync_names(directory: &Path, file: &File) -> io::Result<()> {
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        // Most users may not list it, and a directory that can't be opened can't be synced alone.
        Err(_) => Ok(syncfs(file)?),
    }
}

/// Milliseconds, so that files sort by age, and 128 random bits.
fn random_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(format!("{now:013}-{:032x}", u128::from_be_bytes(random)))
}

/// Reads the envelope of a file, and finds its content.
///
/// # Errors
/// The file has another format or is cut, or it can't be read.
pub(crate) fn parse<R: Read + Seek>(
    mut file: R,
) -> io::Result<(SubmittedEnvelope, SubmittedContent<R>)> {
    let file_bytes = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let mut lines = BufReader::new(file.by_ref().take(HEAD_BYTES_MAX));
    let (mut first, mut head) = (Vec::new(), Vec::new());
    lines.read_until(b'\n', &mut first)?;
    if first.strip_suffix(b"\n") != Some(FIRST_LINE.as_bytes()) {
        return Err(invalid("it is no message of sendmail"));
    }
    lines.read_until(b'\n', &mut head)?;
    if !head.ends_with(b"\n") {
        return Err(invalid("it has no envelope"));
    }
    let start = (first.len() + head.len()) as u64;
    let head: DropHead =
        serde_json::from_slice(&head).map_err(|error| invalid(&error.to_string()))?;
    let DropHead { envelope, content_bytes } = head;
    if start.checked_add(content_bytes) != Some(file_bytes) {
        return Err(invalid("it is cut"));
    }
    if content_bytes > BYTES_MAX {
        return Err(invalid("it is too large"));
    }
    let mut end = Vec::new();
    file.seek(SeekFrom::Start(file_bytes.saturating_sub(2)))?;
    file.by_ref().take(2).read_to_end(&mut end)?;
    // The server would wait for the end of the content.
    if content_bytes < 2 || end != b"\r\n" {
        return Err(invalid("its last line has no end"));
    }
    if envelope.recipients.len() > RECIPIENTS_MAX {
        return Err(invalid("it has too many recipients"));
    }
    envelope.check().map_err(invalid)?;
    Ok((envelope, SubmittedContent::new(file, start, content_bytes)))
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn message_is_read_as_it_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let recipients: Vec<String> = (0..250).map(|n| format!("u{n}@x.test")).collect();
        let envelope = SubmittedEnvelope {
            sender: "me".to_owned(),
            recipients: recipients.clone(),
            notify: Some("NEVER".to_owned()),
            ..SubmittedEnvelope::default()
        };
        leave(directory.path(), &envelope, b"A: b\r\n\r\n\xff\r\n").unwrap();
        let mut found = Vec::new();
        for name in names(directory.path()) {
            assert!(name.starts_with(WHOLE), "{name}");
            let file = fs::File::open(directory.path().join(&name)).unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o644);
            let (read, mut content) = parse(file).unwrap();
            assert_eq!(
                (read.sender, read.notify),
                (envelope.sender.clone(), envelope.notify.clone())
            );
            assert_eq!(content.beginning(100).unwrap(), b"A: b\r\n\r\n\xff\r\n");
            found.push(read.recipients);
        }
        found.sort_by_key(|some| std::cmp::Reverse(some.len()));
        let sizes: Vec<usize> = found.iter().map(Vec::len).collect();
        assert_eq!(sizes, [100, 100, 50]);
        let mut all: Vec<String> = found.concat();
        let mut expected = recipients;
        all.sort();
        expected.sort();
        assert_eq!(all, expected);
    }

    #[test]
    fn cut_and_strange_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let envelope =
            SubmittedEnvelope { recipients: vec!["a".to_owned()], ..SubmittedEnvelope::default() };
        leave(directory.path(), &envelope, b"A: b\r\n").unwrap();
        let path = directory.path().join(&names(directory.path())[0]);
        let whole = fs::read(path).unwrap();
        let result = |bytes: &[u8]| parse(io::Cursor::new(bytes.to_vec())).map(drop);
        result(&whole).unwrap();
        for end in 0..whole.len() {
            assert!(result(&whole[..end]).is_err(), "{end}");
        }
        let text = String::from_utf8(whole).unwrap();
        for (from, to) in [
            ("drop 1", "drop 2"),
            ("\"sender\":\"\"", "\"sender\":\"a\\r\\nDATA\""),
            ("\"ret\":null", "\"ret\":\"HDRS X=y\""),
            ("\"a\"", "1"),
            ("b\r\n", "b\r\n\n"),
            // The server would wait for the end of the content.
            ("b\r\n", "b\n\n"),
            ("{", "{\"x\":1,"),
        ] {
            assert!(result(text.replacen(from, to, 1).as_bytes()).is_err(), "{from}");
        }
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let file = |recipients: usize, sender: usize| {
            let envelope = SubmittedEnvelope {
                sender: "s".repeat(sender),
                recipients: vec!["a".to_owned(); recipients],
                ..SubmittedEnvelope::default()
            };
            let head = DropHead { envelope, content_bytes: 2 };
            format!("{FIRST_LINE}\n{}\n\r\n", serde_json::to_string(&head).unwrap())
        };
        let why = |text: String| {
            let result = parse(io::Cursor::new(text.into_bytes())).map(drop);
            result.err().map(|error| error.to_string())
        };
        assert_eq!(why(file(RECIPIENTS_MAX, 1)), None);
        assert_eq!(why(file(RECIPIENTS_MAX + 1, 1)).as_deref(), Some("it has too many recipients"));
        let rest = file(1, 0).len() - "\r\n".len();
        let sender_max = usize::try_from(HEAD_BYTES_MAX).unwrap() - rest;
        assert_eq!(why(file(1, sender_max)), None);
        assert_eq!(why(file(1, sender_max + 1)).as_deref(), Some("it has no envelope"));
        let claims = |bytes: u64| {
            file(1, 1).replace("\"content_bytes\":2", &format!("\"content_bytes\":{bytes}"))
        };
        for bytes in [0, 1, 3, u64::MAX] {
            assert_eq!(why(claims(bytes)).as_deref(), Some("it is cut"), "{bytes}");
        }
    }
}
