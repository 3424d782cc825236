//! Steering: clients trusted by a listener set delivery options of a message in header fields. The fields are removed
//! from the message.

mod settings;

use config::{Config, Pool};
use mail::field_watch::WatchedField;
use mail::{FieldWatch, Refusal, Wall};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{Draft, Observer, Placed, Stage, StageKind, TransactionView, observed};
use mta::pressure::Pressures;
use mta::seams::{Time as _, World};
use mta::steering::{HOLD_MAX, Steering, is_name};
use mta::window::Window;
pub(crate) use settings::SteeringFields;
use settings::SteeringKey;
use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

/// Reads the fields of `[steering]`, if a listener trusts any client with them.
pub(crate) struct Steerings;

impl<W: World> StageKind<W> for Steerings {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        _console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let is_obeyed = config.listeners.iter().any(|one| !one.steering_from.is_empty());
        let Some(steering) = config.of::<SteeringFields>().filter(|_| is_obeyed) else {
            return Vec::new();
        };
        let (keys, names): (Vec<_>, Vec<_>) = steering.fields.iter().cloned().unzip();
        let (world, pools) = (world.clone(), config.pools.clone());
        let stage = SteeringStage { world, keys, names: names.into(), pools };
        // The first stage, so that later stages do not see the fields.
        vec![Placed { line: 0, stage: Rc::new(stage) }]
    }
}

struct SteeringStage<W: World> {
    world: W,
    /// The options set by the fields, in the order of `names`.
    keys: Vec<SteeringKey>,
    names: Rc<[Box<str>]>,
    pools: Vec<Arc<Pool>>,
}

/// Notes these fields as the header arrives.
type SteeringWatch = FieldWatch<Rc<[Box<str>]>>;

/// More fields than are noted. The remaining ones could not be removed.
const TOO_MANY_FIELDS: Refusal =
    Refusal::permanent((6, 0), "Too many steering fields").with_code(550);

impl<W: World> Stage for SteeringStage<W> {
    fn name(&self) -> &'static str {
        "steering"
    }

    fn observe(&self, transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        let session = &transaction.session;
        let is_obeyed = session.listener().obeys_steering(session.client().address.ip());
        is_obeyed.then(|| Box::new(SteeringWatch::new(Rc::clone(&self.names))) as _)
    }

    fn content<'a>(
        &'a self,
        _transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let Some(watch) = observed::<SteeringWatch>(observer) else { return Decision::pass() };
        match watch.all_or(TOO_MANY_FIELDS) {
            Ok(fields) => Answer::Now(self.steer(draft, &fields)),
            Err(too_many) => Answer::Now(Err(too_many)),
        }
    }
}

impl<W: World> SteeringStage<W> {
    fn steer(&self, draft: &mut Draft, fields: &[WatchedField]) -> Result<(), Refusal> {
        let now = self.world.time().wall();
        for (at, field) in fields.iter().enumerate() {
            let name = &*self.names[field.name];
            let refused = |mistake: SteeringError| mistake.refusal(name);
            if fields[..at].iter().any(|other| other.name == field.name) {
                return Err(refused(SteeringError::Twice));
            }
            let value = field.value();
            let text = std::str::from_utf8(&value).ok().filter(|_| !field.is_cut);
            let text = text.filter(|text| !text.is_empty());
            let text = text.ok_or_else(|| refused(SteeringError::Unreadable))?;
            let said = (self.keys[field.name], text);
            self.say(draft.steering_mut(), said, now).map_err(refused)?;
            draft.omit(field.range.clone());
        }
        self.check(draft.steering_mut(), now)?;
        match draft.steering_mut().tenant.clone() {
            Some(tenant) => draft.choose_tenant(Some(&tenant)),
            None => Ok(()),
        }
    }

