//! Responses of a filter.

use crate::negotiation::{Agreed, action};
use crate::packet::{Data, Fault};
use mail::{EnhancedStatus, Refusal, RefusalClass};

/// A response of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It needs more time.
    Progress,
    /// It wants something changed. Its verdict follows.
    Change(Change),
    Verdict(FilterDecision),
}

/// Decision of a filter on a session, a command or a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// Continue with the next event.
    GoOn,
    /// Skip the remaining fields, or the rest of the body.
    Skip,
    /// Accept without further events: the session (at connect and HELO), or the message.
    Accept,
    /// Refuse the session, the command or the message.
    Refuse(Refusal),
    /// Accept the message and keep nothing.
    Discard,
}

/// A change of a message that a filter requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add a field at the end of the header.
    AddField {
        name: Vec<u8>,
        value: Vec<u8>,
    },
    /// Insert a field at a position: 0 is first, 1 is after the Received field of this server.
    InsertField {
        index: u32,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    /// Replace the value of a field with this name, counted from 1; an empty value removes it.
    ChangeField {
        index: u32,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    /// The next piece of the new body.
    Body(Vec<u8>),
    /// Add a recipient. Parameters of RCPT are ignored.
    AddRecipient(Vec<u8>),
    RemoveRecipient(Vec<u8>),
    /// Replace the reverse-path. Parameters of MAIL are ignored.
    Sender(Vec<u8>),
    /// Hold the message, with a reason.
    Hold(Vec<u8>),
}

impl Change {
    /// Returns its approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Change>()
            + match self {
                Change::AddField { name, value }
                | Change::InsertField { name, value, .. }
                | Change::ChangeField { name, value, .. } => name.len() + value.len(),
                Change::Body(text)
                | Change::AddRecipient(text)
                | Change::RemoveRecipient(text)
                | Change::Sender(text)
                | Change::Hold(text) => text.len(),
            }
    }
}

/// Refusal of a filter that gives no reply.
pub const REJECTED: Refusal = Refusal::permanent((7, 1), "Rejected by a mail filter");
/// The same for now.
const DEFERRED: Refusal =
    Refusal::transient((7, 1), "Deferred by a mail filter; try again later").with_code(451);

impl Answer {
    /// Reads a response under the negotiated options.
    ///
    /// # Errors
    /// The response is malformed or was not negotiated.
    pub(crate) fn read(command: u8, data: &[u8], agreed: &Agreed) -> Result<Answer, Fault> {
        if let Some(needed) = action_of(command) {
            if !agreed.may(needed) {
                let what = char::from(command);
                return Err(Fault(format!("modification not negotiated: {what:?}").into()));
            }
            return read_change(command, data).map(Answer::Change);
        }
        let verdict = match command {
            b'y' => return chosen_reply(data).map(refused),
            b'p' => return Data(data).end().map(|()| Answer::Progress),
            b'c' => FilterDecision::GoOn,
            b's' => FilterDecision::Skip,
            b'a' => FilterDecision::Accept,
            b'd' => FilterDecision::Discard,
            b'r' => FilterDecision::Refuse(REJECTED),
            b't' => FilterDecision::Refuse(DEFERRED),
            // SMFIR_SHUTDOWN and SMFIR_CONN_FAIL: both close the client's connection.
            b'4' | b'f' => FilterDecision::Refuse(DEFERRED.closing()),
            other => {
                return Err(Fault(format!("unknown reply {:?}", char::from(other)).into()));
            }
        };
        Data(data).end()?;
        Ok(Answer::Verdict(verdict))
    }
}

fn refused(refusal: Refusal) -> Answer {
    Answer::Verdict(FilterDecision::Refuse(refusal))
}

/// Returns the action that permits a change.
fn action_of(command: u8) -> Option<u32> {
    Some(match command {
        b'h' | b'i' => action::ADD_FIELDS,
        b'm' => action::CHANGE_FIELDS,
        b'b' => action::CHANGE_BODY,
        b'+' => action::ADD_RECIPIENTS,
        b'2' => action::ADD_RECIPIENTS_WITH_PARAMETERS,
        b'-' => action::REMOVE_RECIPIENTS,
        b'e' => action::CHANGE_SENDER,
        b'q' => action::QUARANTINE,
        _ => return None,
    })
}

fn read_change(command: u8, data: &[u8]) -> Result<Change, Fault> {
    if command == b'b' {
        return Ok(Change::Body(data.to_vec()));
    }
    let mut data = Data(data);
    let change = match command {
        b'h' => Change::AddField { name: name(&mut data)?, value: data.text()?.to_vec() },
        b'i' => Change::InsertField {
            index: data.number()?,
            name: name(&mut data)?,
            value: data.text()?.to_vec(),
        },
        b'm' => Change::ChangeField {
            index: data.number()?,
            name: name(&mut data)?,
            value: data.text()?.to_vec(),
        },
        b'+' => Change::AddRecipient(data.text()?.to_vec()),
        b'-' => Change::RemoveRecipient(data.text()?.to_vec()),
        b'q' => Change::Hold(data.text()?.to_vec()),
        b'2' => {
            let to = data.text()?.to_vec();
            data.text_if_any()?;
            Change::AddRecipient(to)
        }
        _ => {
            let from = data.text()?.to_vec();
            data.text_if_any()?;
            Change::Sender(from)
        }
    };
    data.end()?;
    Ok(change)
}

/// The name of a field (RFC 5322 §3.6.8).
fn name(data: &mut Data<'_>) -> Result<Vec<u8>, Fault> {
    let name = data.text()?;
    let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b':';
    if name.is_empty() || !name.iter().all(is_name) {
        return Err(Fault::new("invalid field name"));
    }
    Ok(name.to_vec())
}

