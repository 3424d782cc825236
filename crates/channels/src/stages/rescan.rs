//! Reading anew what stages before have changed: what is signed or sealed is what leaves here.

use auth::scan::{Scan, Scanned};
use mail::Refusal;
use mta::ingress::Draft;

/// What `scan` finds in the content as it stands now.
///
/// # Errors
/// It can't be read.
pub(super) async fn scanned(draft: &mut Draft, mut scan: Scan) -> Result<Scanned, Refusal> {
    let mut offset = 0;
    loop {
        let piece = draft.read(offset).await?;
        if piece.is_empty() {
            return Ok(scan.finish());
        }
        scan.push(&piece);
        offset += piece.len() as u64;
    }
}
