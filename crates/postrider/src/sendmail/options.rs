//! The command line of `sendmail`, as Postfix's sendmail(1) reads it.

use std::path::PathBuf;

/// Options with a value, attached or as the next argument.
const WITH_VALUE: &str = "ABCFLNORVXbefhopqr";
/// Options without a value.
const PLAIN: &str = "GIUcimntvx";
/// ENVID (RFC 3461 §4.4).
const ENVID_BYTES_MAX: usize = 100;

/// The work to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum SendmailMode {
    /// Send a message (`-bm`).
    #[default]
    Send,
    /// Serve SMTP on standard input and output (`-bs`).
    Smtp,
    /// List the queue (`-bp`, `mailq`).
    List,
    /// Check recipients (`-bv`).
    Verify,
    /// Retry queued messages (`-q`, `-qI`, `-qR`), by arguments of `postrider queue retry`.
    Retry(Vec<String>),
    /// Nothing to do: aliases need no database (`-bi`, `newaliases`), and a running server retries on its own (`-q30m`).
    Nothing,
}

/// The parsed command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mode: SendmailMode,
    pub(super) recipients: Vec<String>,
    /// `-t`: the header names recipients, too.
    pub(super) takes_header: bool,
    /// `-i`: a line with a dot does not end the message.
    pub(super) ignores_dots: bool,
    /// `-f`. Empty: the null sender.
    pub(super) sender: Option<String>,
    /// `-F`.
    pub(super) full_name: Option<String>,
    /// `-B 8BITMIME`.
    pub(super) is_8bit: bool,
    /// NOTIFY (RFC 3461 §4.1).
    pub(super) notify: Option<String>,
    /// RET (RFC 3461 §4.3).
    pub(super) ret: Option<&'static str>,
    /// ENVID, not yet encoded.
    pub(super) envid: Option<String>,
    /// `-C`: the server's configuration.
    pub(super) config: Option<PathBuf>,
    /// Options that were ignored, with the reason.
    pub(super) warnings: Vec<String>,
}

/// Parses the arguments after the program's name. Options may follow recipients; after `--`, all are recipients.
///
/// # Errors
/// Returns the reason why the command line is wrong.
pub(super) fn parse(program: &str, words: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    match program {
        "mailq" => options.mode = SendmailMode::List,
        "newaliases" => options.mode = SendmailMode::Nothing,
        _ => {}
    }
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            Some("-") => options.recipients.extend(words.by_ref().cloned()),
            None | Some("") => options.recipients.push(word.clone()),
            Some("q") => options.mode = SendmailMode::Retry(vec!["--all".to_owned()]),
            Some(letters) => options.take(letters, &mut words)?,
        }
    }
    Ok(options)
}

impl Options {
    /// Parses option letters; the last one may have a value.
    fn take<'w>(
        &mut self,
        letters: &str,
        words: &mut impl Iterator<Item = &'w String>,
    ) -> Result<(), String> {
        for (at, letter) in letters.char_indices() {
            if PLAIN.contains(letter) {
                self.plain(letter)?;
                continue;
            }
            if !WITH_VALUE.contains(letter) {
                return Err(format!("invalid option -- '{letter}'"));
            }
            let attached = &letters[at + letter.len_utf8()..];
            let value = match attached {
                "" => words.next().map(String::as_str),
                attached => Some(attached),
            };
            let missing = || format!("option requires an argument -- '{letter}'");
            return self.with_value(letter, value.ok_or_else(missing)?);
        }
        Ok(())
    }

    fn plain(&mut self, letter: char) -> Result<(), String> {
        match letter {
            'I' => self.mode = SendmailMode::Nothing,
            'i' => self.ignores_dots = true,
            't' => self.takes_header = true,
            'n' => return Err("-n option not supported".to_owned()),
            // Verbosity, and options of other versions, mean nothing here.
            _ => {}
        }
        Ok(())
    }

    fn with_value(&mut self, letter: char, value: &str) -> Result<(), String> {
        match letter {
            'B' => match value {
                "8BITMIME" => self.is_8bit = true,
                "7BIT" => self.is_8bit = false,
                _ => return Err("-B option needs 8BITMIME or 7BIT".to_owned()),
            },
            'C' => self.config = Some(value.into()),
            'F' => self.full_name = Some(value.to_owned()),
            'N' => self.set_notify(value),
            'R' => match value.to_ascii_lowercase().as_str() {
                "full" => self.ret = Some("FULL"),
                "hdrs" => self.ret = Some("HDRS"),
                _ => self.ignored("-R", value),
            },
            'V' => self.set_envid(value),
            // Personal envelope senders (VERP), and transcripts.
            'X' => return Err(format!("unsupported: -X{value}")),
            'b' => self.mode = mode_of(value)?,
            'f' | 'r' => {
                let bare = value.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
                self.sender = Some(bare.unwrap_or(value).trim().to_owned());
            }
            'o' if value == "A" => return Err("-oA requires pathname".to_owned()),
            'o' if value.starts_with('i') => self.ignores_dots = true,
            'q' => self.mode = retry_of(value)?,
            // Alias files, error modes, labels, hop counts: nothing here depends on them.
            _ => {}
        }
        Ok(())
    }

    fn set_notify(&mut self, value: &str) {
        let words: Vec<String> =
            value.split(',').map(|word| word.trim().to_ascii_uppercase()).collect();
        let is_known = |word: &String| matches!(word.as_str(), "SUCCESS" | "FAILURE" | "DELAY");
        // RFC 3461 §4.1: NEVER stands alone.
        if words == ["NEVER"] || words.iter().all(is_known) {
            self.notify = Some(words.join(","));
        } else {
            self.ignored("-N", value);
        }
    }

    fn set_envid(&mut self, value: &str) {
        let is_fit = |byte: u8| (b' '..=b'~').contains(&byte);
        if value.is_empty() || value.len() > ENVID_BYTES_MAX || !value.bytes().all(is_fit) {
            self.ignored("-V", value);
        } else {
            self.envid = Some(value.to_owned());
        }
    }

    fn ignored(&mut self, option: &str, value: &str) {
        self.warnings
            .push(format!("bad {option} option value \"{}\" ignored", value.escape_debug()));
    }
}

