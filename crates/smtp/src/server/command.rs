//! Parses a command line into a verb and its argument (RFC 5321 §4.1.1, §2.4).

/// The verb of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// RFC 5321 §4.1.1.1.
    Ehlo,
    /// RFC 5321 §4.1.1.1.
    Helo,
    /// RFC 2033 §4.1.
    Lhlo,
    /// RFC 5321 §4.1.1.2.
    Mail,
    /// RFC 5321 §4.1.1.3.
    Rcpt,
    /// RFC 5321 §4.1.1.4.
    Data,
    /// RFC 3030 §2.
    Bdat,
    /// RFC 5321 §4.1.1.5.
    Rset,
    /// RFC 5321 §4.1.1.9.
    Noop,
    /// RFC 5321 §4.1.1.6.
    Vrfy,
    /// RFC 5321 §4.1.1.8.
    Help,
    /// RFC 5321 §4.1.1.10.
    Quit,
    /// RFC 3207 §4.
    StartTls,
    /// RFC 4954 §4.
    Auth,
    /// Postfix's XCLIENT_README.
    Xclient,
    /// A command of SMTP or of an extension that is not implemented.
    Unimplemented,
    /// An HTTP request: a browser or a forged request.
    Http,
    /// A header field of an HTTP request or of a message.
    Field,
    /// Not a command.
    Unknown,
}

impl Verb {
    /// Returns true if it advances or ends a transaction.
    pub(super) fn advances(self) -> bool {
        use Verb::{Bdat, Data, Ehlo, Helo, Lhlo, Mail, Quit, Rcpt, Rset, StartTls};
        matches!(self, Mail | Rcpt | Data | Bdat | Rset | Ehlo | Helo | Lhlo | Quit | StartTls)
    }
}

/// Errors of a line as a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// A CR or LF other than the CRLF at the end.
    BareNewline,
    /// A control character other than CR and LF.
    Control,
    /// Neither ASCII nor UTF-8 (RFC 6531 §3.3).
    NotUtf8,
}

/// Splits a line (without its CRLF) into verb and argument; blanks around the argument are dropped.
pub(super) fn parse(line: &[u8]) -> Result<(Verb, &str), LineError> {
    // Without an early exit the compiler checks many bytes at once.
    let is_control = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    if line.iter().fold(false, |found, &byte| found | is_control(byte)) {
        let newline = memchr::memchr2(b'\r', b'\n', line).is_some();
        return Err(if newline { LineError::BareNewline } else { LineError::Control });
    }
    let line = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
    let (word, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let argument = argument.trim_matches([' ', '\t']);
    Ok((if is_http(line) { Verb::Http } else { verb(word) }, argument))
}

/// Returns true if the line ends in ` HTTP/1.1` or similar, whatever the method. A client tricked into sending a third
/// party's commands (server-side request forgery, DNS rebinding) begins with this.
fn is_http(line: &str) -> bool {
    let Some([before @ .., major, b'.', minor]) =
        line.trim_ascii_end().as_bytes().last_chunk::<9>()
    else {
        return false;
    };
    major.is_ascii_digit() && minor.is_ascii_digit() && before.eq_ignore_ascii_case(b" HTTP/")
}

fn verb(word: &str) -> Verb {
    let mut upper = [0_u8; 8];
    if word.ends_with(':') {
        return Verb::Field;
    }
    let Some(upper) = upper.get_mut(..word.len()) else { return Verb::Unknown };
    upper.copy_from_slice(word.as_bytes());
    upper.make_ascii_uppercase();
    match &*upper {
        b"EHLO" => Verb::Ehlo,
        b"HELO" => Verb::Helo,
        b"LHLO" => Verb::Lhlo,
        b"MAIL" => Verb::Mail,
        b"RCPT" => Verb::Rcpt,
        b"DATA" => Verb::Data,
        b"BDAT" => Verb::Bdat,
        b"RSET" => Verb::Rset,
        b"NOOP" => Verb::Noop,
        b"VRFY" => Verb::Vrfy,
        b"HELP" => Verb::Help,
        b"QUIT" => Verb::Quit,
        b"STARTTLS" => Verb::StartTls,
        b"AUTH" => Verb::Auth,
        b"XCLIENT" => Verb::Xclient,
        // RFC 5321 §4.1.1.7 and appendix F.1, F.6; RFC 1985; RFC 2645; RFC 4468.
        b"EXPN" | b"TURN" | b"SEND" | b"SOML" | b"SAML" | b"ETRN" | b"ATRN" | b"BURL" => {
            Verb::Unimplemented
        }
        b"GET" | b"POST" | b"PUT" | b"CONNECT" => Verb::Http,
        _ => Verb::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_fold_case_and_arguments_lose_their_blanks() {
        assert_eq!(parse(b"mAiL  FROM:<a@b> \t"), Ok((Verb::Mail, "FROM:<a@b>")));
        assert_eq!(parse(b"StartTLS"), Ok((Verb::StartTls, "")));
        assert_eq!(parse(b"NOOP\tx y"), Ok((Verb::Noop, "x y")));
        for unknown in ["", " NOOP", "NOO", "NOOPS", "STARTTLSX", "MAILX", "données"] {
            assert_eq!(parse(unknown.as_bytes()).map(|(verb, _)| verb), Ok(Verb::Unknown));
        }
    }

    #[test]
    fn what_looks_like_http_or_a_header_is_told_apart() {
        let verb = |line: &str| parse(line.as_bytes()).map(|(verb, _)| verb);
        for http in ["FOO / HTTP/1.1", "PATCH /x HTTP/2.0 ", "NOOP x http/1.0", "EHLO / HTTP/1.1"] {
            assert_eq!(verb(http), Ok(Verb::Http), "{http}");
        }
        for field in ["Host: x", "Subject:", ":", "Content-Security-Policy: x"] {
            assert_eq!(verb(field), Ok(Verb::Field), "{field}");
        }
        for other in ["NOOP HTTP/1.", "NOOP xHTTP/1.1", "NOOP /1.1", "NOOP x:"] {
            assert_eq!(verb(other), Ok(Verb::Noop), "{other}");
        }
        assert_eq!(verb("/1.1"), Ok(Verb::Unknown));
    }

    #[test]
    fn what_cannot_be_a_line_is_told_apart() {
        assert_eq!(parse(b"NOOP a\nQUIT"), Err(LineError::BareNewline));
        assert_eq!(parse(b"NOOP\r"), Err(LineError::BareNewline));
        assert_eq!(parse(b"NOOP \0"), Err(LineError::Control));
        assert_eq!(parse(b"NOOP \x7f"), Err(LineError::Control));
        assert_eq!(parse(b"NOOP \xff"), Err(LineError::NotUtf8));
    }
}