    fn say(
        &self,
        steering: &mut Steering,
        (key, text): (SteeringKey, &str),
        now: Wall,
    ) -> Result<(), SteeringError> {
        match key {
            SteeringKey::Tenant => steering.tenant = Some(name_of(text)?),
            SteeringKey::Campaign => steering.campaign = Some(name_of(text)?),
            SteeringKey::Pool => {
                let pool = self.pools.iter().find(|pool| &*pool.name == text);
                steering.pool = Some(Arc::clone(&pool.ok_or(SteeringError::NoPool)?.name));
            }
            SteeringKey::Priority => {
                let priority = mail::Priority::parse(text);
                steering.priority = Some(priority.ok_or(SteeringError::NoPriority)?);
            }
            SteeringKey::NotBefore => {
                let at = time_of(text)?;
                if at > now.after(HOLD_MAX) {
                    return Err(SteeringError::TooFar);
                }
                // A time in the past is ignored.
                steering.not_before = Some(at).filter(|at| *at > now);
            }
            SteeringKey::Expires => steering.expires = Some(time_of(text)?),
            SteeringKey::Window => {
                let window = Window::parse(text).map(|_| Arc::from(text));
                steering.window = Some(window.ok_or(SteeringError::NoWindow)?);
            }
        }
        Ok(())
    }

    /// Checks the fields in combination.
    fn check(&self, steering: &Steering, now: Wall) -> Result<(), Refusal> {
        let Some(expires) = steering.expires else { return Ok(()) };
        if expires > steering.not_before.unwrap_or(now) {
            return Ok(());
        }
        let field = self.keys.iter().position(|key| *key == SteeringKey::Expires);
        Err(SteeringError::TooEarly.refusal(field.map_or("", |field| &self.names[field])))
    }
}

/// Error in a steering field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SteeringError {
    /// The field occurs twice.
    Twice,
    /// The value is empty, too long, or not text.
    Unreadable,
    /// Invalid name.
    NoName,
    /// Unknown pool.
    NoPool,
    /// Invalid priority.
    NoPriority,
    /// Invalid time.
    NoTime,
    /// Invalid window.
    NoWindow,
    /// The time is too far ahead.
    TooFar,
    /// The time is in the past, or before the earliest time of sending.
    TooEarly,
}

impl SteeringError {
    /// The refusal for an error in the field of this name.
    fn refusal(self, field: &str) -> Refusal {
        let text = match self {
            SteeringError::Twice => "occurs more than once",
            SteeringError::Unreadable => "is empty, too long or not UTF-8",
            SteeringError::NoName => "is not a name: 1 to 128 printable characters",
            SteeringError::NoPool => "is not a pool",
            SteeringError::NoPriority => "is not a priority: -9 to 9",
            SteeringError::NoTime => "is not a time: use 2026-12-01T09:00:00+01:00",
            SteeringError::NoWindow => "is not a window: use mon-fri 09:00-17:00 TZ",
            SteeringError::TooFar => "is more than a year ahead",
            SteeringError::TooEarly => "is before the earliest delivery time",
        };
        let text = Cow::Owned(format!("{field} {text}"));
        Refusal { text, ..Refusal::permanent((6, 0), "").with_code(550) }
    }
}

/// The name of a tenant or campaign.
fn name_of(text: &str) -> Result<Arc<str>, SteeringError> {
    is_name(text).then(|| Arc::from(text)).ok_or(SteeringError::NoName)
}

/// A time in the form of RFC 3339 or RFC 5322.
fn time_of(text: &str) -> Result<Wall, SteeringError> {
    Wall::parse_rfc3339(text).or_else(|| Wall::parse_rfc5322(text)).ok_or(SteeringError::NoTime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_or_a_mistake() {
        assert_eq!(name_of("Spring sale, 2026").as_deref(), Ok("Spring sale, 2026"));
        assert_eq!(name_of("<reports>"), Err(SteeringError::NoName));
    }

    #[test]
    fn refusals_name_the_field() {
        let reply = mail::Reply::from(SteeringError::NoPool.refusal("X-Pool"));
        assert_eq!(reply.to_string(), "550 5.6.0 X-Pool is not a pool");
    }
}
