use super::*;
use crate::{RouteLimits, SharedLimits};

fn file(name: &str, text: &str) -> ShapingFile {
    ShapingFile { name: name.into(), text: text.into() }
}

fn read(texts: &[&str]) -> Shaping {
    let files: Vec<ShapingFile> = texts.iter().map(|text| file("a.toml", text)).collect();
    Shaping::read(&files).unwrap_or_else(|errors| panic!("{errors}"))
}

fn wrong(texts: &[(&str, &str)]) -> String {
    let files: Vec<ShapingFile> = texts.iter().map(|(name, text)| file(name, text)).collect();
    Shaping::read(&files).map(|_| ()).unwrap_err().to_string()
}

fn route() -> RouteLimits {
    let shared = Some(SharedLimits { connections_max: 20, messages_per_second: 0.0 });
    RouteLimits { shared, recipients_per_message: 100, ..RouteLimits::default() }
}

fn in_force(shaping: &Shaping, own: &Pace, domain: &str, hosts: &[&str]) -> Paced {
    let domain = Domain::parse(domain).unwrap();
    shaping.in_force((route(), Some(own)), None, &domain, hosts.iter().copied()).paced()
}

fn connections(paced: &Paced) -> u32 {
    paced.limits.shared.unwrap().connections_max
}

const LEVELS: &str = "\
    default = { max_connections = 10, recipients_per_message = 5 }\n\
    [provider.big]\nmx = [\"*.big.test\", \"big.test\"]\ndomains = [\"vanity.test\"]\n\
    max_connections = 7\nrate = [\"10/s\", \"1_000/h\"]\ntogether = { max_connections = 12, rate = [\"2/s\"] }\n\
    [domain.\"special.test\"]\nmax_connections = 2\n";

#[test]
fn levels_stand_above_each_other() {
    let shaping = read(&[LEVELS]);
    let own = Pace {
        max_connections: Some(Set {
            value: 20,
            place: FileLine { file: "p.toml".into(), line: 3 },
        }),
        ..Pace::default()
    };
    let small = in_force(&shaping, &Pace::default(), "a.test", &["mx.a.test"]);
    assert_eq!((connections(&small), small.limits.recipients_per_message), (10, 5));
    assert_eq!((small.together, small.apart), (None, None));
    // The route's own keys go over the default, not over the provider.
    let small = in_force(&shaping, &own, "a.test", &["mx.a.test"]);
    assert_eq!((connections(&small), small.limits.recipients_per_message), (20, 5));
    let big = in_force(&shaping, &own, "b.test", &["mx1.big.test", "BIG.test"]);
    assert_eq!(connections(&big), 7);
    assert_eq!(big.rates, [Rate::parse("10/s").unwrap(), Rate::parse("1000/h").unwrap()]);
    let together = big.together.unwrap();
    assert_eq!((&*together.provider, together.connections_max), ("big", 12));
    assert_eq!(together.rates, [Rate::parse("2/s").unwrap()]);
    assert_eq!(big.apart, None, "all with these hosts have the same");
    let special = in_force(&shaping, &own, "special.test", &["mx1.big.test"]);
    assert_eq!(connections(&special), 2);
    assert_eq!(special.together.unwrap().connections_max, 12, "it is big's all the same");
    assert_eq!(special.apart.as_deref(), Some("domain special.test"));
}

#[test]
fn a_provider_has_domains_all_of_whose_hosts_are_its_own() {
    let shaping = read(&[LEVELS]);
    let of = |domain, hosts| in_force(&shaping, &Pace::default(), domain, hosts).together.is_some();
    assert!(of("x.test", &["a.big.test", "b.big.test"]));
    assert!(!of("x.test", &["a.big.test", "b.other.test"]), "its backup is somebody else's");
    assert!(!of("x.test", &["b.other.test", "a.big.test"]));
    assert!(!of("x.test", &["notbig.test"]));
    assert!(!of("x.test", &[]));
    let vanity = in_force(&shaping, &Pace::default(), "vanity.test", &["mx.other.test"]);
    assert_eq!(vanity.apart.as_deref(), Some("provider big"));
    assert!(vanity.together.is_some());
}

#[test]
fn later_files_change_key_by_key() {
    let later = "[provider.big]\nmax_connections = 3\nmx = [\"*.huge.test\"]\n[domain.\"special.test\"]\nadaptive = true\n";
    let shaping = read(&[LEVELS, later]);
    let big = in_force(&shaping, &Pace::default(), "b.test", &["mx1.huge.test"]);
    assert_eq!((connections(&big), big.rates.len()), (3, 2));
    assert_eq!(big.together.unwrap().connections_max, 12);
    let was = in_force(&shaping, &Pace::default(), "b.test", &["mx1.big.test"]);
    assert_eq!(was.together, None, "its hosts are others now");
    let special = in_force(&shaping, &Pace::default(), "special.test", &["mx"]);
    assert_eq!((connections(&special), special.limits.adaptive), (2, true));
}

#[test]
fn a_source_may_have_a_pace_of_its_own_with_a_provider() {
    let text = "[provider.big]\nmx = [\"*.big.test\"]\nmax_connections = 9\nmessages_per_connection = 5\n\
                [provider.big.source.ip-1]\nmax_connections = 2\n";
    let shaping = read(&[text, "[provider.big.source.ip-1]\nadaptive = true\n"]);
    let domain = Domain::parse("b.test").unwrap();
    let from = |source, host: &'static str| {
        let own = Pace::default();
        let hosts = [host].into_iter();
        let paced = shaping.in_force((route(), Some(&own)), source, &domain, hosts).paced();
        (connections(&paced), paced.limits.adaptive)
    };
    assert_eq!(from(Some("ip-1"), "mx.big.test"), (2, true));
    assert_eq!(from(Some("ip-2"), "mx.big.test"), (9, false));
    assert_eq!(from(None, "mx.big.test"), (9, false));
    assert_eq!(from(Some("ip-1"), "mx.small.test"), (20, false));
}

