//! What a peer says when an association begins or breaks, read tolerantly.

use super::ber::{children, find, read, unsigned};
use super::bind::{BindRequirements, Contexts, Mode, MtaCredentials};
use super::spdu::{self, Spdu};

/// A window may be so large; more would be no limit.
const WINDOW_MAX: u32 = 65_535;
/// The largest number of units of 1,024 octets between checkpoints.
const CHECKPOINT_KIB_MAX: u32 = 1 << 20;

/// Who is named in MTABindArgument or MTABindResult.
fn who(bind: &[u8]) -> Option<MtaCredentials> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = find(bind, &[0x80])?;
    // IA5 or octets.
    let password = children(find(bind, &[0xa1])?).next()?;
    Some(MtaCredentials { name: text(name), password: text(password.content) })
}

/// Checkpoint size and window of RTORQ or RTOAC; what is left out has its default (X.228 §9).
fn sizes(parameters: &[u8]) -> (u32, u32) {
    let number = |tag| find(parameters, &[tag]).and_then(unsigned);
    let checkpoint_kib = number(0x80).unwrap_or(0).min(CHECKPOINT_KIB_MAX);
    (checkpoint_kib, number(0x81).unwrap_or(3).clamp(1, WINDOW_MAX))
}

/// What a CONNECT asks.
///
/// # Errors
/// What keeps it from being understood.
pub(super) fn asked(connect: &Spdu<'_>) -> Result<BindRequirements, String> {
    let wrong = |what: &str| format!("CONNECT without {what}");
    let cp = find(connect.user_data(), &[0x31]).ok_or_else(|| wrong("presentation data (CP)"))?;
    let mode = find(cp, &[0xa0, 0x80]).and_then(unsigned);
    let reference = |code| connect.parameter(code).unwrap_or_default().to_vec();
    let mut asked = BindRequirements {
        mode: Mode::Normal,
        contexts: Contexts { acse: 0, rtse: 0, mtse: 0 },
        offers: Vec::new(),
        checkpoint_kib: 0,
        window: 0,
        takes_turns: false,
        recovers: false,
        who: None,
        reference: reference(spdu::CALLING_REFERENCE),
        common_reference: reference(spdu::COMMON_REFERENCE),
    };
    let rtorq = match mode {
        Some(1) => {
            let parameters = find(cp, &[0xa2]).ok_or_else(|| wrong("normal-mode parameters"))?;
            offers(parameters, &mut asked).ok_or_else(|| wrong("the contexts of P1"))?;
            find(parameters, &[0x61, 0x30, 0xa0, 0x60, 0xbe, 0x28, 0xa0, 0xb0])
        }
        Some(0) => {
            let rtorq = find(cp, &[0xa1]);
            let protocol = rtorq.and_then(|rtorq| find(rtorq, &[0x84])).and_then(unsigned);
            asked.mode = match protocol {
                Some(12) => Mode::X410,
                Some(1) => Mode::X4101984,
                other => return Err(format!("X.410 mode with application protocol {other:?}")),
            };
            rtorq
        }
        other => return Err(format!("CONNECT with mode selector {other:?}")),
    };
    let rtorq = rtorq.ok_or_else(|| wrong("RTORQ"))?;
    (asked.checkpoint_kib, asked.window) = sizes(rtorq);
    asked.takes_turns = find(rtorq, &[0x82]).and_then(unsigned) == Some(1);
    let data = find(rtorq, &[0xa3]).ok_or_else(|| wrong("connection data"))?;
    asked.recovers = find(data, &[0xa1]).is_some();
    let open = find(data, &[0xa0]).unwrap_or_default();
    // [16] is around the bind in normal mode.
    asked.who = find(open, &[0xb0, 0xa1]).or_else(|| find(open, &[0xa1])).and_then(who);
    Ok(asked)
}

/// Notes the offered contexts; `None`: one that is needed is missing.
fn offers(parameters: &[u8], asked: &mut BindRequirements) -> Option<()> {
    for offer in children(find(parameters, &[0xa4])?) {
        let id = find(offer.content, &[0x02]).and_then(unsigned)?;
        let place = asked.contexts.place(find(offer.content, &[0x06])?);
        asked.offers.push(place.is_some());
        if let Some(place) = place {
            *place = id;
        }
    }
    let Contexts { acse, rtse, mtse } = asked.contexts;
    (acse != 0 && rtse != 0 && mtse != 0).then_some(())
}

/// What an ACCEPT answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) checkpoint_kib: u32,
    pub(super) window: u32,
    pub(super) who: Option<MtaCredentials>,
}

