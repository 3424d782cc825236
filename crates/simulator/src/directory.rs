//! The directory, which is slow, dead or wrong for a time, and the laws about it.

use super::account::Account;
use super::executor::Executor;
use super::plan::{DirectoryPlan, Health, Plan};
use load::random::Random;
use lookup::{Answers, Entry, LookupError, LookupErrorKind, PAUSE_MAX};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// How long a question waits for its answer, and a request for the directory.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Who needs no table waits no longer for the reply to a recipient. (Shorter than a question to a
/// silent directory takes.)
const UNTOUCHED_US: u64 = 3_000_000;

/// Beyond the pause before a probe: the request that was under way when it came to be well, and
/// the probe itself.
const BACK_US: u64 = 6_000_000;

/// Mail for a host that fails waits so long until it is looked up again where its recipient is (5
/// minutes), and an attempt that began then may last so long (the longest timeouts, one after the other).
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(300 + 120);

/// What is asked of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryTable {
    /// Who is there; an entry is the last part of the mailbox's path.
    Users,
    /// Whom an address stands for.
    Aliases,
}

/// What a client was told of a recipient, and after how long.
#[derive(Clone, Debug)]
pub struct RecipientReply {
    /// The reply's code.
    pub code: u16,
    /// All its lines.
    pub text: String,
    /// Until it came, in microseconds.
    pub waited_us: u64,
}

/// The directory.
#[derive(Debug)]
pub struct Directory {
    /// What it has, and how it feels.
    pub plan: DirectoryPlan,
    executor: Executor,
    account: Rc<Account>,
    random: RefCell<Random>,
    /// Nothing stalls between clients and node, so that the time of a reply tells something.
    is_prompt: bool,
}

impl Directory {
    /// The directory of a world, if it has one.
    #[must_use]
    pub fn new(plan: &Plan, executor: &Executor, account: &Rc<Account>) -> Option<Rc<Directory>> {
        let directory = Directory {
            plan: plan.directory.clone()?,
            executor: executor.clone(),
            account: Rc::clone(account),
            random: RefCell::new(Random::new(plan.seed ^ 0x6C64_6170)),
            is_prompt: plan.fault_rates.stall == 0,
        };
        Some(Rc::new(directory))
    }

    /// Answers a request, in its time.
    pub async fn answer(&self, asked: DirectoryTable, keys: &[Box<str>]) -> Answers {
        let health = self.plan.health(self.executor.now_us());
        let after_us = match health {
            Health::Well | Health::Gone | Health::Babbling => {
                300 + self.random.borrow_mut().below(40_000)
            }
            Health::Slow => self.random.borrow_mut().below(2 * PATIENCE.as_micros() as u64),
            Health::Silent => return std::future::pending().await,
        };
        self.executor.sleep(after_us).await;
        let one = |key: &str| match health {
            Health::Gone => {
                Err(LookupError::new(LookupErrorKind::Unreachable, "connection refused"))
            }
            Health::Babbling if self.random.borrow_mut().below(2) == 0 => {
                Err(LookupError::new(LookupErrorKind::Wrong, "that is no answer"))
            }
            _ => Ok(self.entry(asked, key)),
        };
        keys.iter().map(|key| one(key)).collect()
    }

    fn entry(&self, asked: DirectoryTable, key: &str) -> Option<Entry> {
        match asked {
            DirectoryTable::Users if self.plan.has(key) => match self.plan.places_of(key) {
                Some(places) => Some(Entry::text(places.value(key, self.executor.now_us()))),
                None => key.rsplit_once('@').map(|(local, _)| Entry::text(local)),
            },
            DirectoryTable::Users => None,
            DirectoryTable::Aliases => self.plan.alias(key).map(Entry::text),
        }
    }

    /// A question has no answer: that must have a reason.
    pub fn check_trouble(&self, trouble: &LookupError) {
        let now_us = self.executor.now_us();
        let before = self.plan.illnesses.iter().filter(|illness| illness.from_us <= now_us);
        let last_us = before.map(|illness| illness.until_us).max().unwrap_or(0);
        let first_us = self.plan.illnesses.first().map_or(0, |illness| illness.from_us);
        // Pauses double: none is longer than all before it, and the first.
        let pause =
            Duration::from_micros(last_us.saturating_sub(first_us)) + Duration::from_secs(1);
        let bound_us = pause.min(PAUSE_MAX).as_micros() as u64 + BACK_US;
        if now_us > last_us + bound_us {
            let well_ms = (now_us - last_us) / 1_000;
            let text =
                format!("no answer, though the directory is well since {well_ms} ms: {trouble}");
            self.account.violate(None, text);
        }
    }

    /// A user's mail has come to this host: the user was there, when it was looked up last or since.
    pub fn check_place(&self, recipient: &str, host: IpAddr) {
        let Some(places) = self.plan.places_of(recipient) else { return };
        let now_us = self.executor.now_us();
        let known = self.plan.lifetimes.positive + self.plan.lifetimes.stale;
        let before_us = (known + LOOKED_UP_WITHIN).as_micros() as u64;
        if !places.was_at(recipient, host, now_us.saturating_sub(before_us), now_us) {
            self.account
                .violate_about(recipient, &format!("arrived at {host}, and was never there"));
        }
    }

    /// What was said to the recipients of one message must be true.
    pub fn check_told(&self, recipients: &[String], told: &[RecipientReply]) {
        let is_governed =
            |to: &String| to.rsplit_once('@').is_some_and(|(_, domain)| self.plan.governs(domain));
        let is_untouched = !recipients.iter().any(is_governed);
        for (to, told) in recipients.iter().zip(told) {
            if is_governed(to) {
                self.check_recipient(to, told);
            } else if told.text.starts_with("451 4.4.3") {
                self.account
                    .violate_about(to, "is in no directory and was deferred because of one");
            }
            if is_untouched && self.is_prompt && told.waited_us > UNTOUCHED_US {
                let what = format!("needs no directory and waited {} ms", told.waited_us / 1_000);
                self.account.violate_about(to, &what);
            }
        }
    }

    fn check_recipient(&self, to: &str, told: &RecipientReply) {
        let (has, text) = (self.plan.has(to), told.text.trim_end());
        if has && told.code >= 500 && !self.plan.may_lack_route(to) {
            self.account.violate_about(to, &format!("is in the directory and was refused: {text}"));
        }
        if !has && told.code < 300 {
            self.account.violate_about(to, "is not in the directory and was accepted");
        }
    }
}
