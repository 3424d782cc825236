//! What was counted of the domains below one policy.

use crate::daily_reports::DomainCounts;
use auth::dmarc::reporting::ReportedMessage;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was counted of the domains below one policy.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(from = "StoredDmarcCounts")]
pub(crate) struct Domain {
    /// The policy as it was seen last, as XML.
    pub(super) published: String,
    /// Its `rua`.
    pub(super) report_to: String,
    /// How many messages there were by the address that they came from, a blank, and what else is in
    /// their row, as XML.
    pub(super) rows: BTreeMap<String, u64>,
    /// The room that they take.
    #[serde(skip)]
    rows_bytes: usize,
}

/// The same, as it stands in a file.
#[derive(Deserialize)]
struct StoredDmarcCounts {
    published: String,
    report_to: String,
    rows: BTreeMap<String, u64>,
}

impl From<StoredDmarcCounts> for Domain {
    fn from(written: StoredDmarcCounts) -> Domain {
        let StoredDmarcCounts { published, report_to, rows } = written;
        let rows_bytes = rows.keys().map(|row| bytes_of(row)).sum();
        Domain { published, report_to, rows, rows_bytes }
    }
}

/// The room that a row takes, with its place among the others.
fn bytes_of(row: &str) -> usize {
    row.len() + 64
}

/// Room is counted in octets: strangers choose what is in rows, up to six thousand octets in each.
impl DomainCounts for Domain {
    type Note = ReportedMessage;
    const DOMAINS_MAX: usize = 10_000;
    const ROOM_OF_DOMAIN: usize = 4 << 20;
    const ROOM: usize = 32 << 20;

    fn domain_of(message: &ReportedMessage) -> &str {
        &message.applied.of
    }

    fn add(&mut self, message: &ReportedMessage, room: usize) -> bool {
        let (published, report_to) = (message.applied.published(), message.applied.report_to());
        let row = format!("{} {}", message.source, message.rest_of_row());
        if let Some(count) = self.rows.get_mut(&row) {
            *count += 1;
        } else {
            // The first row brings the rest with it.
            let is_first = self.rows.is_empty();
            let rest = if is_first { published.len() + report_to.len() } else { 0 };
            if bytes_of(&row) + rest > room {
                return false;
            }
            self.rows_bytes += bytes_of(&row);
            self.rows.insert(row, 1);
        }
        self.published = published;
        report_to.clone_into(&mut self.report_to);
        true
    }

    fn taken(&self) -> usize {
        self.rows_bytes + self.published.len() + self.report_to.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daily_reports::{Day, SentReports};
    use auth::checks::{CheckSelection, Subject, Verdicts, check};
    use auth::dmarc::RequestedPolicy;
    use auth::records::{DnsAnswer, Family, Records};
    use std::fs;
    use std::net::IpAddr;

    /// Every domain has a policy and wants reports.
    struct Policies;

    impl Records for Policies {
        async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
            let record = b"v=DMARC1; p=reject; rua=mailto:r@a.test".to_vec();
            Ok(if name.starts_with("_dmarc.") { vec![record] } else { Vec::new() })
        }

        async fn addresses(&self, _: &str, _: Family) -> DnsAnswer<IpAddr> {
            Ok(Vec::new())
        }

        async fn mail_hosts(&self, _: &str) -> DnsAnswer<String> {
            Ok(Vec::new())
        }

        async fn names(&self, _: IpAddr) -> DnsAnswer<String> {
            Ok(Vec::new())
        }
    }

