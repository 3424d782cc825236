//! The published benchmarks of this field, reproduced by one command.

mod checks_cost;
mod large_queue;
mod machine;
mod mailboxes;
mod measurement;
mod minutes;
pub mod page;
mod ratio;
mod relay;
pub mod report;
mod round;
mod run_directory;
mod scenario;
mod series;
mod sign_cost;
mod steady_state;
mod table;
mod tls_cost;
mod trial;
mod workload;

use crate::stand::contender::Contender;
use crate::stand::directory::Population;
use crate::stand::egress::Egress;
use crate::stand::long_path::LongPath;
use crate::stand::{Adapter, Error, Load, Result, Target, Tool, contenders, postal};
use load::file::{self, FileError};
use load::process::this_program;
use load::stop::{CommandError, Outcome, StopFlag};
use load::tls::Handshakes;
use report::{Manifest, Report, Round, Skipped};
use run_directory::RunDirectory;
use scenario::{Case, MeasurementKind, Scenario};
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use workload::Site;

/// The directory, among those of the measurements, with all users.
const USERS: &str = "users";
/// What a measurement takes beside its load, with `--minutes`.
const OVERHEAD_SECONDS: f64 = 5.0;

/// Measure mail servers with published benchmarks, in interleaved rounds.
///
/// Each contender gets new processes and a new spool in each round, and each message is accounted
/// for. Ratios compare two contenders within a round. See docs/benchmarks.md.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Writes report.json, report.html and report.md into the output directory, and tables to standard \
output.

Exit codes:
  0  all results are valid
  1  a result is INVALID: a loss, an unexplained duplicate, or a spool outside a real disk
  2  the command line is wrong, or no contender can be measured

Examples:
  postrider-lab bench relay-400
  postrider-lab bench relay-64k --against postrider,postfix --scale 0.1 --rounds 5
  postrider-lab bench relay-400 --tls resumed --against postrider,postfix --seconds 60
  postrider-lab bench tls
  postrider-lab bench sign
  postrider-lab bench all --minutes 60 --out bench-all")]
pub struct BenchOptions {
    /// A scenario, a variant of one (alerts-10k/50ms), or `all`; see --list
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    pub scenario: Option<String>,
    /// Contenders, separated by commas; the first is compared with each of the rest. `postrider` is
    /// added in front unless a variant of it is named [default: the scenario's contenders, see --list]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub against: Vec<String>,
    /// Add a running server: its address, its process id, and the address of its next hop, where the
    /// sink will listen
    #[arg(long, value_name = "NAME=HOST:PORT,pid=PID,sink=HOST:PORT")]
    pub target: Vec<Target>,
    /// Add a server that a script configures, starts and stops (docs/benchmarks.md)
    #[arg(long, value_name = "NAME=SCRIPT")]
    pub adapter: Vec<Adapter>,
    /// Share of the published number of messages
    #[arg(long, value_name = "F", default_value_t = 0.04)]
    pub scale: f64,
    /// Send for this time, equally for slow and fast contenders. In relay scenarios it replaces the
    /// number of messages, in mailbox scenarios the ten minutes times the scale
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// Stop the sources after this time, even with messages left, in relay scenarios. The report
    /// shows the results up to then, and the cut-off
    #[arg(long, value_name = "SECONDS", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub cut_off: Option<u64>,
    /// Number of rounds, with one measurement of each contender
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Seed for body texts, and for the recipients in a directory
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Number of users in the directory, in scenarios with one
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..=9_999_999))]
    pub users: u64,
    /// Number of users who get mail
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub recipients: u64,
    /// Offer messages at this rate per second, evenly, instead of as fast as a contender accepts them;
    /// in relay and mailbox scenarios
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Count and remove mail from mailboxes at this age, as readers would; it bounds the disk space of
    /// long runs
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub read_after: Option<u64>,
    /// Encrypt mail with STARTTLS in relay scenarios; contenders without a TLS configuration are left out
    #[arg(long, value_name = "HANDSHAKES")]
    pub tls: Option<Handshakes>,
    /// Choose the scale for a run of about this time
    #[arg(long, value_name = "M", conflicts_with = "scale")]
    pub minutes: Option<f64>,
    /// Directory for reports and spools; empty, or not yet existing [default: a new one in the current directory]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Path of the postrider program [default: beside this program]
    #[arg(long, value_name = "FILE")]
    pub postrider: Option<PathBuf>,
    /// List scenarios and contenders
    #[arg(long)]
    pub list: bool,
    /// Print the report as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Drop so many arrivals from each account: shows that a loss is seen
    #[arg(long, value_name = "N", default_value_t = 0, hide = true)]
    pub plant_loss: u64,
}

