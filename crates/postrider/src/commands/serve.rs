//! `postrider serve`: runs the relay until a signal ends it.

use crate::account::Account;
use crate::admin::{AdminParts, AdminServer, Health, LiveNumbers, Numbers, QueueCounts};
use crate::commands::load::{self, LoadedConfig};
use crate::commands::running::CommandContext;
use crate::console::{ConsoleLog, LISTENERS};
use crate::control_socket::ControlSocket;
use crate::handed_sockets::{HandedSockets, OpenedSocket, OpenedSockets};
use crate::limited_work::awaited;
use crate::mutex::lock;
use crate::node::{Node, StartError};
use crate::notify::Notifier;
use crate::privileges::{self, Confinement, open_to_others};
use crate::reload::{ReloadState, Reloads};
use crate::services::RightsAtStart;
use crate::world::clock::wall_now;
use crate::world::programs;
use config::Config;
use mta::commands::{ControlPlane, NodeJob};
use mta::console::{Console, Level};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Between two lines about a start that waits.
const START_TOLD_EVERY: Duration = Duration::from_secs(5);
/// Between two looks at the status that the service manager shows.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// Timeout for the end of the control socket and the HTTP server.
const ADMIN_MAX: Duration = Duration::from_millis(250);

/// Runs the server. `named` is the configuration that the command line names; `shards` overrides its number of shards.
pub(crate) fn run(named: Option<&Path>, shards: Option<u16>) -> ExitCode {
    crate::panic::ends_the_process();
    // Found once: a reload reads the same file.
    let file = match load::find(named) {
        Ok(file) => file,
        Err(error) => return load::shown(&error),
    };
    // The level before the configuration is known.
    let console = Arc::new(ConsoleLog::stderr(Level::Info));
    // Before any thread: this changes the environment.
    let handed = HandedSockets::from_environment();
    let notifier = Notifier::from_environment().unwrap_or_else(|why| {
        console.line(Level::Warn, "start", format_args!("{why}"));
        Notifier::default()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(file, shards, handed, (&console, &Arc::new(notifier)))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(StartError::Wrong(mistakes)) => load::shown(&mistakes),
        Err(StartError::Failed(text)) => {
            console.line(Level::Error, "start", format_args!("{text}"));
            ExitCode::FAILURE
        }
    }
}

/// One shard per core by default.
fn shards_of(config: &Config, asked: Option<u16>) -> u16 {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let count = asked.or(config.shards).map_or_else(cores, usize::from);
    u16::try_from(count.clamp(1, 256)).unwrap_or(1)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

enum SignalAction {
    Stop,
    Reload,
}

impl Signals {
    fn new() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => SignalAction::Stop,
            _ = self.interrupt.recv() => SignalAction::Stop,
            _ = self.hangup.recv() => SignalAction::Reload,
        }
    }
}

/// Creates the parent directories of the embedded default's data, which a first trial does not have.
fn make_data_directories(config: &Config) -> Result<(), String> {
    let spools = config.spool.paths.iter().filter_map(|path| path.parent());
    for directory in spools.chain(channels::mailbox_roots(config).map(|(_, root)| root)) {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    }
    Ok(())
}

