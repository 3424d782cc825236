//! HAProxy before our listeners: with headers of version 1 and 2, before TLS too, and with its checks.

use super::place::Place;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::Server;
use crate::support::tool::{free_port, succeed};
use crate::support::{Files, wait_until};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The client, who may relay. HAProxy, at 127.0.0.1, may not.
const FRIEND: &str = "127.0.0.17";

fn server(files: &Files) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mx.here.test"]);
    let listener = |name: &str, tls: &str| {
        format!(
            "[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\ntls = \"{tls}\"\n\
             relay_from = [\"{FRIEND}\"]\nproxy_protocol_from = [\"127.0.0.1\"]\n\
             max_sessions_per_address = 1\nexempt_from_limits = [\"127.0.0.1\"]\n"
        )
    };
    Server::start(
        files,
        &format!(
            "hostname = \"mx.here.test\"\nspool = {{ path = \"spool\" }}\n\
             [admin]\naddress = \"127.0.0.1:0\"\n{}{}{}\
             [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
             [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"] }}\n",
            section("mx", &["mx.here.test"]),
            listener("mx", "starttls"),
            listener("smtps", "implicit"),
        ),
    )
}

/// Starts HAProxy with a port for each way: version 1, version 2, version 2 before TLS.
fn start(place: &mut Place, server: &Server) -> [SocketAddr; 3] {
    let ports = [free_port(), free_port(), free_port()];
    let [mx, smtps] = [server.addresses[0], server.addresses[1]];
    let mut config = "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  \
                      timeout server 30s\n"
        .to_owned();
    let checked = "check inter 100ms\n  option smtpchk EHLO check.test";
    for (port, to, how) in [
        (ports[0], mx, format!("send-proxy {checked}")),
        (ports[1], mx, format!("send-proxy-v2 {checked}")),
        (ports[2], smtps, "send-proxy-v2".to_owned()),
    ] {
        config += &format!("listen to{port}\n  bind 127.0.0.1:{port}\n  server it {to} {how}\n");
    }
    place.write("haproxy.cfg", &config);
    let path = place.path("haproxy.cfg").display().to_string();
    let command = place.command("haproxy", &["haproxy", "-db", "-f", &path]);
    place.start(command, "haproxy.log");
    ports.map(|port| {
        place.wait_listening(port);
        ([127, 0, 0, 1], port).into()
    })
}

/// A session from an address of this machine by way of HAProxy, up to EHLO.
fn by_way_of(from: &str, proxy: SocketAddr) -> Client {
    let mut client = Client::from(from.parse::<IpAddr>().expect("an address"), proxy);
    client.expect("220 mx.here.test");
    client.say("EHLO client.test", "250");
    client
}

pub(crate) fn clients_are_known_behind_it() {
    let (mut place, files) = (Place::new(0), Files::new());
    let server = server(&files);
    let ways = start(&mut place, &server);
    for proxy in &ways[..2] {
        let mut friend = by_way_of(FRIEND, *proxy);
        friend.mail("me@source.test", &["you@here.test"], "Subject: x\r\n\r\nBody.\r\n");
        friend.say("MAIL FROM:<me@source.test>", "250");
        friend.say("RCPT TO:<you@elsewhere.test>", "250");
        // Each client has a place of its own, whoever passes it on.
        let mut stranger = by_way_of("127.0.0.18", *proxy);
        stranger.say("MAIL FROM:<me@source.test>", "250");
        stranger.say("RCPT TO:<you@elsewhere.test>", "550 5.7.1");
        let again = Client::from("127.0.0.18".parse().expect("an address"), *proxy).reply();
        assert!(again.starts_with("421 4.7.0 mx.here.test Too many sessions"), "{again}");
        friend.say("QUIT", "221");
        stranger.say("QUIT", "221");
    }
    let port = ways[2].port().to_string();
    let words = ["--server", "127.0.0.1", "--port", &port, "--tls-on-connect", "--local-interface"];
    let mail = ["127.0.0.18", "--from", "me@source.test", "--to", "you@here.test"];
    succeed("swaks", &[&words[..], &mail[..]].concat());
    files.wait_events("received", 3);
    let seen: Vec<String> = files
        .events_of("received")
        .iter()
        .map(|event| {
            let text = |name: &str| event[name].as_str().unwrap_or("-");
            ["client", "proxy", "protocol"].map(text).join(" ")
        })
        .collect();
    let friend = format!("{FRIEND} 127.0.0.1 ESMTP");
    assert_eq!(seen, [friend.as_str(), &friend, "127.0.0.18 127.0.0.1 ESMTPS"]);
    // Checks of HAProxy's own have gone on all the while: they are sessions of its own.
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let admin = line.rsplit(' ').next().expect("an address");
    let sessions = || metric(&get(admin, "/metrics"), "postrider_sessions_total");
    let before = sessions();
    wait_until("it checks", || {
        std::thread::sleep(Duration::from_millis(50));
        sessions() > before
    });
    assert_eq!(metric(&get(admin, "/metrics"), "postrider_proxy_headers_refused_total"), 0);
    // Who does not come by way of HAProxy announces nobody: this address is no proxy's.
    let mut forger = Client::from("127.0.0.19".parse().expect("an address"), server.addresses[0]);
    forger.send(format!("PROXY TCP4 {FRIEND} 127.0.0.1 4711 25\r\n"));
    forger.expect("554 5.5.1 mx.here.test Protocol error: command before greeting");
}
