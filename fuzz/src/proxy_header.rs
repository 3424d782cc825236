//! Anything as what a proxy says before a connection.

use mta::ingress::{ProxyHeader, ProxyHeaderError, V1_BYTES_MAX, V2_REST_BYTES_MAX};
use std::net::SocketAddr;

/// The first byte says how the rest is cut. However that is, the same client is found, and nothing of what
/// follows the header is taken; nor is it by one who reads as much as is wanted.
pub fn run(data: &[u8]) {
    let Some((step, input)) = data.split_first() else { return };
    let whole = read(input, |_| usize::MAX);
    let step = usize::from(*step).max(1);
    for other in [read(input, |_| step), read(input, ProxyHeader::wanted)] {
        match (&whole, &other) {
            // In pieces a mistake may be seen sooner.
            (Err(_), Err(_)) => {}
            _ => assert_eq!(whole, other),
        }
    }
    if let Ok(Some((_, taken))) = whole {
        assert!(taken <= V1_BYTES_MAX.max(16 + V2_REST_BYTES_MAX));
    }
}

type Read = Result<Option<(Option<SocketAddr>, usize)>, ProxyHeaderError>;

/// The client and the octets of the header; `None`: there are more to come.
fn read(input: &[u8], most: impl Fn(&ProxyHeader) -> usize) -> Read {
    let mut header = ProxyHeader::default();
    let mut at = 0;
    while at < input.len() {
        let piece = &input[at..input.len().min(at.saturating_add(most(&header)))];
        let mut rest = piece;
        let found = header.take(&mut rest)?;
        at += piece.len() - rest.len();
        if let Some(announced) = found {
            assert_eq!(header.wanted(), 0);
            return Ok(Some((announced.client, at)));
        }
        assert!(rest.is_empty() && header.wanted() > 0, "it waits, and nothing is wanted");
    }
    Ok(None)
}
