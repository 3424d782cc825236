//! The events of a session and its messages for filters.

/// An event for a filter, in the order of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MilterEvent {
    Connect,
    Helo,
    Mail,
    Rcpt,
    Data,
    /// One header field.
    Header,
    /// The end of the header.
    EndOfHeader,
    /// A piece of the body.
    Body,
    /// The end of the body: the filter sends its changes, and its decision on the message.
    EndOfBody,
}

/// An event in the protocol: its command, the number of its macro list last, and two bits of filters: one
/// declines the event (`SMFIP_NO…`), one announces no response (`SMFIP_NR_…`).
struct Row(MilterEvent, u8, u32, u32, Option<u32>);

const TABLE: [Row; 9] = [
    Row(MilterEvent::Connect, b'C', 0x1, 0x1000, Some(0)),
    Row(MilterEvent::Helo, b'H', 0x2, 0x2000, Some(1)),
    Row(MilterEvent::Mail, b'M', 0x4, 0x4000, Some(2)),
    Row(MilterEvent::Rcpt, b'R', 0x8, 0x8000, Some(3)),
    Row(MilterEvent::Data, b'T', 0x200, 0x1_0000, Some(4)),
    Row(MilterEvent::Header, b'L', 0x20, 0x80, None),
    Row(MilterEvent::EndOfHeader, b'N', 0x40, 0x4_0000, Some(6)),
    Row(MilterEvent::Body, b'B', 0x10, 0x8_0000, None),
    // The end of the body cannot be declined, and always has a response.
    Row(MilterEvent::EndOfBody, b'E', 0, 0, Some(5)),
];

impl MilterEvent {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    pub(crate) fn command(self) -> u8 {
        self.row().1
    }

    /// The bit by which a filter declines the event.
    pub(crate) fn untold(self) -> u32 {
        self.row().2
    }

    /// The bit by which a filter announces no response.
    pub(crate) fn unanswered(self) -> u32 {
        self.row().3
    }

    /// Returns the event of a macro list.
    pub(crate) fn with_macros(number: u32) -> Option<MilterEvent> {
        TABLE.iter().find(|row| row.4 == Some(number)).map(|row| row.0)
    }

    /// Default macros of the event, if the filter requests no list: Postfix's, those of the client that
    /// every filter requests, and TLS with the sender as well (EHLO comes before it).
    pub(crate) fn usual_macros(self) -> &'static str {
        match self {
            MilterEvent::Connect => {
                "j {daemon_name} {daemon_addr} {daemon_port} v _ {client_addr} {client_name} \
                 {client_port} {client_ptr}"
            }
            MilterEvent::Helo => "{tls_version} {cipher} {cipher_bits}",
            MilterEvent::Mail => {
                "i {tls_version} {cipher} {cipher_bits} {auth_type} {auth_authen} {mail_addr} \
                 {mail_host} {mail_mailer}"
            }
            MilterEvent::Rcpt => "i {rcpt_addr} {rcpt_host} {rcpt_mailer}",
            MilterEvent::Data | MilterEvent::EndOfHeader | MilterEvent::EndOfBody => "i",
            MilterEvent::Header | MilterEvent::Body => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_a_row_and_bits_of_its_own() {
        let mut bits = 0;
        for row in &TABLE {
            assert_eq!(row.0.command(), row.1);
            assert_eq!(bits & (row.2 | row.3), 0, "{:?}", row.0);
            bits |= row.2 | row.3;
        }
        assert_eq!(MilterEvent::with_macros(5), Some(MilterEvent::EndOfBody));
        assert_eq!(MilterEvent::with_macros(7), None);
    }
}