async fn serve(
    file: Option<PathBuf>,
    shards: Option<u16>,
    handed: HandedSockets,
    (console, notifier): (&Arc<ConsoleLog>, &Arc<Notifier>),
) -> Result<(), StartError> {
    let signals = Signals::new().map_err(|error| format!("cannot take signals: {error}"))?;
    let mut starting = Starting { signals, console, notifier };
    let named = file.clone();
    let read = move |progress: &dyn Fn(&str)| {
        progress("the configuration");
        Ok(load::read(named.as_deref())?)
    };
    let Some(read) = starting.step(read).await? else { return Ok(()) };
    let opened = handed.assign(&read.0)?;
    let dropping = starting.drop_rights(file.as_deref(), read, opened).await?;
    let Some((read, opened, rights)) = dropping else { return Ok(()) };
    let (config, _) = &read;
    // Not before: it may start a thread.
    console.follow(config);
    warn(load::warnings_of(config), console);
    let shards = shards_of(config, shards);
    if file.is_none() {
        make_data_directories(config)?;
    }
    let OpenedSockets { listeners, control, admin } = opened;
    let of_node = Arc::clone(console);
    let start = move |progress: &dyn Fn(&str)| {
        Node::start(read, shards, (listeners, rights, &of_node), progress)
    };
    let Some(node) = starting.step(start).await? else { return Ok(()) };
    let config = Arc::clone(&node.reloadable.first);
    let path = config.admin.control.clone();
    let bind = move |progress: &dyn Fn(&str)| Ok(bind_control(&path, control, progress)?);
    let Some(control) = starting.step(bind).await? else { return Ok(()) };
    show_start((&config, file.as_deref()), &node, console);
    let stopping = Arc::new(AtomicBool::new(false));
    let (jobs, mut node_jobs) = mpsc::channel(16);
    let reload_state = Arc::new(ReloadState::new(wall_now()));
    node.problems().register(Arc::clone(&reload_state) as _);
    let parts = (&node, (control, admin), &reload_state);
    let admin = start_admin(&config, parts, jobs, Arc::clone(&stopping))?;
    if let Some(address) = admin.address() {
        console.line(Level::Info, "admin", format_args!("metrics and health on {address}"));
    }
    // The last line of a start: every socket is open by then.
    let text = format_args!(
        "postrider {} serves hostname={} shards={shards}",
        super::VERSION,
        config.hostname
    );
    console.line(Level::Info, "start", text);
    notifier.ready(&node.summary());
    let voices = (&reload_state, console, notifier);
    let mut reloads = Reloads::new(Arc::clone(&node.reloadable), file, voices);
    let running = Running { node: &node, console, notifier };
    let ended = running.until_stopped(starting.signals, &mut node_jobs, &mut reloads).await;
    if let Err(text) = &ended {
        console.line(Level::Error, "spool", format_args!("{text}"));
    }
    drop(reloads);
    stopping.store(true, Ordering::Relaxed);
    console.line(Level::Info, "stop", format_args!("stopping: open transactions may finish"));
    notifier.stopping();
    node.stop(console).await;
    // The socket is a file, too.
    let _ = awaited(ADMIN_MAX, move || drop(admin)).await;
    console.line(Level::Info, "stop", format_args!("stopped"));
    Ok(ended?)
}

/// Logs warnings about the configuration or its files.
fn warn(warnings: impl Iterator<Item = String>, console: &ConsoleLog) {
    for warning in warnings {
        console.line(Level::Warn, "config", format_args!("{warning}"));
    }
}

/// Logs the listeners, and warnings about files. Earlier, a warning could precede the error about its file.
fn show_start((config, file): (&Config, Option<&Path>), node: &Node, console: &ConsoleLog) {
    warn(open_to_others(config, file).into_iter(), console);
    for (listener, address) in config.listeners.iter().zip(&node.addresses) {
        let (name, place) = (&listener.name, listener.place());
        let text = match listener.socket {
            Some(_) => format!("listening on {place} listener={name}"),
            // With the port chosen for port 0.
            None => format!("listening on {address} listener={name}"),
        };
        console.line(Level::Info, LISTENERS, format_args!("{text}"));
    }
}

/// A start in progress.
struct Starting<'a> {
    signals: Signals,
    console: &'a Arc<ConsoleLog>,
    notifier: &'a Notifier,
}

/// A configuration with the sockets and rights that the start has left for it.
type PreparedStart = (LoadedConfig, OpenedSockets, RightsAtStart);

impl Starting<'_> {
    /// Opens sockets and files as root, and becomes the user of the configuration, if it names one. Returns `None` if a
    /// signal stopped the server.
    async fn drop_rights(
        &mut self,
        file: Option<&Path>,
        read: LoadedConfig,
        opened: OpenedSockets,
    ) -> Result<Option<PreparedStart>, StartError> {
        let config = &read.0;
        let wrong = |mistake| StartError::from(config.errors(vec![mistake]));
        let Some(account) = Account::of(config).map_err(wrong)? else {
            return Ok(Some((read, opened, RightsAtStart::default())));
        };
        account.check(config).map_err(wrong)?;
        let (of_step, named) = (account.clone(), file.map(Path::to_owned));
        let prepare = move |progress: &dyn Fn(&str)| {
            let opened = (named.as_deref(), opened);
            let opened = privileges::prepare(&read.0, &of_step, opened, progress)?;
            let programs = programs::start_starter(&read.0, &of_step)?;
            Ok((read, opened, programs))
        };
        let Some((read, opened, programs)) = self.step(prepare).await? else { return Ok(None) };
        let confinement = Confinement::of(&read.0, file);
        // On this thread, while it is the only one.
        for line in privileges::drop_rights(&account, &read.0, &confinement)? {
            self.console.line(Level::Info, "privileges", format_args!("{line}"));
        }
        let rights = RightsAtStart { programs, confinement: Some(confinement) };
        Ok(Some((read, opened, rights)))
    }

    /// Runs a step of the start, which may wait for a hanging disk, and handles signals during it. A long wait is logged.
    /// Returns `None` if a signal stopped the server before its end.
    async fn step<T: Send + 'static>(
        &mut self,
        start: impl FnOnce(&dyn Fn(&str)) -> Result<T, StartError> + Send + 'static,
    ) -> Result<Option<T>, StartError> {
        let step = Arc::new(Mutex::new(String::new()));
        let (done, mut started) = oneshot::channel();
        let at = Arc::clone(&step);
        let work = move || {
            let progress = |what: &str| what.clone_into(&mut lock(&at));
            let _ = done.send(start(&progress));
        };
        let thread = thread::Builder::new().name("start".to_owned()).spawn(work);
        thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        let mut told =
            tokio::time::interval_at(Instant::now() + START_TOLD_EVERY, START_TOLD_EVERY);
        let began = Instant::now();
        loop {
            tokio::select! {
                biased;
                step = &mut started => {
                    // A panic ends the process.
                    let ended =
                        |_| Err(StartError::Failed("the start thread has ended".to_owned()));
                    return step.unwrap_or_else(ended).map(Some);
                }
                asked = self.signals.next() => if matches!(asked, SignalAction::Stop) {
                    let what = lock(&step).clone();
                    self.console.line(
                        Level::Info,
                        "stop",
                        format_args!("stopped during the start, while waiting for {what}"),
                    );
                    return Ok(None);
                },
                _ = told.tick() => {
                    let (what, seconds) = (lock(&step).clone(), began.elapsed().as_secs());
                    let text = format_args!("start takes {seconds} s so far: reading {what}");
                    self.console.line(Level::Warn, "start", text);
                    self.notifier.starting(&what);
                }
            }
        }
    }
}

