//! The faults that a sink of P1 can be told to have.

use crate::sink::fault::permille;
use std::str::FromStr;

/// A moment of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum P1Phase {
    /// Before the transport connection is confirmed.
    Connect,
    /// CONNECT.
    Bind,
    /// An activity's start.
    Start,
    /// Inside the content.
    Content,
    /// A checkpoint.
    Checkpoint,
    /// An activity's end, before it is acknowledged.
    End,
}

impl FromStr for P1Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<P1Phase, String> {
        Ok(match text {
            "connect" => P1Phase::Connect,
            "bind" => P1Phase::Bind,
            "start" => P1Phase::Start,
            "content" => P1Phase::Content,
            "checkpoint" => P1Phase::Checkpoint,
            "end" => P1Phase::End,
            _ => return Err(format!("{text:?} is not a phase")),
        })
    }
}

/// Refuse some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct P1Refuse {
    /// So many of a thousand.
    pub permille: u16,
    /// With this reason: an MTABindError (0 to 5), or that of an exception.
    pub reason: u8,
    /// At this phase.
    pub phase: P1Phase,
}

/// Break some associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct P1Drop {
    /// So many of a thousand.
    pub permille: u16,
    /// At this phase.
    pub phase: P1Phase,
}

impl FromStr for P1Refuse {
    type Err = String;

    fn from_str(text: &str) -> Result<P1Refuse, String> {
        let (share, rest) = text.split_once(':').ok_or("PERMILLE:REASON:PHASE")?;
        let (reason, phase) = rest.split_once(':').unwrap_or((rest, "end"));
        let number = reason.parse().map_err(|_| format!("{reason:?} is not a reason"))?;
        let refuse = P1Refuse { permille: permille(share)?, reason: number, phase: phase.parse()? };
        match refuse.phase {
            P1Phase::Bind | P1Phase::Checkpoint | P1Phase::End => Ok(refuse),
            P1Phase::Connect | P1Phase::Start | P1Phase::Content => {
                Err(format!("nothing is answered at {:?}", refuse.phase))
            }
        }
    }
}

impl FromStr for P1Drop {
    type Err = String;

    fn from_str(text: &str) -> Result<P1Drop, String> {
        let (share, phase) = text.split_once(':').ok_or("PERMILLE:PHASE")?;
        Ok(P1Drop { permille: permille(share)?, phase: phase.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{P1Drop, P1Phase, P1Refuse};

    #[test]
    fn faults_are_read_from_the_command_line() {
        let refuse = P1Refuse { permille: 10, reason: 1, phase: P1Phase::End };
        assert_eq!("10:1".parse(), Ok(refuse));
        assert_eq!("10:1:bind".parse(), Ok(P1Refuse { phase: P1Phase::Bind, ..refuse }));
        assert_eq!("1000:content".parse(), Ok(P1Drop { permille: 1000, phase: P1Phase::Content }));
        for bad in ["", "10", "1001:1", "10:256", "10:x", "10:1:lunch", "10:1:content"] {
            assert!(bad.parse::<P1Refuse>().is_err(), "{bad}");
        }
        for bad in ["", "10", "-1:end", "10:1"] {
            assert!(bad.parse::<P1Drop>().is_err(), "{bad}");
        }
    }
}
