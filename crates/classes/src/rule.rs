//! Conditions of a rule on a reply's codes.

use mail::EnhancedStatus;

/// A pattern for codes, with a digit or any digit at each place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePattern([Option<u8>; 3]);

impl CodePattern {
    /// Reads `550`, `55x`, `4xx` or `*`.
    ///
    /// # Errors
    /// The syntax error, as text.
    pub fn read(word: &str) -> Result<CodePattern, String> {
        let wrong = || format!("`{word}` is not a code: use 550, 55x, 5xx or *");
        if word == "*" {
            return Ok(CodePattern([None; 3]));
        }
        let mut digits = [None; 3];
        if word.len() != digits.len() {
            return Err(wrong());
        }
        for (place, byte) in digits.iter_mut().zip(word.bytes()) {
            *place = match byte {
                b'x' => None,
                b'0'..=b'9' => Some(byte - b'0'),
                _ => return Err(wrong()),
            };
        }
        match digits[0] {
            Some(4 | 5) => Ok(CodePattern(digits)),
            _ => Err(format!("`{word}` is not a failure: codes begin with 4 or 5")),
        }
    }

    /// Returns true if the code matches.
    #[must_use]
    pub fn matches(self, code: u16) -> bool {
        let digits = [code / 100 % 10, code / 10 % 10, code % 10];
        self.0.iter().zip(digits).all(|(want, is)| want.is_none_or(|want| u16::from(want) == is))
    }

    /// Returns true if it matches all failures of a severity.
    pub(crate) fn is_broad(self) -> bool {
        self.0[1].is_none() && self.0[2].is_none()
    }
}

/// A pattern for enhanced status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusPattern {
    /// Any, or none.
    Any,
    /// One with these parts; of the last one a range.
    Of {
        /// 4 or 5.
        class: Option<u8>,
        /// The second part.
        subject: Option<u16>,
        /// The third, from and to.
        detail: Option<(u16, u16)>,
    },
}

impl StatusPattern {
    /// Reads `5.1.1`, `x.1.1`, `5.7.x`, `5.7.606-649` or `*`.
    ///
    /// # Errors
    /// The syntax error, as text.
    pub fn read(word: &str) -> Result<StatusPattern, String> {
        let wrong = || format!("`{word}` is not a status: use 5.1.1, x.1.1, 5.7.606-649 or *");
        if word == "*" {
            return Ok(StatusPattern::Any);
        }
        let mut parts = word.split('.');
        let mut part = || parts.next().ok_or_else(wrong);
        let (class, subject, detail) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(wrong());
        }
        let class = match class {
            "x" => None,
            "4" => Some(4),
            "5" => Some(5),
            _ => return Err(wrong()),
        };
        let subject = if subject == "x" { None } else { Some(number(subject).ok_or_else(wrong)?) };
        let detail = match (detail, detail.split_once('-')) {
            ("x", _) => None,
            (_, Some((first, last))) => {
                let range = (number(first).ok_or_else(wrong)?, number(last).ok_or_else(wrong)?);
                if range.0 > range.1 {
                    return Err(format!("`{word}`: empty range"));
                }
                Some(range)
            }
            (one, None) => number(one).map(|one| Some((one, one))).ok_or_else(wrong)?,
        };
        Ok(StatusPattern::Of { class, subject, detail })
    }

    /// Returns true if the status matches.
    #[must_use]
    pub fn matches(self, status: Option<EnhancedStatus>) -> bool {
        let StatusPattern::Of { class, subject, detail } = self else { return true };
        status.is_some_and(|status| {
            class.is_none_or(|class| class == status.class)
                && subject.is_none_or(|subject| subject == status.subject)
                && detail.is_none_or(|(first, last)| (first..=last).contains(&status.detail))
        })
    }

    /// Returns true if it requires no subject and no detail.
    pub(crate) fn is_broad(self) -> bool {
        matches!(self, StatusPattern::Any | StatusPattern::Of { subject: None, detail: None, .. })
    }
}

/// RFC 3463 §2: one to three digits.
fn number(text: &str) -> Option<u16> {
    let is = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_match_digit_by_digit() {
        let matches = |pattern: &str, code| CodePattern::read(pattern).unwrap().matches(code);
        assert!(matches("550", 550) && !matches("550", 551) && matches("55x", 559));
        assert!(
            matches("4xx", 499) && !matches("4xx", 500) && matches("*", 421) && matches("5x2", 552)
        );
        for bad in ["", "55", "5500", "250", "xxx", "x50", "5X0", "5*0", "é5"] {
            assert!(CodePattern::read(bad).is_err(), "{bad}");
        }
        assert!(CodePattern::read("5xx").unwrap().is_broad());
        assert!(!CodePattern::read("55x").unwrap().is_broad());
    }

    #[test]
    fn statuses_match_part_by_part() {
        let status = |text: &str| EnhancedStatus::parse_prefix(text).map(|(status, _)| status);
        let matches =
            |pattern: &str, text: &str| StatusPattern::read(pattern).unwrap().matches(status(text));
        assert!(
            matches("5.1.1", "5.1.1") && !matches("5.1.1", "4.1.1") && matches("x.1.1", "4.1.1")
        );
        assert!(matches("5.7.606-649", "5.7.606") && matches("5.7.606-649", "5.7.649"));
        assert!(!matches("5.7.606-649", "5.7.605") && !matches("5.7.606-649", "5.7.650"));
        assert!(matches("*", "") && !matches("x.x.x", "") && matches("x.x.x", "4.0.0"));
        for bad in
            ["", "5", "5.1", "5.1.1.1", "2.1.5", "5.1.x-y", "5.1.9-1", "5.1.1000", "5..1", "5.+1.1"]
        {
            assert!(StatusPattern::read(bad).is_err(), "{bad}");
        }
    }
}
