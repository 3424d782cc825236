//! Messages go through the relay, every one exactly once and unaltered.

use crate::programs::Scripts;
use crate::support::client::{Client, queued_id};
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::tool::{Tool, free_port, ledger, source, succeed};
use crate::support::{Files, config, config_with, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

/// Everything to one host.
fn everything_to(address: &str) -> String {
    config(&format!("[[route]]\nsmtp = {{ hosts = [\"{address}\"] }}"))
}

#[test]
fn from_debians_source_to_debians_sink() {
    let files = Files::new();
    let sink = Tool::smtp_sink(&[]);
    let server = Server::start(&files, &everything_to(&sink.address));
    let to = server.to();
    let arguments = ["-s", "20", "-m", "2000", "-l", "400", "-f", "a@source.test"];
    succeed("smtp-source", &[&arguments[..], &["-t", "b@sink.test", &to]].concat());
    wait_until("2000 messages at smtp-sink", || sink.counted() >= 2_000);
    wait_until("an empty queue", || server.queue().is_empty());
    assert_eq!(sink.counted(), 2_000);
    server.stop();
}

/// From our source to our sink, and what the ledger says of it.
fn account_for(count: u64, source_words: &[&str], sink_words: &[&str]) {
    let files = Files::new();
    let expected = count.to_string();
    let sink_words = [&["--expect", &expected, "--linger", "1"], sink_words].concat();
    let sink = Tool::sink(&files, &sink_words);
    let server = Server::start(&files, &everything_to(&sink.address));
    let to = server.to();
    let sent = files.path("source.ledger");
    let sent_name = sent.display().to_string();
    let words = ["--to", &to, "--messages", &expected, "--ledger", &sent_name, "--sessions", "20"];
    source(&[&words[..], source_words].concat());
    let totals = sink.finish();
    assert_eq!(totals["messages"], count, "{totals}");
    let audit = ledger(&sent, &files.path("sink.ledger"));
    assert_eq!(audit["acked_messages"], count, "{audit}");
    assert_eq!(audit["arrivals"], audit["acked_recipients"], "{audit}");
    wait_until("an empty queue", || server.queue().is_empty());
    server.stop();
}

#[test]
fn small_messages_exactly_once() {
    account_for(2_000, &["--body-bytes", "400"], &[]);
}

#[test]
fn small_messages_exactly_once_to_a_sink_without_chunking() {
    account_for(2_000, &["--body-bytes", "400"], &["--no-chunking"]);
}

#[test]
fn large_messages_exactly_once() {
    account_for(300, &["--body-bytes", "65536", "--per-session", "5"], &[]);
}

#[test]
fn large_messages_exactly_once_to_a_sink_without_chunking() {
    account_for(300, &["--body-bytes", "65536"], &["--no-chunking", "--no-pipelining"]);
}

/// Takes the lines of three transactions before it answers the first of them, and says which
/// commands came.
fn answer_three_at_once(listener: &TcpListener) -> Vec<String> {
    let (stream, _) = listener.accept().expect("a connection");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    let say = |text: &str| (&stream).write_all(text.as_bytes()).expect("a reply");
    let mut next_line = || {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a line");
        line
    };
    say("220 peer.test\r\n");
    assert!(next_line().starts_with("EHLO "));
    say("250-peer.test\r\n250-PIPELINING\r\n250 CHUNKING\r\n");
    let mut commands = Vec::new();
    while commands.iter().filter(|c: &&String| c.starts_with("BDAT ")).count() < 3 {
        // Lines of the content begin with none of these.
        let line = next_line();
        let known = ["MAIL FROM:", "RCPT TO:", "BDAT ", "RSET"];
        if known.iter().any(|verb| line.starts_with(verb)) {
            commands.push(line.trim_end().to_owned());
        }
    }
    commands.iter().for_each(|_| say("250 2.0.0 Fine\r\n"));
    // Behind what is left of the last content.
    loop {
        let line = next_line();
        assert!(!line.is_empty(), "closed without QUIT");
        if line == "QUIT\r\n" {
            break;
        }
    }
    say("221 2.0.0 Bye\r\n");
    commands
}

#[test]
fn several_transactions_are_in_flight_on_one_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let limits = "unasked_content = true, max_connections = 1, transactions_in_flight = 3, idle_timeout = \"100ms\"";
    let route = format!("[[route]]\nsmtp = {{ hosts = [\"{address}\"], {limits} }}");
    let files = Files::new();
    let server = Server::start(&files, &config(&route));
    let mut client = Client::connect(server.address());
    for number in 0..3 {
        client.mail("a@source.test", &[&format!("u{number}@b.test")], "Subject: x\r\n\r\nx\r\n");
    }
    // All three are queued before the peer greets.
    let commands = answer_three_at_once(&listener);
    wait_until("an empty queue", || server.queue().is_empty());
    let mut to: Vec<_> = commands.iter().filter(|c| c.starts_with("RCPT")).collect();
    to.sort();
    assert_eq!(to, ["RCPT TO:<u0@b.test>", "RCPT TO:<u1@b.test>", "RCPT TO:<u2@b.test>"]);
    // RSET between them, so that none inherits what is left of a refused one.
    let at: Vec<_> = commands.iter().map(|c| c.split(' ').next().unwrap_or_default()).collect();
    let one = ["MAIL", "RCPT", "BDAT", "RSET"];
    assert_eq!(at, [&one[..], &one[..], &one[..3]].concat());
    assert_eq!(files.wait_events("relayed", 3).len(), 3);
    server.stop();
}

