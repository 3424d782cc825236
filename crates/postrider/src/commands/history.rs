//! `postrider search`, `trace` and `events`: the history of messages, from the event log and the queue.

use crate::cli::{EventsArgs, HistoryArgs, SearchArgs, TraceArgs, exit};
use crate::commands::{load, queue};
use crate::control_socket::{self, ClientError};
use crate::history::{EventFiles, EventLine, Follower, Search, Terms, UnreadFile};
use crate::world::clock::wall_now;
use mail::{MessageId, Wall};
use mta::commands::{ControlRequest, QueueList, QueueShow};
use mta::control::{ControlResponse, ITEMS_MAX, QueueItem};
use mta::event::EventSettings;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

/// Between two looks at a followed file.
const FOLLOW_PACE: Duration = Duration::from_millis(100);

/// Places of the history of messages.
struct Places {
    /// The event log; none with `events = "off"`.
    log: Option<PathBuf>,
    /// The control socket; none for a log that the user named.
    control: Option<PathBuf>,
    /// Header fields in events.
    headers: Option<Vec<String>>,
}

fn places(args: &HistoryArgs) -> Result<Places, ExitCode> {
    if let Some(path) = &args.events {
        return Ok(Places { log: Some(path.clone()), control: None, headers: None });
    }
    let config = load::alone(args.config.as_deref()).map_err(|error| load::shown(&error))?;
    let events = config.of::<EventSettings>();
    if events.is_none() {
        eprintln!("postrider: there is no event log: `events = \"off\"` in {}", config.file_name());
    }
    let headers = events.map(|events| events.headers.iter().map(ToString::to_string).collect());
    Ok(Places {
        log: events.map(|events| events.file.path.clone()),
        control: Some(config.admin.control.clone()),
        headers,
    })
}

fn terms(words: &[String]) -> Result<Terms, ExitCode> {
    Terms::parse(words, wall_now()).map_err(|why| {
        eprintln!("postrider: {why}");
        ExitCode::from(exit::USAGE)
    })
}

/// Passes each line of the log to `take`. Returns true if all files were read.
fn read_log(
    log: Option<&Path>,
    since: Option<Wall>,
    take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<bool> {
    let Some(log) = log else { return Ok(true) };
    let unread = match EventFiles::find(log, since) {
        Ok(files) => {
            if files.is_empty() {
                eprintln!("postrider: there are no events in {}", log.display());
            }
            files.read(take)?
        }
        Err(unread) => vec![unread],
    };
    for UnreadFile { path, error } in &unread {
        eprintln!("postrider: cannot read {}: {error}; its events are missing", path.display());
    }
    Ok(unread.is_empty())
}

/// Asks the queue. Without a server there is a note, and no item.
fn ask_queue(control: Option<&Path>, request: &ControlRequest, mut take: impl FnMut(QueueItem)) {
    let Some(control) = control else { return };
    let asked = control_socket::ask(control, request, |response| {
        if let ControlResponse::Item(item) = response {
            take(*item);
        }
        Ok(())
    });
    match asked {
        Ok(()) | Err(ClientError::Output(_)) => {}
        Err(ClientError::Unreachable(_)) => {
            let path = control.display();
            eprintln!("postrider: no server answers at {path}; only the event log was searched");
        }
        Err(ClientError::Broken(why)) => eprintln!("postrider: {}: {why}", control.display()),
    }
}

/// The exit code after output: a closed pipe (`| head`) is no error.
fn ended(written: io::Result<()>, code: u8) -> ExitCode {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("postrider: {error}");
            ExitCode::from(exit::FAILED)
        }
        Err(_) => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(code),
    }
}

/// `postrider search`.
pub(crate) fn search(args: &SearchArgs) -> ExitCode {
    let found = terms(&args.terms).and_then(|terms| Ok((terms, places(&args.history)?)));
    let (terms, places) = match found {
        Ok(found) => found,
        Err(code) => return code,
    };
    if let (Some(name), Some(headers)) = (terms.header(), &places.headers)
        && !headers.iter().any(|header| header.eq_ignore_ascii_case(name))
    {
        eprintln!("postrider: events have no {name}: add it to `headers` in [events]");
    }
    let mut search = Search::new(terms);
    let read = read_log(places.log.as_deref(), search.terms().since(), |line| {
        if let Some(line) = EventLine::parse(line) {
            search.handle_event(&line);
        }
        Ok(())
    });
    let is_complete = read.unwrap_or(false);
    let request = match search.terms().id() {
        Some(id) => Some(QueueShow { id }.into()),
        None => search
            .terms()
            .filter(wall_now())
            .map(|filter| ControlRequest::from(QueueList { filter, limit: ITEMS_MAX })),
    };
    if let Some(request) = request {
        ask_queue(places.control.as_deref(), &request, |item| search.handle_item(&item));
    }
    let (rows, count, has_more) = search.finish(args.limit as usize);
    let mut out = BufWriter::new(io::stdout().lock());
    let written = rows.iter().try_for_each(|row| match args.history.json {
        true => writeln!(out, "{}", serde_json::to_string(row)?),
        false => writeln!(out, "{}", row.text()),
    });
    let written = written.and_then(|()| out.flush());
    if has_more || count > rows.len() {
        let shown = rows.len();
        let more = if has_more { " or more" } else { "" };
        eprintln!("postrider: the newest {shown} of {count}{more}; add terms, or raise --limit");
    }
    let is_found = count > 0 && is_complete;
    ended(written, if is_found { 0 } else { exit::FAILED })
}

