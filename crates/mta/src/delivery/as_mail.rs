//! Conversion of other kinds of messages to internet mail, for channels that accept nothing else.

use super::{AttemptClock, AttemptContext, Slot};
use crate::line::{Permit, PermitWaiter};
use crate::message::{Conversion, Converted, Message, Original};
use crate::seams::{Spawn as _, World};
use bytes::Bytes;
use config::Config;
use mail::{Class, EnhancedStatus, Failure, MessageId, Reply};
use queue::{Origin, TransactionWork};
use spool::LoadError;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum size in octets of a conversion done on the shard's own thread. A longer one may take a second, during which
/// the shard would serve no connection.
pub const CONVERTED_HERE_MAX: u64 = 64 * 1024;

/// Maximum size in octets of a message to convert: its whole content is in memory.
const CONVERTED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A message to convert.
#[derive(Debug)]
pub struct ConversionRequest {
    /// The message as stored in the spool.
    pub original: Original,
    /// Its whole content.
    pub content: Bytes,
    /// The configuration in force.
    pub config: Arc<Config>,
}

/// The result of a conversion by a channel.
#[derive(Debug)]
pub enum MailConversion {
    /// The converted message.
    Message(Converted),
    /// Nothing is sent, because the message is a probe: it only asks whether a message would be delivered. The reply to
    /// record.
    Nothing(Reply),
}

impl<W: World> Slot<W> {
    /// Like [`Slot::load_in_turn`], for a channel of internet mail: a message of another kind is converted. `None` if
    /// the work is concluded or deferred.
    pub async fn load_mail(
        &self,
        place: Option<PermitWaiter>,
        work: &TransactionWork,
    ) -> Option<Rc<Message>> {
        let message = match self.load_in_turn(place, work.id).await {
            Ok(message) => message,
            Err(why) => {
                self.unreadable(work, "record", &why);
                return None;
            }
        };
        if !self.has_to_convert(&message) {
            return Some(message);
        }
        let place = self.place_to_convert(&message, work.origin);
        self.convert_mail(place, message, work).await
    }

    /// Returns true if the message is of another kind and this channel accepts internet mail only.
    #[must_use]
    pub fn has_to_convert(&self, message: &Message) -> bool {
        message.kept_of_x400().is_some() && !self.hop().channel.kinds_of_mail().x400
    }

    /// Converts a message to internet mail when its turn comes. `None` if the work is concluded or deferred.
    pub async fn convert_mail(
        &self,
        place: PermitWaiter,
        message: Rc<Message>,
        work: &TransactionWork,
    ) -> Option<Rc<Message>> {
        let (room, message) = match self.room_in_turn(place, message, work.origin).await {
            Ok(both) => both,
            Err(why) => {
                self.unreadable(work, "record", &why);
                return None;
            }
        };
        let config = self.config();
        let outcome = match self.convert(&message, &config).await {
            Ok(Ok(MailConversion::Message(converted))) => match self.above(&converted).await {
                Ok(above) => {
                    let conversion = Conversion::new(config, above, &converted.content);
                    return Some(Rc::new(message.converted(converted, &conversion, room)));
                }
                Err(failure) => Err(failure),
            },
            Ok(Ok(MailConversion::Nothing(reply))) => Ok(reply),
            Ok(Err(failure)) => Err(failure),
            Err(why) => {
                self.unreadable(work, "body", &why);
                return None;
            }
        };
        let hop = self.hop().event_hop("", None, None);
        let context = AttemptContext {
            hop,
            local: true,
            dsn_passed_on: false,
            clock: AttemptClock::default(),
        };
        self.conclude(&message, work, vec![outcome; work.entries.len()], &context);
        None
    }

    /// Loads a message again after its content was dropped from memory, like [`Slot::load_in_turn`], and converts it as before.
    ///
    /// # Errors
    /// The spool's error, or an error if the conversion yields another message than before.
    pub async fn load_again(
        &self,
        (id, origin): (MessageId, Origin),
        conversion: Option<&Rc<Conversion>>,
    ) -> Result<Rc<Message>, LoadError> {
        let message = self.load_in_turn(self.place_to_load(id, origin), id).await?;
        let Some(conversion) = conversion else { return Ok(message) };
        let place = self.place_to_convert(&message, origin);
        let (room, message) = self.room_in_turn(place, message, origin).await?;
        self.metrics().conversions_again.inc();
        match self.convert(&message, &conversion.config).await? {
            Ok(MailConversion::Message(converted)) if conversion.is_of(&converted.content) => {
                Ok(Rc::new(message.converted(converted, conversion, room)))
            }
            _ => Err(LoadError::Disk("an earlier conversion gave another content".into())),
        }
    }

    /// Waits for memory to convert a message in. The message's own memory is released during the wait, because other
    /// reads may need it; the message is then read again.
    ///
    /// # Errors
    /// The spool's error.
    pub async fn room_in_turn(
        &self,
        place: PermitWaiter,
        message: Rc<Message>,
        origin: Origin,
    ) -> Result<(Permit, Rc<Message>), LoadError> {
        if place.is_served() || message.memory.is_none() {
            return Ok((place.await, message));
        }
        let id = message.id;
        drop(message);
        let room = place.await;
        let message = self.load_in_turn(self.place_to_load(id, origin), id).await?;
        Ok((room, message))
    }

    /// The fields to place above the converted content: signatures.
    async fn above(&self, converted: &Converted) -> Result<Bytes, Failure> {
        if !converted.is_signed {
            return Ok(Bytes::new());
        }
        let above = self.fields_above(&converted.content).get().await;
        above.map(|above| above.prefix).map_err(|refusal| {
            let status = EnhancedStatus::new(4, refusal.status.subject, refusal.status.detail);
            Failure::local(Class::Transient, status, refusal.text)
        })
    }

    async fn convert(
        &self,
        original: &Message,
        config: &Arc<Config>,
    ) -> Result<Result<MailConversion, Failure>, LoadError> {
        let mut content = original.prefix.to_vec();
        let gather = |piece: &[u8]| {
            content.extend_from_slice(piece);
            (content.len() > CONVERTED_BYTES_MAX).then_some(())
        };
        // The converter rejects longer content.
        let _ = self.for_each_piece(original, gather).await?;
        let kept_bytes = original.kept_of_x400().map_or(0, Bytes::len);
        let bytes = (content.len() + kept_bytes) as u64;
        let (original, config) = (original.original(), Arc::clone(config));
        let question = ConversionRequest { original, content: content.into(), config };
        let makers = self.delivery().mail_makers();
        let unknown = || {
            // RFC 3463 §3.7: conversion required but not supported.
            let text = "no gateway converts it to internet mail";
            Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 3), text)
        };
        let make = move || makers.iter().find_map(|make| make(&question));
        Ok(match self.convert_in_turn(bytes, make).await {
            Ok(made) => made.unwrap_or_else(|| Err(unknown())),
            Err(failure) => Err(failure),
        })
    }

    /// Does a conversion of `bytes` octets: a short one here, a longer one outside the shard's thread.
    ///
    /// # Errors
    /// It was not done.
    pub async fn convert_in_turn<T: Send + 'static>(
        &self,
        bytes: u64,
        convert: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if bytes <= CONVERTED_HERE_MAX {
            return Ok(convert());
        }
        self.world().spawn().elsewhere(convert).await.ok_or_else(|| {
            let text = "the converter thread has ended";
            Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 0), text)
        })
    }
}