/// A server that accepts mail.
struct Running<'a> {
    node: &'a Node,
    console: &'a Arc<ConsoleLog>,
    notifier: &'a Notifier,
}

impl Running<'_> {
    /// Executes the requests of signals and operators until one requests a stop.
    ///
    /// # Errors
    /// Returns the reason if the server ends without a request.
    async fn until_stopped(
        &self,
        mut signals: Signals,
        jobs: &mut mpsc::Receiver<NodeJob>,
        reloads: &mut Reloads,
    ) -> Result<(), String> {
        let Running { node, console, notifier } = *self;
        let mut end_of_logs = std::pin::pin!(node.end_of_logs());
        let mut alive = std::pin::pin!(notifier.keep_alive(|| node.are_alive()));
        let mut status = tokio::time::interval(STATUS_EVERY);
        loop {
            tokio::select! {
                biased;
                asked = signals.next() => match asked {
                    SignalAction::Stop => return Ok(()),
                    // The result is logged to the console.
                    SignalAction::Reload => reloads.begin(None),
                },
                why = &mut end_of_logs => return Err(why),
                () = reloads.answered() => {}
                Some(job) = jobs.recv() => CommandContext { node, reloads, console }.carry_out(job),
                () = &mut alive => {}
                _ = status.tick(), if notifier.is_on() => reloads.show(&node.summary()),
            }
        }
    }
}

fn bind_control(
    path: &Path,
    handed: Option<OpenedSocket>,
    progress: &dyn Fn(&str),
) -> Result<ControlSocket, String> {
    progress("the control socket's directory");
    let opened = match handed {
        Some(socket) => ControlSocket::handed(socket, path),
        None => ControlSocket::bind(path),
    };
    opened.map_err(|error| format!("cannot open the control socket {}: {error}", path.display()))
}

/// Serves the control socket and, if one is configured, the HTTP address.
fn start_admin(
    config: &Config,
    (node, (socket, opened), reloads): (
        &Node,
        (ControlSocket, Option<OpenedSocket>),
        &Arc<ReloadState>,
    ),
    jobs: mpsc::Sender<NodeJob>,
    stopping: Arc<AtomicBool>,
) -> Result<AdminServer, String> {
    let find_problems = node.problem_finder();
    let find_suspended = node.suspension_finder();
    let certificates = Arc::clone(node.certificates());
    AdminServer::start(AdminParts {
        hostname: config.hostname.as_str().into(),
        address: config.admin.address,
        opened,
        control: Some((socket, ControlPlane::new(node.shard_ports(), jobs))),
        numbers: Numbers {
            node: node.metrics.clone(),
            pools: Arc::clone(node.pressures()),
            tables: node.table_numbers(),
            live: LiveNumbers {
                problems: node.problem_finder(),
                counts: QueueCounts::new(node.shard_ports()),
                certificates: Arc::new(move || certificates.seconds_left(wall_now())),
                reloads: Arc::clone(reloads),
            },
            started: node.started,
        },
        health: Arc::new(move || Health {
            stopping: stopping.load(Ordering::Relaxed),
            problems: find_problems(),
            suspended: find_suspended(),
        }),
    })
    .map_err(|error| {
        let address = config.admin.address.map_or_else(String::new, |at| format!(" on {at}"));
        format!("cannot open the administration interface{address}: {error}")
    })
}