/// `postrider trace`.
pub(crate) fn trace(args: &TraceArgs) -> ExitCode {
    let places = match places(&args.history) {
        Ok(places) => places,
        Err(code) => return code,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut count = 0_u64;
    // Lines about other messages need no parsing.
    let wanted = memchr::memmem::Finder::new(&args.id.to_string()).into_owned();
    let read = read_log(places.log.as_deref(), None, |line| {
        if wanted.find(line).is_none() {
            return Ok(());
        }
        let Some(event) = EventLine::parse(line).filter(|event| event.names(args.id)) else {
            return Ok(());
        };
        count += 1;
        write_event(&mut out, line, &event, args.history.json)
    });
    let is_complete = match read {
        Ok(is_complete) => is_complete,
        Err(error) => return ended(Err(error), 0),
    };
    let written = out.flush().and_then(|()| present(&mut out, &places, args, &mut count));
    let is_found = count > 0 && is_complete;
    if count == 0 {
        eprintln!("postrider: message {} is neither in the event log nor in the queue", args.id);
    }
    ended(written.and_then(|()| out.flush()), if is_found { 0 } else { exit::FAILED })
}

/// Prints the state of a message in the queue, and counts it if it is there.
fn present(
    out: &mut impl Write,
    places: &Places,
    args: &TraceArgs,
    count: &mut u64,
) -> io::Result<()> {
    let mut items = Vec::new();
    let id: MessageId = args.id;
    ask_queue(places.control.as_deref(), &QueueShow { id }.into(), |item| items.push(item));
    for item in &items {
        *count += 1;
        if args.history.json {
            let response = ControlResponse::Item(Box::new(item.clone()));
            writeln!(out, "{}", serde_json::to_string(&response)?)?;
        } else {
            out.write_all(queue::why(item, wall_now()).as_bytes())?;
        }
    }
    if items.is_empty() && *count > 0 && places.control.is_some() && !args.history.json {
        writeln!(out, "{id} is not in the queue.")?;
    }
    Ok(())
}

fn write_event(out: &mut impl Write, line: &[u8], event: &EventLine, json: bool) -> io::Result<()> {
    if json {
        out.write_all(line)?;
        out.write_all(b"\n")
    } else {
        writeln!(out, "{}", event.text())
    }
}

/// `postrider events`.
pub(crate) fn events(args: &EventsArgs) -> ExitCode {
    let found = terms(&args.terms).and_then(|terms| Ok((terms, places(&args.history)?)));
    let (terms, places) = match found {
        Ok(found) => found,
        Err(code) => return code,
    };
    let Some(log) = places.log.as_deref() else { return ExitCode::from(exit::FAILED) };
    let mut out = BufWriter::new(io::stdout().lock());
    let take =
        |out: &mut BufWriter<io::StdoutLock<'static>>, line: &[u8]| match EventLine::parse(line) {
            Some(event) if terms.suit_event(&event) => {
                write_event(out, line, &event, args.history.json)
            }
            _ => Ok(()),
        };
    if args.follow {
        return ended(follow(log, terms.since(), &mut out, take), 0);
    }
    match read_log(Some(log), terms.since(), |line| take(&mut out, line)) {
        Ok(is_complete) => ended(out.flush(), if is_complete { 0 } else { exit::FAILED }),
        Err(error) => ended(Err(error), 0),
    }
}

/// Prints events until standard output is closed or the program is stopped; with `since`, older ones first.
fn follow<W: Write>(
    log: &Path,
    since: Option<Wall>,
    out: &mut W,
    take: impl Fn(&mut W, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let unread = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", log.display()))
    };
    // Opened before the older files are listed, so that no event is missed or printed twice.
    let mut follower = Follower::new(log, since.is_some()).map_err(unread)?;
    if since.is_some() {
        let files =
            EventFiles::find(log, since).map_err(|unread_file| unread(unread_file.error))?;
        for UnreadFile { path, error } in
            files.before(follower.identity()).read(|line| take(out, line))?
        {
            eprintln!("postrider: cannot read {}: {error}", path.display());
        }
    }
    loop {
        follower.poll(|line| take(out, line))?;
        out.flush()?;
        thread::sleep(FOLLOW_PACE);
    }
}
