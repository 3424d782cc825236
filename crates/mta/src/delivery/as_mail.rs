//! What came as something else than internet mail, for channels that take nothing else.

use super::{AttemptContext, Slot};
use crate::line::InLine;
use crate::message::{Converted, Message, Original};
use crate::seams::{Spawn as _, World};
use bytes::Bytes;
use config::Config;
use mail::{Class, EnhancedStatus, Failure, Reply};
use queue::Work;
use spool::LoadError;
use std::rc::Rc;
use std::sync::Arc;

/// Octets of a conversion that a shard makes itself at most. What is longer may take a second, in which the shard would
/// serve nobody.
pub const CONVERTED_HERE_MAX: u64 = 64 * 1024;

/// Octets of what is converted at most: it is all in memory.
const CONVERTED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What is to be converted.
#[derive(Debug)]
pub struct MailQuestion {
    /// The message as it is in the spool.
    pub original: Original,
    /// All of its content.
    pub content: Bytes,
    /// The configuration in force.
    pub config: Arc<Config>,
}

/// What a channel makes of it.
#[derive(Debug)]
pub enum AsMail {
    /// A message.
    Message(Converted),
    /// Nothing is sent: it only asks whether a message would be delivered. What is said of it.
    Nothing(Reply),
}

impl<W: World> Slot<W> {
    /// As [`Slot::load_in_turn`], for a channel of internet mail: what came as something else is converted.
    /// `None`: the work is concluded, or put off.
    pub async fn load_mail(&self, place: Option<InLine>, work: &Work) -> Option<Rc<Message>> {
        let message = match self.load_in_turn(place, work.id).await {
            Ok(message) => message,
            Err(why) => {
                self.unreadable(work, "record", &why);
                return None;
            }
        };
        if message.kept_of_x400().is_none() || self.hop().channel.kinds_of_mail().x400 {
            return Some(message);
        }
        let room = self.room_to_convert(&message, work.origin).await;
        let outcome = match self.convert(&message).await {
            Ok(Ok(AsMail::Message(converted))) => match self.above(&converted).await {
                Ok(above) => return Some(Rc::new(message.converted(converted, above, room))),
                Err(failure) => Err(failure),
            },
            Ok(Ok(AsMail::Nothing(reply))) => Ok(reply),
            Ok(Err(failure)) => Err(failure),
            Err(why) => {
                self.unreadable(work, "body", &why);
                return None;
            }
        };
        let hop = self.hop().event_hop("", None, None);
        let context = AttemptContext { hop, local: true, dsn_passed_on: false };
        self.conclude(&message, work, vec![outcome; work.entries.len()], &context);
        None
    }

    /// What goes above it: signatures.
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

    async fn convert(&self, original: &Message) -> Result<Result<AsMail, Failure>, LoadError> {
        let mut content = original.prefix.to_vec();
        let gather = |piece: &[u8]| {
            content.extend_from_slice(piece);
            (content.len() > CONVERTED_BYTES_MAX).then_some(())
        };
        // What is longer is refused by who converts.
        let _ = self.for_each_piece(original, gather).await?;
        let kept_bytes = original.kept_of_x400().map_or(0, Bytes::len);
        let bytes = (content.len() + kept_bytes) as u64;
        let (original, config) = (original.original(), self.config());
        let question = MailQuestion { original, content: content.into(), config };
        let makers = self.delivery().mail_makers();
        let unknown = || {
            // RFC 3463 §3.7: conversion required but not supported.
            let text = "nothing here makes internet mail of it";
            Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 3), text)
        };
        let make = move || makers.iter().find_map(|make| make(&question));
        Ok(match self.convert_in_turn(bytes, make).await {
            Ok(made) => made.unwrap_or_else(|| Err(unknown())),
            Err(failure) => Err(failure),
        })
    }

    /// Makes a conversion of so many octets: here if they are few, else where no shard stands still for it.
    ///
    /// # Errors
    /// It was not made.
    pub async fn convert_in_turn<T: Send + 'static>(
        &self,
        bytes: u64,
        convert: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        if bytes <= CONVERTED_HERE_MAX {
            return Ok(convert());
        }
        self.world().spawn().elsewhere(convert).await.ok_or_else(|| {
            let text = "the thread that converts has ended";
            Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 0), text)
        })
    }
}
