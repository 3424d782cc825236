use super::name_server::{Fault, NameServer};
use super::*;
use std::net::{SocketAddr, UdpSocket};

/// One server, asked once and waited for long.
fn asking(server: SocketAddr) -> config::Dns {
    config::Dns {
        servers: vec![server],
        timeout: Duration::from_secs(10),
        attempts: 1,
        cache_max: 1_000,
        cache_bytes: 1 << 20,
        max_lookups: 16,
        validating: None,
    }
}

#[test]
fn an_answer_that_was_cut_without_saying_so_is_asked_for_over_tcp() {
    let names = NameServer::start();
    let hosts: Vec<String> = (0..41).map(|n| format!("a-long-name-of-a-host-{n:02}")).collect();
    let records: Vec<_> = (0..).zip(&hosts).map(|(n, host)| (n, host.as_str())).collect();
    names.mx("far.test", &records);
    names.fault("far.test", Fault::Cut);
    let config = asking(names.address.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async { Resolver::new(&config).mx("far.test").await });
    assert_eq!(answer.unwrap().len(), 41);
}

#[test]
fn names_that_no_host_could_have_are_asked_for_and_impossible_ones_do_not_exist() {
    let names = NameServer::start();
    names.txt("a_b._domainkey.far.test", &["v=DKIM1"]);
    let config = asking(names.address.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let txt = |name: &str| runtime.block_on(async { Resolver::new(&config).txt(name).await });
    assert_eq!(txt("a_b._domainkey.far.test").unwrap(), [b"v=DKIM1"]);
    let label = "x".repeat(60);
    let long = [&label[..]; 5].join(".");
    for impossible in ["a..test", ".test", &long, &"x".repeat(64)] {
        assert!(matches!(txt(impossible), Err(DnsError::NoSuchDomain)), "{impossible}");
    }
}

#[test]
fn a_label_has_any_octets() {
    let names = NameServer::start();
    let config = asking(names.address.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let resolver = Resolver::new(&config);
    for octet in (b'!'..=b'~').filter(|octet| !matches!(octet, b'.' | b'A'..=b'Z')) {
        let name = format!("a{}b._spf.far.test", char::from(octet));
        names.txt(&name, &[&name]);
        let found = runtime.block_on(resolver.txt(&name));
        assert_eq!(found.as_deref(), Ok(&[name.clone().into_bytes()][..]), "{name}");
    }
    // What a record names can be asked for again.
    names.mx("odd.test", &[(1, "a:b/c.far.test")]);
    let hosts = runtime.block_on(resolver.mx("odd.test")).unwrap();
    assert_eq!(hosts[0].host, "a:b/c.far.test");
}

/// How often the server is asked in two lookups of the TXT records of a name.
fn asked_in_two(names: &NameServer, resolver: &Resolver, name: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let before = names.asked();
    for _ in 0..2 {
        runtime.block_on(resolver.txt(name)).unwrap();
    }
    names.asked() - before
}

#[test]
fn a_small_answer_is_remembered_and_a_large_one_is_asked_for_again() {
    let names = NameServer::start();
    names.set_ttl(3_600);
    names.txt("small.test", &["v=spf1 -all"]);
    names.txt("large.test", &[&"x".repeat(20_000)]);
    let resolver = Resolver::new(&asking(names.address.parse().unwrap()));
    assert_eq!(asked_in_two(&names, &resolver, "small.test"), 1);
    // Each time over UDP and, as it does not fit, over TCP.
    assert_eq!(asked_in_two(&names, &resolver, "large.test"), 4);
}

#[test]
fn what_is_remembered_has_a_bound_in_octets() {
    let names = NameServer::start();
    names.set_ttl(3_600);
    let name = |n: usize| format!("n{n}.wild.test");
    for n in 0..40 {
        names.txt(&name(n), &[&"x".repeat(1_000)]);
    }
    let config = config::Dns { cache_bytes: 16 << 10, ..asking(names.address.parse().unwrap()) };
    let resolver = Resolver::new(&config);
    assert_eq!(asked_in_two(&names, &resolver, &name(0)), 1);
    for n in 1..40 {
        asked_in_two(&names, &resolver, &name(n));
    }
    assert_eq!(asked_in_two(&names, &resolver, &name(39)), 0);
    assert_eq!(asked_in_two(&names, &resolver, &name(0)), 1);
}

#[test]
fn a_host_whose_ipv4_addresses_could_not_be_asked_for_is_not_one_without_addresses() {
    let names = NameServer::start();
    names.host("far.test", &[]);
    names.fault("far.test", Fault::FailsIpv4);
    let config = asking(names.address.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async { Resolver::new(&config).addresses("far.test").await });
    assert!(matches!(answer, Err(DnsError::Transient(_))), "{answer:?}");
}

/// Questions that a name server which never answers is asked in one lookup.
fn questions_asked(attempts: u8) -> usize {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let config = config::Dns {
        timeout: Duration::from_millis(100),
        attempts,
        ..asking(silent.local_addr().unwrap())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answer = runtime.block_on(async { Resolver::new(&config).mx("far.test").await });
    assert!(matches!(answer, Err(DnsError::Transient(_))), "{answer:?}");
    silent.set_nonblocking(true).unwrap();
    let mut packet = [0; 512];
    std::iter::from_fn(|| silent.recv(&mut packet).ok()).count()
}

#[test]
fn nobody_is_believed_to_validate_unless_the_file_says_so() {
    let why = |address: &str, validating| {
        let config = config::Dns {
            timeout: Duration::from_millis(100),
            validating,
            ..asking(address.parse().unwrap())
        };
        Resolver::new(&config).why_insecure()
    };
    // Docker's, systemd's, anybody's.
    for address in ["127.0.0.11:53", "127.0.0.54:53", "127.0.0.1:53", "[::1]:53", "192.0.2.1:53"] {
        assert!(why(address, None).is_some_and(|why| why.contains("validating = true")));
        assert!(why(address, Some(false)).is_some());
        assert_eq!(why(address, Some(true)), None);
    }
}

#[test]
fn a_question_is_asked_as_often_as_configured() {
    assert_eq!([1, 2, 3].map(questions_asked), [1, 2, 3]);
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Two servers, at one address, of which the first has something wrong with it.
fn two(fault: Fault) -> (NameServer, NameServer) {
    let (bad, good) = (NameServer::start(), NameServer::start());
    for n in 0..40 {
        let name = format!("d{n}.test");
        bad.mx(&name, &[(1, "wrong.test")]);
        bad.fault(&name, fault);
        good.mx(&name, &[(10, "mx.test")]);
    }
    (bad, good)
}

fn asking_both(first: &NameServer, second: &NameServer) -> config::Dns {
    let address = |server: &NameServer| server.address.parse().unwrap();
    config::Dns {
        servers: vec![address(first), address(second)],
        timeout: Duration::from_millis(500),
        validating: Some(true),
        ..asking(address(first))
    }
}

/// Server failure, not implemented, refused, format error, not authoritative, bad version, and one that is not
/// assigned (RFC 6895 §2.3).
const FAULTS: [Fault; 10] = [
    Fault::Code(2),
    Fault::Code(4),
    Fault::Code(5),
    Fault::Code(1),
    Fault::Code(9),
    Fault::Code(15),
    Fault::Referral,
    Fault::Garbage,
    Fault::Silent,
    Fault::OnlyTruncated,
];

#[test]
fn whatever_is_wrong_with_one_server_the_other_is_asked_and_the_failing_one_is_asked_last() {
    for fault in FAULTS {
        for is_first in [true, false] {
            let (bad, good) = two(fault);
            let order = if is_first { (&bad, &good) } else { (&good, &bad) };
            let resolver = Resolver::new(&asking_both(order.0, order.1));
            block_on(async {
                for n in 0..3 {
                    let found = resolver.mx(&format!("d{n}.test")).await;
                    assert_eq!(found.unwrap()[0].host, "mx.test", "{fault:?}");
                    let found = resolver.vouched_mx(&format!("d{}.test", n + 10)).await;
                    assert_eq!(found.unwrap().answer[0].host, "mx.test", "{fault:?}");
                }
            });
            // Once, and over TCP where that may help; then for a while no more.
            assert!(bad.asked() <= 4 * u64::from(is_first), "{fault:?}: {}", bad.asked());
        }
    }
}

#[test]
fn a_zone_that_fails_everywhere_puts_no_server_last() {
    let (first, second) = (NameServer::start(), NameServer::start());
    for server in [&first, &second] {
        server.mx("far.test", &[(10, "mx.test")]);
        server.fault("broken.test", Fault::Fails);
    }
    let resolver = Resolver::new(&asking_both(&first, &second));
    block_on(async {
        let broken = resolver.mx("broken.test").await;
        assert!(matches!(broken, Err(DnsError::Transient(_))), "{broken:?}");
        let before = second.asked();
        assert!(resolver.mx("far.test").await.is_ok());
        assert_eq!(second.asked(), before, "the first is asked first, as ever");
    });
}

#[test]
fn where_all_servers_only_refer_to_others_a_name_is_not_one_without_records() {
    let names = NameServer::start();
    names.fault("far.test", Fault::Referral);
    let resolver = Resolver::new(&asking(names.address.parse().unwrap()));
    let answer = block_on(async { resolver.mx("far.test").await });
    assert!(matches!(answer, Err(DnsError::Transient(_))), "{answer:?}");
}

#[test]
fn mx_records_count_by_their_ttl_and_what_is_forgotten_is_asked_for() {
    let names = NameServer::start();
    names.set_ttl(120);
    names.mx("far.test", &[(10, "mx.test")]);
    names.host("mx.test", &["192.0.2.1"]);
    let resolver = Resolver::new(&asking(names.address.parse().unwrap()));
    block_on(async {
        assert_eq!(resolver.mx_lasts("far.test"), Duration::ZERO);
        for is_vouched in [true, false] {
            match is_vouched {
                true => _ = resolver.vouched_mx("far.test").await.unwrap(),
                false => _ = resolver.mx("far.test").await.unwrap(),
            }
            let lasts = resolver.mx_lasts("far.test").as_secs();
            assert!((110..=120).contains(&lasts), "{lasts}");
            resolver.addresses("mx.test").await.unwrap();
            names.host("mx.test", &["192.0.2.2"]);
            resolver.forget("FAR.test");
            assert_eq!(resolver.mx_lasts("far.test"), Duration::ZERO);
            let addresses = resolver.addresses("mx.test").await.unwrap();
            assert_eq!(addresses, ["192.0.2.2".parse::<IpAddr>().unwrap()]);
            names.host("mx.test", &["192.0.2.1"]);
            resolver.forget("mx.test");
        }
    });
}

#[test]
fn another_configuration_has_other_servers_asked_at_once() {
    let (bad, good) = two(Fault::Silent);
    let config = |server: &NameServer| config::Dns {
        timeout: Duration::from_millis(200),
        ..asking(server.address.parse().unwrap())
    };
    let resolver = Resolver::new(&config(&bad));
    block_on(async {
        assert!(resolver.mx("d1.test").await.is_err());
        let prepared = resolver.prepared(&config(&good)).unwrap();
        resolver.adopt(&config(&good), prepared.unwrap());
        assert_eq!(resolver.mx("d1.test").await.unwrap()[0].host, "mx.test");
        let asked = good.asked();
        // The same again changes nothing, and forgets nothing.
        assert!(matches!(resolver.prepared(&config(&good)), Ok(None)));
        assert!(resolver.mx("d1.test").await.is_ok());
        assert_eq!(good.asked(), asked);
    });
}

#[test]
fn files_of_the_system_are_followed() {
    let directory = tempfile::tempdir().unwrap();
    let places = ResolverFiles {
        resolv_conf: directory.path().join("resolv.conf"),
        hosts: directory.path().join("hosts"),
    };
    let config = config::Dns { servers: Vec::new(), ..asking("127.0.0.1:53".parse().unwrap()) };
    let console = Arc::new(ConsoleLog::stderr(Level::Error));
    let watch = FileWatch::start().unwrap();
    let resolver = Resolver::following_at(&config, &places, &watch, &console);
    assert!(resolver.ways().is_err(), "no such file yet");
    let servers = || {
        let state = lock(&resolver.0.state);
        state.system.servers.as_ref().map_or_else(
            |_| Vec::new(),
            |all| all.iter().map(|server| server.ip.to_string()).collect(),
        )
    };
    std::fs::write(&places.hosts, "192.0.2.7 here.test\n").unwrap();
    for address in ["192.0.2.1", "192.0.2.2"] {
        std::fs::write(&places.resolv_conf, format!("nameserver {address}\n")).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while servers() != [address] && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(servers(), [address]);
        assert!(resolver.ways().is_ok());
    }
    let here = block_on(async { resolver.ipv4_addresses("here.test").await });
    assert_eq!(here.unwrap(), ["192.0.2.7".parse::<Ipv4Addr>().unwrap()]);
}
