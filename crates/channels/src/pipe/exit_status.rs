//! Meaning of a program's end: the exit statuses of sysexits.h, as Postfix's pipe(8) reads them.

use super::settings::Pipe;
use config::quantity::write_duration;
use mail::{Class, EnhancedStatus, Failure};
use mta::seams::ProgramEnd;

/// Maximum length of the line of output that is reported.
const LINE_BYTES_MAX: usize = 300;

/// sysexits.h, with the statuses that Postfix gives them.
const SYSTEM_EXITS: [(i32, (u8, u16, u16), &str); 15] = [
    (64, (5, 3, 0), "command line usage error"),
    (65, (5, 6, 0), "data format error"),
    (66, (5, 3, 0), "cannot open input"),
    (67, (5, 1, 1), "user unknown"),
    (68, (5, 1, 2), "host name unknown"),
    (69, (5, 3, 0), "service unavailable"),
    (70, (5, 3, 0), "internal software error"),
    (71, (4, 3, 0), "system resource problem"),
    (72, (5, 3, 0), "critical system file missing"),
    (73, (5, 2, 0), "cannot create output file"),
    (74, (5, 3, 0), "input/output error"),
    (75, (4, 3, 0), "temporary failure"),
    (76, (5, 5, 0), "remote error in protocol"),
    (77, (5, 7, 0), "permission denied"),
    (78, (5, 3, 5), "local configuration error"),
];

/// The failure of a run that ended with another status than 0.
pub(super) fn failure_of(end: &ProgramEnd, pipe: &Pipe) -> Failure {
    let name = pipe.name();
    let (status, text, output) = match end {
        ProgramEnd::Exited { status, output } => of_status(*status, name, output),
        // Perhaps sent by an operator, or by the kernel when memory ran out.
        ProgramEnd::Signalled { signal, output } => {
            ((4, 3, 0), format!("{name} was ended by signal {signal}"), output.as_slice())
        }
        ProgramEnd::TimedOut { output } => {
            let timeout = write_duration(pipe.timeout());
            ((4, 3, 0), format!("{name} was killed after {timeout}"), output.as_slice())
        }
        // RFC 3463 §3.4: X.3.5, the system is not configured correctly.
        ProgramEnd::NotStarted(why) => ((4, 3, 5), why.clone(), &[][..]),
    };
    let text = match line_of(output) {
        None => text,
        Some(line) => format!("{text}: {line}"),
    };
    let (class, subject, detail) = status;
    let of = if class == 4 { Class::Transient } else { Class::Permanent };
    Failure::local(of, EnhancedStatus::new(class, subject, detail), text)
}

/// The status of an exit. An enhanced status at the start of the output takes precedence over the exit status.
fn of_status<'o>(exit: i32, name: &str, output: &'o [u8]) -> ((u8, u16, u16), String, &'o [u8]) {
    let known = SYSTEM_EXITS.iter().find(|(status, ..)| *status == exit);
    let said = line_of(output).and_then(|line| {
        let (status, _) = EnhancedStatus::parse_prefix(&line)?;
        (status.class != 2).then_some((status.class, status.subject, status.detail))
    });
    let (status, text) = match known {
        Some((_, status, text)) => (*status, format!("{text} ({name} exited with {exit})")),
        None => ((5, 3, 0), format!("{name} exited with {exit}")),
    };
    (said.unwrap_or(status), text, output)
}

/// The first line of output that is not empty, of printable ASCII characters; other bytes become `?`.
pub(super) fn line_of(output: &[u8]) -> Option<String> {
    let line =
        output.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|l| !l.is_empty())?;
    let shown = |byte: &u8| match byte {
        b' '..=b'~' => char::from(*byte),
        b'\t' => ' ',
        _ => '?',
    };
    Some(line.iter().take(LINE_BYTES_MAX).map(shown).collect())
}

#[cfg(test)]
mod tests {
    use super::super::settings::pipe_for_tests;
    use super::*;

    fn failure(status: i32, output: &str) -> (String, String) {
        let end = ProgramEnd::Exited { status, output: output.as_bytes().to_vec() };
        let failure = failure_of(&end, &pipe_for_tests(&["/usr/bin/post"]));
        assert_eq!(failure.class == Class::Transient, failure.status.class == 4);
        (failure.status.to_string(), failure.text.to_string())
    }

    #[test]
    fn exit_statuses_have_their_enhanced_statuses() {
        let of = |status| failure(status, "").0;
        let all: Vec<String> = (64..=78).map(of).collect();
        assert_eq!(
            all,
            [
                "5.3.0", "5.6.0", "5.3.0", "5.1.1", "5.1.2", "5.3.0", "5.3.0", "4.3.0", "5.3.0",
                "5.2.0", "5.3.0", "4.3.0", "5.5.0", "5.7.0", "5.3.5",
            ]
        );
        for other in [1, 2, 63, 79, 127, 255] {
            assert_eq!(of(other), "5.3.0", "{other}");
        }
        assert_eq!(
            failure(67, "\n No such list \nmore\n"),
            ("5.1.1".to_owned(), "user unknown (post exited with 67): No such list".to_owned())
        );
    }

    #[test]
    fn output_with_a_status_takes_precedence() {
        assert_eq!(failure(1, "4.2.2 full").0, "4.2.2");
        assert_eq!(failure(75, "5.7.1 not you").0, "5.7.1");
        assert_eq!(failure(1, "2.0.0 fine").0, "5.3.0");
        assert_eq!(failure(1, "5.7.x no").0, "5.3.0");
    }

    #[test]
    fn output_is_one_short_line() {
        assert_eq!(line_of(b"").as_deref(), None);
        assert_eq!(line_of(b" \r\n\n").as_deref(), None);
        assert_eq!(line_of(b"a\tb\x1b[2J\xff\r\nx").as_deref(), Some("a b?[2J?"));
        assert_eq!(line_of(&b"x".repeat(300)).unwrap().len(), 300);
        assert_eq!(line_of(&b"x".repeat(301)).unwrap().len(), 300);
    }

    #[test]
    fn other_ends_are_transient() {
        let pipe = pipe_for_tests(&["/usr/bin/post"]);
        let of = |end| failure_of(&end, &pipe);
        let killed = of(ProgramEnd::Signalled { signal: 9, output: b"x".to_vec() });
        assert_eq!((&*killed.text, killed.status.class), ("post was ended by signal 9: x", 4));
        let late = of(ProgramEnd::TimedOut { output: Vec::new() });
        assert_eq!(late.class, Class::Transient);
        assert!(late.text.starts_with("post was killed after "), "{}", late.text);
        let none = of(ProgramEnd::NotStarted("cannot run it".to_owned()));
        assert_eq!(none.status, EnhancedStatus::new(4, 3, 5));
    }
}
