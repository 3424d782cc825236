//! Programs that take mail: started, fed and watched by one thread, so that no shard waits for a start.
//!
//! A program cannot hold the server: its output is bounded, its time limited, and its process group is killed at the
//! end, whatever it left there.

mod process;
mod process_group;
mod starter;

use crate::account::Account;
use crate::mutex::lock;
use crate::system_user::{Owner, group_named, is_own_group, own, user_named};
use bytes::Bytes;
use channels::RouteProgram;
use config::{Config, Problem};
use mta::seams::{ProgramAccount, ProgramCall, ProgramEnd, ProgramFuture, RunningProgram};
use process::{Process, drain_input};
use process_group::ProcessGroup;
use starter::{PermittedProgram, ProgramStarter};
pub(crate) use starter::{is_named as is_starter, serve as serve_starter};
use std::future::ready;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

/// Pieces of input that wait for a program which does not read.
const PIECES_MAX: usize = 4;

/// Longer timeouts are this one: later than any message expires.
const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Threads that start programs. A start waits for the disk of the program, and for the directory of users.
const STARTS_MAX: usize = 16;

/// Runs programs; each shard has a handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgramRunner {
    state: Arc<Mutex<RunnerState>>,
    start: ProgramStart,
}

/// The process that starts programs.
#[derive(Clone, Debug, Default)]
pub(crate) enum ProgramStart {
    /// This one.
    #[default]
    Here,
    /// Another one, because this one has dropped its rights; `None` if the configuration of the start had no programs.
    Apart(Option<Arc<ProgramStarter>>),
}

#[derive(Debug, Default)]
struct RunnerState {
    /// To the thread, once it runs.
    runs: Option<mpsc::UnboundedSender<ProgramRun>>,
    /// The groups of runs, some of which are over.
    groups: Vec<Weak<ProcessGroup>>,
    is_stopped: bool,
}

/// A program to be run.
struct ProgramRun {
    call: ProgramCall,
    input: mpsc::Receiver<Bytes>,
    end: oneshot::Sender<ProgramEnd>,
    group: Arc<ProcessGroup>,
    start: ProgramStart,
}

impl ProgramRunner {
    /// Runs programs by this process.
    pub(crate) fn started_by(start: ProgramStart) -> ProgramRunner {
        ProgramRunner { start, ..ProgramRunner::default() }
    }

    /// Passes a run to the thread, which the first run starts. Without a thread, or after a stop, the run is dropped.
    fn leave(&self, run: ProgramRun) {
        let mut state = lock(&self.state);
        if state.is_stopped {
            return;
        }
        state.groups.retain(|group| group.strong_count() > 0);
        state.groups.push(Arc::downgrade(&run.group));
        if state.runs.as_ref().is_none_or(mpsc::UnboundedSender::is_closed) {
            let (new, runs) = mpsc::unbounded_channel();
            let serve = move || serve(runs);
            let started = thread::Builder::new().name("programs".to_owned()).spawn(serve);
            state.runs = started.is_ok().then_some(new);
        }
        if let Some(runs) = &state.runs {
            let _ = runs.send(run);
        }
    }

    /// Kills all programs, and starts no more. Shard threads end with the process, so that their handles kill none.
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.state);
        state.is_stopped = true;
        state.groups.drain(..).filter_map(|group| group.upgrade()).for_each(|group| group.cancel());
    }
}

impl mta::seams::Programs for ProgramRunner {
    fn start(&self, call: ProgramCall) -> Box<dyn RunningProgram> {
        let (pieces, input) = mpsc::channel(PIECES_MAX);
        let (end, ended) = oneshot::channel();
        let group = Arc::new(ProcessGroup::default());
        let start = self.start.clone();
        self.leave(ProgramRun { call, input, end, group: Arc::clone(&group), start });
        Box::new(RunHandle { pieces, ended: Some(ended), group })
    }
}

