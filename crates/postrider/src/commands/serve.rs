//! `postrider serve`: runs the relay until a signal ends it.

use crate::admin::{AdminParts, AdminServer, Health, Numbers};
use crate::commands::load;
use crate::console::{ConsoleLog, LISTENERS};
use crate::control_socket::ControlSocket;
use crate::node::Node;
use crate::secrets;
use crate::tables;
use crate::world::mailbox_files::check_owners;
use config::{Config, LogLevel};
use mta::console::{Console, Level};
use mta::control::{ControlPlane, NodeJob, Status};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Runs the relay. `file` is the configuration, `None` the embedded default; `shards` overrides
/// what it says.
pub(crate) fn run(file: Option<PathBuf>, shards: Option<u16>) -> ExitCode {
    crate::panic::ends_the_process();
    let mut config = match load::load(file.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let console = Arc::new(ConsoleLog::stderr(level_of(&config)));
    if let Err(text) = secrets::read(&mut config) {
        console.line(Level::Error, "start", format_args!("{text}"));
        return ExitCode::FAILURE;
    }
    let config = Arc::new(config);
    if let Err(text) = secrets::watch(&config, Arc::clone(&console)) {
        console.line(Level::Error, "start", format_args!("{text}"));
        return ExitCode::FAILURE;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(serve(file, config, shards, &console)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            console.line(Level::Error, "start", format_args!("{text}"));
            ExitCode::FAILURE
        }
    }
}

fn level_of(config: &Config) -> Level {
    match config.log.level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
        LogLevel::Trace => Level::Trace,
    }
}

/// One shard per core, unless something else is asked for.
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

enum Asked {
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