#[test]
fn a_peer_that_refuses_a_content_and_reads_no_more_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let files = Files::new();
    let route = format!("[[route]]\nsmtp = {{ hosts = [\"{address}\"], max_connections = 1 }}");
    let server = Server::start(&files, &config(&route));
    let mut client = Client::connect(server.address());
    // More than the buffers of both sides hold.
    let line = format!("{}\r\n", "x".repeat(76));
    client.mail("a@source.test", &["b@b.test"], &line.repeat(400_000));
    let (stream, _) = listener.accept().expect("a connection");
    let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
    for reply in ["220 peer.test\r\n", "250 peer.test\r\n", "250 a\r\n", "250 b\r\n", "354 c\r\n"] {
        (&stream).write_all(reply.as_bytes()).expect("a reply");
        let mut command = String::new();
        reader.read_line(&mut command).expect("a command or the content");
    }
    (&stream).write_all(b"452 4.3.1 Disk full\r\n").expect("a reply");
    let [deferred] = &files.wait_events("deferred", 1)[..] else { unreachable!() };
    assert_eq!(deferred["reply"], "452 4.3.1 Disk full", "{deferred}");
    // Nothing more is coming: the connection is closed though its content was never read.
    let mut rest = Vec::new();
    let _ = reader.read_to_end(&mut rest);
    server.stop();
}

#[test]
fn refusals_amid_transactions_in_flight_touch_no_other() {
    let files = Files::new();
    let refusals = ["--refuse", "100:451:mail", "--refuse", "100:451:rcpt", "--refuse", "100:452"];
    let expect = ["--expect", "500", "--linger", "1", "--latency", "2"];
    let sink = Tool::sink(&files, &[&expect[..], &refusals].concat());
    let address = &sink.address;
    let server = Server::start(
        &files,
        &config(&format!(
            "[[route]]\nsmtp = {{ hosts = [\"{address}\"], max_connections = 2, \
             unasked_content = true, transactions_in_flight = 10 }}\nretry = {{ first = \"100ms\", longest = \"1s\" }}"
        )),
    );
    let sent = files.path("source.ledger").display().to_string();
    let words = ["--messages", "500", "--sessions", "10", "--per-session", "50"];
    source(&[&["--to", &server.to(), "--ledger", &sent][..], &words].concat());
    assert_eq!(sink.finish()["messages"], 500);
    let audit = ledger(&files.path("source.ledger"), &files.path("sink.ledger"));
    assert_eq!(audit["acked_messages"], 500, "{audit}");
    assert_eq!(audit["arrivals"], audit["acked_recipients"], "{audit}");
    wait_until("an empty queue", || server.queue().is_empty());
    server.stop();
}