/// `550 5.7.1 text` and its like, in one line or several, each with the code; `%` stands twice in them,
/// as libmilter has it. 421 ends the session.
fn chosen_reply(data: &[u8]) -> Result<Refusal, Fault> {
    let mut data = Data(data);
    let text = data.text()?;
    data.end()?;
    let text = String::from_utf8_lossy(text).replace("%%", "%");
    let bad = || Fault::new("invalid SMTP reply");
    let (code, _) = text.split_at_checked(3).ok_or_else(bad)?;
    let class = match code.as_bytes() {
        [b'4', b'0'..=b'5', b'0'..=b'9'] => RefusalClass::Transient,
        [b'5', b'0'..=b'5', b'0'..=b'9'] => RefusalClass::Permanent,
        _ => return Err(bad()),
    };
    let digit = if class == RefusalClass::Transient { 4 } else { 5 };
    let mut status = EnhancedStatus::new(digit, 7, 1);
    let mut words = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix(code).ok_or_else(bad)?;
        let line = match line.as_bytes() {
            [] => "",
            [b' ' | b'-', ..] => &line[1..],
            _ => return Err(bad()),
        };
        words.push(match EnhancedStatus::parse_prefix(line) {
            Some((own, rest)) => {
                status = if own.class == digit { own } else { status };
                rest
            }
            None => line,
        });
    }
    let chosen_code = code.parse().ok();
    let text = words.join("\n").into();
    let refusal = Refusal { class, status, text, chosen_code };
    Ok(if code == "421" { refusal.closing() } else { refusal })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Reply;
    use proptest::prelude::*;

    fn agreed(actions: u32) -> Agreed {
        let numbers = [6, actions, 0].map(u32::to_be_bytes).concat();
        Agreed::read(&numbers).unwrap()
    }

    fn read(command: u8, data: &[u8]) -> Result<Answer, Fault> {
        Answer::read(command, data, &agreed(action::ALL))
    }

    #[test]
    fn a_reply_is_what_the_filter_chose() {
        for (text, reply) in [
            ("550 5.7.1 no\0", "550 5.7.1 no"),
            ("451 4.7.0 100%% sure\0", "451 4.7.0 100% sure"),
            ("554 no status\0", "554 5.7.1 no status"),
            ("550 4.7.1 other class\0", "550 5.7.1 other class"),
            ("421 4.3.2 bye\0", "421 4.3.2 bye"),
            ("550-5.7.1 one\r\n550 5.7.1 two\0", "550 5.7.1 one two"),
            ("550\0", "550 5.7.1 "),
        ] {
            let Ok(Answer::Verdict(FilterDecision::Refuse(refusal))) = read(b'y', text.as_bytes())
            else {
                panic!("{text}")
            };
            assert_eq!(Reply::from(refusal).to_string(), reply, "{text}");
        }
        for bad in ["250 ok\0", "55\0", "550 no end", "\0", "550x\0", "550-a\r\n250 b\0", "699 x\0"]
        {
            assert!(read(b'y', bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn verdicts_have_no_data_and_unknown_ones_are_none() {
        assert_eq!(read(b'c', b""), Ok(Answer::Verdict(FilterDecision::GoOn)));
        assert_eq!(read(b'p', b""), Ok(Answer::Progress));
        for command in *b"cpsadrt4f" {
            assert!(read(command, b"").is_ok() && read(command, b"x").is_err());
        }
        for command in *b"OX\0\xff" {
            assert!(read(command, b"").is_err());
        }
    }

    #[test]
    fn changes_are_read_as_far_as_they_were_negotiated() {
        let (name, value) = (b"X-A".to_vec(), b"b".to_vec());
        let added = Change::AddField { name: name.clone(), value: value.clone() };
        assert_eq!(read(b'h', b"X-A\0b\0"), Ok(Answer::Change(added)));
        let inserted = Change::InsertField { index: 1, name, value };
        assert_eq!(read(b'i', b"\0\0\0\x01X-A\0b\0"), Ok(Answer::Change(inserted)));
        let to = || Ok(Answer::Change(Change::AddRecipient(b"<a@b>".to_vec())));
        assert_eq!(read(b'+', b"<a@b>\0"), to());
        assert_eq!(read(b'2', b"<a@b>\0"), to());
        assert_eq!(read(b'2', b"<a@b>\0NOTIFY=NEVER\0"), to());
        let from = Change::Sender(b"<>".to_vec());
        assert_eq!(read(b'e', b"<>\0SIZE=1\0"), Ok(Answer::Change(from)));
        for (command, data) in [
            (b'h', &b"\0b\0"[..]),
            (b'h', b"X A\0b\0"),
            (b'h', b"X:\0b\0"),
            (b'h', b"X-A\0b"),
            (b'h', b"X-A\0b\0c"),
            (b'i', b"\0\0\x01"),
            (b'+', b"<a@b>"),
            (b'q', b""),
        ] {
            assert!(read(command, data).is_err(), "{command} {data:?}");
        }
        let few = agreed(action::ADD_FIELDS);
        assert!(Answer::read(b'h', b"X-A\0b\0", &few).is_ok());
        for command in *b"mb+2-eq" {
            assert!(Answer::read(command, b"x\0", &few).is_err(), "{command}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read(command: u8, data: Vec<u8>) {
            if let Ok(Answer::Verdict(FilterDecision::Refuse(refusal))) = read(command, &data) {
                prop_assert!((400..600).contains(&refusal.code()));
            }
        }
    }
}
