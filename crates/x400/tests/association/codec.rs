//! TPDUs and SPDUs: what is written is read as the same; sizes are agreed.

use crate::hex::hex;
use bytes::Bytes;
use proptest::prelude::*;
use x400::association::ExceptionReason;
use x400::session::{
    Accept, Connect, Reference, Refuse, RefuseReason, Serial, SessionItem, Spdu, TsduReader,
};
use x400::x224::{
    Confirm, ConnectionRequest, Disconnect, DisconnectReason, TPDU_BYTES_MAX, Tpdu, TpduItem,
    TpduReader, TpduSize,
};

fn read_tpdu(octets: &[u8], piece: usize) -> Tpdu {
    let mut reader = TpduReader::default();
    for piece in octets.chunks(piece) {
        let mut input = Bytes::copy_from_slice(piece);
        if let Some(TpduItem::Control(tpdu)) = reader.read(&mut input).expect("a TPDU") {
            assert!(reader.is_idle());
            return tpdu;
        }
    }
    panic!("no TPDU in {octets:02x?}")
}

#[test]
fn tpdus_are_read_as_they_were_written() {
    let size = TpduSize { code: Some(0x0B), preferred: Some(511) };
    let rows = [
        Tpdu::Request(ConnectionRequest {
            source: 0x36FE,
            is_class_0: true,
            called: b"x400in88".to_vec(),
            calling: vec![0, 255],
            size,
        }),
        Tpdu::Confirm(Confirm {
            destination: 0x36FE,
            source: 0x36FF,
            is_class_0: true,
            responding: Vec::new(),
            size,
        }),
        Tpdu::Disconnect(Disconnect {
            destination: 1,
            source: 2,
            reason: DisconnectReason::AddressUnknown,
            text: b"no such".to_vec(),
        }),
        Tpdu::Error(2),
    ];
    for tpdu in rows {
        for piece in [1, 2, 3, usize::MAX] {
            assert_eq!(read_tpdu(&tpdu.packet(), piece), tpdu);
        }
    }
    // As captured, with a reserved octet that isn't 0 and an unknown parameter.
    let captured = hex("03ff001b 16e0000036fe00c20878343030696e3838c0010bd90100");
    let Tpdu::Request(request) = read_tpdu(&captured, 1) else { panic!("no CR") };
    assert_eq!(
        (request.source, &request.called[..], request.size.code),
        (0x36FE, &b"x400in88"[..], Some(0x0B))
    );
}

#[test]
fn what_follows_an_empty_dt_is_read_with_it() {
    let (empty, last) = (hex("03000007 02f000"), hex("03000009 02f080 4142"));
    let mut reader = TpduReader::default();
    let mut input = Bytes::from([&empty[..], &empty, &last].concat());
    let item = reader.read(&mut input).expect("TPDUs");
    let octets = Bytes::from_static(b"AB");
    assert_eq!(item, Some(TpduItem::Data { octets, is_last: true }));
    assert_eq!(reader.read(&mut Bytes::copy_from_slice(&empty)), Ok(None));
    assert!(reader.is_idle());
}

