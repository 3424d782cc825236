//! Questions to the operator at a terminal.

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead as _, Write as _};
use zeroize::Zeroizing;

/// A terminal with an operator.
pub(super) trait Prompt {
    /// Shows a question and reads a line, without its end. `None` at the end of the input.
    ///
    /// # Errors
    /// The error of the terminal.
    fn ask(&mut self, question: &str) -> io::Result<Option<String>>;

    /// The same, without showing the typed characters.
    ///
    /// # Errors
    /// The error of the terminal.
    fn ask_secret(&mut self, question: &str) -> io::Result<Option<String>>;
}

/// The terminal of this process.
pub(super) struct Terminal;

impl Prompt for Terminal {
    fn ask(&mut self, question: &str) -> io::Result<Option<String>> {
        eprint!("{question}: ");
        io::stderr().flush()?;
        let mut line = String::new();
        let count = io::stdin().lock().read_line(&mut line)?;
        Ok((count > 0).then_some(line))
    }

    fn ask_secret(&mut self, question: &str) -> io::Result<Option<String>> {
        let _quiet = EchoOff::new()?;
        let answer = self.ask(question);
        eprintln!();
        answer
    }
}

/// While it exists, the terminal does not show typed characters.
struct EchoOff(Termios);

impl EchoOff {
    fn new() -> io::Result<EchoOff> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &quiet)?;
        Ok(EchoOff(before))
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Questions for facts without a flag, and the flags that are missing without a terminal.
pub(super) struct Questions<'p> {
    prompt: Option<&'p mut dyn Prompt>,
    missing: Vec<&'static str>,
}

impl<'p> Questions<'p> {
    pub(super) fn new(prompt: Option<&'p mut dyn Prompt>) -> Questions<'p> {
        Questions { prompt, missing: Vec::new() }
    }

    /// The given value, or the answer to the question, which is asked until it is valid. `usual` is the value of an
    /// empty answer. `None` without a terminal: then the flag is noted as missing.
    ///
    /// # Errors
    /// The terminal's error, or the end of its input.
    pub(super) fn answer<T>(
        &mut self,
        given: Option<T>,
        (flag, question, usual): (&'static str, &str, &str),
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        if given.is_some() {
            return Ok(given);
        }
        let Some(prompt) = &mut self.prompt else {
            self.missing.push(flag);
            return Ok(None);
        };
        let question = match usual.is_empty() {
            true => question.to_owned(),
            false => format!("{question} [{usual}]"),
        };
        loop {
            let line = line_of(prompt.ask(&question))?;
            let text = if line.trim().is_empty() { usual } else { line.trim() };
            match parse(text) {
                Ok(value) => return Ok(Some(value)),
                Err(why) => eprintln!("{why}"),
            }
        }
    }

    /// The answer to a question that needs none. `None` without a terminal.
    ///
    /// # Errors
    /// As for [`Questions::answer`].
    pub(super) fn optional(&mut self, question: &str) -> Result<Option<String>, String> {
        let Some(prompt) = &mut self.prompt else { return Ok(None) };
        Ok(Some(line_of(prompt.ask(question))?.trim().to_owned()))
    }

    /// A secret that is typed unseen; without a terminal the flag is noted as missing.
    ///
    /// # Errors
    /// As for [`Questions::answer`].
    pub(super) fn secret(
        &mut self,
        flag: &'static str,
        question: &str,
    ) -> Result<Option<Zeroizing<String>>, String> {
        let Some(prompt) = &mut self.prompt else {
            self.missing.push(flag);
            return Ok(None);
        };
        loop {
            let line = Zeroizing::new(line_of(prompt.ask_secret(question))?);
            let text = line.trim_end_matches(['\r', '\n']);
            if !text.is_empty() {
                return Ok(Some(Zeroizing::new(text.to_owned())));
            }
        }
    }

    /// Ends the questions.
    ///
    /// # Errors
    /// Flags are missing, and there is no terminal.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.missing.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "standard input is not a terminal, and these flags are missing: {}",
                self.missing.join(", ")
            )),
        }
    }
}

fn line_of(answer: io::Result<Option<String>>) -> Result<String, String> {
    match answer {
        Ok(Some(line)) => Ok(line),
        Ok(None) => Err("the input ended before the last answer".to_owned()),
        Err(error) => Err(format!("cannot read the answer: {error}")),
    }
}
