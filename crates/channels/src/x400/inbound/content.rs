//! Content of an APDU, while it arrives.

use super::access::{self, Sending};
use super::incoming::{Incoming, IncomingContext, OctetSink};
use super::session::InboundAssociation;
use bytes::Bytes;
use mail::Refusal;
use mta::ingress::Transaction;
use mta::seams::World;

/// Passes content to the intake of the transaction, and discards it after a refusal.
struct TransactionSink<'a, W: World>(Option<&'a mut Transaction<W>>);

impl<W: World> OctetSink for TransactionSink<'_, W> {
    fn push(&mut self, octets: &[u8]) {
        if let Some(transaction) = &mut self.0 {
            transaction.intake().push(octets);
        }
    }

    fn drop_content(&mut self) {
        if let Some(transaction) = &mut self.0 {
            transaction.drop_content();
        }
    }
}

impl<W: World> InboundAssociation<W> {
    /// Calls `act` with the APDU that is arriving.
    pub(super) fn with_incoming<T>(
        &mut self,
        act: impl FnOnce(&mut Incoming, &IncomingContext<'_>, &mut dyn OctetSink) -> Option<T>,
    ) -> Option<T> {
        let mut incoming = self.incoming.take()?;
        let (config, now) = (self.connection.config(), self.connection.wall());
        let peer = self.peer.clone();
        let rules = IncomingContext {
            x400: &self.x400,
            config: &config,
            peer: peer.as_ref().map_or("", |peer| &peer.name),
            recipients_max: self.listener.max_recipients as usize,
            content_bytes_max: self.listener.max_message_bytes,
            now,
        };
        let result =
            act(&mut incoming, &rules, &mut TransactionSink(self.transaction.as_deref_mut()));
        self.incoming = Some(incoming);
        result
    }

    pub(super) async fn content(&mut self, octets: Bytes) {
        if self.is_refused {
            return;
        }
        let now = self.connection.now();
        if let Some(transaction) = &mut self.transaction {
            transaction.intake().note_heard(now);
        }
        let room = self.with_incoming(|incoming, rules, sink| incoming.push(octets, rules, sink));
        self.reserve(room).await;
        if self.is_refused {
            return;
        }
        if let Err(refusal) = self.attend().await {
            self.refuse_for_now(&refusal);
        }
    }

    pub(super) async fn attend(&mut self) -> Result<(), Refusal> {
        match &mut self.transaction {
            Some(transaction) => transaction.intake().attend().await,
            None => Ok(()),
        }
    }

    /// Evaluates access rules and reserves queue capacity, once the number of recipients is known.
    pub(super) async fn reserve(&mut self, recipients: Option<usize>) {
        let Some(recipients) = recipients.filter(|recipients| *recipients > 0) else { return };
        if let Err(refusal) = self.ask_access().await {
            return self.refuse_for_now(&refusal);
        }
        if let Some(transaction) = &mut self.transaction
            && let Err(refusal) = transaction.reserve(recipients).await
        {
            self.refuse_for_now(&refusal);
        }
    }

    async fn ask_access(&mut self) -> Result<(), Refusal> {
        let Some(incoming) = &mut self.incoming else { return Ok(()) };
        let Some(acceptance) = incoming.acceptance_mut() else { return Ok(()) };
        let sending = Sending {
            listener: &self.listener.name,
            client: self.connection.session().client().address.ip(),
            peer: self.peer.as_ref().map_or("", |peer| &peer.name),
        };
        let config = self.connection.config();
        let ruling =
            access::ruling(&self.connection.tables(), &config, sending, acceptance).await?;
        for text in ruling.told {
            self.connection.warn("access", format_args!("peer={}: {text}", sending.peer));
        }
        acceptance.foreign.hold = acceptance.foreign.hold.take().or(ruling.hold.map(Box::from));
        acceptance.refuse(ruling.refused);
        Ok(())
    }
}
