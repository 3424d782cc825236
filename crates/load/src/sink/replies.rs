//! Failures in providers' words: which share of what is said to the sink is refused, and how.
//!
//! ```text
//! # STAGE  PERMILLE  DOMAIN  CODE TEXT
//! rcpt     50        *.test  550 5.1.1 <{recipient}>: no such user
//! ```

use super::fault::{Phase, permille};
use crate::random::Random;
use crate::words::{InputFileError, WordError, Words, lines};
use std::path::Path;

/// Octets of a line of a reply, its end included (RFC 5321 §4.5.3.1.5).
const REPLY_LINE_BYTES_MAX: usize = 512;

/// Whose mail a group of replies is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Domains {
    Any,
    One(String),
    /// All below this, which begins with a dot.
    Below(String),
}

impl Domains {
    fn read(word: &str) -> Result<Domains, String> {
        let lower = word.to_ascii_lowercase();
        match lower.strip_prefix('*') {
            Some("") => Ok(Domains::Any),
            Some(below) if below.len() > 1 && below.starts_with('.') && !below.contains('*') => {
                Ok(Domains::Below(below.to_owned()))
            }
            None if !lower.contains('*') => Ok(Domains::One(lower)),
            _ => Err(format!("{word:?} is no domain: example.org, *.example.org or * is wanted")),
        }
    }

    fn have(&self, domain: &str) -> bool {
        match self {
            Domains::Any => true,
            Domains::One(one) => domain.eq_ignore_ascii_case(one),
            Domains::Below(below) => {
                let start = domain.len().checked_sub(below.len());
                start
                    .and_then(|at| domain.get(at..))
                    .is_some_and(|end| end.eq_ignore_ascii_case(below))
            }
        }
    }
}

/// Replies of one stage for the same domains: one draw decides among them.
#[derive(Clone, Debug)]
struct ReplyGroup {
    phase: Phase,
    domains: Domains,
    /// Each with its share of a thousand; what is left is accepted.
    replies: Vec<(u16, Reply)>,
}

/// A reply as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    lines: Vec<String>,
}

/// All replies of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Replies(Vec<ReplyGroup>);

impl Replies {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Replies, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Replies::parse(path, &text).map_err(|mistake| mistake.to_string())
    }

    fn parse(path: &Path, text: &str) -> Result<Replies, InputFileError> {
        let mut replies = Replies::default();
        for line in lines(text, '#') {
            replies.add(line.text).map_err(|wrong| line.wrong(path, wrong))?;
        }
        Ok(replies)
    }

    fn add(&mut self, line: &str) -> Result<(), WordError> {
        let mut words = Words::new(line);
        let (at, word) = words.next("a stage")?;
        let phase: Phase = word.parse().map_err(|why| (at, why))?;
        if phase == Phase::Content {
            return Err((at, "nothing is replied inside the content".to_owned()));
        }
        let (at_share, word) = words.next("a share of a thousand")?;
        let share = permille(word).map_err(|why| (at_share, why))?;
        let (at, word) = words.next("a domain of recipients")?;
        let domains = Domains::read(word).map_err(|why| (at, why))?;
        let knows_recipient = matches!(phase, Phase::Rcpt | Phase::Data | Phase::Dot);
        if domains != Domains::Any && !knows_recipient {
            return Err((at, "no recipient is known yet at this stage: * is wanted".to_owned()));
        }
        let (at, text) = words.rest();
        let reply = Reply::read(text).map_err(|(within, why)| (at + within, why))?;
        let is_same = |group: &&mut ReplyGroup| group.phase == phase && group.domains == domains;
        let group = match self.0.iter_mut().find(is_same) {
            Some(group) => group,
            None => {
                self.0.push(ReplyGroup { phase, domains, replies: Vec::new() });
                self.0.last_mut().ok_or((0, String::new()))?
            }
        };
        if group.replies.iter().map(|(share, _)| share).sum::<u16>() + share > 1000 {
            let why = "more than a thousand of a thousand at this stage for these domains";
            return Err((at_share, why.to_owned()));
        }
        group.replies.push((share, reply));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The reply to refuse with, if it is to be refused: the first group whose domains have the
    /// recipient's decides, by one draw.
    pub(super) fn draw(&self, phase: Phase, domain: &str, random: &mut Random) -> Option<&Reply> {
        let mut groups = self.0.iter().filter(|group| group.phase == phase);
        let group = groups.find(|group| group.domains.have(domain))?;
        let mut drawn = random.below(1000) as u16;
        for (share, reply) in &group.replies {
            if drawn < *share {
                return Some(reply);
            }
            drawn -= share;
        }
        None
    }
}