#[test]
fn tpdu_sizes_are_agreed() {
    let said = |code, preferred| TpduSize { code, preferred };
    assert_eq!(TpduSize::offer(65_408), said(Some(0x0B), Some(511)));
    assert_eq!(TpduSize::offer(1_000_000), TpduSize::offer(TPDU_BYTES_MAX));
    assert_eq!(TpduSize::offer(2_048), said(Some(0x0B), None));
    assert_eq!(TpduSize::offer(2_047), said(Some(0x0A), None));
    assert_eq!(TpduSize::offer(0), said(Some(0x07), None));
    // (offered, ours, answered, in force)
    let rows = [
        (said(Some(0x0B), Some(511)), 65_408, said(None, Some(511)), 65_408),
        (said(Some(0x0B), Some(511)), 10_000, said(None, Some(78)), 9_984),
        (said(Some(0x0B), None), 65_408, said(Some(0x0B), None), 2_048),
        (said(Some(0x0D), None), 65_408, said(Some(0x0D), None), 8_192),
        (said(Some(0x20), None), 65_408, said(Some(0x0D), None), 8_192),
        (said(Some(0), None), 65_408, said(Some(0x07), None), 128),
        (said(Some(0x0B), None), 128, said(Some(0x07), None), 128),
        (said(None, None), 65_408, said(Some(0x0B), None), 2_048),
        (said(Some(0x0B), Some(0)), 65_408, said(Some(0x0B), None), 2_048),
    ];
    for (offered, ours, answered, in_force) in rows {
        assert_eq!(offered.answer(ours), (answered, in_force), "{offered:?} {ours}");
        assert_eq!(
            offered.agreed(answered),
            in_force.min(offered.agreed(offered)),
            "{offered:?} {ours}"
        );
    }
    let offered = TpduSize::offer(65_408);
    assert_eq!(offered.agreed(said(None, None)), 2_048, "said nothing");
    assert_eq!(offered.agreed(said(Some(0x0A), None)), 1_024);
    assert_eq!(offered.agreed(said(None, Some(60_000))), 65_408, "more than was offered");
    assert_eq!(
        TpduSize::offer(2_048).agreed(said(Some(0x0D), None)),
        2_048,
        "more than was offered"
    );
}

/// What a TSDU says, fed in pieces of this size.
fn read_tsdu(octets: &[u8], piece: usize) -> Vec<SessionItem> {
    let mut reader = TsduReader::default();
    let mut items = Vec::new();
    let pieces: Vec<&[u8]> = octets.chunks(piece).collect();
    for (index, piece) in pieces.iter().enumerate() {
        let is_last = index + 1 == pieces.len();
        let mut input = Bytes::copy_from_slice(piece);
        while let Some(item) = reader.read(&mut input, is_last).expect("a TSDU") {
            items.push(item);
            if is_last && input.is_empty() && reader.is_idle() {
                break;
            }
        }
    }
    assert!(reader.is_idle());
    items
}

#[test]
fn data_passes_in_pieces() {
    let octets = hex("0100 0100 61 02 0304");
    assert_eq!(
        read_tsdu(&octets, usize::MAX),
        [SessionItem::Data { octets: hex("61020304").into(), is_last: true }]
    );
    assert_eq!(read_tsdu(&octets, 1).len(), 4);
    // Segmented: begin, neither, end.
    let mut reader = TsduReader::default();
    for (front, is_last) in [("0103190101", false), ("0103190100", false), ("0103190102", true)] {
        let mut input = Bytes::from(hex(&format!("0100 {front} AB")));
        let item = reader.read(&mut input, true).expect("DATA").expect("data");
        assert_eq!(item, SessionItem::Data { octets: vec![0xAB].into(), is_last });
        assert_eq!(reader.is_ssdu_open(), !is_last);
    }
    // The end of a TSDU may come in a TPDU of its own.
    let mut input = Bytes::from(hex("01 00 2D 05 29 03 02 01 01"));
    assert_eq!(reader.read(&mut input, false), Ok(None));
    let item = reader.read(&mut Bytes::new(), true).expect("AS");
    assert_eq!(item, Some(SessionItem::Spdu(Spdu::ActivityStart { id: vec![2, 1, 1] })));
}

fn octets(bytes: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..bytes)
}

fn reference() -> impl Strategy<Value = Reference> {
    (octets(64), octets(64), octets(5)).prop_map(|(user, common, additional)| Reference {
        user,
        common,
        additional,
    })
}