/// The command.
pub fn run(options: &BenchOptions) -> Outcome {
    if options.list {
        list();
        return Ok(ExitCode::SUCCESS);
    }
    if options.scenario.as_deref() == Some(tls_cost::NAME) {
        return tls_cost::run(options.seconds, options.json);
    }
    if options.scenario.as_deref() == Some(checks_cost::NAME) {
        return checks_cost::run(options.seconds, options.json);
    }
    if options.scenario.as_deref() == Some(sign_cost::NAME) {
        return sign_cost::run(options.seconds, options.json);
    }
    let report = Bench::prepare(options)
        .and_then(Bench::run)
        .map_err(|error| CommandError::new(error.to_string()))?;
    if options.json {
        let text = serde_json::to_string(&report);
        println!("{}", text.map_err(|error| CommandError::new(error.to_string()))?);
    } else {
        print!("{}", table::text(&report));
    }
    Ok(if report.is_invalid() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn list() {
    let scenarios = scenario::all();
    let contenders = contenders::all();
    let names = scenarios.iter().map(|scenario| scenario.name);
    let names = names.chain(contenders.iter().map(|contender| contender.name()));
    let width = names.map(str::len).max().unwrap_or(0);
    let line = |name: &str, text: &str| println!("  {name:<width$}  {text}");
    println!("Scenarios:");
    for scenario in scenarios {
        line(scenario.name, &format!("{} ({})", scenario.title, scenario.publication));
        let cases: Vec<&str> = scenario.cases.iter().map(|case| case.name).collect();
        line("", &format!("variants: {}", cases.join(", ")));
        line("", &format!("contenders: {}", scenario.contenders.join(",")));
    }
    line("all", "all scenarios");
    line(
        tls_cost::NAME,
        "no scenario: the cost of TLS alone on this machine, for comparison with --tls",
    );
    line(checks_cost::NAME, "no scenario: the cost of SPF, DKIM and DMARC for a message of 10 kB");
    line(sign_cost::NAME, "no scenario: the cost of signatures and hashes alone");
    println!("Contenders:");
    for contender in &contenders {
        let text = format!("{}; {}", contender.title(), contender.durability().sentence);
        line(contender.name(), &text);
    }
    line("NAME", "any other server, with --target or --adapter");
}

/// A run.
struct Bench {
    scenarios: Vec<Scenario>,
    contenders: Vec<Rc<dyn Contender>>,
    postrider: PathBuf,
    directory: PathBuf,
    /// Where the spools are while it runs.
    run_directory: RunDirectory,
    options: BenchOptions,
    /// Made when they are needed first.
    population: Option<Rc<Population>>,
    begun: Instant,
    stop: StopFlag,
    report: Report,
}

impl Bench {
    fn prepare(options: &BenchOptions) -> Result<Bench> {
        let name = options.scenario.as_deref().unwrap_or("all");
        let scenarios = scenario::named(name)?;
        let contenders = named_contenders(options, &scenarios)?;
        check(options)?;
        let postrider = find_postrider(options)?;
        let AvailableContenders { contenders, found, skipped } =
            AvailableContenders::among(contenders, &postrider)?;
        let directory = make_directory(options, name)?;
        let run_directory = RunDirectory::for_reports_in(&directory)?;
        let machine = machine::describe(run_directory.path());
        let marks = machine::judge(&machine);
        let scale = options.minutes.map_or(options.scale, |minutes| {
            fitting_scale(&scenarios, &contenders, options.rounds, minutes)
        });
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let manifest = Manifest {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command_line: std::env::args().collect(),
            seed: options.seed,
            scale,
            rounds: options.rounds,
            rate: options.rate,
            read_after_seconds: options.read_after,
            began_at: mail::Wall(now.as_millis() as u64).to_string(),
            seconds: 0.0,
            machine,
            contenders: found,
            skipped,
        };
        let report = Report { format: report::FORMAT, manifest, scenarios: Vec::new(), marks };
        Ok(Bench {
            scenarios,
            contenders,
            postrider,
            directory,
            run_directory,
            options: options.clone(),
            population: None,
            begun: Instant::now(),
            stop: StopFlag::listen()
                .map_err(|error| Error::Missing(format!("signals: {error}")))?,
            report,
        })
    }

    fn run(mut self) -> Result<Report> {
        for scenario in std::mem::take(&mut self.scenarios) {
            self.report.scenarios.push(open_scenario(&scenario, &self.options));
            for case in &scenario.cases {
                self.run_case(scenario.name, case)?;
            }
        }
        self.write()?;
        if let Some(population) = self.population.take() {
            population.remove()?;
        }
        eprintln!("reports: {}", self.directory.display());
        Ok(self.report)
    }

    fn run_case(&mut self, scenario: &str, case: &Case) -> Result<()> {
        let Manifest { scale, seed, rounds, .. } = self.report.manifest;
        let load = workload::load(case, &self.options, scale, seed);
        let load = self.addressed(case, load)?;
        let mut shown = report::Case {
            name: case.name.to_owned(),
            title: case.title.to_owned(),
            workload: workload::shown(case, &load, &self.options),
            ..report::Case::default()
        };
        shown.unavailable = case.missing.map(str::to_owned);
        if let Some(path) = case.path {
            shown.unavailable = LongPath::start(path, seed).err().map(|why| why.to_string());
        }
        if load.tool == Tool::Postal {
            shown.unavailable = postal::find().err().map(|why| why.to_string());
        }
        if let Some(why) = &shown.unavailable {
            eprintln!("{scenario} {}: not run: {why}", case.name);
        }
        let runs = if shown.unavailable.is_some() { 0 } else { rounds };
        let names: Vec<String> = self.contenders.iter().map(|c| c.name().to_owned()).collect();
        shown.left_out = left_out(case, load.tls, &self.contenders);
        let is_left_out = |name: &String| shown.left_out.iter().any(|other| other.name == *name);
        let measured: Vec<String> =
            names.iter().filter(|name| !is_left_out(name)).cloned().collect();
        self.put_case(shown.clone());
        for number in 1..=runs {
            let mut round = Round { number, measurements: Vec::new() };
            for index in 0..self.contenders.len() {
                // Each in turn is the first: what the one before leaves behind hits all alike.
                let index = (index + number as usize - 1) % self.contenders.len();
                if shown.left_out.iter().any(|left_out| left_out.name == names[index]) {
                    continue;
                }
                let name = format!("{scenario}-{}-{number}-{}", case.name, names[index]);
                let (measurement, files) = self.measure(index, case, &load, &name)?;
                if !files.is_empty() {
                    self.report.manifest.contenders[index].files = files;
                }
                eprintln!("{}", progress(scenario, case, number, &measurement));
                round.measurements.push(measurement);
            }
            shown.rounds.push(round);
            shown.summaries = ratio::summarize(&shown.rounds, &measured);
            shown.ratios = ratio::compare(&shown.rounds, &measured);
            self.put_case(shown.clone());
            // What is measured is not lost when the run is broken off.
            self.write()?;
        }
        Ok(())
    }

    /// The load, with files of whom it is for.
    fn addressed(&mut self, case: &Case, load: Load) -> Result<Load> {
        if case.keeps_mail() {
            return Ok(Load { recipients: Some(self.population()?.recipients()), ..load });
        }
        match case.egress {
            Egress::Providers(providers) => {
                let domains = providers.write_domains(self.run_directory.path())?;
                Ok(Load { domains: Some(domains), ..load })
            }
            Egress::Usual | Egress::Limited(_) | Egress::Routes { .. } => Ok(load),
        }
    }

    /// The users of the directory; made when they are asked for first.
    fn population(&mut self) -> Result<Rc<Population>> {
        if let Some(population) = &self.population {
            return Ok(Rc::clone(population));
        }
        let directory = self.run_directory.path().join(USERS);
        let BenchOptions { users, recipients, .. } = self.options;
        let seed = self.report.manifest.seed;
        let population = Rc::new(Population::make(&directory, users, recipients, seed)?);
        self.population = Some(Rc::clone(&population));
        Ok(population)
    }

    fn measure(
        &self,
        index: usize,
        case: &Case,
        load: &Load,
        name: &str,
    ) -> Result<(report::Measurement, Vec<report::ConfigFile>)> {
        let site = Site {
            directory: self.run_directory.path().join(name),
            postrider: self.postrider.clone(),
            path: case.path,
            egress: case.egress,
            ways: case.ways,
            tls: load.tls,
            population: self.population.clone().filter(|_| case.keeps_mail()),
            read_after: self.options.read_after.map(Duration::from_secs),
            seed: load.seed,
            planted_loss: self.options.plant_loss,
            stop: self.stop.clone(),
        };
        let contender = &*self.contenders[index];
        round::measure(contender, case, load, self.report.manifest.scale, &site)
    }

    /// Puts a case into the present scenario, in place of what it was before.
    fn put_case(&mut self, case: report::Case) {
        let Some(scenario) = self.report.scenarios.last_mut() else { return };
        match scenario.cases.iter_mut().find(|known| known.name == case.name) {
            Some(known) => *known = case,
            None => scenario.cases.push(case),
        }
    }

    fn write(&mut self) -> Result<()> {
        self.report.manifest.seconds = self.begun.elapsed().as_secs_f64();
        let json = serde_json::to_string_pretty(&self.report);
        let json = json.map_err(|error| Error::Output("the report".to_owned(), error))?;
        file::write(&self.directory.join("report.json"), &json)?;
        file::write(&self.directory.join("report.md"), &table::markdown(&self.report))?;
        let pages = page::write(&self.report, &self.directory);
        Ok(pages.map(drop).map_err(FileError::at(&self.directory))?)
    }
}

/// Which contenders are there to be measured.
struct AvailableContenders {
    contenders: Vec<Rc<dyn Contender>>,
    /// The same, as the report describes them.
    found: Vec<report::Contender>,
    skipped: Vec<Skipped>,
}

impl AvailableContenders {
    /// # Errors
    /// When none is.
    fn among(
        mut contenders: Vec<Rc<dyn Contender>>,
        postrider: &Path,
    ) -> Result<AvailableContenders> {
        let mut skipped = Vec::new();
        let mut found = Vec::new();
        contenders.retain(|contender| match contender.find(postrider) {
            Ok(version) => {
                found.push(describe(&**contender, version));
                true
            }
            Err(why) => {
                eprintln!("{}: left out: {why}", contender.name());
                let name = contender.name().to_owned();
                skipped.push(Skipped { name, why: why.to_string() });
                false
            }
        });
        if contenders.is_empty() {
            let text = "no contender can be measured here";
            return Err(Error::Missing(text.to_owned()));
        }
        Ok(AvailableContenders { contenders, found, skipped })
    }
}

/// Those that are to be measured, with Postrider among them.
fn named_contenders(
    options: &BenchOptions,
    scenarios: &[Scenario],
) -> Result<Vec<Rc<dyn Contender>>> {
    let mut given: Vec<Rc<dyn Contender>> = Vec::new();
    given.extend(options.target.iter().map(|target| Rc::new(target.clone()) as Rc<dyn Contender>));
    given.extend(options.adapter.iter().map(|adapter| Rc::new(adapter.clone()) as _));
    let mut names: Vec<&str> = Vec::new();
    let usual = scenarios.iter().flat_map(|scenario| scenario.contenders.iter().copied());
    match options.against.as_slice() {
        [] => names.extend(usual),
        against => names.extend(against.iter().map(|name| name.trim())),
    }
    let mut seen = HashSet::new();
    names.retain(|name| seen.insert(*name));
    let named = names.into_iter().map(|name| contenders::named(name, &given));
    let mut contenders = named.collect::<Result<Vec<_>>>()?;
    // In each scenario that has one which fits, the first of those that it usually has.
    for first in scenarios.iter().rev().filter_map(|scenario| scenario.contenders.first()) {
        let first = contenders::named(first, &given)?;
        let is_of_ours = |one: &Rc<dyn Contender>| {
            one.is_postrider() && one.lookup().is_some() == first.lookup().is_some()
        };
        if !contenders.iter().any(is_of_ours) {
            contenders.insert(0, first);
        }
    }
    Ok(contenders)
}

fn check(options: &BenchOptions) -> Result<()> {
    let numbers = [
        ("--scale", Some(options.scale)),
        ("--minutes", options.minutes),
        ("--rate", options.rate),
    ];
    for (name, number) in numbers {
        if let Some(number) = number.filter(|number| !(number.is_finite() && *number > 0.0)) {
            return Err(Error::Missing(format!("{name} {number} is not above 0")));
        }
    }
    Ok(())
}

fn open_scenario(scenario: &Scenario, options: &BenchOptions) -> report::Scenario {
    let differences = scenario.differences.iter().map(|text| (*text).to_owned());
    report::Scenario {
        name: scenario.name.to_owned(),
        title: scenario.title.to_owned(),
        about: scenario.about.to_owned(),
        publication: scenario.publication.to_owned(),
        differences: differences.chain(workload::differences(scenario, options)).collect(),
        published: scenario.published.clone(),
        cases: Vec::new(),
    }
}

fn describe(contender: &dyn Contender, version: String) -> report::Contender {
    let durability = contender.durability();
    report::Contender {
        name: contender.name().to_owned(),
        title: contender.title(),
        version,
        durability: durability.word.to_owned(),
        durability_note: durability.sentence.to_owned(),
        files: Vec::new(),
    }
}

/// Contenders that a case makes no sense for.
fn left_out(
    case: &Case,
    tls: Option<Handshakes>,
    contenders: &[Rc<dyn Contender>],
) -> Vec<Skipped> {
    let kills = case.kind == MeasurementKind::LargeQueue { kill: true };
    let is_by_dns = matches!(case.egress, Egress::Providers(_));
    let why = |contender: &dyn Contender| {
        if case.keeps_mail() != contender.lookup().is_some() {
            Some(match case.keeps_mail() {
                true => "it is not set up to keep mail",
                false => "it is set up to keep mail, not to relay",
            })
        } else if contender.ways(case.ways).is_none() {
            Some("it is not set up for the protocols of this case")
        } else if tls.is_some() && !contender.encrypts() {
            Some("it is not set up to encrypt")
        } else if kills && !contender.survives_a_kill() {
            Some("it loses its queue when killed, or may not be killed")
        } else if is_by_dns && !contender.resolves() {
            Some("it is not set up to find next hops in the DNS")
        } else if contender.is_shaped() && !is_by_dns {
            Some("this case has no shaping")
        } else if matches!(case.egress, Egress::Limited(_)) && !contender.limits_connections() {
            Some("it has no limit of connections to set")
        } else {
            None
        }
    };
    let skipped = |contender: &Rc<dyn Contender>| {
        let name = contender.name().to_owned();
        Some(Skipped { name, why: why(&**contender)?.to_owned() })
    };
    contenders.iter().filter_map(skipped).collect()
}

fn find_postrider(options: &BenchOptions) -> Result<PathBuf> {
    let path = match &options.postrider {
        Some(path) => path.clone(),
        None => this_program()?.with_file_name("postrider"),
    };
    Ok(std::path::absolute(&path).map_err(FileError::at(&path))?)
}

fn make_directory(options: &BenchOptions, name: &str) -> Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let directory = options
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("bench-{name}-{}", now.as_secs())));
    file::empty_directory(&directory)?;
    // Postfix's processes run as another user.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&directory, open).map_err(FileError::at(&directory))?;
    Ok(std::fs::canonicalize(&directory).map_err(FileError::at(&directory))?)
}

