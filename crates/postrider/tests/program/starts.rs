//! What a start finds in its spools, and says of it.

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, POSTRIDER, Server};
use crate::support::tool::free_port;
use crate::support::{Files, config, spool_files, wait_until};
use mail::MessageId;
use mta::custody::REPORT_IDS;
use spool::memdisk::MemDisk;
use spool::{Spool, SpoolConfig};

fn discarding() -> String {
    config("[admin]\naddress = \"127.0.0.1:0\"\n[[route]]\ndiscard = {}\n")
}

fn metrics(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let (_, address) = line.rsplit_once(' ').expect("an address");
    get(address.trim_start_matches("http://"), "/metrics")
}

#[test]
fn bodies_of_no_message_are_counted_those_removed_and_those_kept() {
    let files = Files::new();
    Server::start(&files, &discarding()).stop();
    let blob = files.path("spool/0000000000000001.blob");
    std::fs::write(&blob, "nobody's").expect("room");
    let server = Server::start_again(&files);
    server.wait_console("removed", |line| {
        line.contains("info  spool: orphan blobs path=spool removed=1 kept=0")
    });
    let told = metrics(&server);
    assert_eq!(metric(&told, "postrider_spool_orphan_blobs_removed_total"), 1, "{told}");
    assert_eq!(metric(&told, "postrider_spool_orphan_blobs_kept"), 0, "{told}");
    assert!(!blob.exists());
    server.stop();
    // It may belong to what was lost with this segment.
    files.write("spool/00001000-0000000000000001.damaged", "");
    std::fs::write(&blob, "somebody's").expect("room");
    let server = Server::start_again(&files);
    server.wait_console("kept", |line| {
        line.contains("warn  spool: orphan blobs path=spool removed=0 kept=1")
    });
    let told = metrics(&server);
    assert_eq!(metric(&told, "postrider_spool_orphan_blobs_removed_total"), 0, "{told}");
    assert_eq!(metric(&told, "postrider_spool_orphan_blobs_kept"), 1, "{told}");
    assert!(blob.exists());
    server.stop();
}

/// Mail is not accepted for want of room of some kind.
fn is_put_off(client: &mut Client) {
    client.say("MAIL FROM:<a@source.test>", "250");
    client.say("RCPT TO:<b@far.test>", "250");
    client.say("DATA", "354");
    client.send("Subject: one too many\r\n\r\n.\r\n");
    client.expect("452 4.3.1");
}

#[test]
fn a_disk_with_too_little_room_is_told_of_at_the_start() {
    const MOST: u64 = 1 << 40;
    let files = Files::new();
    let disk = rustix::fs::statvfs(files.dir()).expect("a file system");
    if disk.f_bavail.saturating_mul(disk.f_frsize) > MOST {
        skips::machine(skips::Machine::LargeDisk, "min_free_bytes can't ask for so much");
        return;
    }
    let route = "[[route]]\ndiscard = {}\n";
    let text = config(route).replace("min_free_bytes = \"16MiB\"", "min_free_bytes = \"1TiB\"");
    let server = Server::start(&files, &text);
    server.wait_console("too little room", |line| {
        line.contains("warn  spool: disk has ")
            && line.contains("below min_free_bytes (")
            && line.ends_with("no mail will be accepted path=spool")
    });
    let mut client = Client::connect(server.address());
    is_put_off(&mut client);
    drop(client);
    let status = server.command(&["status"]).out;
    assert!(status.contains("the spool's disk is nearly full"), "{status}");
    server.stop();
}

#[test]
fn message_ids_come_to_an_end_and_never_begin_again() {
    let files = Files::new();
    let disk = MemDisk::new(1, 1 << 30);
    let config = SpoolConfig { segment_bytes: 8 << 20, ..SpoolConfig::default() };
    let (mut spool, _) = Spool::open(&disk, config, &mut |_| ()).expect("opens");
    let last = MessageId::SEQUENCE_MAX - REPORT_IDS;
    let before_last = spool_files::accept(MessageId::new(0, 0, last - 1), spool_files::wall_now());
    spool_files::submit(&mut spool, &disk, std::iter::once(vec![before_last]));
    spool_files::write(&disk, &files.path("spool"));
    let server = Server::start(&files, &discarding());
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["b@far.test"], "Subject: the last\r\n\r\n");
    is_put_off(&mut client);
    let no_ids = "no message ids left in this log";
    server.wait_console("the end", |line| line.contains(no_ids) && line.contains("warn  spool:"));
    assert_eq!(metric(&metrics(&server), "postrider_spool_message_ids_left"), 0);
    assert!(server.command(&["status"]).out.contains(no_ids), "{:?}", server.command(&["status"]));
    drop(client);
    server.stop();
    let server = Server::start_again(&files);
    is_put_off(&mut Client::connect(server.address()));
    wait_until("the queue to be empty", || server.queue().is_empty());
    server.stop();
}

/// With these spool directories, and no way out for mail.
fn with_paths(paths: &str) -> String {
    let dead = free_port();
    let rest = format!("[[route]]\nsmtp = {{ hosts = [\"127.0.0.1:{dead}\"] }}\n");
    config(&rest).replace("path = \"spool\"", &format!("paths = [{paths}]"))
}

/// What a start says that must fail.
fn refusal(files: &Files, config: &str) -> String {
    files.write(CONFIG, config);
    let mut command = std::process::Command::new("timeout");
    command.args(["30", POSTRIDER, "serve", "--config", CONFIG]).current_dir(files.dir());
    let output = command.output().expect("coreutils");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn warns_of_directories(server: &Server) -> bool {
    server.console().iter().any(|line| line.contains("directory was in use"))
}

#[test]
fn a_directory_that_is_taken_out_of_paths_is_missed_while_it_has_mail() {
    let files = Files::new();
    let server = Server::start(&files, &with_paths("\"spool\", \"second\""));
    let mut client = Client::connect(server.address());
    for _ in 0..4 {
        client.mail("a@source.test", &["b@far.test"], "Subject: queued\r\n\r\n");
    }
    drop(client);
    server.stop();
    let told = refusal(&files, &with_paths("\"spool\""));
    let second = files.path("second");
    let expected = format!("{} was in use, has 2 queued messages", second.display());
    assert!(told.contains(&expected), "{told}");
    // One that is not there may be a disk that is gone: mail goes on, and it is told every time.
    std::fs::rename(&second, files.path("away")).expect("renamed");
    for _ in 0..2 {
        let server = Server::start(&files, &with_paths("\"spool\""));
        assert!(warns_of_directories(&server), "{:#?}", server.console());
        assert_eq!(server.queue().len(), 2);
        server.stop();
    }
    // Where it was moved to it is found again.
    let server = Server::start(&files, &with_paths("\"spool\", \"away\""));
    assert!(!warns_of_directories(&server), "{:#?}", server.console());
    assert_eq!(server.queue().len(), 4);
    server.command(&["queue", "remove", "--all"]);
    wait_until("an empty queue", || server.queue().is_empty());
    server.stop();
    // Nobody misses one that is empty.
    for _ in 0..2 {
        let server = Server::start(&files, &with_paths("\"spool\""));
        assert!(!warns_of_directories(&server), "{:#?}", server.console());
        server.stop();
    }
}