    async fn next(&mut self) -> Asked {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}

/// What the directories of the embedded default lie in: whoever tries it out has made none.
fn make_data_directories(config: &Config) -> Result<(), String> {
    for directory in config.spool.paths.iter().filter_map(|path| path.parent()) {
        std::fs::create_dir_all(directory)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    }
    Ok(())
}

async fn serve(
    file: Option<PathBuf>,
    config: Arc<Config>,
    shards: Option<u16>,
    console: &Arc<ConsoleLog>,
) -> Result<(), String> {
    let mut signals = Signals::new().map_err(|error| format!("cannot take signals: {error}"))?;
    for warning in warnings_of(&config) {
        console.line(Level::Warn, "config", format_args!("{warning}"));
    }
    let shards = shards_of(&config, shards);
    if file.is_none() {
        make_data_directories(&config)?;
    }
    let mut node = Node::start(&config, shards, console)?;
    for (listener, address) in config.listeners.iter().zip(&node.addresses) {
        let name = &listener.name;
        console.line(
            Level::Info,
            LISTENERS,
            format_args!("listening on {address} listener={name}"),
        );
    }
    let stopping = Arc::new(AtomicBool::new(false));
    let (jobs, mut node_jobs) = mpsc::channel(16);
    let admin = start_admin(&config, &node, jobs, Arc::clone(&stopping))?;
    if let Some(address) = admin.address() {
        console.line(Level::Info, "admin", format_args!("metrics and health on {address}"));
    }
    // The last line of a start: who waits for it finds every socket open.
    console.line(
        Level::Info,
        "start",
        format_args!(
            "postrider {} serves hostname={} shards={shards}",
            crate::VERSION,
            config.hostname
        ),
    );
    run_until_stopped(&mut node, &mut signals, &mut node_jobs, file.as_deref(), console).await;
    node.effects.keep(console);
    stopping.store(true, Ordering::Relaxed);
    console.line(Level::Info, "stop", format_args!("stopping: transactions may finish"));
    node.stop().await;
    drop(admin);
    console.line(Level::Info, "stop", format_args!("stopped"));
    Ok(())
}

/// Does what signals and operators ask for until one of them asks for a stop.
async fn run_until_stopped(
    node: &mut Node,
    signals: &mut Signals,
    jobs: &mut mpsc::Receiver<NodeJob>,
    file: Option<&Path>,
    console: &Arc<ConsoleLog>,
) {
    let mut effects = node.effects.follow();
    loop {
        tokio::select! {
            biased;
            asked = signals.next() => match asked {
                Asked::Stop => return,
                Asked::Reload => {
                    // What came of it is on the console.
                    let _ = reload(node, file, console);
                }
            },
            Some(job) = jobs.recv() => handle_job(node, job, file, console),
            Ok(()) = effects.changed() => node.effects.keep(console),
        }
    }
}

fn handle_job(node: &mut Node, job: NodeJob, file: Option<&Path>, console: &Arc<ConsoleLog>) {
    match job {
        NodeJob::Reload(answer) => {
            let _ = answer.send(reload(node, file, console));
        }
        NodeJob::Status(answer) => {
            let _ = answer.send(status(node));
        }
        NodeJob::Suspend(suspension, answer) => {
            let _ = answer.send(told(node.suspend(suspension), console));
        }
        NodeJob::Resume(scope, answer) => {
            let _ = answer.send(told(node.resume(&scope), console));
        }
        NodeJob::Effects(answer) => {
            let _ = answer.send(node.effects.in_force());
        }
        NodeJob::Lift(lift, answer) => {
            let _ = answer.send(told(node.effects.lift(&lift), console));
        }
        NodeJob::Tables(request, answer) => tables::handle(node.tables(), *request, answer),
        NodeJob::Sources(answer) => {
            let _ = answer.send(node.sources());
        }
        NodeJob::TrustClock(answer) => {
            let _ = answer.send(told(node.trust_clock(), console));
        }
    }
}

/// What is doubtful about a configuration, each with its place.
fn warnings_of(config: &Config) -> impl Iterator<Item = String> {
    let place = move |line| format!("{}:{line}", config.file_name());
    config.warnings.iter().map(move |w| format!("{}: {}", place(w.line), w.message))
}

/// Notes on the console what an operator has done.
fn told(done: Result<String, String>, console: &ConsoleLog) -> Result<String, String> {
    if let Ok(text) = &done {
        console.line(Level::Info, "operator", format_args!("{text}"));
    }
    done
}

/// Opens the control socket and, if one is configured, the HTTP address.
fn start_admin(
    config: &Config,
    node: &Node,
    jobs: mpsc::Sender<NodeJob>,
    stopping: Arc<AtomicBool>,
) -> Result<AdminServer, String> {
    let path = &config.admin.control;
    let socket = ControlSocket::bind(path)
        .map_err(|error| format!("cannot open the control socket {}: {error}", path.display()))?;
    let find_problems = node.problem_finder();
    let find_suspended = node.suspension_finder();
    AdminServer::start(AdminParts {
        hostname: config.hostname.as_str().into(),
        address: config.admin.address,
        control: Some((socket, ControlPlane::new(node.shard_ports(), jobs))),
        numbers: Numbers {
            node: node.metrics.clone(),
            tables: node.table_numbers(),
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

fn status(node: &Node) -> Status {
    Status {
        version: crate::VERSION.to_owned(),
        uptime_ms: node.started.elapsed().0 / 1_000,
        protocol: mta::control::PROTOCOL,
        messages: node.message_count(),
        suspensions: node.suspensions().to_vec(),
        shards: Vec::new(),
        problems: node.problem_finder()().into_iter().chain(node.suspension_finder()()).collect(),
    }
}

/// Reads the configuration again and gives it to the shards, or keeps the old one and says why.
fn reload(node: &Node, file: Option<&Path>, console: &Arc<ConsoleLog>) -> Result<String, String> {
    let config = load::config(file).map_err(|error| error.one_line());
    let config = config.and_then(|mut config| {
        check_owners(&config)?;
        secrets::read(&mut config).map(|()| config)
    });
    let told = match config {
        Ok(config) => {
            let config = Arc::new(config);
            let reloaded = node.reload(&config).map(|()| {
                // What is refused changes nothing, of what is told neither.
                console.set_level(level_of(&config));
                let kept = node.kept_from_start(&config);
                let mut text = format!("configuration reloaded from {}{kept}", config.file_name());
                // It is in force by now.
                let unwatched = secrets::watch(&config, Arc::clone(console)).err();
                let unwatched = unwatched.map(|why| format!("secrets are not read again: {why}"));
                for warning in warnings_of(&config).chain(unwatched) {
                    console.line(Level::Warn, "config", format_args!("{warning}"));
                    text.push('\n');
                    text.push_str(&warning);
                }
                text
            });
            reloaded.map_err(|mistakes| format!("the old configuration stays: {mistakes}"))
        }
        Err(error) => Err(format!("the old configuration stays: {error}")),
    };
    let (level, text) = match &told {
        Ok(text) => (Level::Info, text.lines().next().unwrap_or_default()),
        Err(text) => (Level::Error, text.as_str()),
    };
    console.line(level, "reload", format_args!("{text}"));
    told
}