    /// A message in the name of a domain, from the nth address.
    fn message(domain: &str, n: usize) -> ReportedMessage {
        let asked = CheckSelection { dmarc: true, ..CheckSelection::default() };
        let mut scan = asked.scan();
        scan.push(format!("From: a@{domain}\r\n\r\n").as_bytes());
        let scanned = scan.finish();
        let subject = Subject { question: None, message: &scanned, now: 0, chance: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let verdicts: Verdicts = runtime.block_on(check(&Policies, asked, subject));
        let dmarc = verdicts.dmarc.unwrap();
        ReportedMessage {
            applied: dmarc.applied.unwrap(),
            source: IpAddr::from(u32::try_from(n).unwrap().to_be_bytes()),
            disposition: RequestedPolicy::Reject,
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
        let mut day = Day::<Domain>::open(&path, 7).unwrap();
        for n in [1, 1, 2] {
            day.add(&message("a.test", n));
        }
        day.write(&path).unwrap();
        let taken = day.taken;
        let mut day = Day::<Domain>::open(&path, 7).unwrap();
        day.add(&message("a.test", 2));
        let domain = &day.domains()["a.test"];
        assert_eq!(domain.rows.values().copied().collect::<Vec<_>>(), [2, 2]);
        assert_eq!(domain.report_to, "mailto:r@a.test");
        assert!(domain.published.contains("<p>reject</p>"), "{}", domain.published);
        assert_eq!((Day::<Domain>::all(&path), day.taken), (vec![7], taken));
        let sent = SentReports::open(&path, 7);
        sent.note("a.test").unwrap();
        assert!(
            SentReports::open(&path, 7).has("a.test") && !SentReports::open(&path, 7).has("b.test")
        );
        Day::<Domain>::remove(&path, 7);
        assert_eq!(Day::<Domain>::all(&path), [0; 0]);
    }

    #[test]
    fn a_file_that_was_not_written_here_is_told_of_and_can_be_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("7.json"), "{").unwrap();
        fs::File::create(path.join("8.json")).unwrap().set_len((256 << 20) + 1).unwrap();
        for number in [7, 8] {
            let error = Day::<Domain>::open(path, number).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{error}");
            let aside = Day::<Domain>::put_aside(path, number).unwrap();
            assert_eq!(aside, path.join(format!("{number}.unreadable")));
            assert!(aside.exists() && Day::<Domain>::open(path, number).unwrap().taken == 0);
        }
        assert_eq!(Day::<Domain>::all(path), [0; 0]);
    }

    #[test]
    fn what_could_not_be_written_is_written_the_next_time() {
        let directory = tempfile::tempdir().unwrap();
        let (bad, good) = (directory.path().join("file"), directory.path().join("reports"));
        fs::write(&bad, "").unwrap();
        let mut day = Day::<Domain>::default();
        day.add(&message("a.test", 1));
        assert!(day.write(&bad).is_err());
        day.write(&good).unwrap();
        assert_eq!(Day::<Domain>::open(&good, 0).unwrap().domains()["a.test"].rows.len(), 1);
    }

    #[test]
    fn long_rows_take_no_more_room_than_short_ones() {
        let mut day = Day::<Domain>::default();
        let mut template = message("a.test", 0);
        template.envelope_from = "x".repeat(255);
        template.author = "y".repeat(255);
        template.spf.domain = "z".repeat(255);
        for n in 0..5_000 {
            template.source = IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
            day.add(&template);
        }
        let bytes: usize = day.domains()["a.test"].rows.keys().map(String::len).sum();
        assert!((3 << 20..4 << 20).contains(&bytes), "{bytes}");
        assert!(day.take_left_out() > 0);
    }

    #[test]
    fn no_more_is_counted_than_so_much() {
        let mut day = Day::<Domain>::default();
        let mut template = message("a.test", 0);
        for n in 0..20_000 {
            template.source = IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
            day.add(&template);
        }
        let full = Domain::ROOM_OF_DOMAIN;
        assert!((full - 1_000..=full).contains(&day.taken), "{}", day.taken);
        assert!(day.take_left_out() > 0);
        // One that is known has its place.
        assert!(!day.add(&template));
        template.source = IpAddr::from([0, 0, 0, 1]);
        assert!(day.add(&template));
        assert_eq!(day.take_left_out(), 1);
        for n in 1..Domain::DOMAINS_MAX {
            template.applied.of = format!("d{n}.test");
            day.add(&template);
        }
        assert_eq!((day.domains().len(), day.take_left_out()), (Domain::DOMAINS_MAX, 0));
        template.applied.of = "more.test".to_owned();
        day.add(&template);
        assert_eq!(day.take_left_out(), 1);
        day.taken = Domain::ROOM;
        template.applied.of = "d1.test".to_owned();
        template.source = IpAddr::from([0, 0, 0, 2]);
        day.add(&template);
        assert_eq!(day.take_left_out(), 1);
    }
}
