//! What was counted in one day (UTC), in memory and in a file.

use auth::dmarc::reporting::Message;
use mail::Wall;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Milliseconds.
pub(super) const DAY_MS: u64 = 86_400_000;

/// Domains that are reported to about one day.
pub(super) const DOMAINS_MAX: usize = 10_000;
/// Rows about one domain.
pub(super) const ROWS_OF_DOMAIN_MAX: usize = 5_000;
/// Rows about all of them.
pub(super) const ROWS_MAX: usize = 50_000;

/// A file that is larger was not written here.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The day of a moment, counted from 1970.
pub(super) fn number_of(at: Wall) -> u64 {
    at.0 / DAY_MS
}

/// What was counted in one day.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Day {
    number: u64,
    domains: BTreeMap<String, Domain>,
    #[serde(skip)]
    rows: usize,
    #[serde(skip)]
    is_changed: bool,
    /// Messages that found no room.
    #[serde(skip)]
    left_out: u64,
}

/// What was counted of the domains below one policy.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Domain {
    /// The policy as it was seen last, as XML.
    pub(super) published: String,
    /// Its `rua`.
    pub(super) report_to: String,
    /// How many messages there were by the address that they came from, a blank, and what else is in
    /// their row, as XML.
    pub(super) rows: BTreeMap<String, u64>,
}

impl Day {
    fn path(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("{number}.json"))
    }

    /// What was counted of this day before. What can't be read is nothing.
    pub(super) fn open(directory: &Path, number: u64) -> Day {
        let mut bytes = Vec::new();
        let read = File::open(Day::path(directory, number))
            .and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        let day = read.ok().and_then(|_| serde_json::from_slice::<Day>(&bytes).ok());
        let mut day = day.unwrap_or_default();
        day.number = number;
        day.rows = day.domains.values().map(|domain| domain.rows.len()).sum();
        day
    }

    /// The days that there are files of, the first one first.
    pub(super) fn all(directory: &Path) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let number = |entry: fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(".json")?.parse::<u64>().ok()
        };
        let mut numbers: Vec<u64> = entries.flatten().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn domains(&self) -> &BTreeMap<String, Domain> {
        &self.domains
    }

    pub(super) fn add(&mut self, message: &Message) {
        let applied = &message.applied;
        let is_full = self.domains.len() >= DOMAINS_MAX && !self.domains.contains_key(&applied.of);
        if is_full {
            self.left_out += 1;
            return;
        }
        let domain = self.domains.entry(applied.of.clone()).or_default();
        let row = format!("{} {}", message.source, message.rest_of_row());
        if let Some(count) = domain.rows.get_mut(&row) {
            *count += 1;
        } else if domain.rows.len() < ROWS_OF_DOMAIN_MAX && self.rows < ROWS_MAX {
            domain.rows.insert(row, 1);
            self.rows += 1;
        } else {
            self.left_out += 1;
        }
        domain.published = applied.published();
        applied.report_to().clone_into(&mut domain.report_to);
        self.is_changed = true;
    }

    /// Messages that found no room since that was asked last.
    pub(super) fn take_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.left_out)
    }

    /// Writes it where it has changed: another file, synced, in place of the old one.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn write(&mut self, directory: &Path) -> io::Result<()> {
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        fs::create_dir_all(directory)?;
        let path = Day::path(directory, self.number);
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(directory)?.sync_all()
    }

    /// All of it was sent: it goes.
    pub(super) fn remove(directory: &Path, number: u64) {
        let _ = fs::remove_file(Sent::path(directory, number));
        let _ = fs::remove_file(Day::path(directory, number));
    }
}

/// The domains of a day that have got their report, in a file beside it.
#[derive(Debug)]
pub(super) struct Sent {
    path: PathBuf,
    domains: Vec<String>,
}

impl Sent {
    fn path(directory: &Path, number: u64) -> PathBuf {
        directory.join(format!("{number}.sent"))
    }

    pub(super) fn open(directory: &Path, number: u64) -> Sent {
        let path = Sent::path(directory, number);
        let text = fs::read_to_string(&path).unwrap_or_default();
        Sent { path, domains: text.lines().map(str::to_owned).collect() }
    }

    pub(super) fn has(&self, domain: &str) -> bool {
        self.domains.iter().any(|known| known == domain)
    }