/// The scale at which all rounds of all scenarios take about so many minutes.
fn fitting_scale(
    scenarios: &[Scenario],
    contenders: &[Rc<dyn Contender>],
    rounds: u32,
    minutes: f64,
) -> f64 {
    let mut seconds = 0.0;
    let mut measurements = 0.0;
    for case in scenarios.iter().flat_map(|scenario| &scenario.cases) {
        let fits =
            |contender: &&Rc<dyn Contender>| case.keeps_mail() == contender.lookup().is_some();
        for contender in contenders.iter().filter(fits) {
            seconds += case.seconds(contender.rough_rates()) * f64::from(rounds);
            measurements += f64::from(rounds);
        }
    }
    let left = minutes * 60.0 - measurements * OVERHEAD_SECONDS;
    (left / seconds).clamp(1e-4, 1.0)
}

fn progress(scenario: &str, case: &Case, round: u32, measurement: &report::Measurement) -> String {
    let figure = |name: &str, unit: &str| {
        measurement.figure(name).map(|value| format!(", {value:.0}{unit}")).unwrap_or_default()
    };
    let worst = measurement.marks.iter().max_by_key(|mark| mark.severity);
    let worst = worst.filter(|mark| mark.severity != report::Severity::Note);
    format!(
        "{scenario} {}, round {round}, {}: {} accepted, {} delivered{}{}{}{}",
        case.name,
        measurement.contender,
        measurement.accepted,
        measurement.delivered,
        figure("accepted_per_second", "/s in"),
        figure("delivered_per_second", "/s out"),
        figure("cpu_us_per_message", " µs"),
        worst.map(|mark| format!("; {}", mark.text)).unwrap_or_default()
    )
}
