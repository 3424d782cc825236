//! Status codes of DSNs and reasons of reports (RFC 2156 §5.1.8.4, §5.3.8.2).

use crate::reasons::NonDelivery;
use mail::EnhancedStatus;

/// Reason, diagnostic, and the status that they map to (§5.3.8.2).
const TO_STATUS: [(u32, u32, (u8, u16, u16)); 37] = [
    (1, 0, (5, 1, 1)),
    (1, 1, (5, 1, 4)),
    (1, 2, (4, 3, 1)),
    (1, 3, (5, 4, 6)),
    (1, 4, (4, 2, 1)),
    (1, 5, (4, 4, 7)),
    (1, 6, (5, 6, 1)),
    (1, 7, (5, 2, 3)),
    (2, 8, (5, 6, 3)),
    (2, 9, (5, 6, 3)),
    (1, 10, (5, 6, 3)),
    (1, 11, (5, 5, 2)),
    (1, 12, (5, 5, 2)),
    (1, 13, (5, 5, 2)),
    (1, 14, (5, 5, 0)),
    (1, 15, (5, 6, 1)),
    (1, 16, (5, 5, 3)),
    (1, 17, (5, 4, 4)),
    (1, 18, (5, 3, 3)),
    (2, 19, (5, 6, 2)),
    (2, 20, (5, 6, 0)),
    (2, 21, (5, 6, 0)),
    (2, 22, (5, 6, 2)),
    (2, 23, (5, 6, 2)),
    (2, 24, (5, 6, 2)),
    (2, 25, (5, 6, 2)),
    (1, 26, (5, 4, 0)),
    (1, 27, (5, 4, 6)),
    (1, 28, (5, 7, 2)),
    (1, 29, (5, 7, 1)),
    (1, 30, (4, 2, 4)),
    (4, 31, (5, 6, 0)),
    (1, 43, (5, 1, 6)),
    (1, 46, (5, 7, 0)),
    (2, 47, (5, 3, 3)),
    (0, 48, (5, 3, 4)),
    (0, 49, (4, 4, 7)),
];

/// The status of a reason alone, for diagnostics not listed above.
const OF_REASON: [(u8, u16, u16); 8] =
    [(4, 4, 0), (5, 0, 0), (5, 6, 3), (5, 6, 0), (5, 1, 0), (5, 7, 1), (5, 4, 3), (5, 3, 3)];

/// Subject and detail of a status, and their mapping (§5.1.8.4); an unlisted detail maps as 0 does.
const TO_REASON: [(u16, u16, u32, Option<u32>); 36] = [
    (0, 0, 1, None),
    (1, 0, 1, None),
    (1, 1, 1, Some(0)),
    (1, 2, 1, Some(0)),
    (1, 3, 1, Some(0)),
    (1, 4, 1, Some(1)),
    (1, 6, 1, Some(43)),
    (1, 7, 1, Some(11)),
    (1, 8, 1, Some(11)),
    (2, 0, 1, None),
    (2, 1, 1, Some(4)),
    (2, 2, 1, Some(4)),
    (2, 3, 1, Some(7)),
    (2, 4, 1, Some(30)),
    (3, 0, 0, None),
    (3, 1, 1, Some(2)),
    (3, 2, 1, Some(2)),
    (3, 3, 1, Some(18)),
    (3, 4, 1, Some(7)),
    (3, 5, 1, None),
    (4, 0, 0, None),
    (4, 3, 6, None),
    (4, 5, 1, Some(2)),
    (4, 6, 1, Some(3)),
    (4, 7, 1, Some(5)),
    (5, 0, 1, None),
    (5, 1, 1, Some(14)),
    (5, 2, 1, Some(14)),
    (5, 3, 1, Some(16)),
    (5, 4, 1, Some(14)),
    (5, 5, 1, Some(18)),
    (6, 0, 2, None),
    (6, 1, 1, Some(6)),
    (6, 2, 1, Some(9)),
    (6, 3, 2, Some(8)),
    (6, 5, 2, Some(47)),
];

/// The status of a non-delivery.
#[must_use]
pub fn to_status(why: NonDelivery) -> EnhancedStatus {
    let exact = TO_STATUS.iter().find(|(reason, diagnostic, _)| {
        (why.reason, why.diagnostic) == (*reason, Some(*diagnostic))
    });
    // "4/32-45 Various physical mail stuff", but 1/43 whatever the reason is, as both mean the same.
    let moved = (why.diagnostic == Some(43)).then_some((5, 1, 6));
    let by_reason = usize::try_from(why.reason).ok().and_then(|reason| OF_REASON.get(reason));
    let (class, subject, detail) =
        exact.map(|(.., status)| *status).or(moved).or(by_reason.copied()).unwrap_or((5, 0, 0));
    EnhancedStatus::new(class, subject, detail)
}

