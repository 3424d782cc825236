//! Writes transactions: protocol lines and content, in as few writes as possible.

use super::encoding::Encoding;
use super::held::HeldContent;
use super::patience::Stir;
use bytes::Bytes;
use mail::transfer_encoding::Encoder;
use mail::{HeaderScan, Mono};
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::message::{Message, SentBody};
use mta::seams::{Net, Stream, World};
use smallvec::SmallVec;
use smtp::client::{ClientSession, DotStuffer, Output};
use spool::LoadError;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll};

/// Maximum number of slices in one vectored write.
const SLICES_MAX: usize = 64;

/// Reason for which a content was not written completely.
pub(super) enum WriteError {
    /// The connection or the mailbox file failed.
    Io(io::Error),
    /// The spool can no longer read the body, or it has changed.
    Unreadable(LoadError),
}

impl From<LoadError> for WriteError {
    fn from(why: LoadError) -> WriteError {
        WriteError::Unreadable(why)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

/// Writes all of `plan`. Replies that arrive during the write are passed to the session.
///
/// # Errors
/// The connection failed, or a blob can't be read.
pub(super) async fn write_plan<W: World>(
    slot: &Slot<W>,
    (wire, stir): (&mut SmtpTransport<W>, &Stir),
    plan: &[Output],
    content: Option<HeldContent>,
) -> Result<(), WriteError> {
    match content {
        Some(content) if content.is_read_on() => {
            write_reading(slot, (wire, stir), plan, content).await
        }
        content => {
            let encoding = content.as_ref().and_then(HeldContent::encoding);
            let message = content.as_ref().and_then(HeldContent::message);
            let mut pieces = gather(plan, &wire.session, message, encoding.as_deref());
            // // Other connections need no more memory than a piece, which belongs to the connection from now on.
            drop(content);
            Ok(write_pieces(slot, (wire, stir), &mut pieces, None).await?)
        }
    }
}

/// A piece of output, independent of the session's buffer, which is needed for input.
enum OutputPiece {
    Protocol(Vec<u8>),
    Content(Bytes),
}

/// Pieces of one write. Three fit without an allocation: commands, a prefix and a body in one piece.
type Pieces = SmallVec<[OutputPiece; 3]>;

impl OutputPiece {
    fn as_slice(&self) -> &[u8] {
        match self {
            OutputPiece::Protocol(bytes) => bytes,
            OutputPiece::Content(bytes) => bytes,
        }
    }
}

fn gather(
    plan: &[Output],
    session: &ClientSession,
    message: Option<&Message>,
    encoding: Option<&Encoding>,
) -> Pieces {
    let mut pieces = Pieces::new();
    for output in plan {
        match (*output, message) {
            (Output::Bytes { start, end }, _) => {
                pieces.push(OutputPiece::Protocol(session.buffer()[start..end].to_vec()));
            }
            (_, None) => debug_assert!(false, "content without a message"),
            (output, Some(message)) => {
                pieces.push(OutputPiece::Content(message.prefix.clone()));
                let SentBody::Memory(body) = message.sent_body() else { continue };
                let mut form = BodyEncoder::new(output, encoding);
                for piece in body.iter() {
                    form.push(&mut pieces, piece);
                }
                form.finish(&mut pieces);
            }
        }
    }
    pieces
}

/// Encoding and dot-stuffing of a body.
struct BodyEncoder<'e> {
    encoder: Option<Encoder<'e>>,
    stuffer: Option<DotStuffer>,
}

impl<'e> BodyEncoder<'e> {
    fn new(output: Output, encoding: Option<&'e Encoding>) -> BodyEncoder<'e> {
        BodyEncoder {
            encoder: encoding.map(|encoding| Encoder::new(&encoding.plan)),
            stuffer: (output == Output::ContentStuffed).then(DotStuffer::new),
        }
    }

    /// Adds a `piece` of the body, copied only if it is encoded.
    fn push(&mut self, pieces: &mut Pieces, piece: &Bytes) {
        match &mut self.encoder {
            Some(encoder) => {
                let encoded = Bytes::from(encoder.push(piece));
                self.stuff(pieces, &encoded);
            }
            None => self.stuff(pieces, piece),
        }
    }

    /// Ends the body.
    fn finish(mut self, pieces: &mut Pieces) {
        if let Some(encoder) = self.encoder.take() {
            let rest = Bytes::from(encoder.finish());
            self.stuff(pieces, &rest);
        }
    }

    /// Inserts dots at lines that begin with a dot, without copying.
    fn stuff(&mut self, pieces: &mut Pieces, piece: &Bytes) {
        let Some(stuffer) = &mut self.stuffer else {
            pieces.push(OutputPiece::Content(piece.clone()));
            return;
        };
        // A doubled dot is the same slice twice.
        pieces.extend(
            stuffer.slices(piece).map(|slice| OutputPiece::Content(piece.slice_ref(slice))),
        );
    }
}

/// Writes content that is read back piece by piece.
async fn write_reading<W: World>(
    slot: &Slot<W>,
    (wire, stir): (&mut SmtpTransport<W>, &Stir),
    plan: &[Output],
    mut content: HeldContent,
) -> Result<(), WriteError> {
    let encoding = content.encoding();
    for output in plan {
        if let Output::Bytes { start, end } = *output {
            let bytes = wire.session.buffer()[start..end].to_vec();
            let mut pieces = [OutputPiece::Protocol(bytes)];
            write_pieces(slot, (&mut *wire, stir), &mut pieces, Some(&mut content)).await?;
            continue;
        }
        let prefix = stir.waited_for(|| slot.now(), content.prefix(slot)).await?;
        let mut prefix = [OutputPiece::Content(prefix)];
        write_pieces(slot, (&mut *wire, stir), &mut prefix, Some(&mut content)).await?;
        let mut form = BodyEncoder::new(*output, encoding.as_deref());
        let mut offset = 0;
        while offset < content.sent_body_bytes() {
            let piece = stir.waited_for(|| slot.now(), content.piece(slot, offset)).await?;
            offset += piece.len() as u64;
            let is_last = offset >= content.sent_body_bytes();
            let piece = if is_last { content.end(piece) } else { piece };
            let mut pieces = Pieces::new();
            form.push(&mut pieces, &piece);
            drop(piece);
            write_pieces(slot, (&mut *wire, stir), &mut pieces, Some(&mut content)).await?;
        }
        let mut pieces = Pieces::new();
        form.finish(&mut pieces);
        write_pieces(slot, (&mut *wire, stir), &mut pieces, None).await?;
    }
    Ok(())
}

/// Returns true if the header, as received, has an octet above 0x7f. Fields added by this server have none.
///
/// # Errors
/// The body can't be read.
pub(super) async fn has_8bit_header<W: World>(
    slot: &Slot<W>,
    message: &Message,
) -> Result<bool, LoadError> {
    let mut scan = HeaderScan::default();
    let found = slot.for_each_piece(message, |piece| scan.push(piece)).await?;
    Ok(found.unwrap_or(false))
}

/// Writes these pieces. While the peer accepts no data, their content may be released.
async fn write_pieces<W: World>(
    slot: &Slot<W>,
    (wire, stir): (&mut SmtpTransport<W>, &Stir),
    pieces: &mut [OutputPiece],
    mut content: Option<&mut HeldContent>,
) -> io::Result<()> {
    let mut cursor = Cursor { piece: 0, offset: 0 };
    while cursor.piece < pieces.len() {
        let written = poll_fn(|cx| {
            let written = poll_write(slot, wire, pieces, &cursor, cx);
            #[cfg(feature = "planted")]
            if slot.has_planted(mta::planted::Planted::HoldOn) {
                return written;
            }
            if written.is_pending()
                && let Some(content) = &mut content
            {
                poll_give_way(slot, wire, pieces, content, cx);
            }
            written
        });
        let written = written.await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        cursor.advance(pieces, written);
        let now = slot.now();
        stir.note(now);
        wire.session.handle_progress(now);
    }
    Ok(())
}

/// Releases the content if another connection needs the memory more. The pieces being written are copied then.
fn poll_give_way<W: World>(
    slot: &Slot<W>,
    wire: &mut SmtpTransport<W>,
    pieces: &mut [OutputPiece],
    content: &mut HeldContent,
    cx: &mut Context<'_>,
) {
    let was_here = !content.is_let_go();
    let look_at = content.poll_give_way(cx, || slot.now());
    if was_here && content.is_let_go() {
        for piece in pieces {
            if let OutputPiece::Content(bytes) = piece {
                *bytes = Bytes::copy_from_slice(bytes);
            }
        }
    }
    if look_at != Mono::NEVER && wire.alarm.poll(cx, look_at).is_ready() {
        cx.waker().wake_by_ref();
    }
}

struct Cursor {
    piece: usize,
    offset: usize,
}

impl Cursor {
    fn advance(&mut self, pieces: &[OutputPiece], mut written: usize) {
        while let Some(piece) = pieces.get(self.piece) {
            let left = piece.as_slice().len() - self.offset;
            if written < left {
                self.offset += written;
                return;
            }
            written -= left;
            self.piece += 1;
            self.offset = 0;
        }
    }
}

/// Writes as much as the peer accepts. If it accepts nothing, input is read: it may be a reply that ends the session.
fn poll_write<W: World>(
    slot: &Slot<W>,
    wire: &mut SmtpTransport<W>,
    pieces: &[OutputPiece],
    cursor: &Cursor,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if wire.session.is_closed() {
        // // The peer refused the content, for instance, and may never read the rest.
        return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
    }
    let mut slices = [IoSlice::new(&[]); SLICES_MAX];
    let mut count = 0;
    for (piece, slot) in pieces[cursor.piece..].iter().zip(&mut slices) {
        let skip = if count == 0 { cursor.offset } else { 0 };
        *slot = IoSlice::new(&piece.as_slice()[skip..]);
        count += 1;
    }
    if slices[..count].iter().all(|slice| slice.is_empty()) {
        // Only empty pieces are left (an empty prefix): no system call is needed.
        return Poll::Ready(Ok(usize::MAX));
    }
    if let Poll::Ready(written) = wire.stream.poll_write(cx, &slices[..count]) {
        return Poll::Ready(written);
    }
    if wire.alarm.poll(cx, wire.session.deadline()).is_ready() {
        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
    }
    let mut scratch = slot.scratch();
    match wire.stream.poll_read(cx, &mut scratch) {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        Poll::Ready(Ok(n)) => {
            wire.session.handle_input(slot.now(), &scratch[..n]);
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => Poll::Pending,
    }
}

/// A connection of this world.
pub(super) type StreamOf<W> = <<W as World>::Net as Net>::Stream;

/// The stream and the SMTP session on it.
pub(super) struct SmtpTransport<W: World> {
    pub(super) stream: StreamOf<W>,
    pub(super) session: ClientSession,
    pub(super) alarm: Alarm<W::Time>,
}
