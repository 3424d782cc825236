//! A line for each minute, as postal prints it: what happened in that minute, not since the beginning.

use super::report::Tally;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// As postal's first line, without what it says of TLS.
const HEADING: &str = "time,messages,data(K),errors,connections";
/// From one line to the next.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What has happened since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    pub(crate) connections: u64,
}

/// The file, and what its lines told until now.
#[derive(Debug)]
pub(crate) struct Minutes {
    file: Option<File>,
    told: Counts,
}

impl Minutes {
    /// Creates the file anew. Without a path, writes nothing.
    pub(crate) fn create(path: Option<&Path>) -> io::Result<Minutes> {
        let mut file = path.map(File::create).transpose()?;
        if let Some(file) = &mut file {
            writeln!(file, "{HEADING}")?;
        }
        Ok(Minutes { file, told: Counts::default() })
    }

    /// A minute is over, or the run.
    pub(crate) fn end_one(&mut self, tally: &Tally) {
        let counts = tally.counts();
        let line = line(SystemTime::now(), self.told, counts);
        self.told = counts;
        if let Some(file) = &mut self.file {
            // What became of each message is in the ledger: a run is not broken off for this.
            let _ = file.write_all(line.as_bytes());
        }
    }
}

fn line(at: SystemTime, before: Counts, now: Counts) -> String {
    let minutes = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 60;
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    let messages = now.messages - before.messages;
    let kilobytes = now.bytes / 1024 - before.bytes / 1024;
    let errors = now.errors - before.errors;
    let connections = now.connections - before.connections;
    format!("{hour:02}:{minute:02},{messages},{kilobytes},{errors},{connections}\n")
}

#[cfg(test)]
mod tests {
    use super::{Counts, line};
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_line_tells_what_is_new_and_loses_no_kilobyte() {
        let at = UNIX_EPOCH + Duration::from_secs(1_795_042_800);
        let first = Counts { messages: 3, bytes: 2000, errors: 1, connections: 2 };
        assert_eq!(line(at, Counts::default(), first), "23:00,3,1,1,2\n");
        let second = Counts { messages: 5, bytes: 4096, errors: 1, connections: 3 };
        assert_eq!(line(at + Duration::from_secs(60), first, second), "23:01,2,3,0,1\n");
    }
}
