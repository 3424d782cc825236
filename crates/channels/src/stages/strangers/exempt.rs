//! Whom checks do not concern, by tables.

use super::super::keys::{By, Part, Subject};
use super::settings::Exempt;
use config::TableEntry;
use lookup::Trouble;
use mail::Recipient;
use mta::clients::asker_of;
use mta::ingress::TransactionView;
use mta::seams::Tables;
use mta::tables::find_first;
use std::sync::Arc;

impl Exempt {
    /// Whether one of the tables has the client or the recipient.
    ///
    /// # Errors
    /// A table gives no answer.
    pub(super) async fn has<T: Tables + Clone>(
        &self,
        tables: &T,
        transaction: &TransactionView,
        recipient: &Recipient,
    ) -> Result<bool, Trouble> {
        let tables = &tables.asked_for(asker_of(transaction.session.client().address.ip()));
        let subject = Subject {
            client: Some(transaction.session.client().address.ip()),
            helo: None,
            sender: None,
            recipient: &recipient.mailbox,
            also: None,
        };
        Ok(is_in(tables, self.clients.as_ref(), Part::Client, &subject).await?
            || is_in(tables, self.recipients.as_ref(), Part::Recipient, &subject).await?)
    }
}

async fn is_in<T: Tables + Clone>(
    tables: &T,
    table: Option<&Arc<TableEntry>>,
    part: Part,
    subject: &Subject<'_>,
) -> Result<bool, Trouble> {
    let Some(table) = table else { return Ok(false) };
    let keys = By::One(part).keys(subject, table.settings.has_patterns(), false);
    Ok(find_first(tables, table, keys).get().await?.is_some())
}
