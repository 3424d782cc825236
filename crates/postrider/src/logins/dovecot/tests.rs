use super::*;
use std::future::Future;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::{LocalSet, spawn_local};

const HELLO: &str = "VERSION\t1\t2\nMECH\tPLAIN\tplaintext\nMECH\tSCRAM-SHA-256\nSPID\t1\nDONE\n";

/// A server that does what a test says.
struct Server {
    listener: UnixListener,
    dir: tempfile::TempDir,
}

impl Server {
    fn new() -> Server {
        let dir = tempfile::tempdir().unwrap();
        Server { listener: UnixListener::bind(dir.path().join("auth")).unwrap(), dir }
    }

    /// A way to it.
    fn dovecot(&self) -> Dovecot {
        let at = self.dir.path().join("auth").display().to_string();
        let (dovecot, seed) =
            Dovecot::new(&HostPort::parse(&at, 0).unwrap(), &LoginLines::default());
        spawn_local(seed());
        dovecot
    }

    async fn accept(&self) -> Peer {
        let (reader, writer) = self.listener.accept().await.unwrap().0.into_split();
        Peer { reader: BufReader::new(reader), writer }
    }

    /// A connection whose handshake is done.
    async fn greet(&self) -> Peer {
        let mut peer = self.accept().await;
        peer.say(HELLO).await;
        assert_eq!(peer.line().await, "VERSION\t1\t1");
        assert!(peer.line().await.starts_with("CPID\t"));
        peer
    }
}

struct Peer {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Peer {
    async fn say(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    /// The next line; nothing at the end.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// The number of the login that begins.
    async fn begun(&mut self) -> String {
        let line = self.line().await;
        let mut parts = line.split('\t');
        assert_eq!(parts.next(), Some("AUTH"), "{line}");
        parts.next().unwrap().to_owned()
    }
}

fn play(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

fn terms() -> LoginTerms {
    let patience = Duration::from_secs(2);
    LoginTerms {
        remote: "192.0.2.7:50000".parse().unwrap(),
        local: None,
        patience,
        is_known: false,
    }
}

fn claim(user: &str) -> Claim {
    Claim { user: user.to_owned(), password: auth::password::Password::new(b"x").unwrap() }
}

/// A login that runs beside the test.
fn checked(
    dovecot: &Dovecot,
    user: &str,
) -> tokio::task::JoinHandle<Result<Option<String>, LookupError>> {
    let checked = dovecot.check(&claim(user), terms());
    spawn_local(async move { checked.await.map(|checked| checked.user) })
}

#[test]
fn logins_share_a_connection_and_answers_find_theirs() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        let mut peer = server.greet().await;
        let offered = dovecot.offered().get().await.unwrap();
        assert_eq!(*offered, [Box::from("PLAIN"), Box::from("SCRAM-SHA-256")]);
        let (jo, al, ed) =
            (checked(&dovecot, "jo"), checked(&dovecot, "al"), checked(&dovecot, "ed"));
        let ids = [peer.begun().await, peer.begun().await, peer.begun().await];
        // In pieces, and in another order.
        peer.say(&format!("OK\t{}\tus", ids[2])).await;
        tokio::task::yield_now().await;
        peer.say(&format!("er=ed@x\nFAIL\t{}\tuser=al\n", ids[1])).await;
        assert_eq!(ed.await.unwrap(), Ok(Some("ed@x".into())));
        assert_eq!(al.await.unwrap(), Ok(None));
        peer.say(&format!("FAIL\t{}\tuser=jo\ttemp\n", ids[0])).await;
        assert_eq!(jo.await.unwrap().unwrap_err().kind, LookupErrorKind::Wrong);
    });
}

#[test]
fn a_conversation_goes_on_until_it_is_given_up() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        let mut peer = server.greet().await;
        let begun = spawn_local(dovecot.begin("SCRAM-SHA-256", Some(b"n,,"), terms()));
        let line = peer.line().await;
        let id = line.split('\t').nth(1).unwrap().to_owned();
        assert!(line.starts_with("AUTH\t") && line.ends_with("\tresp=biws"), "{line}");
        peer.say(&format!("CONT\t{id}\tcj14\n")).await;
        let LoginReply::Challenge(text, talk) = begun.await.unwrap().unwrap() else { panic!() };
        assert_eq!(text, b"r=x");
        let went_on = spawn_local(talk.go_on(b"c=biws".to_vec()));
        assert_eq!(peer.line().await, format!("CONT\t{id}\tYz1iaXdz"));
        peer.say(&format!("CONT\t{id}\tdj15\n")).await;
        let LoginReply::Challenge(_, talk) = went_on.await.unwrap().unwrap() else { panic!() };
        drop(talk);
        assert_eq!(peer.line().await, format!("CANCEL\t{id}"));
        // What comes for it all the same is nobody's.
        peer.say(&format!("FAIL\t{id}\n")).await;
        let jo = checked(&dovecot, "jo");
        let next = peer.begun().await;
        peer.say(&format!("OK\t{next}\tuser=jo\n")).await;
        assert_eq!(jo.await.unwrap(), Ok(Some("jo".into())));
        let long = vec![b'x'; 9_000];
        let begun = dovecot.begin("SCRAM-SHA-256", Some(&long), terms()).await;
        assert!(matches!(begun, Ok(LoginReply::TooLong)));
    });
}

