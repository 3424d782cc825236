//! The bytes of a database, wherever they are.

use std::fmt;

/// A file, or what was read of one. It may change or go at any time: whatever is read is checked.
pub trait Content: Send + Sync {
    /// How many bytes there were when it was opened.
    fn bytes_count(&self) -> u64;

    /// Fills `into` with what stands from `offset` on, however long that takes.
    ///
    /// # Errors
    /// It can't be read, or ends before.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread>;

    /// The same, if nobody has to be waited for.
    ///
    /// # Errors
    /// As [`Content::read`]; [`Unread::Away`]: a disk would have to be asked.
    fn read_now(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread> {
        self.read(offset, into)
    }
}

/// Why bytes are not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// They are not in memory.
    Away,
    /// The file ends before them.
    Short,
    /// In the words of the system.
    Failed(Box<str>),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Away => f.write_str("it is not in memory"),
            Unread::Short => f.write_str("it has become shorter"),
            Unread::Failed(why) => f.write_str(why),
        }
    }
}

impl Content for Vec<u8> {
    fn bytes_count(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let bytes = rest.and_then(|rest| rest.get(..into.len())).ok_or(Unread::Short)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}
