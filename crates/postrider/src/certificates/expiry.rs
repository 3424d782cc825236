//! Expiry of the server's certificates, and warnings about it.

use mail::Wall;
use mta::problems::{DetectedProblem, Severity};
use std::path::{Path, PathBuf};
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::certificate::Version;
use x509_cert::der::Decode as _;

const DAY: Duration = Duration::from_secs(86_400);
/// The recommended action.
pub(super) const RENEW: &str = "renew it; its file is reloaded when it changes";

/// Checks that a certificate is X.509 version 3: TLS libraries refuse other versions with errors that blame the peer.
///
/// # Errors
/// Returns a sentence.
pub(super) fn check_version(der: &[u8]) -> Result<(), String> {
    // Unreadable certificates are reported by another check.
    let Ok(certificate) = Certificate::from_der(der) else { return Ok(()) };
    let number = match certificate.tbs_certificate().version() {
        Version::V3 => return Ok(()),
        Version::V1 => 1,
        Version::V2 => 2,
    };
    Err(format!(
        "the certificate has X.509 version {number}; issue it as version 3, with its names as \
         extensions (`-extfile` of openssl x509)"
    ))
}

/// The end of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expiry {
    file: PathBuf,
    ends: Wall,
    /// Warnings begin at most this time before its end.
    warning_max: Duration,
    /// Time of the last warning.
    told: Option<Wall>,
}

impl Expiry {
    /// The expiry of the certificate in DER that is the first of `file`. An ACME certificate (`is_ordered`) is renewed
    /// when a third of its lifetime is left; warnings begin when a quarter is left. Those about other certificates begin
    /// when a third is left.
    ///
    /// # Errors
    /// Returns a sentence if it is no certificate.
    pub(super) fn of(file: &Path, der: &[u8], is_ordered: bool) -> Result<Expiry, String> {
        let certificate = Certificate::from_der(der)
            .map_err(|error| format!("{}: no certificate: {error}", file.display()))?;
        // RFC 5280 §4.1.2.5.
        let validity = certificate.tbs_certificate().validity();
        let ends = validity.not_after.to_unix_duration();
        let lifetime = ends.saturating_sub(validity.not_before.to_unix_duration());
        let warning_max = lifetime / if is_ordered { 4 } else { 3 };
        let ends = Wall(u64::try_from(ends.as_millis()).unwrap_or(u64::MAX));
        Ok(Expiry { file: file.to_owned(), ends, warning_max, told: None })
    }

    /// The warning due at `now`, once a day from `warning` before the end.
    pub(super) fn due(&mut self, now: Wall, warning: Duration) -> Option<String> {
        let is_told = self.told.is_some_and(|told| now < told.after(DAY));
        if warning.is_zero() || is_told {
            return None;
        }
        let text = self.near_end(now, warning)?;
        self.told = Some(now);
        Some(text)
    }

    /// The problem at `now`, from `warning` before the end.
    pub(super) fn problem(&self, now: Wall, warning: Duration) -> Option<DetectedProblem> {
        let text = self.near_end(now, warning)?;
        let severity = if now >= self.ends { Severity::Error } else { Severity::Warning };
        let about = self.file.display().to_string();
        Some(DetectedProblem::new(severity, about, text).next_step(RENEW))
    }

    /// The sentence about its end, from `warning` before the end.
    pub(super) fn near_end(&self, now: Wall, warning: Duration) -> Option<String> {
        let is_near = now.after(warning.min(self.warning_max)) >= self.ends;
        is_near.then(|| self.sentence(now))
    }

    fn sentence(&self, now: Wall) -> String {
        let file = self.file.display();
        let left = self.ends.since(now);
        match left.as_secs() / DAY.as_secs() {
            _ if left.is_zero() => format!("the certificate in {file} expired at {}", self.ends),
            0 => format!("the certificate in {file} expires today, at {}", self.ends),
            1 => format!("the certificate in {file} expires in a day, at {}", self.ends),
            days => format!("the certificate in {file} expires in {days} days, at {}", self.ends),
        }
    }

    /// Its file and the time left in seconds, negative after its end.
    pub(super) fn seconds_left(&self, now: Wall) -> (String, i64) {
        let seconds = |ms: u64| i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
        (self.file.display().to_string(), seconds(self.ends.0).saturating_sub(seconds(now.0)))
    }

    /// The one that ends first.
    pub(super) fn first(all: impl IntoIterator<Item = Expiry>) -> Option<Expiry> {
        all.into_iter().min_by_key(|expiry| expiry.ends)
    }

    /// Copies the last warning of `other`, if it is the same certificate.
    pub(super) fn remember(&mut self, other: &Expiry) {
        if self.file == other.file && self.ends == other.ends {
            self.told = other.told;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_once_a_day_from_the_warning_on() {
        let ends = Wall(1_800_000_000_000);
        let file = "/etc/mx.pem".into();
        let mut expiry = Expiry { file, ends, warning_max: Duration::MAX, told: None };
        let before = |time: Duration| Wall(ends.0 - time.as_millis() as u64);
        let mut told = |now, warning| expiry.due(now, warning);
        assert_eq!(told(before(3 * DAY + Duration::from_millis(1)), 3 * DAY), None);
        assert_eq!(told(before(DAY), Duration::ZERO), None, "not wanted");
        let first = told(before(3 * DAY), 3 * DAY);
        let text = "the certificate in /etc/mx.pem expires in 3 days, at 2027-01-15T08:00:00.000Z";
        assert_eq!(first.as_deref(), Some(text));
        assert_eq!(told(before(2 * DAY + Duration::from_secs(1)), 3 * DAY), None, "within a day");
        for (time, part) in [(2 * DAY, "expires in 2 days"), (DAY, "expires in a day")] {
            let text = told(before(time), 3 * DAY);
            assert!(text.as_deref().is_some_and(|text| text.contains(part)), "{text:?}");
        }
        let mut late = Expiry { told: None, ..expiry.clone() };
        let last = late.due(before(Duration::from_secs(5)), 3 * DAY);
        assert!(last.as_deref().is_some_and(|text| text.contains("expires today")), "{last:?}");
        let over = expiry.due(ends.after(DAY), 3 * DAY);
        assert!(over.as_deref().is_some_and(|text| text.contains("expired at")), "{over:?}");
        // It is a problem for as long.
        let problem = |now, warning| expiry.problem(now, warning).is_some();
        assert!(!problem(before(3 * DAY + Duration::from_millis(1)), 3 * DAY));
        assert!(problem(before(3 * DAY), 3 * DAY) && problem(ends.after(DAY), 3 * DAY));
        assert!(problem(ends, Duration::ZERO), "one that has ended is one, whatever is wanted");
        // One that lives six days and is renewed after four.
        let warning_max = 36 * DAY / 24;
        let mut short = Expiry { warning_max, told: None, ..expiry.clone() };
        assert_eq!(short.due(before(37 * DAY / 24), 14 * DAY), None);
        assert!(short.due(before(36 * DAY / 24), 14 * DAY).is_some());
        // Read again it is not told anew; another one is.
        let mut same = Expiry { told: None, ..expiry.clone() };
        same.remember(&expiry);
        assert_eq!(same.told, expiry.told);
        let mut renewed = Expiry { ends: ends.after(90 * DAY), told: None, ..expiry.clone() };
        renewed.remember(&expiry);
        assert_eq!(renewed.told, None);
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        let error = Expiry::of(Path::new("/etc/mx.pem"), &[0x30, 0x03, 2, 1, 0], false);
        assert!(error.is_err_and(|text| text.starts_with("/etc/mx.pem: no certificate: ")));
    }
}
