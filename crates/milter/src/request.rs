//! Requests to a filter.

use crate::moment::MilterEvent;
use crate::packet::{DATA_BYTES_MAX, put, put_text};
use std::net::IpAddr;

/// Maximum size of a piece of the body in bytes.
pub const BODY_BYTES_MAX: usize = DATA_BYTES_MAX;

const ABORT: u8 = b'A';
const MACROS: u8 = b'D';
const QUIT: u8 = b'Q';

/// An event with its data.
#[derive(Clone, Copy, Debug)]
pub enum MilterCommand<'a> {
    /// A client: its name, as far as it has one, and address.
    Connect {
        name: &'a str,
        address: IpAddr,
        port: u16,
    },
    Helo(&'a str),
    /// The sender, empty for `<>`, and parameters of MAIL.
    Mail {
        sender: &'a str,
        parameters: &'a [&'a str],
    },
    Rcpt(&'a str),
    Data,
    /// Name and value, which is all between the colon and the last line end.
    Header {
        name: &'a [u8],
        value: &'a [u8],
    },
    EndOfHeader,
    /// At most [`BODY_BYTES_MAX`].
    Body(&'a [u8]),
    EndOfBody,
}

/// Returns the value of a macro, or `None` if it is unknown; unknown macros are not sent.
pub type Symbols<'a> = &'a dyn Fn(&str) -> Option<String>;

impl MilterCommand<'_> {
    #[must_use]
    pub fn moment(&self) -> MilterEvent {
        match self {
            MilterCommand::Connect { .. } => MilterEvent::Connect,
            MilterCommand::Helo(_) => MilterEvent::Helo,
            MilterCommand::Mail { .. } => MilterEvent::Mail,
            MilterCommand::Rcpt(_) => MilterEvent::Rcpt,
            MilterCommand::Data => MilterEvent::Data,
            MilterCommand::Header { .. } => MilterEvent::Header,
            MilterCommand::EndOfHeader => MilterEvent::EndOfHeader,
            MilterCommand::Body(_) => MilterEvent::Body,
            MilterCommand::EndOfBody => MilterEvent::EndOfBody,
        }
    }

    /// Writes it. With `leading_space` the filter has the blank behind the colon of a field.
    pub(crate) fn put(&self, out: &mut Vec<u8>, leading_space: bool) {
        put(out, self.moment().command(), |out| match *self {
            MilterCommand::Connect { name, address, port } => {
                put_text(out, name.as_bytes());
                out.push(if address.is_ipv4() { b'4' } else { b'6' });
                out.extend_from_slice(&port.to_be_bytes());
                put_text(out, address.to_string().as_bytes());
            }
            MilterCommand::Helo(name) => put_text(out, name.as_bytes()),
            MilterCommand::Mail { sender, parameters } => {
                put_text(out, format!("<{sender}>").as_bytes());
                parameters.iter().for_each(|parameter| put_text(out, parameter.as_bytes()));
            }
            MilterCommand::Rcpt(recipient) => put_text(out, format!("<{recipient}>").as_bytes()),
            MilterCommand::Data | MilterCommand::EndOfHeader | MilterCommand::EndOfBody => {}
            MilterCommand::Header { name, value } => put_field(out, name, value, leading_space),
            MilterCommand::Body(piece) => out.extend_from_slice(piece),
        });
    }
}

/// Lines of a value end with LF alone, as Sendmail has them. The excess over a packet is cut off.
fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8], leading_space: bool) {
    let name = &name[..name.len().min(DATA_BYTES_MAX / 2)];
    put_text(out, name);
    let value = match value {
        [b' ' | b'\t', rest @ ..] if !leading_space => rest,
        all => all,
    };
    let room = DATA_BYTES_MAX - name.len() - 2;
    let mut put = 0;
    for (at, byte) in value.iter().enumerate() {
        let is_line_end = *byte == b'\r' && value.get(at + 1) == Some(&b'\n');
        if put < room && *byte != 0 && !is_line_end {
            out.push(*byte);
            put += 1;
        }
    }
    out.push(0);
}

