//! The bare relay of P1: the limit that switches of X.400 are held against.

use crate::stand::contender::{Contender, Durability};
use crate::stand::error::Result;
use crate::stand::place::ServerSetup;
use crate::stand::server::Server;
use crate::stand::ways::{PASSWORD, Protocol, SERVER_NAME, Ways};
use load::process::this_program;
use std::path::Path;

/// Associations to the next hop, unless the case says otherwise.
const ASSOCIATIONS_MAX: u32 = 50;

/// The contender.
#[derive(Debug)]
pub(crate) struct P1Floor;

impl Contender for P1Floor {
    fn name(&self) -> &str {
        "p1-floor"
    }

    fn title(&self) -> String {
        "bare relay of P1 in memory: the limit".to_owned()
    }

    fn durability(&self) -> Durability {
        Durability { word: "memory", sentence: "AEA with the message in memory only" }
    }

    fn find(&self, _: &Path) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn ways(&self, wanted: Ways) -> Option<Ways> {
        // It knows one next hop.
        (!wanted.is_mail() && wanted.sinks == 1).then(|| wanted.all_by(Protocol::P1))
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let mut command = place.command(&this_program()?);
        let associations = place.egress.in_sum().unwrap_or(ASSOCIATIONS_MAX).to_string();
        let tpdu = place.ways.tpdu_bytes.to_string();
        command.args(["p1-floor", "--listen", &place.address(), "--to", &place.sink]);
        command.args(["--associations", &associations, "--tpdu", &tpdu]);
        command.args(["--name", SERVER_NAME, "--password", PASSWORD]);
        super::floor::start("p1-floor", &mut command, place)
    }

    fn survives_a_kill(&self) -> bool {
        false
    }
}
