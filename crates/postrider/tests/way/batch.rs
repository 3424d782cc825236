//! Several transactions at once on a connection, by a protocol of this file's own: each line is a message,
//! `FROM TO TEXT`, and an empty line hands all of them in.

use super::client::{FRIEND, STRANGER};
use super::node::{Node, config, play, wait_until};
use config::{Config, Listener, ProtocolSection, ProtocolSettings, Reader};
use mail::{BodyType, ContentScanner, Envelope, Mailbox, Notify, Recipient, Refusal};
use mta::ingress::{Connection, Handler, Protocol, Sender, Submission, Submitted, Transaction};
use mta::pressure::Pressures;
use mta::seams::{Net, Stream as _, Task, World};
use schemars::JsonSchema;
use serde::Deserialize;
use std::any::Any;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// Its listeners have no keys of their own.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct BatchText {}

impl ProtocolSettings for BatchText {}

impl ProtocolSection for BatchText {
    const KIND: &'static str = "batch";
    type Text = BatchText;

    fn read(text: BatchText, _: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>> {
        Some(Arc::new(text))
    }
}

/// The protocol, and what serves its connections.
#[derive(Debug)]
pub(crate) struct Batch;

impl<W: World> Protocol<W> for Batch {
    fn name(&self) -> &'static str {
        BatchText::KIND
    }

    fn handler(&self, _: &Config, _: &Arc<Listener>, _: &Pressures) -> Rc<dyn Handler<W>> {
        Rc::new(Batch)
    }
}

impl<W: World> Handler<W> for Batch {
    fn into_any(self: Rc<Self>) -> Rc<dyn Any> {
        self
    }

    fn serve(self: Rc<Self>, connection: Connection<W>, stream: <W::Net as Net>::Stream) -> Task {
        Box::pin(async move {
            // An error is the client's going away.
            let _ = serve(connection, stream).await;
        })
    }
}

async fn serve<W: World>(
    mut connection: Connection<W>,
    mut stream: <W::Net as Net>::Stream,
) -> io::Result<()> {
    if let Err(refusal) = connection.admit().await {
        connection.turn_away(refusal.into());
        return Ok(());
    }
    connection.introduce("batch", "BATCH");
    let mut input = Vec::new();
    while !input.ends_with(b"\n\n") {
        let mut buffer = [0; 512];
        match poll_fn(|cx| stream.poll_read(cx, &mut buffer)).await? {
            0 => return Ok(()),
            n => input.extend_from_slice(&buffer[..n]),
        }
    }
    let text = String::from_utf8_lossy(&input).into_owned();
    let (mut open, mut replies) = (Vec::new(), Vec::new());
    for (line, number) in text.lines().filter(|line| !line.is_empty()).zip(0..) {
        match begin(&connection, line).await {
            Ok((transaction, submission)) => open.push((number, transaction, submission)),
            Err(refusal) => replies.push(format!("{number} {}", refusal.text)),
        }
    }
    let mut tasks: Vec<_> = open
        .into_iter()
        .map(|(number, mut transaction, submission)| {
            Box::pin(async move {
                let Some(submission) = submission else { return format!("{number} dropped") };
                match transaction.submit(submission).await {
                    Ok(Submitted::Queued(id)) => format!("{number} {id}"),
                    Ok(Submitted::Discarded) => format!("{number} discarded"),
                    Err(refusal) => format!("{number} {}", refusal.text),
                }
            })
        })
        .collect();
    let mut go_on = |cx: &mut Context<'_>| {
        tasks.retain_mut(|task| match task.as_mut().poll(cx) {
            Poll::Ready(reply) => {
                replies.push(reply);
                false
            }
            Poll::Pending => true,
        });
        tasks.len()
    };
    let waiting = poll_fn(|cx| Poll::Ready(go_on(cx))).await;
    write(&mut stream, &format!("{waiting} wait\n")).await?;
    poll_fn(|cx| if go_on(cx) == 0 { Poll::Ready(()) } else { Poll::Pending }).await;
    replies.sort();
    write(&mut stream, &(replies.join("\n") + "\n")).await
}