/// A shard's handle of a run.
struct RunHandle {
    pieces: mpsc::Sender<Bytes>,
    /// `None` once the caller waits for the end.
    ended: Option<oneshot::Receiver<ProgramEnd>>,
    group: Arc<ProcessGroup>,
}

impl RunningProgram for RunHandle {
    fn feed(&mut self, piece: Bytes) -> ProgramFuture<'_, bool> {
        Box::pin(async move { self.pieces.send(piece).await.is_ok() })
    }

    fn finish(mut self: Box<Self>) -> ProgramFuture<'static, ProgramEnd> {
        let not_started = || ProgramEnd::NotStarted("no thread for programs".to_owned());
        let Some(ended) = self.ended.take() else { return Box::pin(ready(not_started())) };
        let waiting = EndWaiter { group: Arc::clone(&self.group) };
        // The end of the input, before the wait.
        drop(self);
        Box::pin(async move {
            let end = ended.await.unwrap_or_else(|_| not_started());
            drop(waiting);
            end
        })
    }
}

/// Before the end of its input a program has a part of a message only.
impl Drop for RunHandle {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.group.cancel();
        }
    }
}

/// Kills the process group if the wait for its end is dropped, as at the end of a shutdown.
struct EndWaiter {
    group: Arc<ProcessGroup>,
}

impl Drop for EndWaiter {
    fn drop(&mut self) {
        self.group.cancel();
    }
}

fn serve(mut runs: mpsc::UnboundedReceiver<ProgramRun>) {
    // Without a runtime the runs are dropped, which notifies their callers.
    let runtime =
        Builder::new_current_thread().enable_all().max_blocking_threads(STARTS_MAX).build();
    if let Ok(runtime) = runtime {
        runtime.block_on(async {
            while let Some(run) = runs.recv().await {
                tokio::spawn(run.run());
            }
        });
    }
}

impl ProgramRun {
    async fn run(self) {
        let ProgramRun { call, mut input, mut end, group, start: by } = self;
        let deadline = Instant::now() + call.timeout.min(TIMEOUT_MAX);
        let of_start = Arc::clone(&group);
        let mut starting = spawn_blocking(move || start(&call, &of_start, &by));
        let started = tokio::select! {
            started = timeout_at(deadline, &mut starting) => started,
            // A caller that has gone needs no answer.
            () = end.closed() => timeout_at(Instant::now(), &mut starting).await,
        };
        let mut process = match started {
            Ok(Ok(Ok(process))) => process,
            Ok(Ok(Err(why))) => {
                let _ = end.send(ProgramEnd::NotStarted(why));
                return;
            }
            Ok(Err(_)) => return,
            Err(_) => {
                group.cancel();
                let _ = end.send(ProgramEnd::TimedOut { output: Vec::new() });
                if let Ok(Ok(process)) = starting.await {
                    process.reap(&group).await;
                }
                return;
            }
        };
        let mut input = Some(&mut input);
        let is_over = tokio::select! {
            over = timeout_at(deadline, process.serve(&mut input, &group)) => over.is_ok(),
            () = end.closed() => false,
        };
        drain_input(input);
        if is_over {
            let _ = end.send(process.reap(&group).await);
        } else {
            // A process in an uninterruptible system call must not delay the answer.
            group.cancel();
            let _ = end.send(ProgramEnd::TimedOut { output: process.take_output() });
            process.reap(&group).await;
        }
    }
}

/// Starts the process. It waits for disks.
fn start(call: &ProgramCall, group: &ProcessGroup, by: &ProgramStart) -> Result<Process, String> {
    match by {
        ProgramStart::Here => Process::start(&call.command, permitted(&call.account)?, group),
        ProgramStart::Apart(Some(starter)) => {
            let owner = owner_of(&call.account, own())?;
            Process::start_apart(starter, &call.command, owner, group)
        }
        ProgramStart::Apart(None) => Err(NEEDS_RESTART.to_owned()),
    }
}

