//! What codecs that were generated from the ITU's modules make of our APDUs, and we of theirs.

use crate::generate::{Generator, Made};
use mail::Random;
use std::path::Path;
use std::process::Command;

/// `scripts/install-test-packages` fetches them.
#[allow(clippy::disallowed_methods)]
fn through_codecs(name: &str, apdus: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let modules = root.join("../../target/test-packages/x400-codecs/node_modules");
    if !modules.join("@wildboar/x400").exists() {
        skips::missing("the package of X.400 codecs");
        return None;
    }
    let mut records = Vec::new();
    for apdu in apdus {
        records.extend_from_slice(&u32::try_from(apdu.len()).expect("short").to_be_bytes());
        records.extend_from_slice(apdu);
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (input, output) = (folder.join(format!("{name}.in")), folder.join(format!("{name}.out")));
    std::fs::write(&input, records).expect("written");
    let said = Command::new("node")
        .env("NODE_PATH", &modules)
        .arg(root.join("tests/apdus/codecs.cjs"))
        .args([&input, &output])
        .output()
        .expect("node");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let octets = std::fs::read(&output).expect("read");
    let mut rest = &octets[..];
    let mut all = Vec::new();
    while let Some((head, behind)) = rest.split_first_chunk::<4>() {
        let (apdu, more) = behind.split_at(u32::from_be_bytes(*head) as usize);
        all.push(apdu.to_vec());
        rest = more;
    }
    Some(all)
}

/// A SET OF has no order, so theirs may be another.
fn sorted(mut made: Made) -> Made {
    let sort = |extensions: &mut x400::mts::Extensions| {
        extensions.0.sort_by_key(|extension| format!("{:?}", extension.kind));
    };
    match &mut made {
        Made::Message(envelope, _) | Made::Probe(envelope) => {
            sort(&mut envelope.extensions);
            envelope.recipients.iter_mut().for_each(|r| sort(&mut r.extensions));
        }
        Made::Report(envelope, content) => {
            sort(&mut envelope.extensions);
            sort(&mut content.extensions);
            content.recipients.iter_mut().for_each(|r| sort(&mut r.extensions));
        }
    }
    made
}

/// Says where two differ, as they are long.
fn assert_same(read: &str, made: &str, number: usize) {
    let differs = read.lines().zip(made.lines()).position(|(one, other)| one != other);
    if let Some(line) = differs {
        let near = |text: &str| {
            text.lines().skip(line.saturating_sub(8)).take(12).collect::<Vec<_>>().join("\n")
        };
        panic!("number {number}: theirs\n{}\nours\n{}", near(read), near(made));
    }
    assert_eq!(read.len(), made.len(), "number {number}");
}

#[test]
fn a_thousand_go_through_the_codecs_of_others() {
    // Their codecs turn every time into UTC.
    let mut generator = Generator { random: Random::new(0x0c0d), has_zones: false };
    let made: Vec<Made> = (0..1_000).map(|_| generator.apdu()).collect();
    let octets: Vec<Vec<u8>> = made.iter().map(Made::encode).collect();
    let Some(theirs) = through_codecs("made", &octets) else { return };
    assert_eq!(theirs.len(), made.len());
    for (number, (theirs, made)) in theirs.iter().zip(made).enumerate() {
        let read = crate::round_trip::read(theirs, &made);
        assert_same(&format!("{:#?}", sorted(read)), &format!("{:#?}", sorted(made)), number);
    }
}

#[test]
fn what_others_made_goes_through_them_too() {
    let names = [
        "py_message",
        "pp_message_fix",
        "pp_ndr_fix",
        "message_extensions",
        "probe",
        "report_delivery_and_nondelivery",
    ];
    let octets: Vec<Vec<u8>> = names.map(crate::file).into();
    let Some(theirs) = through_codecs("golden", &octets) else { return };
    for (name, (theirs, ours)) in names.iter().zip(theirs.iter().zip(&octets)) {
        match *name {
            "pp_ndr_fix" | "report_delivery_and_nondelivery" => {
                let (theirs, ours) = (crate::report(theirs), crate::report(ours));
                assert_eq!((theirs.0, theirs.2), (ours.0, ours.2), "{name}");
            }
            _ => assert_eq!(crate::message(theirs).0, crate::message(ours).0, "{name}"),
        }
    }
}