#[test]
fn dots_and_eight_bits_arrive_unaltered() {
    for kind in ["dots", "eightbit"] {
        for way_in in [&["--chunking", "--pipelining"][..], &["--pipelining"]] {
            for way_out in [&["--no-chunking"][..], &[]] {
                let words = ["--body-kind", kind, "--body-bytes", "30000", "--per-session", "10"];
                account_for(60, &[&words[..], way_in].concat(), way_out);
            }
        }
    }
}

#[test]
fn several_recipients_and_domains() {
    let words = ["--recipients-per-message", "5", "--domains", "a.test,b.test,c.test"];
    account_for(300, &words, &[]);
}

#[test]
fn every_byte_stands_behind_our_received_field() {
    let files = Files::new();
    let peers = [
        ("data.test", Peer::start(|_| None)),
        ("plain.test", Peer::start_at("127.0.0.1:0", "250 HELP", |_| None)),
    ];
    let route = |(domain, peer): &(&str, Peer)| {
        let address = &peer.address;
        format!(
            "[[route]]\ndomains = [\"{domain}\"]\n\
             smtp = {{ hosts = [\"{address}\"], eight_bit = \"as_is\" }}\n"
        )
    };
    let routes: String = peers.iter().map(route).collect();
    let listener = "relay_from = [\"127.0.0.0/8\"]\nnul = \"keep\"";
    let server = Server::start(&files, &config_with("", listener, &routes));
    let contents: [&[u8]; 5] = [
        b"",
        b"\r\n",
        b".\r\n..\r\n.a\r\n\r\n.\r\n",
        b"Subject: \xC3\xA9\xFF\x00\x01\r\n\r\n\t\xE2\x82\xAC\r\n. \r\n",
        b"Subject: x\r\n\r\nno line end behind this.",
    ];
    for (domain, peer) in &peers {
        let mut client = Client::connect(server.address());
        for (content, count) in contents.into_iter().zip(1..) {
            client.say("MAIL FROM:<a@source.test> BODY=8BITMIME", "250");
            client.say(&format!("RCPT TO:<b@{domain}>"), "250");
            client.send(format!("BDAT {} LAST\r\n", content.len()));
            client.send(content);
            queued_id(&client.expect("250"));
            let taken = &peer.wait_taken(count)[count - 1];
            assert_eq!(taken.rcpt, [format!("RCPT TO:<b@{domain}>")]);
            assert!(taken.mail.starts_with("MAIL FROM:<a@source.test>"), "{}", taken.mail);
            // DATA ends with a line end, whatever the content ended with.
            let missing = !content.is_empty() && !content.ends_with(b"\r\n");
            let whole = [content, if missing { b"\r\n" } else { &b""[..] }].concat();
            let at = taken.content.len().checked_sub(whole.len()).expect("all of it");
            assert_eq!(&taken.content[at..], whole, "{domain}");
            let trace = std::str::from_utf8(&taken.content[..at]).expect("text");
            assert!(trace.starts_with("Received: from client.test "), "{trace}");
            assert!(trace.ends_with("\r\n") && trace.contains("by relay.test"), "{trace}");
        }
    }
    server.stop();
}

