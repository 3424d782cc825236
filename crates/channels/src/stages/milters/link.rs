//! A connection to a filter.

use super::settings::Milter;
use mail::Mono;
use milter::{
    Answer, Change, Dialogue, FilterDecision, MilterCommand, MilterEvent, Symbols, abort, offer,
    quit,
};
use mta::alarm::Alarm;
use mta::seams::{Egress, Net, Stream, Time, World};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::task::{Context, Waker};
use std::time::Duration;

/// Unwritten octets at which commands without an expected reply are written.
const UNWRITTEN_BYTES_MAX: usize = 64 * 1024;

/// Octets read at once.
const READ_BYTES: usize = 16 * 1024;

/// Reason for a filter's failure, for people.
pub(super) type MilterError = String;

/// A reply of a filter.
pub(super) enum MilterReply {
    Change(Change),
    Verdict(FilterDecision),
}

/// A negotiated connection. Closed on drop.
pub(super) struct Link<W: World> {
    world: W,
    stream: <W::Net as Net>::Stream,
    pub(super) dialogue: Dialogue,
    unwritten: Vec<u8>,
}

impl<W: World> Link<W> {
    /// Connects and negotiates.
    pub(super) async fn open(
        world: &W,
        milter: &Milter,
        until: Mono,
    ) -> Result<Link<W>, MilterError> {
        let until = until.min(world.time().now() + milter.connect_timeout);
        let mut alarm = Alarm::new(world.time().clone());
        let opening = async {
            let stream = world.net().connect(&milter.endpoint, Egress::default()).await?;
            let mut link = Link {
                world: world.clone(),
                stream,
                dialogue: Dialogue::default(),
                unwritten: Vec::new(),
            };
            offer(&mut link.unwritten);
            link.write().await?;
            loop {
                match link.dialogue.poll_agreed() {
                    Ok(true) => return Ok(link),
                    Ok(false) => link.read().await?,
                    Err(fault) => return Err(io::Error::other(fault.to_string())),
                }
            }
        };
        let opened = alarm.within(|_| until, opening).await;
        let opened = opened.ok_or_else(|| "connection timed out".to_owned())?;
        opened.map_err(|error| described(&error))
    }

    /// Sends a command, if the filter has not opted out. Returns true if it will reply; then [`Link::hear`] is called.
    pub(super) async fn tell(
        &mut self,
        step: &MilterCommand<'_>,
        symbols: Symbols<'_>,
        timeout: Duration,
        until: Mono,
    ) -> Result<bool, MilterError> {
        let told = self.dialogue.tell(step, symbols, &mut self.unwritten);
        let is_due = told.map_err(|fault| fault.to_string())?;
        if is_due || self.unwritten.len() >= UNWRITTEN_BYTES_MAX {
            let until = until.min(self.world.time().now() + timeout);
            let mut alarm = Alarm::new(self.world.time().clone());
            let written = alarm.within(|_| until, self.write()).await;
            written.ok_or_else(silent)?.map_err(|error| described(&error))?;
        }
        Ok(is_due)
    }

    /// The next reply to the command. The timeout starts again with each progress reply.
    pub(super) async fn hear(
        &mut self,
        timeout: Duration,
        until: Mono,
    ) -> Result<MilterReply, MilterError> {
        let time = self.world.time().clone();
        let mut alarm = Alarm::new(time.clone());
        let mut deadline = until.min(time.now() + timeout);
        loop {
            match self.dialogue.poll_answer().map_err(|fault| fault.to_string())? {
                Some(Answer::Progress) => deadline = until.min(time.now() + timeout),
                Some(Answer::Change(change)) => return Ok(MilterReply::Change(change)),
                Some(Answer::Verdict(verdict)) => return Ok(MilterReply::Verdict(verdict)),
                None => {
                    let read = alarm.within(|_| deadline, self.read()).await;
                    read.ok_or_else(silent)?.map_err(|error| described(&error))?;
                }
            }
        }
    }

    /// Aborts the current message. Written with the next command.
    pub(super) fn abort(&mut self) {
        abort(&mut self.unwritten);
    }

    pub(super) fn is_told(&self, moment: MilterEvent) -> bool {
        self.dialogue.is_told(moment)
    }

    async fn write(&mut self) -> io::Result<()> {
        let mut from = 0;
        while let Some(rest) = self.unwritten.get(from..).filter(|rest| !rest.is_empty()) {
            let piece = [IoSlice::new(rest)];
            let written = poll_fn(|cx| self.stream.poll_write(cx, &piece)).await?;
            if written == 0 {
                return Err(ErrorKind::BrokenPipe.into());
            }
            from += written;
        }
        // Idle sessions hold no buffer.
        self.unwritten = Vec::new();
        Ok(())
    }

    async fn read(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let length = poll_fn(|cx| self.stream.poll_read(cx, &mut buffer)).await?;
        if length == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.dialogue.handle_input(buffer.get(..length).unwrap_or_default());
        Ok(())
    }
}

impl<W: World> Drop for Link<W> {
    fn drop(&mut self) {
        let mut farewell = Vec::new();
        quit(&mut farewell);
        // A few octets, written only if the socket buffer has capacity. No reply is expected.
        let _ = self
            .stream
            .poll_write(&mut Context::from_waker(Waker::noop()), &[IoSlice::new(&farewell)]);
    }
}

fn silent() -> MilterError {
    "timeout".to_owned()
}

fn described(error: &io::Error) -> MilterError {
    match error.kind() {
        ErrorKind::UnexpectedEof => "connection closed".to_owned(),
        _ => error.to_string(),
    }
}
