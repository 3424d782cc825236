use super::mcgam::{ENTRIES_MAX, TableError};
use super::*;
use crate::or_name::OrAddress;

fn gateway(mapping: &str, gateways: &str) -> Gateway {
    let mut mappings = Mappings::default();
    mappings.read(mapping, TableKind::Mapping).expect("a table");
    mappings.read(gateways, TableKind::Gateway).expect("a table of gateways");
    Gateway {
        address: OrAddress::parse("/O=gw/PRMD=Example/ADMD= /C=GB/").expect("an address"),
        domain: "gw.example.org".into(),
        mappings,
    }
}

fn to_mail(gateway: &Gateway, text: &str) -> String {
    let address = OrAddress::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    gateway.to_mail(&address).unwrap_or_else(|| panic!("{text}"))
}

/// RFC 2156 §4.3.4 and §4.3.5, with the tables that the examples speak of.
#[test]
fn the_rfcs_examples() {
    let plain =
        gateway("", "alter.net#PRMD$relay.ADMD$BTglobal.C$gb#\nADMD$ATT.C$us#attmail.com#\n");
    for (local, mail, expected) in [
        (
            "C=gb; A= ; P=uk.ac; O=mr",
            "@relay.co.uk:userb@host2",
            "/RFC-822=(a)relay.co.uk:userb(a)host2/O=mr/PRMD=uk.ac/ADMD= /C=gb/",
        ),
        (
            "c=us; a=MCI; P=relay",
            "Tom_Harris@cs.widget.com",
            "/RFC-822=Tom(u)Harris(a)cs.widget.com/PRMD=relay/ADMD=MCI/C=us/",
        ),
        (
            "c=us; a=MCI",
            "postmaster@UK.alter.net",
            "/RFC-822=postmaster(a)UK.alter.net/PRMD=relay/ADMD=BTglobal/C=gb/",
        ),
    ] {
        let gateway = Gateway { address: OrAddress::parse(local).expect(local), ..plain.clone() };
        assert_eq!(gateway.to_or_address(mail, Use::Other).expect(mail).to_string(), expected);
    }
    // Errors come back by the way they came.
    let back = plain.to_or_address("postmaster@UK.alter.net", Use::Originator).expect("an address");
    assert_eq!(
        back.to_string(),
        "/RFC-822=postmaster(a)UK.alter.net/O=gw/PRMD=Example/ADMD= /C=GB/"
    );
    let tables = "ADMD$master400.C$it#Master400.it#\nPRMD$autoroutes.ADMD$atlas.C$fr#autoroutes.fr#\n\
        ADMD$PtPostel.C$it#ptpostel.it#\nO$Widget.PRMD$@.ADMD$BTT.C$TC#Widget.COM#\n";
    let gateway = gateway(tables, "ADMD$ATT.C$us#attmail.com#\n");
    for (address, expected) in [
        ("S=Support; O=sales;  A=Master400; C=it;", "/S=Support/O=sales/@Master400.it"),
        (
            "S=renseignements; O=Region Parisienne; P=autoroutes; A=atlas; C=fr;",
            "\"/S=renseignements/O=Region Parisienne/\"@autoroutes.fr",
        ),
        (
            "S=Rossi; DD.cap=20100; DD.ph1=Via Larga 11; DDA:city=Milano; A=PtPostel; C=it;",
            "\"/DD.cap=20100/DD.ph1=Via Larga 11/DD.city=Milano/S=Rossi/\"@ptpostel.it",
        ),
        // The RFC's text leaves out what its rule (step 5) keeps: without a mapping all attributes stand on the left.
        (
            "G=Andy; S=Wharol; O=MMNY; A=ATT; C=us;",
            "/G=Andy/S=Wharol/O=MMNY/ADMD=ATT/C=us/@attmail.com",
        ),
        (
            "I=J; S=Linnimouth; GQ=5; OU=Marketing; O=Widget; A=BTT; C=TC",
            "/I=J/S=Linnimouth/GQ=5/@Marketing.Widget.COM",
        ),
        (
            "I=J; S=Linnimouth; OU=Marketing; O=Widget; A=BTT; C=TC",
            "J.Linnimouth@Marketing.Widget.COM",
        ),
    ] {
        assert_eq!(to_mail(&gateway, address), expected);
    }
}

