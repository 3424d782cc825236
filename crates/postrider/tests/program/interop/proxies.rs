//! Proxies that connect in this server's place: Dante by SOCKS5, HAProxy by the PROXY protocol.

use super::place::Place;
use crate::sources::{came, far, near, send};
use crate::support::Files;
use crate::support::server::Server;
use crate::support::tool::free_port;
use std::net::SocketAddr;

/// The addresses that the proxies send from.
const BY_SOCKS: &str = "127.0.0.21";
const BY_HAPROXY: &str = "127.0.0.22";

/// Starts Dante, which connects from an address of its own.
fn start_dante(place: &mut Place) -> (u16, u32) {
    let port = free_port();
    place.write(
        "danted.conf",
        &format!(
            "logoutput: stderr\ninternal: 127.0.0.1 port = {port}\nexternal: {BY_SOCKS}\n\
             socksmethod: none\nclientmethod: none\nuser.unprivileged: nobody\n\
             client pass {{ from: 127.0.0.0/8 to: 127.0.0.0/8 }}\n\
             socks pass {{ from: 127.0.0.0/8 to: 127.0.0.0/8 command: connect }}\n"
        ),
    );
    let path = place.path("danted.conf").display().to_string();
    let command = place.command("dante-server", &["danted", "-f", &path]);
    let id = place.start(command, "danted.log");
    place.wait_listening(port);
    (port, id)
}

/// Starts HAProxy, which connects to where the header says.
fn start_haproxy(place: &mut Place) -> u16 {
    let port = free_port();
    place.write(
        "haproxy.cfg",
        &format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
             listen out\n  bind 127.0.0.1:{port} accept-proxy\n  source {BY_HAPROXY}\n  server any 0.0.0.0:0\n"
        ),
    );
    let path = place.path("haproxy.cfg").display().to_string();
    let command = place.command("haproxy", &["haproxy", "-db", "-f", &path]);
    place.start(command, "haproxy.log");
    place.wait_listening(port);
    port
}

fn source(name: &str, proxy: &str) -> String {
    format!(
        "[[source]]\nname = \"{name}\"\naddress = \"192.0.2.77\"\nehlo = \"{name}.near.test\"\n\
         proxy = \"{proxy}\"\n"
    )
}

pub(crate) fn mail_goes_from_where_the_proxies_are() {
    let (mut place, near_files, far_files) = (Place::new(0), Files::new(), Files::new());
    let (dante, haproxy) = (start_dante(&mut place).0, start_haproxy(&mut place));
    let far = far(&far_files);
    let more = source("socks", &format!("socks5://127.0.0.1:{dante}"))
        + &source("ha", &format!("haproxy://127.0.0.1:{haproxy}"));
    let near = near(&near_files, &far, &more, "{ name = \"socks\" }, { name = \"ha\" }");
    send(&near, 40);
    near_files.wait_events("relayed", 40);
    let came = came(&far_files, 40);
    let of = |who: String| came.get(&who).copied().unwrap_or_default();
    let parts =
        [of(format!("{BY_SOCKS} socks.near.test")), of(format!("{BY_HAPROXY} ha.near.test"))];
    assert!(parts[0] + parts[1] == 40 && parts[0] > 0 && parts[1] > 0, "{came:?}");
    near.stop();
}

pub(crate) fn a_source_whose_proxy_is_dead_is_out() {
    let (mut place, near_files, far_files) = (Place::new(0), Files::new(), Files::new());
    let (port, dante) = start_dante(&mut place);
    let far = far(&far_files);
    let proxy = format!("socks5://127.0.0.1:{port}");
    let more = source("socks", &proxy);
    let near = near(&near_files, &far, &more, "{ name = \"socks\" }, { name = \"ip-1\" }");
    send(&near, 20);
    near_files.wait_events("relayed", 20);
    assert_eq!(came(&far_files, 20).len(), 2, "both send");
    place.end(dante);
    send(&near, 20);
    near_files.wait_events("relayed", 40);
    near.wait_console("it is told", |line| {
        line.contains(&format!(
            "source: source socks disabled: its proxy {proxy} cannot be reached"
        ))
    });
    assert_eq!(near_files.events_of("failed").len(), 0);
    near.stop();
}

pub(crate) fn what_a_proxy_says_of_the_peer_is_the_peer_s() {
    let (mut place, near_files) = (Place::new(0), Files::new());
    let (port, _) = start_dante(&mut place);
    // Nobody is there: the proxy says so, and is not to blame.
    let nobody: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let config = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         relay_from = [\"127.0.0.0/8\"]\n{}[[pool]]\nname = \"bulk\"\nsources = [{{ name = \"socks\" }}]\n\
         [[route]]\npool = \"bulk\"\nsmtp = {{ hosts = [\"{nobody}\"] }}\n",
        source("socks", &format!("socks5://127.0.0.1:{port}")),
    );
    let near = Server::start(&near_files, &config);
    send(&near, 1);
    let event = &near_files.wait_events("suspended", 1)[0];
    assert_eq!(event["culprit"], "network", "{event}");
    assert!(
        !near.console().iter().any(|line| line.contains(" disabled: ")),
        "{:?}",
        near.console()
    );
    assert_eq!(near.queue().len(), 1);
    near.stop();
}