/// The reason why a program of a new configuration does not run.
const NEEDS_RESTART: &str =
    "commands and users of `pipe` are fixed at the start, with `user`: restart the server";

/// User and group of a program.
///
/// # Errors
/// Returns the end of a sentence if an account does not exist or may not run a program.
fn owner_of(account: &ProgramAccount, default: Owner) -> Result<Owner, String> {
    let mut owner = match &account.user {
        Some(user) => user_named(user)?,
        None => default,
    };
    if let Some(group) = &account.group {
        owner.group = group_named(group)?;
    }
    if owner.user == 0 {
        let remedy = "set `user` to another one";
        return Err(format!("root runs no program for mail: {remedy}"));
    }
    Ok(owner)
}

/// User and group, if they differ from those of this process, which only root can change.
///
/// # Errors
/// Returns the end of a sentence if an account does not exist or may not run a program.
fn permitted(account: &ProgramAccount) -> Result<Option<Owner>, String> {
    let own = own();
    let owner = owner_of(account, own)?;
    if own.user == 0 {
        return Ok(Some(owner));
    }
    match owner.user == own.user && is_own_group(owner.group) {
        true if owner.group == own.group => Ok(None),
        true => Ok(Some(owner)),
        false => Err("only root can run programs as another user: start as root or as that user, \
                      or leave out `user` and `group`"
            .to_owned()),
    }
}

/// Starts the process that starts programs, if the configuration has any. To be called before rights are dropped.
///
/// # Errors
/// Returns a sentence if it does not start.
pub(crate) fn start_starter(config: &Config, account: &Account) -> Result<ProgramStart, String> {
    // Accounts that do not exist are reported as mistakes of the configuration.
    let permitted = channels::route_programs(config).filter_map(|of| {
        let owner = owner_of(of.account, account.owner).ok()?;
        Some(PermittedProgram { command: of.pattern, owner })
    });
    let permitted: Vec<_> = permitted.collect();
    if permitted.is_empty() {
        return Ok(ProgramStart::Apart(None));
    }
    let starter = ProgramStarter::start(permitted, account)?;
    Ok(ProgramStart::Apart(Some(Arc::new(starter))))
}

/// Warnings about programs of `pipe` routes that cannot be run, a sentence each.
pub(crate) fn missing(config: &Config) -> Vec<String> {
    let is_program = |path: &Path| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let wrong = |(route, path): (&str, &Path)| {
        let path = Some(path).filter(|path| !is_program(path))?.display();
        Some(format!("route {route}: {path} is not an executable file; its mail waits"))
    };
    channels::programs(config).filter_map(wrong).collect()
}

impl ProgramRunner {
    /// Finds accounts of `pipe` routes that do not exist, or that this process cannot run programs as.
    pub(crate) fn check(&self, config: &Config) -> Vec<Problem> {
        let wrong = |of: RouteProgram<'_>| {
            let RouteProgram { route, .. } = of;
            let why = self.check_one(config, of).err()?;
            let why = format!("route {}: {why}", route.name);
            Some(config.mistake_at(&format!("route[{}].pipe", route.index), why))
        };
        channels::route_programs(config).filter_map(wrong).collect()
    }

    fn check_one(&self, config: &Config, of: RouteProgram<'_>) -> Result<(), String> {
        match &self.start {
            // `postrider check`: the server will have another user.
            ProgramStart::Here if config.user.is_some() => {
                let account = Account::of(config).ok().flatten();
                owner_of(of.account, account.map_or(own(), |account| account.owner)).map(drop)
            }
            ProgramStart::Here => permitted(of.account).map(drop),
            ProgramStart::Apart(starter) => {
                let owner = owner_of(of.account, own())?;
                let program = PermittedProgram { command: of.pattern, owner };
                match starter.as_ref().is_some_and(|starter| starter.knows(&program)) {
                    true => Ok(()),
                    false => Err(NEEDS_RESTART.to_owned()),
                }
            }
        }
    }
}
