//! Users who read their mail: what has lain in a mailbox for so long is read, goes into an account, and
//! is removed, as a user of POP does it. So a run may last, and the disk holds the mail of so long only.

use super::{Mailbox, files, identify};
use crate::file::FileError;
use crate::ledger::LedgerWriter;
use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// At one look so many messages are read at most: who waits for the look is not held up for long.
const READ_MAX: usize = 2000;

/// All of them.
#[derive(Debug)]
pub(super) struct Readers {
    after: Duration,
    /// By when it came: the mailbox's number, and the file's name.
    waiting: VecDeque<(Instant, usize, OsString)>,
    /// Lines of a sink's, of what was read.
    ledger: LedgerWriter,
    path: PathBuf,
    /// Messages that were read, of each mailbox.
    counts: Vec<u64>,
}

impl Readers {
    /// Of so many mailboxes, who read what is older than `after`. The account goes into `ledger`.
    ///
    /// # Errors
    /// When that can't be made.
    pub(super) fn new(
        mailboxes: usize,
        after: Duration,
        ledger: &Path,
    ) -> Result<Readers, FileError> {
        Ok(Readers {
            after,
            waiting: VecDeque::new(),
            ledger: LedgerWriter::create(Some(ledger)).map_err(FileError::at(ledger))?,
            path: ledger.to_owned(),
            counts: vec![0; mailboxes],
        })
    }

    /// A message has come into a mailbox, by its number.
    pub(super) fn handle_arrival(&mut self, mailbox: usize, name: OsString) {
        self.waiting.push_back((Instant::now(), mailbox, name));
    }

    /// It isn't known any more what came: whatever lies there and doesn't wait yet came now.
    ///
    /// # Errors
    /// When a directory can't be read.
    pub(super) fn look_for_more(&mut self, mailboxes: &[Mailbox]) -> Result<(), FileError> {
        let known: HashSet<(usize, OsString)> =
            self.waiting.iter().map(|(_, mailbox, name)| (*mailbox, name.clone())).collect();
        for (index, mailbox) in mailboxes.iter().enumerate() {
            for path in files(&mailbox.directory.join("new"))? {
                let known_as = (index, path.file_name().unwrap_or_default().to_owned());
                if !known.contains(&known_as) {
                    self.handle_arrival(index, known_as.1);
                }
            }
        }
        Ok(())
    }