impl Reply {
    /// Reads `550 5.1.1 words`; `\n` stands between lines.
    fn read(text: &str) -> Result<Reply, WordError> {
        let (code, words) = text.split_once(' ').unwrap_or((text, ""));
        let number = code.parse().ok().filter(|code| (400..600).contains(code));
        let code = number.ok_or_else(|| (0, format!("{code:?} is not a code from 400 to 599")))?;
        if let Some(at) = words.find(|c: char| c.is_control()) {
            return Err((
                text.len() - words.len() + at,
                "a reply has no control characters".into(),
            ));
        }
        let lines: Vec<String> = words.split("\\n").map(str::to_owned).collect();
        if lines.iter().any(|line| line.len() + "550 \r\n".len() > REPLY_LINE_BYTES_MAX) {
            let why = format!("a line of a reply has at most {REPLY_LINE_BYTES_MAX} octets");
            return Err((text.len() - words.len(), why));
        }
        Ok(Reply { code, lines })
    }

    /// As it is sent, with its recipient and that one's domain in their places.
    pub(super) fn wire(&self, recipient: &str) -> Vec<u8> {
        let domain = domain_of(recipient);
        let mut wire = Vec::new();
        for (n, line) in self.lines.iter().enumerate() {
            let mark = if n + 1 < self.lines.len() { '-' } else { ' ' };
            let line = line.replace("{recipient}", recipient).replace("{domain}", domain);
            wire.extend_from_slice(format!("{}{mark}{line}\r\n", self.code).as_bytes());
        }
        wire
    }
}

/// What stands behind the last `@`.
pub(super) fn domain_of(address: &str) -> &str {
    address.rsplit_once('@').map_or("", |(_, domain)| domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Replies, String> {
        Replies::parse(Path::new("f"), text).map_err(|mistake| mistake.to_string())
    }

    #[test]
    fn the_same_seed_draws_the_same_replies_in_their_shares() {
        let replies = parse(
            "# words of providers\n\
             rcpt 200 *.b.test 450 4.2.1 slow down\n\
             rcpt 100 *.b.test 550 5.1.1 <{recipient}>: nobody at {domain}\n\
             rcpt 1000 c.test 452 4.2.2 full\n\
             connect 10 * 421 4.7.0 one\\n4.7.0 two\n",
        )
        .unwrap();
        let draw = |seed| {
            let mut random = Random::new(seed);
            let code = |_| replies.draw(Phase::Rcpt, "a.B.test", &mut random).map(|r| r.code);
            (0..10_000).map(code).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let count = |code| draw(1).iter().filter(|found| **found == code).count();
        assert!(
            (1_800..2_200).contains(&count(Some(450))) && (850..1_150).contains(&count(Some(550)))
        );
        assert_eq!(count(Some(450)) + count(Some(550)) + count(None), 10_000);
        let mut random = Random::new(1);
        assert!((0..100).all(|_| replies.draw(Phase::Rcpt, "c.test", &mut random).is_some()));
        assert!((0..100).all(|_| replies.draw(Phase::Rcpt, "b.test", &mut random).is_none()));
        assert!((0..100).all(|_| replies.draw(Phase::Mail, "", &mut random).is_none()));
        let wire = |group: usize, reply: usize, to| {
            String::from_utf8(replies.0[group].replies[reply].1.wire(to)).unwrap()
        };
        assert_eq!(wire(0, 1, "u@x.b.test"), "550 5.1.1 <u@x.b.test>: nobody at x.b.test\r\n");
        assert_eq!(wire(2, 0, ""), "421-4.7.0 one\r\n421 4.7.0 two\r\n");
    }

    #[test]
    fn mistakes_have_their_places() {
        for (text, told) in [
            ("lunch 1 * 450 x", "f:1:1: \"lunch\" is not a phase"),
            ("content 1 * 450 x", "f:1:1: nothing is replied inside the content"),
            ("\nrcpt 1001 * 450 x", "f:2:6: \"1001\" is not a number from 0 to 1000"),
            (
                "rcpt 10 a* 450 x",
                "f:1:9: \"a*\" is no domain: example.org, *.example.org or * is wanted",
            ),
            ("mail 10 a.test 450 x", "f:1:9: no recipient is known yet at this stage: * is wanted"),
            ("dot 10 * 250 x", "f:1:10: \"250\" is not a code from 400 to 599"),
            ("dot 10 *", "f:1:9: \"\" is not a code from 400 to 599"),
            (
                "dot 600 * 450 x\ndot 401 * 550 y",
                "f:2:5: more than a thousand of a thousand at this stage for these domains",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), told);
        }
        assert!(parse("dot 600 * 450 x\ndot 400 * 550 y\ndot 1000 a.test 550 z").is_ok());
        assert!(parse(&format!("dot 1 * 550 {}", "x".repeat(506))).is_ok());
        assert!(parse(&format!("dot 1 * 550 {}", "x".repeat(507))).is_err());
    }
}
