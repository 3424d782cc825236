//! How associations end, as far as it matters to whoever looks after this server.

use x400::association::End;

/// Whether somebody should look into it: what ends in order, or with a connection that is gone, is no news.
pub(super) fn is_worth_a_line(end: &End) -> bool {
    match end {
        End::Released | End::Lost | End::AbortedByUs(_) => false,
        End::Refused(_) | End::AbortedByPeer { .. } | End::Violation(_) | End::TimedOut(_) => true,
    }
}