#[test]
fn what_is_no_answer_ends_the_connection_and_the_next_login_has_another() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        let mut last = server.greet().await;
        for said in ["OK\t99\tuser=jo\n", "OK\tx\n", "\u{0}\u{fffd}\nOK\n", "CONT\t99\t\n"] {
            let jo = checked(&dovecot, "jo");
            last.begun().await;
            last.say(said).await;
            assert_eq!(jo.await.unwrap().unwrap_err().kind, LookupErrorKind::Wrong, "{said:?}");
            assert_eq!(last.line().await, "");
            let again = checked(&dovecot, "jo");
            let mut peer = server.greet().await;
            let id = peer.begun().await;
            peer.say(&format!("OK\t{id}\tuser=jo\n")).await;
            assert_eq!(again.await.unwrap(), Ok(Some("jo".into())));
            last = peer;
        }
    });
}

#[test]
fn a_connection_that_ends_is_opened_again() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        let mut peer = server.greet().await;
        let begun = spawn_local(dovecot.begin("SCRAM-SHA-256", None, terms()));
        let id = peer.begun().await;
        let jo = checked(&dovecot, "jo");
        peer.begun().await;
        peer.say(&format!("CONT\t{id}\t\n")).await;
        let LoginReply::Challenge(_, talk) = begun.await.unwrap().unwrap() else { panic!() };
        drop(peer);
        assert_eq!(jo.await.unwrap().unwrap_err().kind, LookupErrorKind::Unreachable);
        // Another connection knows nothing of what was begun on the last one.
        let al = checked(&dovecot, "al");
        let mut peer = server.greet().await;
        let id = peer.begun().await;
        let lost = talk.go_on(Vec::new()).await;
        assert!(lost.is_err_and(|trouble| trouble.text.contains("lost during the exchange")));
        peer.say(&format!("OK\t{id}\tuser=al\n")).await;
        assert_eq!(al.await.unwrap(), Ok(Some("al".into())));
        // Nobody listens any more.
        let path = server.dir.path().join("auth");
        drop((peer, server.listener));
        let trouble = loop {
            match dovecot.check(&claim("jo"), terms()).await {
                Err(trouble) if trouble.text.contains("refused") => break trouble,
                other => assert!(other.is_err(), "{other:?}"),
            }
        };
        assert_eq!(trouble.kind, LookupErrorKind::Unreachable);
        assert!(dovecot.offered().get().await.is_some(), "as it was said last");
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_greeting_that_is_none_is_trouble() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        for greeting in
            ["220 mail.test\r\n", "VERSION\t2\t0\n", "VERSION\t1\t2\nOK\t1\tuser=a\n", ""]
        {
            let jo = checked(&dovecot, "jo");
            let mut peer = server.accept().await;
            peer.say(greeting).await;
            // All that was said is read, or the end of it would be another kind of end.
            let _ = peer.reader.read(&mut [0; 64]).await;
            drop(peer);
            assert_eq!(
                jo.await.unwrap().unwrap_err().kind,
                LookupErrorKind::Unreachable,
                "{greeting:?}"
            );
            assert!(dovecot.offered().get().await.is_none());
        }
    });
}

#[test]
fn who_never_answers_is_left() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        let mut peer = server.greet().await;
        let jo = checked(&dovecot, "jo");
        peer.begun().await;
        let trouble = jo.await.unwrap().unwrap_err();
        assert_eq!(
            (trouble.kind, &*trouble.text),
            (LookupErrorKind::Timeout, "no answer within 2s")
        );
        assert_eq!(peer.line().await, "", "the connection was abandoned");
        // A handshake that has no end.
        let jo = checked(&dovecot, "jo");
        let silent = server.accept().await;
        let trouble = jo.await.unwrap().unwrap_err();
        assert_eq!(trouble.kind, LookupErrorKind::Timeout, "{trouble}");
        drop(silent);
    });
}

#[test]
fn logins_of_one_network_take_its_share_and_the_rest_waits_for_it() {
    play(async {
        let server = Server::new();
        let dovecot = server.dovecot();
        let mut peer = server.greet().await;
        let count = LOGINS_MAX / 4 + 10;
        let logins: Vec<_> = (0..count).map(|_| checked(&dovecot, "jo")).collect();
        for _ in 0..count {
            let id = peer.begun().await;
            peer.say(&format!("FAIL\t{id}\n")).await;
        }
        for login in logins {
            assert_eq!(login.await.unwrap(), Ok(None));
        }
    });
}
