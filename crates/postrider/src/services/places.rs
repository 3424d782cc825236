//! Directories and addresses that the server itself takes. They are looked at before anything is taken, so that a place
//! where nothing can be is a mistake of the file; what another process has is none.

use super::{Adoption, CandidateConfig, Service};
use crate::file_disk;
use crate::limited_work::waited_for;
use crate::mutex::lock;
use crate::socket_file;
use crate::world::sockets;
use config::{Config, Problem};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A disk that takes longer does not answer: that is none of the file's mistakes, and the start waits longer.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Where mail is kept, where clients and operators come in.
#[derive(Default)]
pub(super) struct StartupResources {
    /// Of the configuration that was adopted first: a reload takes no others.
    taken: Mutex<Option<BoundResources>>,
}

#[derive(Clone)]
struct BoundResources {
    directories: Vec<PathBuf>,
    addresses: Vec<SocketAddr>,
    sockets: Vec<Arc<Path>>,
    control: PathBuf,
}

impl BoundResources {
    fn of(config: &Config) -> BoundResources {
        let listeners = config.listeners.iter().map(|listener| listener.address);
        BoundResources {
            directories: config.spool.paths.clone(),
            addresses: listeners.chain(config.admin.address).collect(),
            sockets: config.listeners.iter().filter_map(|one| one.socket.clone()).collect(),
            control: config.admin.control.clone(),
        }
    }
}

impl Service for Arc<StartupResources> {
    fn name(&self) -> &'static str {
        "the spool's directory and the listeners' addresses"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let taken = lock(&self.taken).clone();
        let (config, known) = (next.config, taken.as_ref());
        // Directories of the built-in configuration are made for whoever tries it out.
        let mistakes = match config.is_embedded() {
            true => Vec::new(),
            false => {
                let mut mistakes = unfit_directories(next, known);
                mistakes.extend(unfit_control(next, known));
                mistakes.extend(unfit_addresses(config, known));
                mistakes.extend(unfit_sockets(config, known));
                mistakes
            }
        };
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let (this, config) = (Arc::clone(self), Arc::clone(config));
        Ok(Box::new(move || {
            lock(&this.taken).get_or_insert_with(|| BoundResources::of(&config));
        }))
    }
}

fn unfit_directories(next: &CandidateConfig<'_>, known: Option<&BoundResources>) -> Vec<Problem> {
    let (config, paths) = (next.config, &next.config.spool.paths);
    let is_known = |path| known.is_some_and(|taken| taken.directories.contains(path));
    let mut mistakes = Vec::new();
    for (index, path) in paths.iter().enumerate().filter(|(_, path)| !is_known(path)) {
        (next.progress)(&format!("the spool in {}", path.display()));
        let of_thread = path.clone();
        let looked = waited_for(LOOK_MAX, move || file_disk::check(&of_thread));
        if let Some(Err(error)) = looked {
            let why = format!("cannot open the spool {}: {error}", path.display());
            let of_several = format!("spool.paths[{index}]");
            mistakes.push(config.mistake_at_any(&[&of_several, "spool.path"], why));
        }
    }
    mistakes
}

fn unfit_control(next: &CandidateConfig<'_>, known: Option<&BoundResources>) -> Option<Problem> {
    let path = &next.config.admin.control;
    if known.is_some_and(|taken| taken.control == *path) {
        return None;
    }
    let why = unfit_socket(next.config, path)?;
    let why = format!("cannot open the control socket {}: {why}", path.display());
    Some(next.config.mistake_at("admin.control", why))
}

/// The reason why no socket can be at this path.
fn unfit_socket(config: &Config, path: &Path) -> Option<io::Error> {
    let (of_thread, spools) = (path.to_owned(), config.spool.paths.clone());
    waited_for(LOOK_MAX, move || socket_file::check_place(&of_thread, &spools))?.err()
}

/// Sockets of listeners at places where none can be.
fn unfit_sockets(config: &Config, known: Option<&BoundResources>) -> Vec<Problem> {
    let is_known =
        |path: &Path| known.is_some_and(|taken| taken.sockets.iter().any(|known| &**known == path));
    let unfit = config.listeners.iter().enumerate().filter_map(|(index, listener)| {
        let path = listener.socket.as_deref().filter(|path| !is_known(path))?;
        let (name, error) = (&listener.name, unfit_socket(config, path)?);
        let why = format!("cannot listen on {} (listener {name}): {error}", path.display());
        Some(config.mistake_at(&format!("listener[{index}].socket"), why))
    });
    unfit.collect()
}

/// Addresses that this machine does not have.
fn unfit_addresses(config: &Config, known: Option<&BoundResources>) -> Vec<Problem> {
    let unfit = |address: SocketAddr| {
        let is_known = known.is_some_and(|taken| taken.addresses.contains(&address));
        if is_known { None } else { sockets::check_address(address).err() }
    };
    let of_listeners = config.listeners.iter().enumerate().filter_map(|(index, listener)| {
        let (name, address) = (&listener.name, listener.address);
        let error = unfit(address)?;
        let why = format!("cannot listen on {address} (listener {name}): {error}");
        Some(config.mistake_at(&format!("listener[{index}].address"), why))
    });
    let of_admin = config.admin.address.and_then(|address| {
        let why =
            format!("cannot open the administration interface on {address}: {}", unfit(address)?);
        Some(config.mistake_at("admin.address", why))
    });
    of_listeners.chain(of_admin).collect()
}
