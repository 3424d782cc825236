//! What was counted of the domains below one policy.

use crate::daily_reports::Counted;
use auth::dmarc::reporting::Message;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was counted of the domains below one policy.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Domain {
    /// The policy as it was seen last, as XML.
    pub(super) published: String,
    /// Its `rua`.
    pub(super) report_to: String,
    /// How many messages there were by the address that they came from, a blank, and what else is in
    /// their row, as XML.
    pub(super) rows: BTreeMap<String, u64>,
}

/// Room is counted in rows.
impl Counted for Domain {
    type Note = Message;
    const DOMAINS_MAX: usize = 10_000;
    const ROOM_OF_DOMAIN: usize = 5_000;
    const ROOM: usize = 50_000;

    fn domain_of(message: &Message) -> &str {
        &message.applied.of
    }

    fn add(&mut self, message: &Message, room: usize) -> bool {
        let applied = &message.applied;
        self.published = applied.published();
        applied.report_to().clone_into(&mut self.report_to);
        let row = format!("{} {}", message.source, message.rest_of_row());
        if let Some(count) = self.rows.get_mut(&row) {
            *count += 1;
        } else if room > 0 {
            self.rows.insert(row, 1);
        } else {
            return false;
        }
        true
    }

    fn taken(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daily_reports::{Day, Sent};
    use auth::checks::{Asked, Subject, Verdicts, check};
    use auth::dmarc::Wish;
    use auth::records::{Answer, Family, Records};
    use std::fs;
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
        let mut day = Day::<Domain>::open(&path, 7);
        for n in [1, 1, 2] {
            day.add(&message("a.test", n));
        }
        day.write(&path).unwrap();
        let mut day = Day::<Domain>::open(&path, 7);
        day.add(&message("a.test", 2));
        let domain = &day.domains()["a.test"];
        assert_eq!(domain.rows.values().copied().collect::<Vec<_>>(), [2, 2]);
        assert_eq!(domain.report_to, "mailto:r@a.test");
        assert!(domain.published.contains("<p>reject</p>"), "{}", domain.published);
        assert_eq!((Day::<Domain>::all(&path), day.taken), (vec![7], 2));
        // What was not written here is nothing.
        fs::write(path.join("8.json"), "{").unwrap();
        assert!(Day::<Domain>::open(&path, 8).domains().is_empty());
        let sent = Sent::open(&path, 7);
        sent.note("a.test").unwrap();
        assert!(Sent::open(&path, 7).has("a.test") && !Sent::open(&path, 7).has("b.test"));
        Day::<Domain>::remove(&path, 7);
        assert_eq!(Day::<Domain>::all(&path), [8]);
    }

    #[test]
    fn no_more_is_counted_than_so_much() {
        let mut day = Day::<Domain>::default();
        let mut template = message("a.test", 0);
        for n in 0..=Domain::ROOM_OF_DOMAIN {
            template.source = IpAddr::from(u32::try_from(n).unwrap().to_be_bytes());
            day.add(&template);
        }
        assert_eq!((day.taken, day.take_left_out()), (Domain::ROOM_OF_DOMAIN, 1));
        // One that is known has its place.
        day.add(&template);
        template.source = IpAddr::from([0, 0, 0, 1]);
        day.add(&template);
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
