//! Whatever is done to an APDU: what is passed on can be read down to its last element, by a judge that shares no code with
//! the reader; and what was right is taken.

use crate::generate::Generator;
use crate::{file, joined};
use bytes::Bytes;
use mail::Random;
use x400::mts::relay::{EnvelopeRewrite, relay, relay_report};
use x400::mts::{ApduEvent, ApduReader, Extensions, Limits, ReportContent};

const GOLDEN: [&str; 8] = [
    "py_message",
    "pp_message",
    "message_extensions",
    "message_unknown_noncritical",
    "py_message_shuf",
    "probe",
    "pp_ndr_fix",
    "report_delivery_and_nondelivery",
];

/// An element as the judge sees it.
#[derive(Clone, Debug)]
struct Tree {
    tag: Vec<u8>,
    children: Option<Vec<Tree>>,
    value: Vec<u8>,
}

/// Reads one element at the front of `octets`: it, and how many octets it has.
fn read(octets: &[u8], depth: usize) -> Result<(Tree, usize), &'static str> {
    if depth > 40 {
        return Err("too deep");
    }
    let mut at = 1;
    let first = *octets.first().ok_or("nothing")?;
    if first & 0x1f == 0x1f {
        while octets.get(at).ok_or("tag cut")? & 0x80 != 0 {
            at += 1;
        }
        at += 1;
    }
    let tag = octets.get(..at).ok_or("tag cut")?.to_vec();
    let length = *octets.get(at).ok_or("length cut")?;
    at += 1;
    let is_constructed = first & 0x20 != 0;
    if length == 0x80 {
        if !is_constructed {
            return Err("an indefinite primitive");
        }
        let mut children = Vec::new();
        loop {
            let rest = octets.get(at..).ok_or("never closed")?;
            if rest.starts_with(&[0, 0]) {
                let value = Vec::new();
                return Ok((checked(Tree { tag, children: Some(children), value })?, at + 2));
            }
            let (child, bytes) = read(rest, depth + 1)?;
            children.push(child);
            at += bytes;
        }
    }
    let mut bytes = usize::from(length);
    if length > 0x80 {
        let count = usize::from(length & 0x7f);
        let digits = octets.get(at..at + count).ok_or("length cut")?;
        bytes = digits.iter().fold(0_usize, |n, d| n.saturating_mul(256) + usize::from(*d));
        at += count;
    }
    let value = octets.get(at..at.saturating_add(bytes)).ok_or("past the end")?;
    let children = if is_constructed { Some(all(value, depth + 1)?) } else { None };
    let value = if is_constructed { Vec::new() } else { value.to_vec() };
    Ok((checked(Tree { tag, children, value })?, at + bytes))
}

fn all(mut octets: &[u8], depth: usize) -> Result<Vec<Tree>, &'static str> {
    let mut trees = Vec::new();
    while !octets.is_empty() {
        let (tree, bytes) = read(octets, depth)?;
        trees.push(tree);
        octets = &octets[bytes..];
    }
    Ok(trees)
}

/// The universal types that one octet names.
fn checked(tree: Tree) -> Result<Tree, &'static str> {
    match (tree.tag[0], tree.value.len()) {
        (0, _) => Err("a stray end"),
        (0x01, 1) | (0x05, 0) => Ok(tree),
        (0x01 | 0x05, _) => Err("a boolean or null"),
        (0x02 | 0x0a | 0x06, 0) => Err("an integer without octets"),
        (0x21 | 0x22 | 0x25 | 0x26 | 0x2a, _) => Err("a constructed value"),
        (0x10 | 0x11, _) => Err("a primitive list"),
        (0x06, _) if tree.value.last().is_some_and(|last| last & 0x80 != 0) => Err("an OID"),
        (0x03, 0) => Err("bits"),
        _ => Ok(tree),
    }
}

fn write(tree: &Tree) -> Vec<u8> {
    let value = match &tree.children {
        Some(children) => children.iter().flat_map(write).collect(),
        None => tree.value.clone(),
    };
    let mut octets = tree.tag.clone();
    match value.len() {
        short @ 0..=127 => octets.push(short as u8),
        long => octets.extend([&[0x84][..], &(long as u32).to_be_bytes()].concat()),
    }
    [octets, value].concat()
}

/// The `n`th element below, itself included.
fn nth<'t>(tree: &'t mut Tree, n: &mut u64) -> Option<&'t mut Tree> {
    if *n == 0 {
        return Some(tree);
    }
    *n -= 1;
    tree.children.iter_mut().flatten().find_map(|child| nth(child, n))
}

fn count(tree: &Tree) -> u64 {
    1 + tree.children.iter().flatten().map(count).sum::<u64>()
}

