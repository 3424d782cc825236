//! `postrider queue`, `reload` and `status`: sends a request to the control socket and prints the responses, as text
//! for people or as JSON lines.

mod released;
mod shown;

use crate::cli::{QueueArgs, ServerArgs};
use crate::commands::asking;
use crate::terminal;
use mail::Wall;
use mta::commands::{ControlRequest, QueueList, QueueShow, QueueWhy, Reload, ServerStatus};
use mta::control::{ControlResponse, ErrorCode, QueueItem, Tally};
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(super) use shown::why;

/// `postrider queue …`.
pub(crate) fn run(args: &QueueArgs) -> ExitCode {
    if let Some((select, events, server)) = args.command.released_but() {
        return released::run(select, events, server);
    }
    let (asked, server) = args.command.ask();
    let width = if args.command.is_wide() { None } else { terminal::width() };
    let view = View {
        width,
        has_dialogues: args.command.shows_dialogues(),
        ..View::new(asked, server.json)
    };
    request_for(server, view)
}

/// `postrider reload`.
pub(crate) fn reload(server: &ServerArgs) -> ExitCode {
    request(server, &Reload {}.into())
}

/// `postrider status`.
pub(crate) fn status(server: &ServerArgs) -> ExitCode {
    request(server, &ServerStatus {}.into())
}

fn request(server: &ServerArgs, request: &ControlRequest) -> ExitCode {
    request_for(server, View::new(request.clone(), server.json))
}

fn request_for(server: &ServerArgs, mut view: View) -> ExitCode {
    let mut out = io::stdout().lock();
    let request = view.request.clone();
    let asked = asking::ask(server, &request, |response| view.take(response, &mut out));
    // An answer that did not come is not an empty one.
    let shown = if asked.is_ok() || !view.listed.is_empty() {
        view.finish(&mut out, crate::world::clock::wall_now())
    } else {
        Ok(())
    };
    let flushed = shown.and_then(|()| out.flush());
    if let Err(code) = asked {
        return code;
    }
    match (flushed, view.error) {
        (Err(error), _) if error.kind() != io::ErrorKind::BrokenPipe => asking::unwritten(&error),
        (_, None) => ExitCode::SUCCESS,
        (_, Some((code, text))) => asking::refused(code, &text),
    }
}

/// Output of the responses to one request.
struct View {
    request: ControlRequest,
    json: bool,
    /// A table needs them all.
    listed: Vec<QueueItem>,
    matched: u64,
    error: Option<(ErrorCode, String)>,
    progress: Progress,
    /// Columns of the terminal, if a table is to fit it.
    width: Option<u16>,
    /// `queue why` prints dialogues.
    has_dialogues: bool,
}

/// Between two lines about progress where there is no terminal to draw on.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
const BAR_WIDTH: u64 = 30;

/// The server's progress on standard error: a bar on a terminal, otherwise a line at intervals.
struct Progress {
    is_terminal: bool,
    said_at: Instant,
    is_drawn: bool,
}

impl Progress {
    fn new() -> Progress {
        let is_terminal = io::stderr().is_terminal();
        Progress { is_terminal, said_at: Instant::now(), is_drawn: false }
    }