#[test]
fn each_limit_in_force_names_its_line() {
    let shaping = read(&[LEVELS]);
    let domain = Domain::parse("b.test").unwrap();
    let own = Pace::default();
    let hosts = ["mx1.big.test"].into_iter();
    let steps = shaping.in_force((route(), Some(&own)), None, &domain, hosts).steps();
    let steps: Vec<String> =
        steps.iter().map(|s| format!("{} {} {}", s.what, s.value, s.decided_by)).collect();
    assert_eq!(
        steps,
        [
            "provider big a.toml:2",
            "max_connections 7 a.toml:5",
            "recipients_per_message 5 a.toml:1",
            "rate 10/s and 1000/h a.toml:6",
            "max_connections together 12 a.toml:7",
            "rate together 2/s a.toml:7",
        ]
    );
}

#[test]
fn mistakes_are_named_with_their_places() {
    for (text, expected) in [
        ("[provider.big]\nmx = [\"*\"]\n", "a.toml:2:7: error: \"*\" matches everything"),
        ("[provider.big]\nmx = [\"-- x\"]\n", "a.toml:2:7: error: \"-- x\" is not a name"),
        (
            "[provider.big]\nmax_connexions = 3\n",
            "a.toml:2:1: error: unknown key `max_connexions` in `provider.big`",
        ),
        ("[provider.big]\nmax_connections = 0\n", "a.toml:2:19: error: "),
        ("[provider.big]\nrate = [\"5\"]\n", "a.toml:2:9: error: \"5\" is not a rate"),
        ("[default]\nrate = []\n", "a.toml:2:8: error: an empty list of rates"),
        ("[provider.\"a b\"]\nmx = []\n", "a.toml:1:11: error: \"a b\" is not a provider name"),
        ("[domain.\"a b\"]\nadaptive = true\n", "a.toml:1:9: error: \"a b\" is not a domain"),
        ("[provider\n", "a.toml:1:"),
        ("together = {}\n", "a.toml:1:1: error: unknown key `together`"),
    ] {
        let said = wrong(&[("a.toml", text)]);
        assert!(said.starts_with(expected), "{text}: {said}");
    }
}

#[test]
fn a_name_is_one_provider_s() {
    let first = ("a.toml", "[provider.one]\nmx = [\"*.google.test\"]\n");
    for (text, line) in [
        ("[provider.two]\nmx = [\"*.google.test\"]\n", 2),
        ("[provider.two]\n\nmx = [\"mx.l.google.test\"]\n", 3),
        ("[provider.two]\nmx = [\"*.test\"]\n", 2),
    ] {
        let said = wrong(&[first, ("b.toml", text)]);
        assert!(
            said.starts_with(&format!("b.toml:{line}:1: error: a name of both provider ")),
            "{said}"
        );
        assert!(
            said.contains("a.toml:2") && said.contains("one") && said.contains("two"),
            "{said}"
        );
    }
    // One provider may say a name twice, and names of domains are not those of hosts.
    read(&[
        "[provider.one]\nmx = [\"*.a.test\", \"b.a.test\"]\n[provider.two]\ndomains = [\"b.a.test\"]\n",
    ]);
    let taken = "[provider.one]\nmx = []\n[provider.two]\nmx = [\"*.google.test\"]\n";
    assert!(Shaping::read(&[file(first.0, first.1), file("b.toml", taken)]).is_ok());
}

#[test]
fn what_is_built_in_is_right_and_knows_twenty_providers() {
    let shaping = Shaping::read(&[ShapingFile::builtin()]).unwrap_or_else(|e| panic!("{e}"));
    assert!(shaping.providers.len() >= 20, "{}", shaping.providers.len());
    for (host, provider) in [
        ("aspmx.l.google.com", "google"),
        ("gmail-smtp-in.l.google.com", "google"),
        ("mta5.am0.yahoodns.net", "yahoo"),
        ("outlook-com.olc.protection.outlook.com", "microsoft-consumer"),
        ("example-org.mail.protection.outlook.com", "microsoft-365"),
        ("mx01.mail.icloud.com", "apple"),
        ("mx00.gmx.net", "gmx"),
        ("mx-ha02.web.de", "gmx"),
        ("smtp-in.orange.fr", "orange"),
        ("mxa-00000001.gslb.pphosted.com", "proofpoint"),
        ("eu-smtp-inbound-1.mimecast.com", "mimecast"),
    ] {
        let found = in_force(&shaping, &Pace::default(), "x.test", &[host]);
        let named = shaping.by_mx.named(&Domain::parse(host).unwrap()).unwrap();
        assert_eq!(&*shaping.providers[named].name, provider, "{host}");
        assert_eq!(&*found.together.unwrap().provider, provider);
    }
    // Each provider has its reason above it.
    let lines: Vec<&str> = BUILTIN.lines().collect();
    let sections = lines.iter().enumerate().filter(|(_, line)| line.starts_with("[provider."));
    let with_reason = sections.clone().filter(|(at, _)| lines[at - 1].starts_with("# ")).count();
    assert!(with_reason >= 20 && sections.count() - with_reason <= 4, "{with_reason}");
}
