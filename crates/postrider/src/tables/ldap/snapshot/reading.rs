//! Reads a directory from beginning to end, page by page (RFC 2696).

use super::item::{Id, SnapshotQuery};
use super::store::BatchWriter;
use super::talk::SyncConnection;
use ldap::{Op, Outcome, RequestControl, ResponseControl, code};
use lookup::{LookupError, LookupErrorKind};

/// Entries in one page.
const PAGE_ENTRIES: i32 = 1_000;

/// Reads all entries into a file that is being written.
///
/// # Errors
/// Not all could be read, or not all could be written.
pub(super) async fn read(
    talk: &mut SyncConnection,
    question: &SnapshotQuery,
    file: &mut BatchWriter,
) -> Result<(), LookupError> {
    let (mut cookie, mut count) = (Vec::new(), 0u128);
    loop {
        let ask = RequestControl::Page { entries: PAGE_ENTRIES, cookie: &cookie };
        let id = talk.send(&question.search(), Some(&ask)).await?;
        let next = loop {
            let response = talk.next().await?;
            match response.op {
                // Notice of disconnection (RFC 4511 §4.4.1).
                Op::Extended(outcome) if response.id == 0 => return Err(refused(talk, &outcome)),
                _ if response.id != id => {}
                Op::Entry(entry) => {
                    count += 1;
                    if let Some(item) = question.item(Id::from(count.to_be_bytes()), &entry) {
                        file.push(item).await?;
                    }
                }
                Op::Done(outcome) if outcome.is_success() => break response.beside,
                Op::Done(outcome) => return Err(refused(talk, &outcome)),
                _ => {}
            }
        };
        match next {
            Some(ResponseControl::Page(next)) if !next.is_empty() => cookie = next,
            // It was the last page, or the server has given all at once.
            _ => return Ok(()),
        }
    }
}

/// What a refusal means for who wants everything.
pub(super) fn refused(talk: &SyncConnection, outcome: &Outcome) -> LookupError {
    let more = match outcome.code {
        code::SIZE_LIMIT_EXCEEDED | code::ADMIN_LIMIT_EXCEEDED => {
            "; it must return all entries to the bind user of the table (OpenLDAP: `limits`)"
        }
        code::NO_SUCH_OBJECT => "; it has no base entry",
        _ => "",
    };
    talk.trouble(LookupErrorKind::Wrong, &format!("{outcome}{more}"))
}
