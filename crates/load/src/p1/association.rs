//! The calling end of an association.

use super::answer;
use super::bind::{self, AssociationParameters, Contexts, MtaCredentials, Reference};
use super::plan::{Agreed, Plan};
use super::spdu::{self, Spdu, SpduKind, spdu};
use super::tpkt::{self, Control, Framed, Frames};
use crate::listener::ReadBuffer;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// A longer answer is none.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Whom to call, and how.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    pub(super) to: SocketAddr,
    pub(super) t_selector: Vec<u8>,
    pub(super) wishes: AssociationParameters,
    pub(super) tpdu_bytes: u32,
    /// Whom the answer must name, if anybody.
    pub(super) their_name: Option<String>,
    pub(super) their_password: Option<String>,
    /// UTCTime, for the association's reference.
    pub(super) time: String,
}

/// What the other end says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ResponderReply {
    Confirm { reference: [u8; 2], sizes: tpkt::Sizes },
    Accept(answer::Accepted),
    MinorAck(u32),
    EndAck,
    Exception(u8),
    DiscardAck,
    Disconnected,
}

/// What came of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The other end is responsible now.
    Acked,
    /// It reported an exception with this reason, and the activity was discarded.
    Refused(u8),
}

/// An association after its bind.
#[derive(Debug)]
pub(super) struct Association {
    stream: TcpStream,
    /// The other end's, of the transport connection.
    reference: [u8; 2],
    frames: Frames,
    answers: VecDeque<ResponderReply>,
    agreed: Agreed,
    plan: Plan,
    out: Vec<u8>,
    activities: u32,
}

impl Association {
    /// Connects and binds.
    ///
    /// # Errors
    /// What went wrong, or why it was refused.
    pub(super) async fn open(dial: &Dial, reading: &ReadBuffer) -> Result<Association, String> {
        let stream = TcpStream::connect(dial.to).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mode = dial.wishes.mode;
        let agreed = Agreed { mode, checkpoint_bytes: 0, window: 1, tpdu_bytes: 128 };
        let mut association = Association {
            stream,
            reference: [0, 0],
            frames: Frames::new(ANSWER_BYTES_MAX),
            answers: VecDeque::new(),
            agreed,
            plan: Plan::default(),
            out: Vec::new(),
            activities: 0,
        };
        let request = tpkt::connection_request(&dial.t_selector, dial.tpdu_bytes);
        association.write(&request).await?;
        let ResponderReply::Confirm { reference, sizes } = association.answer(reading).await?
        else {
            return Err("no CC to CR".to_owned());
        };
        association.reference = reference;
        let tpdu_bytes = tpkt::confirmed_size(sizes, dial.tpdu_bytes);
        association.agreed.tpdu_bytes = tpdu_bytes as usize;
        let connect = bind::connect(&dial.wishes, &Reference::new(&dial.time));
        // In as many TPDUs as it takes: a stream of none has nothing but this before it.
        association.write_tsdu(&connect).await?;
        let ResponderReply::Accept(accepted) = association.answer(reading).await? else {
            return Err("neither ACCEPT nor REFUSE to CONNECT".to_owned());
        };
        check(dial, accepted.who.as_ref())?;
        // The answering end's figures hold (X.228 §7.1.2).
        association.agreed.checkpoint_bytes = accepted.checkpoint_kib as usize * 1024;
        association.agreed.window = accepted.window;
        Ok(association)
    }

    /// Transfers a stream in an activity of its own; its two parts are sent one behind the other. `written`
    /// becomes the moment at which its last octet was handed to the system.
    ///
    /// # Errors
    /// Why the association is of no use any more.
    pub(super) async fn send(
        &mut self,
        stream: [&[u8]; 2],
        reading: &ReadBuffer,
        written: &mut Option<Instant>,
    ) -> Result<Sent, String> {
        self.activities = self.activities.wrapping_add(1).max(1);
        let bytes = stream.iter().map(|part| part.len()).sum();
        self.plan.lay_out(self.agreed, self.activities, bytes);
        let parts = self.plan.checkpoints() + 1;
        let (mut sent, mut confirmed) = (0_u32, 0_u32);
        loop {
            let may = confirmed.saturating_add(self.agreed.window).min(parts);
            if sent < may {
                let Association { plan, out, stream: to, .. } = self;
                let wrote = plan.write(sent..may, stream, out, to).await;
                wrote.map_err(|error| error.to_string())?;
                sent = may;
                if sent == parts {
                    *written = Some(Instant::now());
                }
                continue;
            }
            match self.answer(reading).await? {
                ResponderReply::MinorAck(serial) => confirmed = confirmed.max(serial).min(sent),
                ResponderReply::EndAck if sent == parts => return Ok(Sent::Acked),
                ResponderReply::Exception(reason) => return self.discard(reason, reading).await,
                other => return Err(format!("{other:?} in an activity")),
            }
        }
    }