/// Writes the values of the macros `names` for the packet that follows.
pub(crate) fn macros(out: &mut Vec<u8>, moment: MilterEvent, names: &str, symbols: Symbols<'_>) {
    let mut known = Vec::new();
    for name in names.split([' ', ',']).filter(|name| !name.is_empty()) {
        let Some(value) = symbols(name) else { continue };
        // Names of one letter are sent without braces, whatever the filter requested.
        let bare = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
        let told = bare.filter(|bare| bare.len() == 1).unwrap_or(name);
        if known.len() + told.len() + value.len() + 3 <= DATA_BYTES_MAX {
            put_text(&mut known, told.as_bytes());
            put_text(&mut known, value.as_bytes());
        }
    }
    if !known.is_empty() {
        put(out, MACROS, |out| {
            out.push(moment.command());
            out.extend_from_slice(&known);
        });
    }
}

/// Writes the end of the current message.
pub fn abort(out: &mut Vec<u8>) {
    put(out, ABORT, |_| {});
}

/// Writes the end of the connection.
pub fn quit(out: &mut Vec<u8>) {
    put(out, QUIT, |_| {});
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::frame;

    fn written(step: MilterCommand<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        step.put(&mut out, false);
        assert_eq!(frame(&out), Ok(Some(out.len())));
        out[4..].to_vec()
    }

    #[test]
    fn steps_as_libmilter_reads_them() {
        let address = "192.0.2.1".parse().unwrap();
        let connect = MilterCommand::Connect { name: "unknown", address, port: 258 };
        assert_eq!(written(connect), b"Cunknown\x004\x01\x02192.0.2.1\0");
        let address = "2001:db8::1".parse().unwrap();
        let connect = MilterCommand::Connect { name: "a", address, port: 0 };
        assert_eq!(written(connect), b"Ca\x006\0\x002001:db8::1\0");
        assert_eq!(written(MilterCommand::Helo("client.test")), b"Hclient.test\0");
        let mail = MilterCommand::Mail { sender: "a@b", parameters: &["SIZE=7"] };
        assert_eq!(written(mail), b"M<a@b>\0SIZE=7\0");
        assert_eq!(written(MilterCommand::Mail { sender: "", parameters: &[] }), b"M<>\0");
        assert_eq!(written(MilterCommand::Rcpt("c@d")), b"R<c@d>\0");
        assert_eq!(written(MilterCommand::Data), b"T");
        let body = vec![b'x'; BODY_BYTES_MAX];
        assert_eq!(written(MilterCommand::Body(&body)).len(), BODY_BYTES_MAX + 1);
    }

    #[test]
    fn fields_have_one_blank_less_and_other_line_ends() {
        let field = MilterCommand::Header { name: b"A", value: b" b\r\n\tc\nd\0e\r" };
        assert_eq!(written(field), b"LA\0b\n\tc\nde\r\0");
        let mut out = Vec::new();
        field.put(&mut out, true);
        assert_eq!(&out[4..], b"LA\0 b\n\tc\nde\r\0");
        let long = vec![b'x'; 2 * DATA_BYTES_MAX];
        for name in [&b"A"[..], &long] {
            let bytes = written(MilterCommand::Header { name, value: &long }).len() - 1;
            assert_eq!(bytes, DATA_BYTES_MAX);
        }
    }

    #[test]
    fn macros_that_are_known_are_told_before_their_step() {
        let mut out = Vec::new();
        let symbols = |name: &str| match name {
            "j" => Some("mx.test".to_owned()),
            "{x}" => Some("one".to_owned()),
            "{client_addr}" => Some("192.0.2.1".to_owned()),
            _ => None,
        };
        macros(&mut out, MilterEvent::Connect, "j,_ {client_addr} {x}", &symbols);
        let told = b"DCj\0mx.test\0{client_addr}\x00192.0.2.1\0x\0one\0";
        assert_eq!(&out[4..], told);
        out.clear();
        macros(&mut out, MilterEvent::Data, "i", &symbols);
        assert!(out.is_empty());
    }
}
