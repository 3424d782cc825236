//! The faults that a sink can be told to have.

use std::str::FromStr;

/// A moment of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the greeting.
    Connect,
    /// EHLO or HELO.
    Ehlo,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA or the first BDAT.
    Data,
    /// Inside the content.
    Content,
    /// Behind the content, before its reply.
    Dot,
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Phase, String> {
        Ok(match text {
            "connect" => Phase::Connect,
            "ehlo" => Phase::Ehlo,
            "mail" => Phase::Mail,
            "rcpt" => Phase::Rcpt,
            "data" => Phase::Data,
            "content" => Phase::Content,
            "dot" => Phase::Dot,
            _ => return Err(format!("{text:?} is not a phase")),
        })
    }
}

/// Refuse some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuse {
    /// So many of a thousand.
    pub permille: u16,
    /// With this code, 400 to 599.
    pub code: u16,
    /// At this phase.
    pub phase: Phase,
}

/// Break some connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drop {
    /// So many of a thousand.
    pub permille: u16,
    /// At this phase.
    pub phase: Phase,
}

pub(crate) fn permille(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|&number| number <= 1000);
    number.ok_or_else(|| format!("{text:?} is not a number from 0 to 1000"))
}

impl FromStr for Refuse {
    type Err = String;

    fn from_str(text: &str) -> Result<Refuse, String> {
        let (share, rest) = text.split_once(':').ok_or("PERMILLE:CODE[:PHASE]")?;
        let (code, phase) = rest.split_once(':').unwrap_or((rest, "dot"));
        let number = code.parse().ok().filter(|number| (400..600).contains(number));
        let refuse = Refuse {
            permille: permille(share)?,
            code: number.ok_or_else(|| format!("{code:?} is not a code from 400 to 599"))?,
            phase: phase.parse()?,
        };
        match refuse.phase {
            Phase::Connect | Phase::Content => Err(format!("nothing is replied at {phase:?}")),
            _ => Ok(refuse),
        }
    }
}

impl FromStr for Drop {
    type Err = String;

    fn from_str(text: &str) -> Result<Drop, String> {
        let (share, phase) = text.split_once(':').ok_or("PERMILLE:PHASE")?;
        Ok(Drop { permille: permille(share)?, phase: phase.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Drop, Phase, Refuse};

    #[test]
    fn faults_are_read_from_the_command_line() {
        let refuse = Refuse { permille: 10, code: 451, phase: Phase::Dot };
        assert_eq!("10:451".parse(), Ok(refuse));
        assert_eq!("10:451:rcpt".parse(), Ok(Refuse { phase: Phase::Rcpt, ..refuse }));
        assert_eq!("1000:content".parse(), Ok(Drop { permille: 1000, phase: Phase::Content }));
        for bad in ["", "10", "1001:451", "10:250", "10:451:lunch", "10:451:content"] {
            assert!(bad.parse::<Refuse>().is_err(), "{bad}");
        }
        for bad in ["", "10", "-1:dot", "10:451"] {
            assert!(bad.parse::<Drop>().is_err(), "{bad}");
        }
    }
}
