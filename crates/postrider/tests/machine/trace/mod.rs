//! Reads what `strace -f -y -v -ttt` wrote.

use std::collections::BTreeMap;

/// The calls that are traced: whatever writes, syncs, or gives a file its name.
pub(crate) const CALLS: [&str; 14] = [
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "fdatasync",
    "fsync",
    "openat",
    "rename",
    "renameat",
    "renameat2",
];

/// One system call. Begin and end are line numbers of the trace: a line stands where strace saw
/// the call enter or leave the kernel, and a thread waits for strace at both. So what one call
/// caused stands below its end.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    /// The path or socket behind the first argument, when that is a descriptor.
    pub(crate) file: String,
    /// All arguments as strace shows them.
    pub(crate) arguments: String,
    /// `None` for an error, or when the process ended in the middle of it.
    pub(crate) result: Option<i64>,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

impl Call {
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.name.as_str(), "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2")
    }

    /// Whether it writes records of the spool.
    pub(crate) fn is_record(&self) -> bool {
        self.is_write() && self.file.ends_with(".segment")
    }

    pub(crate) fn is_socket(&self) -> bool {
        self.file.starts_with("socket:") || self.file.starts_with("TCP")
    }

    /// Whether it made `file` appear under this name.
    pub(crate) fn names(&self, file: &str) -> bool {
        // Within its directory it is named by the last part alone.
        let within = file.rsplit_once('/').filter(|(directory, _)| self.file == *directory);
        let quoted = format!("\"{}\"", within.map_or(file, |(_, name)| name));
        match self.name.as_str() {
            "openat" => self.arguments.contains(&quoted) && self.arguments.contains("O_CREAT"),
            // The new name is the last path.
            "rename" | "renameat" | "renameat2" => self
                .arguments
                .rfind(&quoted)
                .is_some_and(|at| !self.arguments[at + quoted.len()..].contains('"')),
            _ => false,
        }
    }

    /// How many bytes a vectored write was asked to write.
    pub(crate) fn wanted_bytes(&self) -> i64 {
        let lengths = self.arguments.split("iov_len=").skip(1);
        lengths.map(|text| number(text).expect("a length")).sum()
    }
}

/// The digits that `text` begins with.
fn number(text: &str) -> Option<i64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// All calls, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Trace(Vec<Call>);

impl Trace {
    /// Reads the file's text; lines that are no calls (exits) are left out.
    ///
    /// # Panics
    /// When a call can't be read.
    pub(crate) fn parse(text: &str) -> Trace {
        let mut trace = Trace::default();
        // Of each thread, the call that it is in the middle of.
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for (line, text) in text.lines().enumerate() {
            let (thread, rest) = text.split_once(' ').expect("a thread");
            let (_time, rest) = rest.trim_start().split_once(' ').expect("a time");
            if rest.starts_with("+++") || rest.starts_with("---") {
                continue;
            }
            if let Some(rest) = rest.strip_prefix("<... ") {
                let (_, rest) = rest.split_once(" resumed>").expect("resumed");
                let call = &mut trace.0[open.remove(thread).expect("it was begun")];
                let (arguments, result) = rest.rsplit_once(" = ").expect("a result");
                call.arguments.push_str(arguments);
                (call.result, call.end) = (number(result), line);
                continue;
            }
            let (name, rest) = rest.split_once('(').unwrap_or_else(|| panic!("{rest}"));
            let unfinished = rest.strip_suffix(" <unfinished ...>");
            let (arguments, result) = match unfinished {
                Some(arguments) => {
                    open.insert(thread, trace.0.len());
                    (arguments, None)
                }
                None => {
                    let (arguments, result) = rest.rsplit_once(" = ").expect("a result");
                    (arguments, number(result))
                }
            };
            let first = arguments.split([',', ')']).next().unwrap_or("");
            let file = first.split_once('<').and_then(|(_, file)| file.rsplit_once('>'));
            trace.0.push(Call {
                name: name.to_owned(),
                file: file.map_or(String::new(), |(file, _)| file.to_owned()),
                arguments: arguments.to_owned(),
                result,
                begin: line,
                end: if unfinished.is_some() { usize::MAX } else { line },
            });
        }
        trace
    }

    pub(crate) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.0.iter()
    }
}