/// What an ACCEPT answers.
///
/// # Errors
/// What keeps it from being understood, or from being an acceptance of all that is needed.
pub(super) fn accepted(accept: &Spdu<'_>, mode: Mode) -> Result<Accepted, String> {
    let wrong = |what: &str| format!("ACCEPT without {what}");
    let cpa = find(accept.user_data(), &[0x31]).ok_or_else(|| wrong("presentation data (CPA)"))?;
    let rtoac = match mode {
        Mode::Normal => {
            let parameters = find(cpa, &[0xa2]).ok_or_else(|| wrong("normal-mode parameters"))?;
            let mut results = children(find(parameters, &[0xa5]).unwrap_or_default());
            let refused =
                results.any(|result| find(result.content, &[0x80]).and_then(unsigned) != Some(0));
            if refused {
                return Err("the peer refuses a presentation context".to_owned());
            }
            find(parameters, &[0x61, 0x30, 0xa0, 0x61, 0xbe, 0x28, 0xa0, 0xb1])
        }
        Mode::X410 | Mode::X4101984 => find(cpa, &[0xa1]),
    };
    let rtoac = rtoac.ok_or_else(|| wrong("RTOAC"))?;
    let (checkpoint_kib, window) = sizes(rtoac);
    let open = find(rtoac, &[0xa2, 0xa0]).unwrap_or_default();
    let who = find(open, &[0xb1, 0xa1]).or_else(|| find(open, &[0xa1])).and_then(who);
    Ok(Accepted { checkpoint_kib, window, who })
}

/// Why a REFUSE refuses, and a number for it: MTABindError, or RTSE's reason in X.410 mode, or what the session
/// layer says.
pub(super) fn refused(refuse: &Spdu<'_>) -> (u16, String) {
    let reason = refuse.parameter(spdu::REASON).unwrap_or_default();
    let (&code, data) = reason.split_first().unwrap_or((&0, &[]));
    let number = |path: &[u8]| find(data, path).and_then(unsigned);
    let rtorj: [u8; 10] = [0x30, 0x61, 0x30, 0xa0, 0x61, 0xbe, 0x28, 0xa0, 0xb2, 0xa1];
    // Some leave [18] around the bind's error out.
    let error = number(&[&rtorj[..], &[0xb2, 0x02]].concat())
        .or_else(|| number(&[&rtorj[..], &[0x02]].concat()));
    if let Some(error) = error {
        let words = match error {
            0 => "busy",
            2 => "authentication error",
            3 => "unacceptable dialogue mode",
            4 => "unacceptable security context",
            5 => "inadequate association confidentiality",
            _ => "another error",
        };
        return (code_of(error), format!("bind refused: {words} ({error})"));
    }
    if let Some(reason) = number(&[0x31, 0x80]) {
        let words = match reason {
            0 => "busy",
            1 => "can't recover",
            2 => "validation failure",
            3 => "unacceptable dialogue mode",
            _ => "another reason",
        };
        return (code_of(reason), format!("bind refused: {words} ({reason})"));
    }
    if read(data).is_some() {
        return (code.into(), "bind refused without a readable reason".to_owned());
    }
    let words = spdu::refusal_words(code);
    (code.into(), format!("session refused: {words} ({code:#04x})"))
}

fn code_of(number: u32) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

/// Why an ABORT aborts.
pub(super) fn aborted(abort: &Spdu<'_>) -> String {
    let data = abort.user_data();
    let number = |path: &[u8]| find(data, path).and_then(unsigned);
    let rtab = number(&[0xa0, 0x61, 0x30, 0xa0, 0x64, 0xbe, 0x28, 0xa0, 0xb6, 0x80]);
    if let Some(reason) = rtab.or_else(|| number(&[0x31, 0x80])) {
        let words = match reason {
            0 => "local system problem",
            1 => "invalid parameter",
            2 => "unrecognized activity",
            3 => "temporary problem",
            4 => "protocol error",
            5 => "permanent problem",
            6 => "user error",
            7 => "transfer completed",
            _ => "another reason",
        };
        return format!("aborted by RTSE: {words} ({reason})");
    }
    if let Some(reason) = number(&[0x30, 0x80]) {
        return format!("aborted by the presentation layer ({reason})");
    }
    match abort.octet(spdu::TRANSPORT_DISCONNECT) {
        Some(reason) if reason & 4 != 0 => {
            "aborted by the session layer: protocol error".to_owned()
        }
        Some(reason) if reason & 2 != 0 => "aborted by the user".to_owned(),
        _ => "aborted without a reason".to_owned(),
    }
}
