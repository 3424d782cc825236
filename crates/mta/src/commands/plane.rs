//! Puts requests before the shards and makes responses of what they answer, as it comes.

use super::command::Worded;
use super::merge::{self, Gathering};
use super::{ControlRequest, ShardPort};
use crate::control::{
    ControlResponse, Effect, ErrorCode, Lift, PARTS_MAX, QueueItem, Scope, ShardAnswer, SourceItem,
    Status, Suspension, Tally,
};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use tokio::sync::{mpsc, oneshot};

/// A request that concerns the node rather than its shards.
#[derive(Debug)]
pub enum NodeJob {
    /// Read the configuration again: `Ok` says what changed, `Err` why the old one stays.
    Reload(oneshot::Sender<Result<String, String>>),
    /// Version, uptime, problems; the shards are filled in by the asker.
    Status(oneshot::Sender<Status>),
    /// Suspend: the answer says what came of it.
    Suspend(Suspension, oneshot::Sender<Result<String, String>>),
    Resume(Scope, oneshot::Sender<Result<String, String>>),
    /// The clock is right.
    TrustClock(oneshot::Sender<Result<String, String>>),
    /// How far sources have come.
    Sources(oneshot::Sender<Vec<SourceItem>>),
    /// What rules of shaping have set in force.
    Effects(oneshot::Sender<Vec<Effect>>),
    /// End some of that: the answer says what came of it.
    Lift(Lift, oneshot::Sender<Result<String, String>>),
    /// A request about lookup tables: all that is to be said, but for the last response.
    Tables(Box<ControlRequest>, oneshot::Sender<Result<Vec<ControlResponse>, String>>),
}

/// Puts requests before the shards and merges what they answer.
pub struct ControlPlane {
    shards: Vec<ShardPort>,
    node: mpsc::Sender<NodeJob>,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// Whoever asked has gone.
struct Gone;

/// Where responses go.
#[derive(Clone)]
struct Out(mpsc::Sender<ControlResponse>);

impl Out {
    async fn say(&self, response: ControlResponse) -> Result<(), Gone> {
        self.0.send(response).await.map_err(|_| Gone)
    }
}

impl ControlPlane {
    /// `shards` in order of their numbers.
    #[must_use]
    pub fn new(shards: Vec<ShardPort>, node: mpsc::Sender<NodeJob>) -> ControlPlane {
        ControlPlane { shards, node }
    }

    /// Carries out a request. The last response is `Done` or `Error`. When nobody takes the
    /// responses any more, what is being done stops.
    pub async fn handle(&self, request: ControlRequest, out: mpsc::Sender<ControlResponse>) {
        let out = Out(out);
        // Gone: nobody is left to be told so.
        let _ = match request {
            ControlRequest::Reload => self.reload(&out).await,
            ControlRequest::Status => self.status(&out).await,
            ControlRequest::QueueSuspend { scope, reason, until } => {
                // When it begins is the node's to say.
                let since = mail::Wall(0);
                let suspension = Suspension { scope, reason, since, until };
                self.job(&out, |answer| NodeJob::Suspend(suspension, answer)).await
            }
            ControlRequest::QueueResume { scope } => {
                self.job(&out, |answer| NodeJob::Resume(scope, answer)).await
            }
            ControlRequest::TableList
            | ControlRequest::TableGet { .. }
            | ControlRequest::TableFlush { .. } => self.tables(request, &out).await,
            ControlRequest::Sources => self.sources(&out).await,
            ControlRequest::ShapingList => self.effects(&out).await,
            ControlRequest::ShapingLift { lift } => {
                self.job(&out, |answer| NodeJob::Lift(lift, answer)).await
            }
            ControlRequest::TrustClock => self.job(&out, NodeJob::TrustClock).await,
            request => self.put(&request, &out).await,
        };
    }

    /// Has the node do something.
    async fn job(
        &self,
        out: &Out,
        job: impl FnOnce(oneshot::Sender<Result<String, String>>) -> NodeJob,
    ) -> Result<(), Gone> {
        let response = match self.node_says(job).await {
            Some(Ok(text)) => done(text),
            Some(Err(text)) => ControlResponse::Error { code: ErrorCode::Failed, text },
            None => stopping(),
        };
        out.say(response).await
    }

