//! Sending what was counted, a day at a time.

use super::day::{DAY_MS, Day, Domain, Sent, number_of};
use super::letter::Letter;
use super::{Inner, Terms};
use crate::mutex::lock;
use crate::world::wall_now;
use auth::dmarc::reporting::{destinations, may_report};
use bytes::Bytes;
use mail::{Mailbox, Wall};
use mta::console::{Console as _, Level};
use mta::inbox::{OwnMessage, ShardMessage};
use mta::seams::AsRecords;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often it is seen whether something is due.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// A day is over when nobody counts for it any more.
const OVER_AFTER_MS: u64 = 600_000;

/// What could not be sent for so many days is not sent any more.
const DAYS_MAX: u64 = 3;

/// Octets of a report; a larger one is not sent.
const REPORT_BYTES_MAX: usize = 10 << 20;

/// The thread that sends.
pub(super) fn run(inner: &Arc<Inner>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(async {
            loop {
                look(inner).await;
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }),
        Err(error) => inner.warn(format_args!("reports can't be sent: {error}")),
    }
}

/// Sends what is due.
async fn look(inner: &Inner) {
    let Some(terms) = lock(&inner.terms).clone() else { return };
    for number in Day::all(&inner.directory) {
        let now = wall_now();
        if !is_due(number, now, terms.settings.hour) {
            continue;
        }
        if send_day(inner, &terms, number).await || number + DAYS_MAX < number_of(now) {
            Day::remove(&inner.directory, number);
        }
    }
}

fn is_due(number: u64, now: Wall, hour: u8) -> bool {
    let is_over = now.0 >= (number + 1) * DAY_MS + OVER_AFTER_MS;
    is_over && now.0 >= (number + 1) * DAY_MS + u64::from(hour) * 3_600_000
}

/// Whether nothing is left of it.
async fn send_day(inner: &Inner, terms: &Terms, number: u64) -> bool {
    let day = Day::open(&inner.directory, number);
    let sent = Sent::open(&inner.directory, number);
    let mut is_done = true;
    for (domain, counted) in day.domains().iter().filter(|(domain, _)| !sent.has(domain)) {
        let letter = Letter { terms, domain, counted, number, now: wall_now() };
        match send(inner, &letter).await {
            Ok(()) => {
                if let Err(error) = sent.note(domain) {
                    inner.warn(format_args!("cannot note what was sent: {error}"));
                }
            }
            Err(why) => {
                is_done = false;
                inner.warn(format_args!("the report to {domain} waits: {why}"));
            }
        }
    }
    is_done
}

/// Queues a domain's report, if there is anybody whom it may be sent to.
///
/// # Errors
/// Why it can't be done now.
async fn send(inner: &Inner, letter: &Letter<'_>) -> Result<(), String> {
    let packed = letter.packed().map_err(|error| error.to_string())?;
    let to = readers(inner, letter.domain, letter.counted, packed.len()).await?;
    if to.is_empty() {
        return Ok(());
    }
    let (answer, answered) = oneshot::channel();
    let own = OwnMessage {
        sender: letter.terms.settings.from.clone(),
        content: Bytes::from(letter.compose(&packed, &to)),
        recipients: to,
        about: Arc::from("dmarc_reports"),
        answer,
    };
    let _ = inner.shard.send(ShardMessage::Own(Box::new(own)));
    let id = answered.await.map_err(|_| "the server stops".to_owned())??;
    let text = format_args!("report to {} queued id={id}", letter.domain);
    inner.console.line(Level::Info, "dmarc_reports", text);
    Ok(())
}

/// Who gets a report of so many octets.
///
/// # Errors
/// The DNS gives no answer about one of them.
async fn readers(
    inner: &Inner,
    domain: &str,
    counted: &Domain,
    report_bytes: usize,
) -> Result<Vec<Mailbox>, String> {
    let mut readers = Vec::new();
    let told = |address: &Mailbox, why: &str| {
        let text = format_args!("no report to {domain} for {address}: {why}");
        inner.console.line(Level::Info, "dmarc_reports", text);
    };
    if report_bytes > REPORT_BYTES_MAX {
        inner.warn(format_args!("no report to {domain}: it has {report_bytes} octets"));
        return Ok(readers);
    }
    for destination in destinations(&counted.report_to) {
        let mailbox = destination.mailbox;
        let Ok(to) = mailbox.domain().to_ascii().map(|ascii| ascii.to_ascii_lowercase()) else {
            continue;
        };
        if destination.bytes_max.is_some_and(|max| report_bytes as u64 > max) {
            told(&mailbox, "it is larger than wanted");
            continue;
        }
        match may_report(&AsRecords(&inner.resolver), domain, &to).await {
            Ok(true) => readers.push(mailbox),
            Ok(false) => told(&mailbox, "its domain does not say that it wants any"),
            Err(unanswered) => return Err(unanswered.to_string()),
        }
    }
    Ok(readers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_due_when_it_is_over_and_the_hour_has_come() {
        let at = |minutes: u64| Wall(8 * DAY_MS + minutes * 60_000);
        assert!(!is_due(7, at(9), 0) && is_due(7, at(10), 0));
        assert!(!is_due(7, at(119), 2) && is_due(7, at(120), 2));
        assert!(!is_due(8, at(120), 0) && is_due(6, at(0), 23));
    }
}