#[test]
fn a_large_message_by_way_of_a_file_of_its_own() {
    let files = Files::new();
    let sink = Tool::sink(&files, &["--expect", "2", "--linger", "1"]);
    let text = config_with(
        "",
        "relay_from = [\"127.0.0.0/8\"]\nmax_message_bytes = \"32MiB\"",
        &format!("[[route]]\nsmtp = {{ hosts = [\"{}\"] }}", sink.address),
    );
    let server = Server::start(&files, &text);
    let sent = files.path("source.ledger");
    let (to, sent_name) = (server.to(), sent.display().to_string());
    for words in [&["--chunking"][..], &["--body-kind", "dots"]] {
        let all = ["--to", &to, "--messages", "1", "--body-bytes", "20000000"];
        let file = format!("{sent_name}.{}", words.len());
        source(&[&all[..], &["--ledger", &file], words].concat());
    }
    assert_eq!(sink.finish()["messages"], 2);
    let both: String = [1, 2]
        .map(|n| std::fs::read_to_string(format!("{sent_name}.{n}")).expect("a ledger"))
        .concat();
    std::fs::write(&sent, both).expect("a ledger");
    assert_eq!(ledger(&sent, &files.path("sink.ledger"))["acked_messages"], 2);
    let blobs = || {
        let entries = std::fs::read_dir(files.path("spool")).expect("a spool");
        let names = entries.map(|e| e.expect("an entry"));
        let large = names.filter(|e| e.metadata().is_ok_and(|m| m.len() > 15_000_000));
        large.map(|e| e.path()).collect::<Vec<_>>()
    };
    wait_until("no blob is left", || blobs().is_empty());
    server.stop();
}

/// A next hop with CHUNKING that tells of each BDAT whether all its octets came.
fn chunking_peer() -> (String, mpsc::Receiver<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
            let say = |reply: &str| (&stream).write_all(reply.as_bytes()).is_ok();
            let mut is_open = say("220 peer.test ESMTP\r\n");
            let mut line = String::new();
            while is_open && reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                if let Some(count) = line.strip_prefix("BDAT ") {
                    let count = count.split_whitespace().next().expect("a length");
                    let mut octets = vec![0; count.parse().expect("a number")];
                    is_open = reader.read_exact(&mut octets).is_ok();
                    let _ = tell.send(is_open);
                }
                let hello = line.starts_with("EHLO");
                let reply = if hello { "250-peer.test\r\n250 CHUNKING\r\n" } else { "250 Ok\r\n" };
                is_open = is_open && say(reply);
                line.clear();
            }
        }
    });
    (address, told)
}