    async fn effects(&self, out: &Out) -> Result<(), Gone> {
        let Some(effects) = self.node_says(NodeJob::Effects).await else {
            return out.say(stopping()).await;
        };
        for effect in effects {
            out.say(ControlResponse::Effect(Box::new(effect))).await?;
        }
        out.say(ControlResponse::Done { matched: 0, tally: None, text: None }).await
    }

    async fn tables(&self, request: ControlRequest, out: &Out) -> Result<(), Gone> {
        match self.node_says(|answer| NodeJob::Tables(Box::new(request), answer)).await {
            Some(Ok(responses)) => {
                for response in responses {
                    out.say(response).await?;
                }
                out.say(ControlResponse::Done { matched: 0, tally: None, text: None }).await
            }
            Some(Err(text)) => {
                out.say(ControlResponse::Error { code: ErrorCode::NotFound, text }).await
            }
            None => out.say(stopping()).await,
        }
    }

    async fn sources(&self, out: &Out) -> Result<(), Gone> {
        let Some(items) = self.node_says(NodeJob::Sources).await else {
            return out.say(stopping()).await;
        };
        for item in items {
            out.say(ControlResponse::Source(Box::new(item))).await?;
        }
        out.say(ControlResponse::Done { matched: 0, tally: None, text: None }).await
    }

    async fn node_says<T>(&self, job: impl FnOnce(oneshot::Sender<T>) -> NodeJob) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let sent = self.node.send(job(answer)).await.is_ok();
        if sent { answered.await.ok() } else { None }
    }

    async fn reload(&self, out: &Out) -> Result<(), Gone> {
        let text = match self.node_says(NodeJob::Reload).await {
            Some(Ok(text)) => text,
            Some(Err(text)) => {
                return out.say(ControlResponse::Error { code: ErrorCode::Failed, text }).await;
            }
            None => return out.say(stopping()).await,
        };
        // Shards take what comes to them in order: they have the new configuration when they count.
        let mut gathering = Gathering::default();
        self.ask(ControlRequest::Unrouted, &mut gathering, out).await?;
        let text = match gathering.tally.recipients {
            0 => text,
            1 => format!("{text}\n1 queued recipient has no route now, and waits for one"),
            n => format!("{text}\n{n} queued recipients have no route now, and wait for one"),
        };
        out.say(done(text)).await
    }

    async fn status(&self, out: &Out) -> Result<(), Gone> {
        let Some(mut status) = self.node_says(NodeJob::Status).await else {
            return out.say(stopping()).await;
        };
        let mut gathering = Gathering::default();
        self.ask(ControlRequest::Status, &mut gathering, out).await?;
        gathering.shards.sort_by_key(|shard| shard.shard);
        status.shards = gathering.shards;
        status.problems.extend(gathering.errors);
        out.say(ControlResponse::Status(status)).await?;
        out.say(ControlResponse::Done { matched: 0, tally: None, text: None }).await
    }