    /// Reads, accounts for and removes what is old enough. `arrived` counts what has come into each
    /// mailbox: what was told twice is taken off.
    ///
    /// # Errors
    /// When a message can't be read or removed, or the account not be written.
    pub(super) fn read(
        &mut self,
        mailboxes: &[Mailbox],
        arrived: &mut [u64],
    ) -> Result<(), FileError> {
        let is_due = |(came, ..): &(Instant, usize, OsString)| came.elapsed() >= self.after;
        let due = self.waiting.iter().take(READ_MAX).take_while(|waits| is_due(waits)).count();
        for (_, index, name) in self.waiting.drain(..due) {
            let (mailbox, arrived) = (&mailboxes[index], &mut arrived[index]);
            let path = mailbox.directory.join("new").join(name);
            let message = match std::fs::read(&path) {
                // It was told twice, and is read.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    *arrived = arrived.saturating_sub(1);
                    continue;
                }
                other => other.map_err(FileError::at(&path))?,
            };
            let (id, state) = identify(&message);
            self.ledger.arrived(id.as_bytes(), mailbox.address.as_bytes(), state);
            std::fs::remove_file(&path).map_err(FileError::at(&path))?;
            self.counts[index] += 1;
        }
        self.ledger.flush().map_err(FileError::at(&self.path))
    }

    /// Messages that were read, of each mailbox.
    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The account of all that was read.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn ledger(&self) -> Result<String, FileError> {
        crate::file::read(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mailbox;
    use super::super::tests::{deliver, made, message};
    use super::READ_MAX;
    use std::time::Duration;

    fn files_in(mailbox: &Mailbox) -> usize {
        super::files(&mailbox.directory.join("new")).expect("read").len()
    }

    #[test]
    fn what_is_read_is_removed_and_stays_in_the_account() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        let ledger = directory.path().join("read.ledger");
        mailboxes.read_after(Duration::ZERO, &ledger).expect("made");
        deliver(&list[0].directory, "1", &message("r-1"), true);
        let mut damaged = message("r-2");
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        deliver(&list[2].directory, "2", &damaged, false);
        mailboxes.look().expect("two are read");
        assert_eq!((mailboxes.arrived_count(), mailboxes.message_count()), (2, 0));
        assert_eq!((mailboxes.filled_count(), files_in(&list[0]), files_in(&list[2])), (0, 0, 0));
        // Once more, though it was read: the user has it twice.
        deliver(&list[0].directory, "1", &message("r-1"), true);
        mailboxes.look().expect("it is read");
        deliver(&list[1].directory, "1", &message("r-3"), true);
        // What nobody has read yet is in the account as well.
        let expected = "r-1 a@x\nr-2 c@x damaged\nr-1 a@x\nr-3 b@x\n";
        assert_eq!(mailboxes.ledger().expect("read"), expected);
    }

    #[test]
    fn what_came_twice_under_its_name_is_one_message() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        let ledger = directory.path().join("read.ledger");
        mailboxes.read_after(Duration::ZERO, &ledger).expect("made");
        deliver(&list[0].directory, "1", &message("r-1"), false);
        deliver(&list[0].directory, "1", &message("r-1"), false);
        mailboxes.look().expect("it is read");
        assert_eq!(mailboxes.ledger().expect("read"), "r-1 a@x\n");
        assert_eq!((mailboxes.arrived_count(), mailboxes.message_count()), (1, 0));
    }

    #[test]
    fn what_is_not_old_enough_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        let ledger = directory.path().join("read.ledger");
        mailboxes.read_after(Duration::from_secs(3600), &ledger).expect("made");
        deliver(&list[0].directory, "1", &message("r-1"), false);
        mailboxes.look().expect("one");
        assert_eq!((mailboxes.message_count(), files_in(&list[0])), (1, 1));
        assert_eq!(mailboxes.ledger().expect("read"), "r-1 a@x\n");
    }

    #[test]
    fn a_look_reads_so_many_and_the_next_one_the_others() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        let ledger = directory.path().join("read.ledger");
        mailboxes.read_after(Duration::ZERO, &ledger).expect("made");
        for number in 0..=READ_MAX {
            let message = message(&format!("r-{number}"));
            std::fs::write(list[0].directory.join("new").join(number.to_string()), message)
                .expect("written");
        }
        mailboxes.look().expect("so many");
        assert_eq!((mailboxes.message_count(), mailboxes.filled_count()), (1, 1));
        mailboxes.look().expect("the last");
        assert_eq!(mailboxes.message_count(), 0);
        let all = mailboxes.ledger().expect("read");
        assert_eq!(all.lines().count(), READ_MAX + 1);
    }

    #[test]
    fn what_the_kernel_could_not_keep_is_found_and_read_once() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        let ledger = directory.path().join("read.ledger");
        mailboxes.read_after(Duration::from_millis(200), &ledger).expect("made");
        deliver(&list[0].directory, "1", &message("r-1"), false);
        mailboxes.look().expect("one");
        deliver(&list[0].directory, "2", &message("r-2"), false);
        deliver(&list[1].directory, "1", &message("r-3"), false);
        mailboxes.find_again().expect("two more");
        assert_eq!((mailboxes.arrived_count(), mailboxes.message_count()), (3, 3));
        // The kernel's word on the two comes after that, and they wait twice.
        mailboxes.look().expect("two are told again");
        assert_eq!((mailboxes.arrived_count(), mailboxes.message_count()), (5, 5));
        std::thread::sleep(Duration::from_millis(250));
        mailboxes.look().expect("all are read");
        assert_eq!((files_in(&list[0]), files_in(&list[1])), (0, 0));
        assert_eq!((mailboxes.arrived_count(), mailboxes.message_count()), (3, 0));
        assert_eq!(mailboxes.ledger().expect("read"), "r-1 a@x\nr-2 a@x\nr-3 b@x\n");
    }
}
