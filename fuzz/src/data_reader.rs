//! The reader of DATA against a reference that looks at the whole content at once.

use crate::stream::{Cut, in_pieces};
use smtp::server::BareNewline;
use smtp::testing::escape::escape;
use smtp::testing::{content, model};

/// The first byte chooses the mode and the cut, the rest is what follows 354.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mode = if choice & 1 == 0 { BareNewline::Reject } else { BareNewline::Normalize };
    // Whatever came before, this ends it.
    let stream = [bytes, b"\r\n.\r\n"].concat();
    let Some(verdict) = model::data(&stream) else { panic!("no end in {stream:?}") };
    for cut in [Cut::Whole, Cut::Bytes, Cut::Seeded(choice)] {
        let mut driver = content::ready(mode, true);
        in_pieces(&stream[..verdict.taken], cut, |piece| driver.feed(piece));
        driver.feed(b"NOOP\r\n");
        content::check(&driver, &verdict, mode, &escape(&stream));
    }
}