/// The non-delivery reason for a status.
#[must_use]
pub fn to_reason(status: EnhancedStatus) -> NonDelivery {
    let find =
        |detail: u16| TO_REASON.iter().find(|(s, d, ..)| (status.subject, detail) == (*s, *d));
    match (status.subject, status.detail) {
        (7, 1) => NonDelivery::new(1, 29),
        (7, 2) => NonDelivery::new(1, 28),
        (7, _) => NonDelivery::new(1, 46),
        (_, detail) => find(detail).or_else(|| find(0)).map_or(
            NonDelivery::bare(1),
            |(.., reason, diagnostic)| NonDelivery { reason: *reason, diagnostic: *diagnostic },
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> EnhancedStatus {
        EnhancedStatus::parse_prefix(text).expect(text).0
    }

    /// RFC 2156 §5.3.8.2, line by line.
    #[test]
    fn x400_to_dsn() {
        let table = "0/- 4.4.0|1/- 5.0.0|2/- 5.6.3|3/- 5.6.0|4/- 5.1.0|5/- 5.7.1|6/- 5.4.3|7/- 5.3.3|\
            1/0 5.1.1|1/1 5.1.4|1/2 4.3.1|1/3 5.4.6|1/4 4.2.1|1/5 4.4.7|1/6 5.6.1|1/7 5.2.3|2/8 5.6.3|\
            2/9 5.6.3|1/10 5.6.3|1/11 5.5.2|1/12 5.5.2|1/13 5.5.2|1/14 5.5.0|1/15 5.6.1|1/16 5.5.3|\
            1/17 5.4.4|1/18 5.3.3|2/19 5.6.2|2/20 5.6.0|2/21 5.6.0|2/22 5.6.2|2/25 5.6.2|1/26 5.4.0|\
            1/27 5.4.6|1/28 5.7.2|1/29 5.7.1|1/30 4.2.4|4/31 5.6.0|4/32 5.1.0|4/45 5.1.0|1/43 5.1.6|\
            1/46 5.7.0|2/47 5.3.3|0/48 5.3.4|0/49 4.4.7|1/77 5.0.0|9/- 5.0.0";
        for line in table.split('|') {
            let (code, wanted) = line.trim().split_once(' ').expect(line);
            let (reason, diagnostic) = code.split_once('/').expect(line);
            let why = NonDelivery {
                reason: reason.parse().expect(line),
                diagnostic: diagnostic.parse().ok(),
            };
            assert_eq!(to_status(why), status(wanted), "{line}");
        }
    }

    /// RFC 2156 §5.1.8.4, line by line.
    #[test]
    fn dsn_to_x400() {
        let table = "5.0.0 1/-|5.1.0 1/-|5.1.1 1/0|5.1.2 1/0|5.1.3 1/0|5.1.4 1/1|5.1.6 1/43|5.1.7 1/11|\
            5.1.8 1/11|5.2.0 1/-|5.2.1 1/4|5.2.2 1/4|5.2.3 1/7|5.2.4 1/30|5.3.0 0/-|5.3.1 1/2|5.3.2 1/2|\
            5.3.3 1/18|5.3.4 1/7|5.3.5 1/-|4.4.0 0/-|4.4.1 0/-|4.4.2 0/-|4.4.3 6/-|4.4.4 0/-|4.4.5 1/2|\
            5.4.6 1/3|4.4.7 1/5|5.5.0 1/-|5.5.1 1/14|5.5.2 1/14|5.5.3 1/16|5.5.4 1/14|5.5.5 1/18|5.6.0 2/-|\
            5.6.1 1/6|5.6.2 1/9|5.6.3 2/8|5.6.5 2/47|5.7.0 1/46|5.7.1 1/29|5.7.2 1/28|5.7.3 1/46|\
            5.7.7 1/46|5.2.37 1/-|5.1.99 1/-|5.9.9 1/-|5.6.7 2/-";
        for line in table.split('|') {
            let (from, wanted) = line.trim().split_once(' ').expect(line);
            assert_eq!(to_reason(status(from)).to_string(), wanted, "{line}");
        }
    }
}