fn mode_of(value: &str) -> Result<SendmailMode, String> {
    Ok(match value.chars().next() {
        Some('m') => SendmailMode::Send,
        Some('s') => SendmailMode::Smtp,
        Some('p') => SendmailMode::List,
        Some('v') => SendmailMode::Verify,
        Some('i' | 'h' | 'H') => SendmailMode::Nothing,
        Some('d' | 'D') => return Err("-bd is not supported: use `postrider serve`".to_owned()),
        _ => return Err(format!("unsupported: -b{value}")),
    })
}

fn retry_of(value: &str) -> Result<SendmailMode, String> {
    let of =
        |words: &[&str]| SendmailMode::Retry(words.iter().map(|word| (*word).to_owned()).collect());
    Ok(match (value.chars().next(), value.get(1..).unwrap_or_default()) {
        (Some('I'), id) if !id.is_empty() => of(&["--", id]),
        (Some('R'), domain) if !domain.is_empty() => {
            of(&["--domain", domain.strip_prefix('@').unwrap_or(domain)])
        }
        (Some('I' | 'R' | 'S'), _) => return Err(format!("-q{value} is not implemented")),
        // An interval, for a daemon.
        _ => SendmailMode::Nothing,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse("sendmail", &words)
    }

    #[test]
    fn options_are_read_in_any_place() {
        let cron = read("-i -FCronDaemon -B8BITMIME -oem root").unwrap();
        assert!(cron.ignores_dots && cron.is_8bit && cron.recipients == ["root"]);
        assert_eq!(cron.full_name.as_deref(), Some("CronDaemon"));
        let after = read("root -it -f a@b.test -Nsuccess,Delay -Rhdrs -Vx").unwrap();
        assert!(after.ignores_dots && after.takes_header && after.recipients == ["root"]);
        let read_of = |o: &Options| (o.sender.clone(), o.notify.clone(), o.ret, o.envid.clone());
        let expected = (
            Some("a@b.test".to_owned()),
            Some("SUCCESS,DELAY".to_owned()),
            Some("HDRS"),
            Some("x".to_owned()),
        );
        assert_eq!(read_of(&after), expected);
        assert_eq!(read("-r <> root").unwrap().sender.as_deref(), Some(""));
        assert_eq!(read("-- -f root").unwrap().recipients, ["-f", "root"]);
        assert_eq!(read("- root").unwrap().recipients, ["-", "root"]);
    }

    #[test]
    fn modes_are_those_of_names_and_options() {
        let mode = |line: &str| read(line).unwrap().mode;
        assert_eq!(parse("mailq", &[]).unwrap().mode, SendmailMode::List);
        assert_eq!(parse("newaliases", &[]).unwrap().mode, SendmailMode::Nothing);
        assert_eq!(
            (mode("-bs"), mode("-bp"), mode("-bv x")),
            (SendmailMode::Smtp, SendmailMode::List, SendmailMode::Verify)
        );
        assert_eq!(
            (mode("-q30m"), mode("-bi"), mode("-I")),
            (SendmailMode::Nothing, SendmailMode::Nothing, SendmailMode::Nothing)
        );
        let retry =
            |words: &[&str]| SendmailMode::Retry(words.iter().map(|w| (*w).to_owned()).collect());
        assert_eq!(mode("-q"), retry(&["--all"]));
        assert_eq!(mode("-qR@a.test"), retry(&["--domain", "a.test"]));
        assert_eq!(mode("-qI0001"), retry(&["--", "0001"]));
    }

    #[test]
    fn wrong_lines_are_errors_and_wrong_wishes_are_ignored() {
        for line in [
            "-Z",
            "-d x",
            "-n x",
            "-bz",
            "-bd",
            "-B 9BIT x",
            "-f",
            "-qSx",
            "-qI",
            "-X/log",
            "-XV+=",
            "-oA",
            "--help",
        ] {
            assert!(read(line).is_err(), "{line}");
        }
        for line in ["-N bad x", "-N never,delay x", "-R all x", "-V \u{e9} x"] {
            let options = read(line).unwrap();
            assert_eq!(options.warnings.len(), 1, "{line}");
            assert_eq!((options.notify, options.ret, options.envid), (None, None, None), "{line}");
        }
        let long = |bytes: usize| read(&format!("-V {} x", "v".repeat(bytes))).unwrap().envid;
        assert!(long(ENVID_BYTES_MAX).is_some() && long(ENVID_BYTES_MAX + 1).is_none());
    }
}