    fn show(&mut self, tally: Tally) {
        // Errors of standard error are ignored.
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{}", bar(tally));
            self.is_drawn = true;
        } else if self.said_at.elapsed() >= PROGRESS_EVERY {
            self.said_at = Instant::now();
            let _ = writeln!(io::stderr(), "postrider: {}", so_far(tally));
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn so_far(tally: Tally) -> String {
    let Tally { seen, total, messages, .. } = tally;
    let total = total.max(seen);
    format!("{seen} of {total} recipients examined, {messages} messages so far")
}

fn bar(tally: Tally) -> String {
    let total = tally.total.max(tally.seen).max(1);
    let filled = tally.seen.saturating_mul(BAR_WIDTH) / total;
    let bar: String = (0..BAR_WIDTH).map(|n| if n < filled { '#' } else { '.' }).collect();
    format!("[{bar}] {}", so_far(tally))
}

impl View {
    fn new(request: ControlRequest, json: bool) -> View {
        View {
            request,
            json,
            listed: Vec::new(),
            matched: 0,
            error: None,
            progress: Progress::new(),
            width: None,
            has_dialogues: false,
        }
    }

    /// Handles a response; prints it at once if possible.
    fn take(&mut self, response: ControlResponse, out: &mut impl Write) -> io::Result<()> {
        if let ControlResponse::Progress(tally) = &response {
            self.progress.show(*tally);
            return Ok(());
        }
        self.progress.clear();
        if self.json {
            serde_json::to_writer(&mut *out, &response)?;
            out.write_all(b"\n")?;
        }
        match response {
            ControlResponse::Error { code, text } => self.error = Some((code, text)),
            // Responses about tables, shaping, sources and logins belong to other commands.
            ControlResponse::Progress(_)
            | ControlResponse::Effect(_)
            | ControlResponse::Login(_)
            | ControlResponse::Blocked(_)
            | ControlResponse::Table(_)
            | ControlResponse::TableAnswer(_)
            | ControlResponse::Source(_) => {}
            _ if self.json => {}
            ControlResponse::Item(item) => self.listed.push(*item),
            ControlResponse::Summary(summary) => {
                out.write_all(shown::summary(&summary).as_bytes())?;
            }
            ControlResponse::Status(status) => out.write_all(shown::status(&status).as_bytes())?,
            ControlResponse::Done { matched, text, .. } => {
                self.matched = matched;
                if let Some(text) = text {
                    writeln!(out, "{text}")?;
                }
            }
        }
        Ok(())
    }

    /// Prints the output that needs all responses.
    fn finish(&mut self, out: &mut impl Write, now: Wall) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let items = &self.listed;
        let text = match &self.request {
            ControlRequest::QueueList(QueueList { .. }) if self.error.is_none() => {
                shown::list(items, self.matched, now, self.width)
            }
            ControlRequest::QueueShow(QueueShow { .. }) => {
                items.iter().map(|item| shown::show(item, now)).collect()
            }
            ControlRequest::QueueWhy(QueueWhy { .. }) => {
                let dialogues = |item| match self.has_dialogues {
                    true => shown::dialogues(item),
                    false => String::new(),
                };
                items.iter().map(|item| shown::why(item, now) + &dialogues(item)).collect()
            }
            _ => String::new(),
        };
        out.write_all(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::MessageId;
    use mta::commands::QueueHold;
    use mta::control::Filter;

    fn seen(request: ControlRequest, json: bool, responses: Vec<ControlResponse>) -> String {
        let mut view = View::new(request, json);
        let mut out = Vec::new();
        for response in responses {
            view.take(response, &mut out).unwrap();
        }
        view.finish(&mut out, Wall(0)).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_is_the_responses_themselves() {
        let list = ControlRequest::QueueList(QueueList { filter: Filter::default(), limit: 1 });
        let done = ControlResponse::Done { matched: 0, tally: None, text: None };
        let error = ControlResponse::Error { code: ErrorCode::NotFound, text: "no".to_owned() };
        assert_eq!(seen(list, true, vec![done]), "{\"response\":\"done\",\"matched\":0}\n");
        let show = ControlRequest::QueueShow(QueueShow { id: MessageId(1) });
        assert_eq!(
            seen(show, true, vec![error]),
            "{\"response\":\"error\",\"code\":\"not_found\",\"text\":\"no\"}\n"
        );
    }

    #[test]
    fn progress_is_told_beside_the_answer() {
        let tally = Tally { seen: 50, total: 100, messages: 7, ..Tally::default() };
        let hold = ControlRequest::QueueHold(QueueHold {
            select: mta::control::Select::All,
            reason: String::new(),
        });
        assert_eq!(seen(hold, true, vec![ControlResponse::Progress(tally)]), "");
        assert_eq!(
            bar(tally),
            "[###############...............] 50 of 100 recipients examined, 7 messages so far"
        );
        assert!(bar(Tally::default()).contains("0 of 0"));
    }

    #[test]
    fn an_empty_queue_says_so() {
        let list = ControlRequest::QueueList(QueueList { filter: Filter::default(), limit: 1 });
        let done = ControlResponse::Done { matched: 0, tally: None, text: None };
        assert_eq!(seen(list, false, vec![done]), "Nothing is queued.\n");
    }
}
