//! Stages for messages at their origin, for all protocols: those of users (RFC 6409 §8), and of devices with limited
//! mail software.

mod fields;
mod senders;

pub(crate) use fields::FieldRules;
pub(crate) use senders::{AuthorsText, SenderRules};

use config::Config;
use fields::FieldStage;
use mta::console::Console;
use mta::ingress::Stage;
use mta::seams::World;
use senders::SenderStage;
use std::rc::Rc;
use std::sync::Arc;

/// The stages for a listener's settings.
pub(crate) fn stages<W: World>(
    (senders, fields): (Option<&Arc<SenderRules>>, &FieldRules),
    config: &Config,
    world: &W,
    console: &Rc<dyn Console>,
) -> Vec<Rc<dyn Stage>> {
    let mut stages: Vec<Rc<dyn Stage>> = Vec::new();
    if let Some(rules) = senders {
        stages.push(Rc::new(SenderStage::new(rules, world, console)));
    }
    if fields.is_any() {
        let (rules, hostname) = (fields.clone(), config.hostname.to_string());
        stages.push(Rc::new(FieldStage { rules, hostname, world: world.clone() }));
    }
    stages
}