fn of_elements(octets: &[u8], random: &mut Random) -> Vec<u8> {
    let Ok((mut tree, _)) = read(octets, 0) else { return octets.to_vec() };
    for _ in 0..=random.below(3) {
        let mut n = 1 + random.below(count(&tree));
        let Some(node) = nth(&mut tree, &mut n) else { continue };
        match (random.below(5), &mut node.children) {
            (0, _) => node.tag[0] ^= [1, 2, 0x20, 0x40, 0x80][random.below(5) as usize],
            (1, Some(children)) => drop(children.pop()),
            (2, Some(children)) => children.extend(children.first().cloned()),
            (_, None) => {
                node.value = (0..random.below(9)).map(|_| random.next_u64() as u8).collect()
            }
            (_, Some(_)) => {
                // Elements become octets that are none.
                let mut octets = write(node);
                let at = random.below(octets.len() as u64) as usize;
                octets[at] ^= 1 << random.below(8);
                let tag = std::mem::take(&mut node.tag);
                (node.tag, node.children, node.value) = (tag, None, octets);
            }
        }
    }
    write(&tree)
}

fn of_octets(octets: &[u8], random: &mut Random) -> Vec<u8> {
    let mut octets = octets.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(octets.len() as u64) as usize;
        match random.below(3) {
            0 => octets[at] = random.next_u64() as u8,
            1 => drop(octets.remove(at)),
            _ => octets.insert(at, random.next_u64() as u8),
        }
        if octets.is_empty() {
            octets.push(0);
        }
    }
    octets
}

/// What an MTA would pass on: an envelope, and the elements of a report. `None`: it is not taken.
fn passed_on(octets: &[u8], pieces: usize) -> Option<Vec<u8>> {
    let mut reader = ApduReader::new(Limits::default());
    let mut events = Vec::new();
    for piece in octets.chunks(pieces) {
        reader.handle_input(&Bytes::copy_from_slice(piece)).ok()?;
        events.extend(std::iter::from_fn(|| reader.poll_event()));
    }
    reader.finish().ok()?;
    match &joined(events)[..] {
        [ApduEvent::Envelope { octets, envelope, .. }, ..] => {
            let envelope = envelope.as_ref().ok()?;
            for recipient in &envelope.recipients {
                values_are_read(&recipient.extensions);
            }
            values_are_read(&envelope.extensions);
            Some(relay(octets, &EnvelopeRewrite::default()).expect("an envelope"))
        }
        [ApduEvent::Report { octets, envelope }, ApduEvent::Content(content)] => {
            values_are_read(&envelope.as_ref().ok()?.extensions);
            ReportContent::read(content, &Limits::default()).expect("a report's content");
            let envelope = relay_report(octets, &EnvelopeRewrite::default()).expect("an envelope");
            Some([&envelope[..], content].concat())
        }
        _ => None,
    }
}

fn values_are_read(extensions: &Extensions) {
    assert!(extensions.alternate_recipient().is_ok() && extensions.latest_delivery_time().is_ok());
    assert!(extensions.redirection_history().is_ok() && extensions.dl_expansion_history().is_ok());
    assert!(extensions.internal_trace().is_ok() && extensions.content_correlator().is_ok());
    assert!(extensions.originator_and_dl_history().is_ok());
}

#[test]
fn what_is_passed_on_is_whole_down_to_its_last_element() {
    let mut random = Random::new(7);
    let mut made = Generator { random: Random::new(11), has_zones: true };
    let golden = GOLDEN.map(file);
    let (mut taken, mut refused) = (0, 0);
    for number in 0..12_000_usize {
        let right = match number % 3 {
            0 => golden[number / 3 % golden.len()].clone(),
            _ => made.apdu().encode(),
        };
        let mutant = match number % 2 {
            0 => of_elements(&right, &mut random),
            _ => of_octets(&right, &mut random),
        };
        let passed = passed_on(&mutant, usize::MAX);
        // How it is cut changes nothing.
        assert_eq!(passed, passed_on(&mutant, 1 + number % 7), "{number}: {mutant:02x?}");
        match passed {
            Some(passed) => {
                taken += 1;
                let judged = all(&passed, 0);
                assert!(judged.is_ok(), "{number}: {judged:?} of {mutant:02x?}");
            }
            None => refused += 1,
        }
    }
    assert!(taken > 1_000 && refused > 1_000, "{taken} {refused}");
}

#[test]
fn what_is_right_is_passed_on() {
    for name in GOLDEN {
        assert!(passed_on(&file(name), usize::MAX).is_some(), "{name}");
    }
    let mut made = Generator { random: Random::new(3), has_zones: true };
    for number in 0..500 {
        let apdu = made.apdu();
        assert!(passed_on(&apdu.encode(), 5).is_some(), "{number}: {apdu:?}");
    }
}