/// One message up to its end; of one whose text is `drop` no more than that.
async fn begin<W: World>(
    connection: &Connection<W>,
    line: &str,
) -> Result<(Box<Transaction<W>>, Option<Submission>), Refusal> {
    let mut words = line.splitn(3, ' ');
    let mut address = || words.next().and_then(|word| Mailbox::parse(word, false).ok());
    let (Some(from), Some(mailbox)) = (address(), address()) else {
        return Err(Refusal::permanent((5, 2), "No addresses"));
    };
    let text = words.next().unwrap_or_default();
    let recipient = Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None };
    let sender = Sender { path: Some(from.clone()), ..Sender::default() };
    let mut transaction = connection.begin(sender).await?;
    let resolved = transaction.recipient(&recipient).get().await?;
    transaction.keep(&recipient, resolved)?;
    transaction.reserve(1).await?;
    let (content, mut scanner) = (format!("\r\n{text}\r\n"), ContentScanner::default());
    scanner.push(content.as_bytes());
    transaction.intake().push(content.as_bytes());
    transaction.intake().attend().await?;
    let envelope = Envelope {
        reverse_path: Some(from),
        recipients: vec![recipient],
        body: BodyType::SevenBit,
        smtputf8: false,
        ret: None,
        envid: None,
    };
    let submission = (text != "drop").then(|| Submission::new(envelope, scanner.finish()));
    Ok((transaction, submission))
}

async fn write<S: mta::seams::Stream>(stream: &mut S, text: &str) -> io::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let n = poll_fn(|cx| stream.poll_write(cx, &[IoSlice::new(rest)])).await?;
        rest = &rest[n..];
    }
    Ok(())
}

const ROUTES: &str =
    "[[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }\n";

/// A node whose listener speaks it, with these keys.
async fn node(keys: &str) -> Node {
    let text = config(ROUTES)
        .replace("name = \"in\"\n", &format!("name = \"in\"\nkind = \"batch\"\n{keys}\n"));
    Node::start(&text).await
}

fn open(node: &Node, from: IpAddr) -> DuplexStream {
    node.accept(SocketAddr::new(from, 40_000))
}

/// What comes next, up to this end.
async fn until(stream: &mut DuplexStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        text.push(stream.read_u8().await.expect("the session lives"));
    }
    String::from_utf8(text).expect("text")
}

async fn rest(mut stream: DuplexStream) -> Vec<String> {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn messages_of_one_connection_become_durable_together() {
    play(|| async {
        let node = node("").await;
        node.log_stands.set(true);
        let mut client = open(&node, FRIEND);
        let lines = "a@x.test one@ours.test first\na@x.test two@ours.test second\nb@x.test one@ours.test third\n\n";
        client.write_all(lines.as_bytes()).await.expect("it reads");
        assert_eq!(until(&mut client, "\n").await, "3 wait\n");
        // None waits for another: the log has all three, and has made none durable.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(node.shared.queue_slots.used(), 3);
        assert_eq!(node.count("received"), 0);
        node.log_stands.set(false);
        let replies = rest(client).await;
        node.wait_for("delivered", 3).await;
        let received = node.of("received");
        let told = |field: &str| -> Vec<String> {
            received.iter().map(|event| event[field].to_string()).collect()
        };
        assert_eq!(told("sender"), ["\"a@x.test\"", "\"a@x.test\"", "\"b@x.test\""]);
        assert_eq!(
            told("recipients"),
            ["[\"one@ours.test\"]", "[\"two@ours.test\"]", "[\"one@ours.test\"]"]
        );
        assert_eq!(told("protocol"), ["\"BATCH\""; 3]);
        let ids: Vec<String> =
            (0..).zip(told("id")).map(|(n, id)| format!("{n} {}", id.trim_matches('"'))).collect();
        assert_eq!(replies, ids);
    });
}

#[test]
fn one_that_is_refused_or_dropped_takes_nothing_from_others() {
    play(|| async {
        let node = node("").await;
        let mut client = open(&node, STRANGER);
        let lines = "a@x.test one@ours.test drop\na@x.test one@far.test second\na@x.test two@ours.test third\n\n";
        client.write_all(lines.as_bytes()).await.expect("it reads");
        assert_eq!(until(&mut client, "\n").await, "1 wait\n");
        let replies = rest(client).await;
        let id = node.last_id();
        assert_eq!(replies, ["0 dropped", "1 Relay access denied", &format!("2 {id}")]);
        node.wait_for("delivered", 1).await;
        wait_until("nothing is held", || node.shared.queue_slots.used() == 0).await;
        assert_eq!(node.shared.body_memory.used(), 0);
    });
}

#[test]
fn all_of_a_connection_are_charged_to_its_client() {
    play(|| async {
        let node = node("messages_per_minute = 2").await;
        let mut client = open(&node, STRANGER);
        let lines = "a@x.test one@ours.test first\n".repeat(4) + "\n";
        client.write_all(lines.as_bytes()).await.expect("it reads");
        assert_eq!(until(&mut client, "\n").await, "2 wait\n");
        let replies = rest(client).await;
        assert_eq!(node.count("received"), 2, "{replies:?}");
        assert!(
            replies[2..].iter().all(|reply| reply.contains("Message rate limit exceeded")),
            "{replies:?}"
        );
    });
}
