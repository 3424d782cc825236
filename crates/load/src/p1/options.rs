//! What is said of a peer on the command line.

use super::association::Dial;
use super::bind::{AssociationParameters, Mode, MtaCredentials};
use super::tpkt::TPDU_BYTES_PREFERRED_MAX;
use crate::listener::resolve;
use std::str::FromStr;
use std::time::SystemTime;

/// Longest transport and presentation selector that is sent; 16 of a session selector (X.225 §8.3.1.10).
const SELECTOR_BYTES_MAX: usize = 32;
const SESSION_SELECTOR_BYTES_MAX: usize = 16;

/// A selector: text, or octets as `hex:00ff`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(pub(super) Vec<u8>);

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Selector, String> {
        let wrong = || format!("{text:?} has no pairs of hexadecimal digits");
        let octets = match text.strip_prefix("hex:") {
            None => text.as_bytes().to_vec(),
            Some(digits) if digits.len() % 2 == 0 && digits.is_ascii() => {
                let pairs = (0..digits.len()).step_by(2).map(|at| digits.get(at..at + 2));
                let octet = |pair: Option<&str>| u8::from_str_radix(pair?, 16).ok();
                pairs.map(octet).collect::<Option<_>>().ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        match octets.len() {
            ..=SELECTOR_BYTES_MAX => Ok(Selector(octets)),
            bytes => Err(format!("a selector of {bytes} octets; {SELECTOR_BYTES_MAX} at most")),
        }
    }
}

/// Whom to call, and how.
#[derive(clap::Args, Clone, Debug)]
pub struct PeerOptions {
    /// Address of the peer
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// Number of concurrent associations
    #[arg(long, visible_alias = "sessions", value_name = "N", default_value_t = 10)]
    pub associations: usize,
    /// Mode of RTSE; the peer needs the same configuration
    #[arg(long, value_name = "MODE", default_value = "normal")]
    pub mode: Mode,
    /// Proposed checkpoint size in units of 1,024 octets; 0: no checkpoints. The peer's answer applies
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65_535))]
    pub checkpoint_kib: u32,
    /// Proposed window: maximum number of unconfirmed checkpoints
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub window: u32,
    /// Proposed TPDU size in octets; above 2,048 with the preferred maximum TPDU size of X.224
    #[arg(long, value_name = "N", default_value_t = TPDU_BYTES_PREFERRED_MAX, value_parser = clap::value_parser!(u32).range(128..=65_408))]
    pub tpdu: u32,
    /// Transport selector of the peer: text, or hex:00ff
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub t_selector: Selector,
    /// Session selector of the peer
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub s_selector: Selector,
    /// Presentation selector of the peer
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    pub p_selector: Selector,
    /// MTA name to bind with
    #[arg(long, value_name = "NAME", default_value = "source")]
    pub name: String,
    /// Password to bind with
    #[arg(long, value_name = "PASSWORD", default_value = "secret")]
    pub password: String,
    /// MTA name required in the answer
    #[arg(long, value_name = "NAME")]
    pub their_name: Option<String>,
    /// Password required in the answer
    #[arg(long, value_name = "PASSWORD")]
    pub their_password: Option<String>,
}

impl PeerOptions {
    /// What is dialled.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn dial(&self) -> Result<Dial, String> {
        let long = |who: &str, max: usize| format!("{who} of over {max} octets");
        if self.name.len() > 32 || self.password.len() > 62 {
            return Err(long("a name of over 32 or a password", 62));
        }
        if self.s_selector.0.len() > SESSION_SELECTOR_BYTES_MAX {
            return Err(long("a session selector", SESSION_SELECTOR_BYTES_MAX));
        }
        if self.associations == 0 {
            return Err("--associations must be at least 1".to_owned());
        }
        Ok(Dial {
            to: resolve(&self.to).map_err(|error| format!("{}: {error}", self.to))?,
            t_selector: self.t_selector.0.clone(),
            wishes: AssociationParameters {
                mode: self.mode,
                checkpoint_kib: self.checkpoint_kib,
                window: self.window,
                who: MtaCredentials { name: self.name.clone(), password: self.password.clone() },
                s_selector: self.s_selector.0.clone(),
                p_selector: self.p_selector.0.clone(),
            },
            tpdu_bytes: self.tpdu,
            their_name: self.their_name.clone(),
            their_password: self.their_password.clone(),
            time: utc_time(SystemTime::now()),
        })
    }
}

/// UTCTime (X.680 §47): `YYMMDDhhmmssZ`.
pub(super) fn utc_time(at: SystemTime) -> String {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    // `Sun, 06 Nov 1994 08:49:37 GMT`: what it has at which place is fixed.
    let text = httpdate::fmt_http_date(at);
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or("00");
    let month = MONTHS.find(part(8..11)).map_or(1, |at| at / 3 + 1);
    let [day, year] = [part(5..7), part(14..16)];
    let [hour, minute, second] = [part(17..19), part(20..22), part(23..25)];
    format!("{year}{month:02}{day}{hour}{minute}{second}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn selectors_are_text_or_octets() {
        for (text, octets) in
            [("", &b""[..]), ("x400in88", b"x400in88"), ("hex:00fF", &[0, 255]), ("hex:", b"")]
        {
            assert_eq!(text.parse::<Selector>().unwrap().0, octets);
        }
        for bad in ["hex:0", "hex:0g", "hex:é0", &"x".repeat(33)] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
        assert!("x".repeat(32).parse::<Selector>().is_ok());
    }

    #[test]
    fn a_time_is_written_in_thirteen_characters() {
        let at = UNIX_EPOCH + Duration::from_secs(1_795_042_800);
        assert_eq!(utc_time(at), "261118230000Z");
        assert_eq!(utc_time(UNIX_EPOCH + Duration::from_secs(7)), "700101000007Z");
    }
}
