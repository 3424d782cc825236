//! What was counted in one day (UTC), in memory and in a file.

use crate::sealed_text;
use mail::Wall;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Milliseconds.
pub(crate) const DAY_MS: u64 = 86_400_000;

/// A file that is larger was not written here: what is counted of a day takes an eighth of that.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// What was counted of one domain.
pub(crate) trait DomainCounts:
    Default + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// What counts.
    type Note;
    /// Domains that are reported to about one day.
    const DOMAINS_MAX: usize;
    /// The room that is kept of one domain, by its own measure, and of all of them.
    const ROOM_OF_DOMAIN: usize;
    const ROOM: usize;

    fn domain_of(note: &Self::Note) -> &str;

    /// Counts, where what is new takes no more than `room`. Whether there was room for all of it.
    fn add(&mut self, note: &Self::Note, room: usize) -> bool;

    /// The room that it takes.
    fn taken(&self) -> usize;
}

/// The day of a moment, counted from 1970.
pub(crate) fn number_of(at: Wall) -> u64 {
    at.0 / DAY_MS
}

/// What was counted in one day.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Day<D> {
    number: u64,
    domains: BTreeMap<String, D>,
    #[serde(skip)]
    pub(crate) taken: usize,
    #[serde(skip)]
    is_changed: bool,
    /// Notes that found no room.
    #[serde(skip)]
    left_out: u64,
}

impl<D: DomainCounts> Day<D> {
    pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("{number}.json"))
    }

    /// A day of which nothing was counted.
    pub(crate) fn new(number: u64) -> Day<D> {
        Day { number, ..Day::default() }
    }

    /// What was counted of this day before.
    ///
    /// # Errors
    /// As the operating system says; [`io::ErrorKind::InvalidData`] if the file was not written here.
    pub(crate) fn open(directory: &Path, number: u64) -> io::Result<Day<D>> {
        let mut day = match File::open(Day::<D>::path(directory, number)) {
            Ok(file) => Day::read(file)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Day::default(),
            Err(error) => return Err(error),
        };
        day.number = number;
        day.taken = day.domains.values().map(D::taken).sum();
        Ok(day)
    }

    fn read(file: File) -> io::Result<Day<D>> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let length = file.metadata()?.len();
        if length > FILE_BYTES_MAX {
            return Err(invalid(format!("it has {length} octets")));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        let text = sealed_text::checked(&bytes).map_err(|why| invalid(why.to_owned()))?;
        serde_json::from_slice(text).map_err(|error| invalid(error.to_string()))
    }

    /// Gives its file another name, under which it is not read again; that name.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn put_aside(directory: &Path, number: u64) -> io::Result<PathBuf> {
        let path = Day::<D>::path(directory, number);
        let aside = path.with_extension("unreadable");
        fs::rename(&path, &aside)?;
        Ok(aside)
    }

    /// The days that there are files of, the first one first.
    pub(crate) fn all(directory: &Path) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let number = |entry: fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(".json")?.parse::<u64>().ok()
        };
        let mut numbers: Vec<u64> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[cfg(test)]
    pub(crate) fn domains(&self) -> &BTreeMap<String, D> {
        &self.domains
    }

    pub(super) fn into_domains(self) -> BTreeMap<String, D> {
        self.domains
    }

    /// Counts; whether there was room for all of it.
    pub(crate) fn add(&mut self, note: &D::Note) -> bool {
        let name = D::domain_of(note);
        if self.domains.len() >= D::DOMAINS_MAX && !self.domains.contains_key(name) {
            self.left_out += 1;
            return false;
        }
        let domain = self.domains.entry(name.to_owned()).or_default();
        let before = domain.taken();
        let room = D::ROOM_OF_DOMAIN.saturating_sub(before);
        let is_whole = domain.add(note, room.min(D::ROOM.saturating_sub(self.taken)));
        let taken = domain.taken();
        // It may take less than before.
        self.taken = self.taken + taken - before;
        if taken == 0 {
            self.domains.remove(name);
        }
        self.left_out += u64::from(!is_whole);
        self.is_changed = true;
        is_whole
    }

    /// Notes that found no room since that was asked last.
    pub(crate) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Writes it where it has changed: another file, synced, in place of the old one.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn write(&mut self, directory: &Path) -> io::Result<()> {
        if !self.is_changed {
            return Ok(());
        }
        fs::create_dir_all(directory)?;
        let path = Day::<D>::path(directory, self.number);
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        file.write_all(&sealed_text::sealed(text))?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()?;
        // Not before: what could not be written must be written the next time, though nothing was added.
        self.is_changed = false;
        Ok(())
    }

    /// All of it was sent: it goes.
    pub(crate) fn remove(directory: &Path, number: u64) {
        let _ = fs::remove_file(SentReports::path(directory, number));
        let _ = fs::remove_file(Day::<D>::path(directory, number));
    }
}

/// The domains of a day that have got their report, in a file beside it: a line for each, with its CRC-32C.
#[derive(Debug)]
pub(crate) struct SentReports {
    path: PathBuf,
    domains: BTreeSet<String>,
    /// Lines that say nothing.
    damaged_lines: usize,
}

impl SentReports {
    fn path(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("{number}.sent"))
    }

    pub(crate) fn open(directory: &Path, number: u64) -> SentReports {
        let path = SentReports::path(directory, number);
        let mut bytes = Vec::new();
        if let Ok(file) = File::open(&path) {
            let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        }
        let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).collect();
        let domains: BTreeSet<String> = lines.iter().filter_map(|line| sent(line)).collect();
        let read = lines.iter().filter(|line| sent(line).is_some()).count();
        SentReports { path, domains, damaged_lines: lines.len() - read }
    }

    /// Where it is, if some of its lines are none: who they were about gets the same report again.
    pub(crate) fn damaged(&self) -> Option<&Path> {
        (self.damaged_lines > 0).then_some(&self.path)
    }

    /// Whether a domain has its report; of one that is sent to several places, with the place behind it.
    pub(crate) fn has(&self, domain: &str) -> bool {
        self.domains.contains(domain)
    }

    /// It has. After a crash it may get the same once more, under the same name.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn note(&self, domain: &str) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(&self.path)?;
        file.write_all(format!("{domain} {}\n", checksum_of(domain)).as_bytes())
    }
}

fn checksum_of(domain: &str) -> String {
    format!("{:08x}", crc32c::crc32c(domain.as_bytes()))
}

/// Whom a line is about.
fn sent(line: &[u8]) -> Option<String> {
    let (domain, checksum) = str::from_utf8(line).ok()?.rsplit_once(' ')?;
    (checksum == checksum_of(domain)).then(|| domain.to_owned())
}
