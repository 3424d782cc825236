//! What a load did in each minute, in the lines that postal prints and our source writes as well.

use load::file;
use std::path::PathBuf;

/// What happened in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MinuteLine {
    pub(crate) messages: u64,
    pub(crate) kilobytes: u64,
    pub(crate) errors: u64,
    pub(crate) connections: u64,
}

impl MinuteLine {
    /// Reads `time,messages,data(K),errors,connections`, with or without more behind; `None` if it is
    /// none (the heading, for one).
    pub(crate) fn parse(line: &str) -> Option<MinuteLine> {
        let mut fields = line.trim_end().split(',');
        let (hour, minute) = fields.next()?.split_once(':')?;
        let is_time = [hour, minute].iter().all(|part| part.parse::<u8>().is_ok());
        let mut number = || fields.next()?.parse().ok();
        let line = MinuteLine {
            messages: number()?,
            kilobytes: number()?,
            errors: number()?,
            connections: number()?,
        };
        is_time.then_some(line)
    }

    /// Several loads in the same minute.
    pub(crate) fn plus(self, other: MinuteLine) -> MinuteLine {
        MinuteLine {
            messages: self.messages + other.messages,
            kilobytes: self.kilobytes + other.kilobytes,
            errors: self.errors + other.errors,
            connections: self.connections + other.connections,
        }
    }
}

/// A file to which such lines are added.
#[derive(Clone, Debug)]
pub(crate) struct MinuteFile(pub(crate) PathBuf);

impl MinuteFile {
    /// All lines until now; the last may be half written, and doesn't count then.
    pub(crate) fn lines(&self) -> Vec<MinuteLine> {
        let text = file::read(&self.0).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().filter_map(MinuteLine::parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{MinuteFile, MinuteLine};

    #[test]
    fn lines_of_postal_and_of_our_source_are_read_and_others_are_not() {
        let line = MinuteLine { messages: 866, kilobytes: 4768, errors: 2, connections: 432 };
        assert_eq!(MinuteLine::parse("05:21,866,4768,2,432,0"), Some(line));
        assert_eq!(MinuteLine::parse("05:21,866,4768,2,432\n"), Some(line));
        for other in [
            "time,messages,data(K),errors,connections,SSL connections",
            "05:21,866,4768,2",
            "05:21,866,x,2,3",
            "866,4768,2,432",
            "Server timed out on read.",
            "",
        ] {
            assert_eq!(MinuteLine::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_line_counts_when_it_is_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("minutes");
        let file = MinuteFile(path.clone());
        assert_eq!(file.lines(), []);
        std::fs::write(
            &path,
            "time,messages,data(K),errors,connections\n05:21,1,2,3,4\n05:22,5,6,7",
        )
        .expect("written");
        assert_eq!(file.lines().len(), 1);
        std::fs::write(&path, "05:21,1,2,3,4\n05:22,5,6,7,8\n").expect("written");
        let lines = file.lines();
        let sum = lines.iter().fold(MinuteLine::default(), |sum, line| sum.plus(*line));
        assert_eq!((lines.len(), sum.messages, sum.connections), (2, 6, 12));
    }
}