fn spdu() -> impl Strategy<Value = Spdu> {
    let connect = (reference(), any::<u8>(), any::<u8>(), any::<u16>(), octets(16), octets(10_000))
        .prop_map(|(reference, versions, token_setting, requirements, selector, user_data)| {
            Spdu::Connect(Box::new(Connect {
                reference,
                options: 0,
                versions,
                token_setting,
                requirements,
                calling: selector.clone(),
                called: selector,
                has_overflow: false,
                user_data,
            }))
        });
    let accept = (reference(), any::<u8>(), any::<u16>(), octets(16), octets(1_000)).prop_map(
        |(reference, versions, requirements, responding, user_data)| {
            Spdu::Accept(Box::new(Accept {
                reference,
                options: 0,
                versions,
                token_setting: 0,
                requirements,
                responding,
                user_data,
            }))
        },
    );
    let refuse = (reference(), any::<bool>(), octets(1_000)).prop_map(
        |(reference, releases_transport, user_data)| {
            Spdu::Refuse(Box::new(Refuse {
                reference,
                releases_transport,
                requirements: Some(0x249),
                versions: None,
                reason: RefuseReason::UserData,
                user_data,
            }))
        },
    );
    prop_oneof![connect, accept, refuse, small_spdu()]
}

fn small_spdu() -> impl Strategy<Value = Spdu> {
    let serial = || (0_u32..1_000_000).prop_map(Serial);
    let reason = || any::<u8>().prop_map(ExceptionReason::from_code);
    prop_oneof![
        octets(600).prop_map(|user_data| Spdu::Finish { user_data }),
        octets(600).prop_map(|user_data| Spdu::Disconnect { user_data }),
        (any::<u8>(), octets(600))
            .prop_map(|(reason, user_data)| Spdu::Abort { reason, user_data }),
        (any::<u8>(), octets(600))
            .prop_map(|(tokens, user_data)| Spdu::PleaseTokens { tokens, user_data }),
        any::<u8>().prop_map(|tokens| Spdu::GiveTokens { tokens }),
        proptest::sample::select(vec![
            Spdu::NotFinished,
            Spdu::AbortAccept,
            Spdu::GiveTokensConfirm,
            Spdu::GiveTokensAck,
            Spdu::ActivityInterruptAck,
            Spdu::ActivityDiscardAck,
            Spdu::ActivityResume,
            Spdu::ExceptionReport,
        ]),
        octets(7).prop_map(|id| Spdu::ActivityStart { id }),
        serial().prop_map(Spdu::ActivityEnd),
        serial().prop_map(Spdu::ActivityEndAck),
        serial().prop_map(Spdu::MinorSyncAck),
        (serial(), any::<bool>())
            .prop_map(|(serial, wants_ack)| Spdu::MinorSync { serial, wants_ack }),
        reason().prop_map(Spdu::ActivityInterrupt),
        reason().prop_map(Spdu::ActivityDiscard),
        reason().prop_map(Spdu::ExceptionData),
    ]
}

proptest! {
    #[test]
    fn spdus_are_read_as_they_were_written(spdu in spdu(), piece in 1_usize..300) {
        let octets = spdu.encode();
        let wanted = [SessionItem::Spdu(spdu)];
        prop_assert_eq!(&read_tsdu(&octets, usize::MAX)[..], &wanted[..]);
        prop_assert_eq!(&read_tsdu(&octets, piece)[..], &wanted[..]);
    }

    #[test]
    fn any_octets_are_read_without_harm(octets in octets(400), piece in 1_usize..50) {
        let mut tpdus = TpduReader::default();
        let mut tsdus = TsduReader::default();
        for piece in octets.chunks(piece) {
            let mut input = Bytes::copy_from_slice(piece);
            let ends = loop {
                match tpdus.read(&mut input) {
                    Ok(Some(_)) => {}
                    ends => break ends,
                }
            };
            prop_assert!(ends.is_err() || input.is_empty(), "it waits for what it has");
            let mut input = Bytes::copy_from_slice(piece);
            while let Ok(Some(_)) = tsdus.read(&mut input, piece.len() % 3 == 0) {
                if input.is_empty() {
                    break;
                }
            }
        }
    }
}