    /// It has. After a crash it may get the same once more, under the same name.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn note(&self, domain: &str) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(&self.path)?;
        file.write_all(format!("{domain}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::checks::{Asked, Subject, Verdicts, check};
    use auth::dmarc::Wish;
    use auth::records::{Answer, Family, Records};
    use std::net::IpAddr;

    /// Every domain has a policy and wants reports.
    struct Policies;

    impl Records for Policies {
        async fn txt(&self, name: &str) -> Answer<Vec<u8>> {
            let record = b"v=DMARC1; p=reject; rua=mailto:r@a.test".to_vec();
            Ok(if name.starts_with("_dmarc.") { vec![record] } else { Vec::new() })
        }

        async fn addresses(&self, _: &str, _: Family) -> Answer<IpAddr> {
            Ok(Vec::new())
        }

        async fn mail_hosts(&self, _: &str) -> Answer<String> {
            Ok(Vec::new())
        }

        async fn names(&self, _: IpAddr) -> Answer<String> {
            Ok(Vec::new())
        }
    }

    /// A message in the name of a domain, from the nth address.
    fn message(domain: &str, n: usize) -> Message {
        let asked = Asked { dmarc: true, ..Asked::default() };
        let mut scan = asked.scan();
        scan.push(format!("From: a@{domain}\r\n\r\n").as_bytes());
        let scanned = scan.finish();
        let subject = Subject { question: None, message: &scanned, now: 0, chance: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let verdicts: Verdicts = runtime.block_on(check(&Policies, asked, subject));
        let dmarc = verdicts.dmarc.unwrap();
        Message {
            applied: dmarc.applied.unwrap(),
            source: IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()),
            disposition: Wish::Reject,
            wish: dmarc.wish,
            author: domain.to_owned(),
            envelope_from: String::new(),
            spf: verdicts.spf.unwrap(),
            dkim: Vec::new(),
        }
    }

    #[test]
    fn what_was_counted_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("reports");
        let mut day = Day::open(&path, 7);
        for n in [1, 1, 2] {
            day.add(&message("a.test", n));
        }
        day.write(&path).unwrap();
        let mut day = Day::open(&path, 7);
        day.add(&message("a.test", 2));
        let domain = &day.domains()["a.test"];
        assert_eq!(domain.rows.values().copied().collect::<Vec<_>>(), [2, 2]);
        assert_eq!(domain.report_to, "mailto:r@a.test");
        assert!(domain.published.contains("<p>reject</p>"), "{}", domain.published);
        assert_eq!((Day::all(&path), day.rows), (vec![7], 2));
        // What was not written here is nothing.
        fs::write(path.join("8.json"), "{").unwrap();
        assert!(Day::open(&path, 8).domains().is_empty());
        let sent = Sent::open(&path, 7);
        sent.note("a.test").unwrap();
        assert!(Sent::open(&path, 7).has("a.test") && !Sent::open(&path, 7).has("b.test"));
        Day::remove(&path, 7);
        assert_eq!(Day::all(&path), [8]);
    }

    #[test]
    fn no_more_is_counted_than_so_much() {
        let mut day = Day::default();
        let mut template = message("a.test", 0);
        for n in 0..=ROWS_OF_DOMAIN_MAX {
            template.source = IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
            day.add(&template);
        }
        assert_eq!((day.rows, day.take_left_out()), (ROWS_OF_DOMAIN_MAX, 1));
        // One that is known has its place.
        day.add(&template);
        template.source = IpAddr::from([0, 0, 0, 1]);
        day.add(&template);
        assert_eq!(day.take_left_out(), 1);
        for n in 1..DOMAINS_MAX {
            template.applied.of = format!("d{n}.test");
            day.add(&template);
        }
        assert_eq!((day.domains().len(), day.take_left_out()), (DOMAINS_MAX, 0));
        template.applied.of = "more.test".to_owned();
        day.add(&template);
        assert_eq!(day.take_left_out(), 1);
        day.rows = ROWS_MAX;
        template.applied.of = "d1.test".to_owned();
        template.source = IpAddr::from([0, 0, 0, 2]);
        day.add(&template);
        assert_eq!(day.take_left_out(), 1);
    }
}
