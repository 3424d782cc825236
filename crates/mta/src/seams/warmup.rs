//! Warm-up counts of sources.

use crate::answer::Answer;
use crate::warmup::{
    Allowance, AllowanceGrant, AllowanceRequest, Answered, Tried, WarmupKey, WarmupLedger,
};
use auth::tls_report::TlsSession;
use mail::Wall;
use std::cell::RefCell;

/// Warm-up counts, shared by all shards.
pub trait Warmups: 'static {
    /// Requests an allowance of recipients: the granted number is durably counted as sent.
    fn ask(&self, ask: AllowanceRequest) -> Answer<'static, Answered>;

    /// Returns an unused part of a grant until `until`.
    fn give_back(&self, key: &WarmupKey, recipients: u32, until: Wall);

    /// Counts the results of tried recipients; written later.
    fn note(&self, key: &WarmupKey, came: Tried);
}

/// All sources are warm.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWarmups;

impl Warmups for NoWarmups {
    fn ask(&self, _: AllowanceRequest) -> Answer<'static, Answered> {
        Answer::Now(Answered { allowance: Allowance::Warm, turn: None })
    }

    fn give_back(&self, _: &WarmupKey, _: u32, _: Wall) {}

    fn note(&self, _: &WarmupKey, _: Tried) {}
}

/// For a world on one thread: memory counts as durable.
impl Warmups for RefCell<WarmupLedger> {
    fn ask(&self, ask: AllowanceRequest) -> Answer<'static, Answered> {
        let mut book = self.borrow_mut();
        loop {
            match book.ask(&ask) {
                AllowanceGrant::Answered(answered) => return Answer::Now(answered),
                AllowanceGrant::Reserved => {
                    let changes = book.take_changes();
                    book.written(&changes);
                }
            }
        }
    }

    fn give_back(&self, key: &WarmupKey, recipients: u32, until: Wall) {
        self.borrow_mut().give_back(key, recipients, until);
    }

    fn note(&self, key: &WarmupKey, came: Tried) {
        self.borrow_mut().note(key, came);
    }
}

/// TLS reports to domain owners (RFC 8460).
pub trait TlsReports: 'static {
    /// Returns true if sessions are counted now.
    fn is_on(&self) -> bool;

    /// Counts a session, without waiting.
    fn note(&self, session: TlsSession);

    /// Counts sessions that were omitted because there are too many.
    fn leave_out(&self, count: u64);
}

/// Sends no reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTlsReports;

impl TlsReports for NoTlsReports {
    fn is_on(&self) -> bool {
        false
    }

    fn note(&self, _: TlsSession) {}

    fn leave_out(&self, _: u64) {}
}