#[test]
fn a_body_that_changed_on_the_disk_goes_nowhere() {
    let files = Files::new();
    let (smtp, lmtp) = (Peer::start(|_| None), Peer::start(|_| None));
    let (bdat_address, bdat) = chunking_peer();
    let (smtp_address, lmtp_address) = (&smtp.address, &lmtp.address);
    let with = |routes: &str| {
        let retry = "[retry]\nfirst = \"1h\"\nlongest = \"1h\"\n";
        let spool = "blob_bytes = \"64KiB\"";
        config_with(spool, "relay_from = [\"127.0.0.0/8\"]", &format!("{routes}\n{retry}"))
    };
    let dead = format!("127.0.0.1:{}", free_port());
    let server =
        Server::start(&files, &with(&format!("[[route]]\nsmtp = {{ hosts = [\"{dead}\"] }}")));
    let content = format!("Subject: big\r\n\r\n{}", "It stays as it is.\r\n".repeat(42_000));
    let to = ["a@smtp.test", "b@lmtp.test", "c@bdat.test", "d@box.test"];
    Client::connect(server.address()).mail("me@source.test", &to, &content);
    let waits_with = |server: &Server, words: &str| {
        let queue = server.queue();
        let recipients =
            queue.iter().flat_map(|m| m["recipients"].as_array().into_iter().flatten());
        let failures = recipients.filter_map(|recipient| recipient["last_failure"].as_str());
        failures.filter(|text| text.contains(words)).count() == 4
    };
    wait_until("four refused connections", || waits_with(&server, "refused"));
    server.stop();
    // In its last piece: all before is sent when it is found.
    let blob = files.path("spool/0000000000000001.blob");
    let flip = || {
        let mut bytes = std::fs::read(&blob).expect("a blob");
        let at = bytes.len() - 1_000;
        bytes[at] ^= 1;
        std::fs::write(&blob, bytes).expect("a blob");
    };
    flip();
    let routes = format!(
        "[[route]]\ndomains = [\"smtp.test\"]\nsmtp = {{ hosts = [\"{smtp_address}\"] }}\n\
         [[route]]\ndomains = [\"lmtp.test\"]\nlmtp = {{ hosts = [\"{lmtp_address}\"] }}\n\
         [[route]]\ndomains = [\"bdat.test\"]\nsmtp = {{ hosts = [\"{bdat_address}\"] }}\n\
         [[route]]\ndomains = [\"box.test\"]\nmaildir = {{ path = \"mail\" }}\n"
    );
    let server = Server::start(&files, &with(&routes));
    server.command(&["queue", "retry", "--all"]);
    let told = || {
        let of_blob = "0000000000000001.blob at 786432: bad length or checksum";
        server.console().iter().filter(|line| line.contains(of_blob)).count()
    };
    // More if the start has begun attempts of its own when they are told to retry.
    wait_until("four errors that name the file", || told() >= 4);
    assert_eq!(bdat.recv(), Ok(false), "the chunk was not sent to its end");
    wait_until("four that wait", || waits_with(&server, "its body cannot be read"));
    assert_eq!((smtp.taken().len(), lmtp.taken().len()), (0, 0));
    assert_eq!(files.maildir("mail").len(), 0);
    // An attempt may be under way.
    let left = || std::fs::read_dir(files.path("mail/tmp")).map_or(0, Iterator::count);
    wait_until("no part of it stays in tmp", || left() == 0);
    // What is right again goes out as it came.
    flip();
    server.command(&["queue", "retry", "--all"]);
    while !bdat.recv().expect("another attempt") {}
    let [one] = &smtp.wait_taken(1)[..] else { unreachable!() };
    let [two] = &lmtp.wait_taken(1)[..] else { unreachable!() };
    for kept in [&one.content, &two.content] {
        assert!(kept.ends_with(content.as_bytes()));
    }
    // Files have LF at the ends of lines.
    let kept = &files.wait_maildir("mail", 1)[0];
    assert!(kept.ends_with(content.replace("\r\n", "\n").as_bytes()));
    wait_until("an empty queue", || server.queue().is_empty());
    server.stop();
}

/// A route over each channel; `smtp` twice, for different domains.
fn every_channel(smtp: &str, lmtp: &str) -> String {
    config(&format!(
        r#"
[[route]]
domains = ["a.test"]
smtp = {{ hosts = ["{smtp}"] }}
[[route]]
domains = ["b.test", "*.b.test"]
smtp = {{ hosts = ["{smtp}"] }}
[[route]]
domains = ["list.test"]
lmtp = {{ hosts = ["{lmtp}"] }}
[[route]]
domains = ["gone.test"]
discard = {{}}
[[route]]
domains = ["box.test", "source.test"]
maildir = {{ path = "mail/{{domain}}/{{local}}" }}
"#
    ))
}

