use super::ber::{OR_NAME, read_name};
use super::*;
use crate::ber::Writer;
use mail::AddressError;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn parse(text: &str) -> OrAddress {
    OrAddress::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn encoded(name: &OrName) -> Vec<u8> {
    let mut writer = Writer::new();
    name.encode(&mut writer, OR_NAME);
    writer.into_vec()
}

/// O=Gamma, surname Sender, given name Carol: as another implementation wrote it.
const CAROL: &str = "602e302c6104130247426203130120a20713055465737443830547616d6d61a50f800653656e64657281054361726f6c";

#[test]
fn octets_of_another_implementation() {
    let octets = hex(CAROL);
    let name = read_name(&octets).expect("a name");
    assert_eq!(name.address.to_string(), "/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/");
    assert_eq!(encoded(&name), octets);
    for cut in 0..octets.len() {
        assert!(read_name(&octets[..cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn text_forms_are_read_and_one_is_written() {
    for (text, written) in [
        (
            "/G=John/S=Smith/O=Example/PRMD=p/ADMD= /C=GB/",
            "/G=John/S=Smith/O=Example/PRMD=p/ADMD= /C=GB/",
        ),
        (
            "G=John; S=Smith; O=Example; P=p; A= ; C=GB",
            "/G=John/S=Smith/O=Example/PRMD=p/ADMD= /C=GB/",
        ),
        (
            "G=john; S=smith; O=a bank ltd; P=abl; A=snomail; C=aq;",
            "/G=john/S=smith/O=a bank ltd/PRMD=abl/ADMD=snomail/C=aq/",
        ),
        ("/c=gb/p=x/", "/PRMD=x/ADMD= /C=gb/"),
        ("/C=GB/ADMD=/PRMD=x/", "/PRMD=x/ADMD= /C=GB/"),
        ("/OU1=Top/OU2=Under/O=x/C=de/A=d", "/OU=Under/OU=Top/O=x/ADMD=d/C=de/"),
        ("/OU=Under/OU=Top/O=x/C=de/A=d/", "/OU=Under/OU=Top/O=x/ADMD=d/C=de/"),
        ("/O=a$/b$=c/C=de/A=d/", "/O=a$/b$=c/ADMD=d/C=de/"),
        ("/O=a//b/=c/C=de/A=d/", "/O=a$/b$=c/ADMD=d/C=de/"),
        ("O=a/b;;c; C=de; A=d", "/O=a$/b$;c/ADMD=d/C=de/"),
        ("/CN=yen*{165}/C=jp/A=x/", "/CN=yen*{165}/ADMD=x/C=jp/"),
        ("/CN=*{165}b/C=jp/A=x/", "/CN=*{165}b/ADMD=x/C=jp/"),
        ("/CN=*plain/C=jp/A=x/", "/CN=plain/ADMD=x/C=jp/"),
        ("/RFC-822=a(a)b.example/C=gb/A=x/", "/RFC-822=a(a)b.example/ADMD=x/C=gb/"),
        (
            "S=Rossi; DD.cap=20100; DD.ph1=Via Larga 11; DDA:city=Milano; A=PtPostel; C=it;",
            "/DD.cap=20100/DD.ph1=Via Larga 11/DD.city=Milano/S=Rossi/ADMD=PtPostel/C=it/",
        ),
        ("/OU=a/OU=*{165}/O=x/C=it/A=x/", "/OU=a/OU=*{165}/O=x/ADMD=x/C=it/"),
        ("/DDA:RFC-822=x*{165}/C=it/A=x/", "/DD.RFC-822=x*{165}/ADMD=x/C=it/"),
        ("/DD.b=*{165}/DD.a=1/C=it/A=x/", "/DD.b=*{165}/DD.a=1/ADMD=x/C=it/"),
        ("/DD.#b=*{165}/C=it/A=x/", "/DD.*{035}b=*{165}/ADMD=x/C=it/"),
        ("/DD.*{165}$*=*{166}/C=it/A=x/", "/DD.*{165}{042}=*{166}/ADMD=x/C=it/"),
        ("/DD1.a=1/DD2.b=2/C=it/A=x/", "/DD.b=2/DD.a=1/ADMD=x/C=it/"),
        ("/PN=Marshall.T.Rose/C=us/A=x/", "/G=Marshall/I=T/S=Rose/ADMD=x/C=us/"),
        (
            "/PD-ADDRESS=The Dome|The Square|Richmond|England/C=gb/A=x/",
            "/PD-ADDRESS=The Dome|The Square|Richmond|England/ADMD=x/C=gb/",
        ),
        ("/PD-A1=The Dome/PD-A2=England/C=gb/A=x/", "/PD-ADDRESS=The Dome|England/ADMD=x/C=gb/"),
        ("/T-TY=ia5 (7)/X121=123456/C=gb/A=x/", "/T-TY=ia5/X121=123456/ADMD=x/C=gb/"),
        (
            "/PD-CODE=W1/PD-PN=Mr X*{165}/NET-NUM=4412/PD-C=GB/UA-ID=5/T-ID=t/C=gb/A=x/",
            "/PD-C=GB/PD-CODE=W1/PD-PN=Mr X*{165}/NET-NUM=4412/T-ID=t/UA-ID=5/ADMD=x/C=gb/",
        ),
        ("/GQ=Jr/I=J/S=L/C=gb/Q", ""),
        ("/O=caf\u{e9}/C=fr/A=x/", "/O=caf\u{e9}/ADMD=x/C=fr/"),
    ] {
        let read = OrAddress::parse(text);
        if written.is_empty() {
            read.expect_err(text);
            continue;
        }
        let address = read.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(address.to_string(), written, "{text}");
        assert_eq!(parse(written).to_string(), written, "{text}");
        let again = read_name(&encoded(&address.clone().into())).expect(text).address;
        assert!(again.is_same(&address), "{text}: {again}");
        assert_eq!(again.to_string(), written);
    }
}

#[test]
fn what_is_no_address_says_where() {
    for (text, reason, offset) in [
        ("", "an address without attributes", 0),
        ("/", "an address without attributes", 1),
        ("/C", "an attribute without a value", 1),
        ("/C=gb/X=y/", "an attribute that is not known", 6),
        ("/C=gb/C=de/", "an attribute is given twice", 6),
        ("/O=x/O=y/", "an attribute is given twice", 5),
        ("/OU1=a/OU3=b/", "an organizational unit is missing or given twice", 13),
        ("/DD.a*{165}=b*{165}/", "a type in another character set than its value", 1),
        ("/DD.*{165}=b/", "a type in another character set than its value", 1),
        ("/DD.=*/", "a domain-defined attribute without a type", 1),
        ("/DD.*=*/", "a domain-defined attribute without a type", 1),
        ("/OU5=a/", "there are four organizational units", 1),
        ("/OU=a/OU=a/OU=a/OU=a/OU=a/", "more than four organizational units", 26),
        ("/CN=*{16}/", "three digits for each octet must stand between { and }", 1),
        ("/CN=*{256}/", "an octet over 255", 1),
        ("/O=a\nb/", "a character not allowed in addresses", 1),
        ("/O=\u{20ac}/", "a character not allowed in addresses", 1),
        ("/DD.a=1/DD.b=1/DD.c=1/DD.d=1/DD.e=1/", "more than four domain-defined attributes", 36),
    ] {
        assert_eq!(OrAddress::parse(text), Err(AddressError { reason, offset }), "{text:?}");
    }
    let most = "/O=x".to_owned() + &"/".repeat(text::TEXT_BYTES_MAX - 4);
    assert_eq!(most.len(), text::TEXT_BYTES_MAX);
    let error = OrAddress::parse(&(most + "/")).expect_err("one octet more");
    assert_eq!(error.reason, "address is too long");
    let many = "/DD.a=1".repeat(text::ATTRIBUTES_MAX + 1);
    assert_eq!(OrAddress::parse(&many).expect_err("many").reason, "too many attributes");
}

#[test]
fn same_addresses() {
    for (one, other) in [
        ("/O=The Bank/C=GB/A= /", "/O= the  BANK /C=gb/"),
        ("/P=1234/C=GB/", "P=1234; C=gb; A="),
        ("/S=x/O=caf\u{c9}/C=fr/A=y/", "/S=X/O=*caf{233}/C=fr/A=Y/"),
    ] {
        assert!(parse(one).is_same(&parse(other)), "{one} {other}");
    }
    assert!(!parse("/O=a/C=gb/").is_same(&parse("/O=b/C=gb/")));
    assert!(!parse("/OU=a/OU=b/C=gb/").is_same(&parse("/OU=b/OU=a/C=gb/")));
}

#[test]
fn personal_names() {
    for text in
        ["Marshall.Rose", "M.T.Rose", "Marshall.M.T.Rose", "Rose", "J.Linnimouth", "Jo.O.Neill.Jr"]
    {
        let name = PersonalName::from_encoded(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(name.to_encoded().as_deref(), Some(text));
    }
    for text in ["", "A.", "Marshall.", "a.b.c.", ".", "Jo..Ann"] {
        assert_eq!(PersonalName::from_encoded(text), None, "{text}");
    }
}

#[test]
fn limits_of_the_octets() {
    let unit = || Value::printable("u");
    let mut address = parse("/O=x/C=gb/");
    address.units = vec![unit(); UNITS_MAX];
    read_name(&encoded(&address.clone().into())).expect("four units");
    address.units.push(unit());
    let error = read_name(&encoded(&address.clone().into())).expect_err("five units");
    assert_eq!(error.field, "organizational-unit-names");
    address.units.clear();
    let other = |number| ExtensionAttribute { number, value: Bytes::from_static(&[5, 0]) };
    address.extensions = (100..100 + EXTENSIONS_MAX as u32).map(other).collect();
    let name = read_name(&encoded(&address.clone().into())).expect("all extensions");
    assert_eq!(name.address, address);
    address.extensions.push(other(99));
    read_name(&encoded(&address.clone().into())).expect_err("one more extension");
    address.extensions = vec![ExtensionAttribute { number: 99, value: Bytes::from(vec![0; 0]) }];
    read_name(&encoded(&address.clone().into())).expect_err("an extension without a value");
    address.extensions.clear();
    address.organization = Value::printable("x".repeat(NAME_BYTES_MAX));
    read_name(&encoded(&address.into())).expect_err("too long");
}

#[test]
fn directory_names_and_unknown_extensions_stay() {
    let mut name = OrName::from(parse("/CN=x*{165}/C=gb/A=x/"));
    name.directory_name = Some(Bytes::from_static(&[0x30, 0x00]));
    name.address
        .extensions
        .push(ExtensionAttribute { number: 24, value: Bytes::from_static(&[0x31, 0]) });
    let again = read_name(&encoded(&name)).expect("a name");
    assert_eq!(again, name);
}