#[test]
fn addresses_come_back() {
    let gateway = gateway(
        "AC.UK#PRMD$UK\\.AC.ADMD$GOLD 400.C$GB#\nPRMD$UK\\.AC.ADMD$GOLD 400.C$GB#AC.UK#\n\
         gmd.de#O$@.PRMD$GMD.ADMD$DBP.C$DE#\nO$@.PRMD$GMD.ADMD$DBP.C$DE#gmd.de#\n",
        "",
    );
    for (address, mail) in [
        ("/S=Kille/OU=CS/O=UCL/PRMD=UK.AC/ADMD=GOLD 400/C=GB/", "Kille@CS.UCL.AC.UK"),
        ("/G=Steve/S=Kille/OU=CS/O=UCL/PRMD=UK.AC/ADMD=GOLD 400/C=GB/", "Steve.Kille@CS.UCL.AC.UK"),
        ("/CN=Duty/O=UCL/PRMD=UK.AC/ADMD=GOLD 400/C=GB/", "/CN=Duty/@UCL.AC.UK"),
        ("/S=O.K/O=UCL/PRMD=UK.AC/ADMD=GOLD 400/C=GB/", "/S=O.K/@UCL.AC.UK"),
        ("/S=Kaiser/OU=f3/PRMD=GMD/ADMD=DBP/C=DE/", "Kaiser@f3.gmd.de"),
        ("/O=UCL/PRMD=UK.AC/ADMD=GOLD 400/C=GB/", "/O=UCL/@AC.UK"),
        (
            "/S=x/O=no such/PRMD=p/ADMD= /C=DE/",
            "\"/S=x/O=no such/PRMD=p/ADMD= /C=DE/\"@gw.example.org",
        ),
        ("/X121=123/C=DE/ADMD=x/", "/X121=123/ADMD=x/C=DE/@gw.example.org"),
        (
            "/CN=yen*{165}/O=a$/b/PRMD=p/ADMD=x/C=DE/",
            "/CN=yen*{165}/O=a$/b/PRMD=p/ADMD=x/C=DE/@gw.example.org",
        ),
        ("/RFC-822=Tom(u)h(a)cs.widget.example/O=gw/C=GB/", "Tom_h@cs.widget.example"),
        (
            "/RFC-822=(q)a b(q)(a)cs.widget.example/O=gw/PRMD=Example/ADMD= /C=GB/",
            "\"a b\"@cs.widget.example",
        ),
    ] {
        let written = to_mail(&gateway, address);
        assert_eq!(written, mail, "{address}");
        let again = gateway.to_or_address(mail, Use::Other).unwrap_or_else(|| panic!("{mail}"));
        let original = OrAddress::parse(address).expect(address);
        // What stands in a mail address stays one, by whichever gateway it came.
        if original.domain_defined("RFC-822").is_none() {
            assert!(again.is_same(&original), "{address} {mail} {again}");
        } else {
            assert_eq!(to_mail(&gateway, &again.to_string()), mail);
        }
    }
}

/// RFC 2156 §4.3.4 would have stage I read them. The hub of our domain gives them back to us, and then we would send to
/// anybody for anybody.
#[test]
fn no_address_is_made_that_would_come_back_as_internet_mail() {
    let gateway = gateway(
        "gmd.de#O$@.PRMD$GMD.ADMD$DBP.C$DE#\n",
        "far.example#O$Gate.PRMD$Far.ADMD$x.C$DE#\n",
    );
    for mail in [
        "\"/RFC-822=victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        "\"/C=gb/ADMD=/PRMD=EXAMPLE/O=GW/rfc-822=victim(a)example.com/\"@gw.example.org",
        "\"/DD.RFC-822=victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        "\"/DD1.Rfc-822=victim(a)example.com/S=x/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        "\"DDA:RFC-822=victim(a)example.com; O=gw; P=Example; A= ; C=GB\"@gw.example.org",
        "\"/DD.RFC-822*RFC-822=victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        "\"/DD.*RFC-822=*victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        "\"/DD. RFC-822 =victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        "\"/RFC-822=victim(040)a(041)example.com/OU=x/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org",
        // Whatever else it says: a hub may have us as its way out.
        "\"/RFC-822=victim(a)example.com/PRMD=Nowhere/ADMD= /C=ZZ/\"@gw.example.org",
        "/RFC-822=victim(a)example.com/@gmd.de",
        "\"/RFC-822=victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@far.example",
    ] {
        let made = gateway.to_or_address(mail, Use::Other);
        let back = made.as_ref().and_then(|address| gateway.to_mail(address));
        assert!(back.is_none_or(|back| back == mail), "{mail}: {made:?}");
    }
    let written = "\"/RFC-822=victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org";
    assert_eq!(gateway.to_or_address(written, Use::Other), None);
    assert!(gateway.would_come_back(written) && !gateway.would_come_back("a@example.com"));
}

