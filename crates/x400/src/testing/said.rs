//! What a stream of octets says, layer by layer up to the session: for comparing conversations.

use crate::session::{SessionItem, Spdu, TsduReader};
use crate::x224::{Tpdu, TpduItem, TpduReader};
use bytes::Bytes;

/// One thing that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A TPDU without data.
    Tpdu(Tpdu),
    /// An SPDU other than DATA.
    Spdu(Spdu),
    /// The user information of one DATA.
    Data(Vec<u8>),
}

/// Everything that these octets say.
///
/// # Panics
/// They are not whole TPDUs of well-formed TSDUs.
#[must_use]
pub fn said(octets: &[u8]) -> Vec<Said> {
    let mut input = Bytes::copy_from_slice(octets);
    let (mut tpdus, mut tsdus) = (TpduReader::default(), TsduReader::default());
    let (mut said, mut data) = (Vec::new(), None::<Vec<u8>>);
    while let Some(item) = tpdus.read(&mut input).expect("TPDUs") {
        let (mut octets, is_last) = match item {
            TpduItem::Control(tpdu) => {
                said.push(Said::Tpdu(tpdu));
                continue;
            }
            TpduItem::Data { octets, is_last } => (octets, is_last),
        };
        loop {
            match tsdus.read(&mut octets, is_last).expect("SPDUs") {
                None => break,
                Some(SessionItem::Spdu(spdu)) => said.push(Said::Spdu(spdu)),
                Some(SessionItem::Data { octets, is_last }) => {
                    data.get_or_insert_default().extend_from_slice(&octets);
                    if is_last {
                        said.extend(data.take().map(Said::Data));
                    }
                }
            }
            if octets.is_empty() && is_last && tsdus.is_idle() {
                break;
            }
        }
    }
    assert!(input.is_empty() && tpdus.is_idle() && tsdus.is_idle() && data.is_none(), "cut");
    said
}

/// Its name, with the number of a synchronization point: `ActivityEnd 3`; of a refusal or abort nothing more.
#[must_use]
pub fn name(said: &Said) -> String {
    match said {
        Said::Tpdu(Tpdu::Request(_)) => "CR".into(),
        Said::Tpdu(Tpdu::Confirm(_)) => "CC".into(),
        Said::Tpdu(Tpdu::Disconnect(disconnect)) => format!("DR {}", disconnect.reason.code()),
        Said::Tpdu(Tpdu::Error(_)) => "ER".into(),
        Said::Data(_) => "DT".into(),
        Said::Spdu(spdu) => spdu_name(spdu),
    }
}

fn spdu_name(spdu: &Spdu) -> String {
    let named = |name: &str| name.to_string();
    match spdu {
        Spdu::Connect(_) => named("CN"),
        Spdu::Accept(_) => named("AC"),
        Spdu::Refuse(refuse) => format!("RF {}", refuse.reason.code()),
        Spdu::Finish { .. } => named("FN"),
        Spdu::Disconnect { .. } => named("DN"),
        Spdu::NotFinished => named("NF"),
        Spdu::Abort { reason, .. } => format!("AB {reason}"),
        Spdu::AbortAccept => named("AA"),
        Spdu::GiveTokens { .. } => named("GT"),
        Spdu::PleaseTokens { .. } => named("PT"),
        Spdu::GiveTokensConfirm => named("GTC"),
        Spdu::GiveTokensAck => named("GTA"),
        Spdu::ActivityStart { .. } => named("AS"),
        Spdu::ActivityResume => named("AR"),
        Spdu::ActivityEnd(serial) => format!("AE {serial}"),
        Spdu::ActivityEndAck(serial) => format!("AEA {serial}"),
        Spdu::ActivityInterrupt(reason) => format!("AI {}", reason.code()),
        Spdu::ActivityInterruptAck => named("AIA"),
        Spdu::ActivityDiscard(reason) => format!("AD {}", reason.code()),
        Spdu::ActivityDiscardAck => named("ADA"),
        Spdu::MinorSync { serial, .. } => format!("MIP {serial}"),
        Spdu::MinorSyncAck(serial) => format!("MIA {serial}"),
        Spdu::ExceptionReport => named("ER"),
        Spdu::ExceptionData(reason) => format!("ED {}", reason.code()),
    }
}

/// The names of all that these octets say.
#[must_use]
pub fn names(octets: &[u8]) -> Vec<String> {
    said(octets).iter().map(name).collect()
}
