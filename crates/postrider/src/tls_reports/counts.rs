//! What was counted of one domain.

use crate::daily_reports::Counted;
use auth::tls_report::{Added, Counts, Session};
use serde::{Deserialize, Serialize};

/// Sessions with the hosts of one domain.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Domain(pub(super) Counts);

/// Room is counted in octets. Nearly all domains have one policy and a failure or two.
impl Counted for Domain {
    type Note = Session;
    const DOMAINS_MAX: usize = 50_000;
    const ROOM_OF_DOMAIN: usize = 64 << 10;
    const ROOM: usize = 32 << 20;

    fn domain_of(session: &Session) -> &str {
        &session.domain
    }

    fn add(&mut self, session: &Session, room: usize) -> bool {
        matches!(self.0.add(session, room), Added::Whole(_))
    }

    fn taken(&self) -> usize {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daily_reports::Day;
    use auth::tls_report::{Details, Policy, ResultType};

    fn session(domain: &str, host: usize) -> Session {
        let mut details = Details::new(ResultType::CertificateExpired);
        details.receiving_mx_hostname = Some(format!("mx{host}.{domain}").into());
        Session { domain: domain.into(), policy: Policy::none(), failure: Some(details) }
    }

    #[test]
    fn what_was_counted_is_there_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let mut day = Day::<Domain>::open(directory.path(), 7).unwrap();
        for host in [1, 1, 2] {
            assert!(day.add(&session("a.test", host)));
        }
        day.write(directory.path()).unwrap();
        let taken = day.taken;
        let mut day = Day::<Domain>::open(directory.path(), 7).unwrap();
        assert_eq!(day.taken, taken);
        assert!(day.add(&session("a.test", 2)) && day.taken == taken);
        assert_eq!(day.domains()["a.test"].0.sessions(), (0, 4));
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut day = Day::<Domain>::default();
        for n in 0..Domain::DOMAINS_MAX {
            assert!(day.add(&session(&format!("d{n}.test"), 1)), "{n}");
        }
        assert!(!day.add(&session("more.test", 1)));
        assert_eq!((day.domains().len(), day.take_left_out()), (Domain::DOMAINS_MAX, 1));
        // Known domains go on, with what is known of them.
        assert!(day.add(&session("d1.test", 1)));
        day.taken = Domain::ROOM - 1;
        assert!(day.add(&session("d1.test", 1)) && !day.add(&session("d1.test", 2)));
        assert_eq!(day.domains()["d1.test"].0.sessions(), (0, 4));
        assert_eq!(day.take_left_out(), 1);
        // Nothing is left of a domain that there was no room for.
        let mut day = Day::<Domain>::default();
        day.taken = Domain::ROOM;
        assert!(!day.add(&session("a.test", 1)) && day.domains().is_empty());
    }
}