#[test]
fn one_message_over_every_channel() {
    let files = Files::new();
    let smtp = Peer::start(|_| None);
    // LMTP: a reply for each recipient.
    let lmtp = Peer::start(|line| match line {
        "." => Some("250 2.0.0 <one> kept\r\n550 5.1.1 <two> who?".to_owned()),
        _ => None,
    });
    let scripts = Scripts::new();
    let text = every_channel(&smtp.address, &lmtp.address)
        + &scripts.route("post", "cat > taken", &["{recipient}"], "");
    let server = Server::start(&files, &text);
    let to = [
        "u@a.test",
        "v@A.test",
        "w@b.test",
        "x@deep.b.test",
        "one@list.test",
        "two@list.test",
        "y@gone.test",
        "Z@box.test",
        "q@post.test",
    ];
    let mut client = Client::connect(server.address());
    let id = client.mail("me@source.test", &to, "Subject: all\r\n\r\nBody.\r\n");
    // Two routes, two ready queues, though the hosts are the same: a transaction of each.
    let taken = smtp.wait_taken(2);
    let mut rcpt: Vec<_> = taken.iter().flat_map(|message| message.rcpt.clone()).collect();
    rcpt.sort();
    let expected = ["u@a.test", "v@A.test", "w@b.test", "x@deep.b.test"];
    assert_eq!(rcpt, expected.map(|to| format!("RCPT TO:<{to}>")));
    let [kept] = &files.wait_maildir("mail/box.test/z", 1)[..] else { unreachable!() };
    let kept = String::from_utf8(kept.clone()).expect("text");
    assert!(kept.contains(&id), "the id stands in Received: {kept}");
    assert!(kept.contains("Return-Path: <me@source.test>\n"), "{kept}");
    assert!(kept.ends_with("Subject: all\n\nBody.\n"), "{kept}");
    wait_until("the program has it", || scripts.read("taken").ends_with("Body.\n"));
    let taken = scripts.read("taken");
    assert!(
        taken.starts_with("Return-Path: <me@source.test>\nDelivered-To: q@post.test\n"),
        "{taken}"
    );
    assert!(taken.contains(&id) && taken.ends_with("Subject: all\n\nBody.\n"), "{taken}");
    // The one that LMTP refused is reported, only that one.
    let [report] = &files.wait_maildir("mail/source.test/me", 1)[..] else { unreachable!() };
    let report = String::from_utf8(report.clone()).expect("text");
    assert!(report.contains("rfc822;two@list.test"), "{report}");
    assert!(!report.contains("rfc822;one@list.test"), "{report}");
    wait_until("an empty queue", || server.queue().is_empty());
    let of_message = |kind: &str| {
        let mut who: Vec<_> = files
            .events_of(kind)
            .iter()
            .filter(|event| event["id"] == id.as_str())
            .map(|event| event["recipient"].as_str().unwrap_or("").to_owned())
            .collect();
        who.sort();
        who
    };
    wait_until("the events", || of_message("delivered").len() == 4);
    assert_eq!(of_message("relayed"), expected);
    assert_eq!(
        of_message("delivered"),
        ["Z@box.test", "one@list.test", "q@post.test", "y@gone.test"]
    );
    assert_eq!(of_message("failed"), ["two@list.test"]);
    server.stop();
}

#[test]
fn the_postmasters_mail_stays_here() {
    let files = Files::new();
    let smarthost = Peer::start(|_| None);
    let server = Server::start(&files, &everything_to(&smarthost.address));
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["postmaster"], "Subject: one\r\n\r\n");
    client.mail("a@source.test", &["Postmaster@relay.test"], "Subject: two\r\n\r\n");
    client.mail("a@source.test", &["other@relay.test"], "Subject: three\r\n\r\n");
    assert_eq!(smarthost.wait_taken(1)[0].rcpt, ["RCPT TO:<other@relay.test>"]);
    files.wait_maildir("spool/postmaster", 2);
    assert_eq!(smarthost.taken().len(), 1);
    server.stop();
}

#[test]
fn the_postmasters_mail_stays_here_after_a_restart_too() {
    let files = Files::new();
    let smarthost = Peer::start(|_| None);
    let server = Server::start(&files, &everything_to(&smarthost.address));
    // Nothing can be created in it.
    files.write("spool/postmaster", "not a directory");
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["other@relay.test", "postmaster"], "Subject: one\r\n\r\n");
    smarthost.wait_taken(1);
    files.wait_events("deferred", 1);
    server.stop();
    std::fs::remove_file(files.path("spool/postmaster")).expect("it is a file");
    let server = Server::start_again(&files);
    server.command(&["queue", "retry", "--all"]);
    files.wait_maildir("spool/postmaster", 1);
    assert_eq!(smarthost.taken().len(), 1);
    server.stop();
}