    /// The other end has reported an exception: the activity goes.
    async fn discard(&mut self, reason: u8, reading: &ReadBuffer) -> Result<Sent, String> {
        let parameter = spdu::parameter(spdu::REASON, &[0]);
        self.write_tsdu(&spdu(&spdu::GT, spdu::DISCARD, &[&parameter])).await?;
        loop {
            match self.answer(reading).await? {
                ResponderReply::DiscardAck => return Ok(Sent::Refused(reason)),
                // They were on their way.
                ResponderReply::MinorAck(_) => {}
                other => return Err(format!("{other:?} to a discard")),
            }
        }
    }

    /// Releases the association and disconnects, waiting for so long at most.
    pub(super) async fn release(mut self, reading: &ReadBuffer, wait_max: Duration) {
        let finish = bind::finish(self.agreed.mode, Contexts::OURS);
        let release = async {
            self.write_tsdu(&finish).await?;
            let answer = self.answer(reading).await?;
            self.write(&tpkt::disconnect_request(self.reference, 128)).await?;
            Ok::<_, String>(answer)
        };
        // Everything was answered: whether this is changes nothing.
        let _ = tokio::time::timeout(wait_max, release).await;
        // The last word was said. Closing without TIME_WAIT, as the source of mail does.
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).await.map_err(|error| error.to_string())
    }

    async fn write_tsdu(&mut self, tsdu: &[u8]) -> Result<(), String> {
        let mut out = Vec::with_capacity(tsdu.len() + 16);
        tpkt::push_tsdu(&mut out, tsdu, self.agreed.tpdu_bytes);
        self.write(&out).await
    }

    /// The next answer.
    async fn answer(&mut self, reading: &ReadBuffer) -> Result<ResponderReply, String> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Ok(answer);
            }
            let Association { stream, frames, answers, agreed, .. } = self;
            let taken = reading.read(stream, |input| take(input, frames, answers, *agreed)).await;
            taken.map_err(|error| error.to_string())??;
        }
    }
}

/// Takes input to its end.
fn take(
    mut input: &[u8],
    frames: &mut Frames,
    answers: &mut VecDeque<ResponderReply>,
    agreed: Agreed,
) -> Result<(), String> {
    if input.is_empty() {
        return Err("the connection was closed".to_owned());
    }
    while !input.is_empty() {
        let (used, framed) = frames.advance(input)?;
        input = input.get(used..).unwrap_or_default();
        let answer = match framed {
            Framed::Input => None,
            Framed::Control => match tpkt::control(frames.control())? {
                Control::Confirm { reference, sizes } => {
                    Some(ResponderReply::Confirm { reference, sizes })
                }
                Control::Disconnect(why) => return Err(why),
                Control::Request { .. } => return Err("CR from the end that was called".to_owned()),
            },
            Framed::Tsdu => read(&Spdu::read(frames.tsdu())?, agreed)?,
        };
        answers.extend(answer);
    }
    Ok(())
}

fn read(spdu: &Spdu<'_>, agreed: Agreed) -> Result<Option<ResponderReply>, String> {
    Ok(match spdu.kind {
        SpduKind::Accept => Some(ResponderReply::Accept(answer::accepted(spdu, agreed.mode)?)),
        SpduKind::Refuse => return Err(answer::refused(spdu).1),
        SpduKind::Abort => return Err(answer::aborted(spdu)),
        SpduKind::MinorAck => Some(ResponderReply::MinorAck(spdu.serial().unwrap_or(0))),
        SpduKind::ActivityEndAck => Some(ResponderReply::EndAck),
        SpduKind::ExceptionData => {
            Some(ResponderReply::Exception(spdu.octet(spdu::REASON).unwrap_or(0)))
        }
        SpduKind::DiscardAck => Some(ResponderReply::DiscardAck),
        SpduKind::Disconnect => Some(ResponderReply::Disconnected),
        // It would like to send: this end only does.
        SpduKind::PleaseTokens => None,
        other => return Err(format!("{other:?} from the end that was called")),
    })
}

fn check(dial: &Dial, who: Option<&MtaCredentials>) -> Result<(), String> {
    let name = who.map_or("", |who| &who.name);
    let password = who.map_or("", |who| &who.password);
    if let Some(expected) = dial.their_name.as_ref().filter(|expected| *expected != name) {
        return Err(format!("the answer names {name:?}, not {expected:?}"));
    }
    if dial.their_password.as_ref().is_some_and(|expected| expected != password) {
        return Err(format!("{name:?} answers with another password"));
    }
    Ok(())
}