    /// Has the shards carry out a command of theirs.
    async fn put(&self, request: &ControlRequest, out: &Out) -> Result<(), Gone> {
        let Some(worded) = request.worded() else {
            let text = "only the server itself asks for that".to_owned();
            return out.say(ControlResponse::Error { code: ErrorCode::BadRequest, text }).await;
        };
        if let Some(limit) = worded.limit() {
            return self.list(request, worded, limit, out).await;
        }
        let mut gathering = Gathering::default();
        self.ask(request.clone(), &mut gathering, out).await?;
        for response in merge::responses(worded, gathering) {
            out.say(response).await?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        request: ControlRequest,
        gathering: &mut Gathering,
        out: &Out,
    ) -> Result<(), Gone> {
        let mut answers = self.start(&request);
        let mut tallies = vec![Tally::default(); answers.len()];
        while let Some((shard, part)) = next_part(&mut answers, |_| true).await {
            if let Some(tally) = tallies.get_mut(shard) {
                *tally = part.tally;
            }
            gathering.tally = sum(&tallies);
            if part.is_last {
                gathering.take(shard, part);
                if let Some(answer) = answers.get_mut(shard) {
                    *answer = None;
                }
            } else {
                out.say(ControlResponse::Progress(gathering.tally)).await?;
            }
        }
        Ok(())
    }

    /// The oldest of all shards, in order: each shard's come in order, so a page of each is enough.
    async fn list(
        &self,
        request: &ControlRequest,
        worded: &dyn Worded,
        limit: u32,
        out: &Out,
    ) -> Result<(), Gone> {
        let mut answers = self.start(request);
        let mut pages: Vec<VecDeque<QueueItem>> =
            answers.iter().map(|_| Default::default()).collect();
        let mut tallies = vec![Tally::default(); answers.len()];
        let mut gathering = Gathering::default();
        let mut left = limit;
        loop {
            let is_wanted = |shard: usize| pages.get(shard).is_some_and(|page| page.is_empty());
            if let Some((shard, part)) = next_part(&mut answers, is_wanted).await {
                if let Some(tally) = tallies.get_mut(shard) {
                    *tally = part.tally;
                }
                gathering.tally = sum(&tallies);
                let is_progress = part.items.is_empty() && !part.is_last;
                gathering.errors.extend(part.error.map(|error| format!("shard {shard}: {error}")));
                if let Some(page) = pages.get_mut(shard) {
                    page.extend(part.items);
                }
                if part.is_last
                    && let Some(answer) = answers.get_mut(shard)
                {
                    *answer = None;
                }
                if is_progress {
                    out.say(ControlResponse::Progress(gathering.tally)).await?;
                }
                continue;
            }
            // Every shard that has more has a page here.
            let first = pages
                .iter_mut()
                .filter(|page| !page.is_empty())
                .min_by_key(|page| page.front().map(|item| (item.received_at, item.id)));
            let Some(item) = first.and_then(VecDeque::pop_front) else { break };
            if left > 0 {
                left -= 1;
                out.say(ControlResponse::Item(Box::new(item))).await?;
            }
        }
        out.say(merge::last(worded, &gathering)).await
    }

    /// Puts a request before all shards at once.
    fn start(&self, request: &ControlRequest) -> Vec<Option<mpsc::Receiver<ShardAnswer>>> {
        let begin = |shard: &ShardPort| {
            let (answer, answers) = mpsc::channel(PARTS_MAX);
            shard(request.clone(), answer);
            Some(answers)
        };
        self.shards.iter().map(begin).collect()
    }
}

/// The next part of any shard that `is_wanted`; `None` when none of these has more to say, or one
/// that is not wanted has all there is.
async fn next_part(
    answers: &mut [Option<mpsc::Receiver<ShardAnswer>>],
    is_wanted: impl Fn(usize) -> bool,
) -> Option<(usize, ShardAnswer)> {
    poll_fn(|cx| {
        let mut waits = false;
        for (shard, answer) in answers.iter_mut().enumerate() {
            let Some(receiver) = answer.as_mut().filter(|_| is_wanted(shard)) else { continue };
            match receiver.poll_recv(cx) {
                Poll::Ready(Some(part)) => return Poll::Ready(Some((shard, part))),
                Poll::Ready(None) => {
                    let error = Some("it is stopping".to_owned());
                    let last = ShardAnswer { error, is_last: true, ..ShardAnswer::default() };
                    return Poll::Ready(Some((shard, last)));
                }
                Poll::Pending => waits = true,
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(None) }
    })
    .await
}

fn sum(tallies: &[Tally]) -> Tally {
    tallies.iter().fold(Tally::default(), |sum, tally| sum.and(*tally))
}

fn done(text: String) -> ControlResponse {
    ControlResponse::Done { matched: 0, tally: None, text: Some(text) }
}

fn stopping() -> ControlResponse {
    ControlResponse::Error { code: ErrorCode::Failed, text: "the server is stopping".to_owned() }
}

#[cfg(test)]
mod tests;
