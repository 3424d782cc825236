//! TSDUs from anything: how they are cut changes nothing, and what is read and written again reads the same.

use crate::stream::{Cut, in_pieces};
use bytes::Bytes;
use x400::session::{SessionError, SessionItem, Spdu, TsduReader};

/// The first byte is how the TSDU is cut.
pub fn run(data: &[u8]) {
    let Some((&order, octets)) = data.split_first() else { return };
    let whole = read(octets, Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(order)] {
        assert_eq!(whole, read(octets, cut), "{cut:?} makes a difference");
    }
    let Ok((spdus, _)) = whole else { return };
    for spdu in spdus {
        let again = read(&spdu.encode(), Cut::Whole).expect("what we write");
        assert_eq!(again, (vec![spdu], Vec::new()));
    }
}

/// The SPDUs of one TSDU, and the user information of DATA.
fn read(octets: &[u8], cut: Cut) -> Result<(Vec<Spdu>, Vec<u8>), SessionError> {
    let mut reader = TsduReader::default();
    let (mut spdus, mut data, mut fault, mut left) = (Vec::new(), Vec::new(), None, octets.len());
    let mut feed = |piece: &[u8], is_last: bool| {
        let mut input = Bytes::copy_from_slice(piece);
        while fault.is_none() {
            match reader.read(&mut input, is_last) {
                Err(error) => fault = Some(error),
                Ok(None) => break,
                Ok(Some(SessionItem::Spdu(spdu))) => spdus.push(spdu),
                Ok(Some(SessionItem::Data { octets, .. })) => data.extend_from_slice(&octets),
            }
            if is_last && input.is_empty() && reader.is_idle() {
                break;
            }
        }
    };
    if octets.is_empty() {
        feed(&[], true);
    }
    in_pieces(octets, cut, |piece| {
        left -= piece.len();
        feed(piece, left == 0);
    });
    fault.map_or(Ok((spdus, data)), Err)
}