#[test]
fn internet_addresses_are_carried_whole() {
    let gateway = gateway("", "");
    for mail in [
        "user@example.com",
        "\"odd one\"@example.com",
        "a/b=c@example.com",
        "x+y!z%q@example.com",
        "J.Smith@example.com",
        "$$@example.com",
        "(@example.com",
    ] {
        let address = gateway.to_or_address(mail, Use::Other).expect(mail);
        assert_eq!(gateway.to_mail(&address).as_deref(), Some(mail));
    }
    // 512 characters at most, in four attributes.
    let long = format!("{}@{}", "l".repeat(250), vec!["d".repeat(60); 4].join("."));
    let address = gateway.to_or_address(&long, Use::Other).expect("within 512");
    assert_eq!(address.domain_defined.len(), 4);
    assert_eq!(gateway.to_mail(&address).as_deref(), Some(long.as_str()));
    let fits = "_".repeat(166) + "x@d.example";
    assert_eq!(printable::encode(&fits).map(|text| text.len()), Some(512 - 1));
    assert!(gateway.to_or_address(&("y".to_owned() + &fits), Use::Other).is_some());
    assert!(gateway.to_or_address(&("yy".to_owned() + &fits), Use::Other).is_none());
    assert!(gateway.to_or_address("caf\u{e9}@example.com", Use::Other).is_none());
}

#[test]
fn tables() {
    let read = |text: &str| Mappings::default().read(text, TableKind::Mapping);
    read("# comment\n\nAC.UK#PRMD$UK\\.AC.ADMD$GOLD 400.C$GB# note\n").expect("a table");
    for (text, reason) in [
        ("AC.UK", "# missing after the key"),
        ("AC.UK#C$GB", "# missing after the value"),
        ("AC..UK#C$GB#", "not a domain"),
        ("-x.uk#C$GB#", "not a domain"),
        (
            "AC.UK#PRMD$x.C$GB#",
            "levels must be C, ADMD, PRMD, O and OU from the right, without gaps",
        ),
        ("AC.UK#ADMD$x.C$@#", "an address needs a country"),
        ("AC.UK#ADMD.C$GB#", "an attribute without $"),
        (
            "AC.UK#OU$5.OU$4.OU$3.OU$2.OU$1.O$o.PRMD$p.ADMD$a.C$GB#",
            "more than four organizational units",
        ),
    ] {
        assert_eq!(read(&format!("\n{text}\n")), Err(TableError { reason, line: 2 }), "{text}");
    }
    let mut all = String::new();
    for number in 0..=ENTRIES_MAX {
        all.push_str(&format!("d{number}.example#C$GB#\n"));
    }
    assert_eq!(read(&all).map_err(|error| error.reason), Err("too many entries"));
    // The longest key counts, in any case, and only whole labels.
    let gateway = gateway("K.L#C$KL#\nJ.K.L#C$JK#\n", "");
    let country = |mail: &str| gateway.to_or_address(mail, Use::Other).and_then(|a| a.country);
    assert_eq!(country("x@k.l").as_deref(), Some("KL"));
    assert_eq!(country("x@j.k.l").as_deref(), Some("JK"));
    assert_eq!(country("x@A.B.C").as_deref(), Some("GB"));
    assert_eq!(country("x@zk.l").as_deref(), Some("GB"));
}
