//! Sends requests to the shards, and merges their answers into responses as they arrive.

use super::command::Worded;
use super::merge::{self, MergedAnswer};
use super::node::{NodeAnswer, NodeCommand, NodeJob};
use super::{ControlRequest, NodeRequest, RequestTarget, ShardPort};
use crate::control::{ControlResponse, ErrorCode, PARTS_MAX, QueueItem, ShardAnswer, Tally};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::Poll;
use tokio::sync::mpsc;

/// Sends requests to the shards and merges their answers.
pub struct ControlPlane {
    shards: Vec<ShardPort>,
    node: mpsc::Sender<NodeJob>,
}

impl std::fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlPlane").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

/// The client has disconnected.
struct Gone;

/// The channel for responses.
#[derive(Clone)]
struct Out(mpsc::Sender<ControlResponse>);

impl Out {
    async fn say(&self, response: ControlResponse) -> Result<(), Gone> {
        self.0.send(response).await.map_err(|_| Gone)
    }
}

impl ControlPlane {
    /// `shards` in the order of their numbers.
    #[must_use]
    pub fn new(shards: Vec<ShardPort>, node: mpsc::Sender<NodeJob>) -> ControlPlane {
        ControlPlane { shards, node }
    }

    /// Runs a request. The last response is `Done` or `Error`. If the client disconnects, the command ends.
    pub async fn handle(&self, request: ControlRequest, out: mpsc::Sender<ControlResponse>) {
        let out = Out(out);
        // An error means that the client has disconnected.
        let _ = match request.kind() {
            RequestTarget::Shards(worded) => self.put(&request, worded, &out).await,
            RequestTarget::Node(command, request) => self.ask_node(command, *request, &out).await,
        };
    }

    /// Runs a node command, and queries the shards if the command requires it.
    async fn ask_node(
        &self,
        command: &dyn NodeCommand,
        request: NodeRequest,
        out: &Out,
    ) -> Result<(), Gone> {
        let (answer, answered) = NodeAnswer::new();
        let sent = self.node.send(NodeJob { request, answer }).await.is_ok();
        let responses = if sent { answered.await.ok() } else { None };
        let Some(mut responses) = responses else { return out.say(stopping()).await };
        let is_done = matches!(responses.last(), Some(ControlResponse::Done { .. }));
        if let Some(of_shards) = command.of_shards().filter(|_| is_done) {
            let mut gathering = MergedAnswer::default();
            self.ask(of_shards, &mut gathering, out).await?;
            command.add(gathering, &mut responses);
        }
        for response in responses {
            out.say(response).await?;
        }
        Ok(())
    }

    /// Runs a shard command.
    async fn put(
        &self,
        request: &ControlRequest,
        worded: &dyn Worded,
        out: &Out,
    ) -> Result<(), Gone> {
        if let Some(limit) = worded.limit() {
            return self.list(request, worded, limit, out).await;
        }
        let mut gathering = MergedAnswer::default();
        self.ask(request.clone(), &mut gathering, out).await?;
        for response in merge::responses(worded, gathering) {
            out.say(response).await?;
        }
        Ok(())
    }

    async fn ask(
        &self,
        request: ControlRequest,
        gathering: &mut MergedAnswer,
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

    /// Lists the oldest messages of all shards in order. Each shard sends its messages in order, so one page of each is
    /// enough.
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
        let mut gathering = MergedAnswer::default();
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
            // Here every shard with more items has a page.
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

    /// Sends a request to all shards.
    fn start(&self, request: &ControlRequest) -> Vec<Option<mpsc::Receiver<ShardAnswer>>> {
        let begin = |shard: &ShardPort| {
            let (answer, answers) = mpsc::channel(PARTS_MAX);
            shard(request.clone(), answer);
            Some(answers)
        };
        self.shards.iter().map(begin).collect()
    }
}

/// The next part from a shard that `is_wanted`. `None` if all those have sent their last part, or if none is wanted.
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
                    let error = Some("the shard is stopping".to_owned());
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

fn stopping() -> ControlResponse {
    ControlResponse::Error { code: ErrorCode::Failed, text: "the server is stopping".to_owned() }
}

#[cfg(test)]
mod tests;
