//! Zones as master files have them (RFC 1035 §5), as far as tests and benchmarks need it.
//!
//! `$ORIGIN` begins a zone, `$TTL` holds for what follows; `@`, relative names, empty owners, quoted
//! strings, comments and parentheses mean what they mean there. A zone without an SOA gets one.

use crate::words::{InputFileError, Line, WordError};
use hickory_proto::rr::rdata::{CNAME, MX, NS, PTR, SOA, TLSA, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

/// The TTL of records that nobody gave one.
const TTL: u32 = 60;
/// RFC 1035 §3.3.14: octets of one string of a TXT record.
const STRING_BYTES_MAX: usize = 255;

/// All zones of a server.
#[derive(Debug, Default)]
pub struct Zones {
    /// Their SOA records, by apex.
    apexes: BTreeMap<Name, Record>,
    records: BTreeMap<Name, Vec<Record>>,
    /// Names below which there is something, though they have no records (RFC 4592 §2.2.2).
    between: BTreeSet<Name>,
}

/// A word of a file.
#[derive(Clone, Debug)]
struct Word {
    at: usize,
    text: Vec<u8>,
    is_quoted: bool,
}

/// What holds for the lines that follow.
struct ZoneReader {
    zones: Zones,
    origin: Name,
    ttl: u32,
    owner: Option<Name>,
}

impl Zones {
    /// Reads a file.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn read(path: &Path, text: &str) -> Result<Zones, InputFileError> {
        Zones::read_all([(path, text)].into_iter())
    }

    /// Reads several files; each begins at the root.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn read_all<'a>(
        files: impl Iterator<Item = (&'a Path, &'a str)>,
    ) -> Result<Zones, InputFileError> {
        let mut zones = Zones::default();
        for (path, text) in files {
            let mut reader = ZoneReader { zones, origin: Name::root(), ttl: TTL, owner: None };
            reader.file(path, text)?;
            zones = reader.zones;
        }
        Ok(zones.finish())
    }

    /// Gives each zone an SOA, and notes which names stand between others.
    fn finish(mut self) -> Zones {
        let records = self.records.values().flatten();
        let soas: Vec<Record> =
            records.filter(|record| record.record_type() == RecordType::SOA).cloned().collect();
        for soa in soas {
            self.apexes.insert(soa.name.clone(), soa);
        }
        for (apex, soa) in &self.apexes {
            let set = self.records.entry(apex.clone()).or_default();
            if set.iter().all(|record| record.record_type() != RecordType::SOA) {
                set.push(soa.clone());
            }
        }
        for name in self.records.keys() {
            let mut above = name.base_name();
            while !above.is_root() && self.between.insert(above.clone()) {
                above = above.base_name();
            }
        }
        self
    }

    /// The SOA of the zone that a name is in; that of the longest name wins.
    #[must_use]
    pub fn soa_of(&self, name: &Name) -> Option<&Record> {
        let mut above = name.clone();
        loop {
            if let Some(soa) = self.apexes.get(&above) {
                return Some(soa);
            }
            if above.is_root() {
                return None;
            }
            above = above.base_name();
        }
    }

    /// The records of a name, of all types: its own, or those of the wildcard that stands for it
    /// (RFC 4592 §3.3.1). `None`: there is no such name.
    #[must_use]
    pub fn at(&self, name: &Name) -> Option<&[Record]> {
        if let Some(records) = self.records.get(name) {
            return Some(records);
        }
        if self.between.contains(name) {
            return Some(&[]);
        }
        let mut encloser = name.base_name();
        loop {
            if let Some(records) = self.records.get(&wildcard_below(&encloser)?) {
                return Some(records);
            }
            let is_there = self.records.contains_key(&encloser) || self.between.contains(&encloser);
            if is_there || encloser.is_root() {
                return None;
            }
            encloser = encloser.base_name();
        }
    }

    /// How many records there are.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.records.values().map(Vec::len).sum()
    }
}

fn wildcard_below(name: &Name) -> Option<Name> {
    name.prepend_label("*").ok()
}

impl ZoneReader {
    fn file(&mut self, path: &Path, text: &str) -> Result<(), InputFileError> {
        let mut open: Option<(Line<'_>, bool, Vec<Word>)> = None;
        for (number, text) in (1..).zip(text.lines()) {
            let line = Line { number, text };
            let mut depth = i32::from(open.is_some());
            let words = split(text, &mut depth).map_err(|wrong| line.wrong(path, wrong))?;
            let (first, is_indented, mut all) =
                open.take().unwrap_or_else(|| (line, text.starts_with([' ', '\t']), Vec::new()));
            all.extend(words);
            if depth > 0 {
                open = Some((first, is_indented, all));
                continue;
            }
            // A mistake in a later line of several is told of the first.
            self.line(is_indented, &all).map_err(|wrong| first.wrong(path, wrong))?;
        }
        if let Some((first, ..)) = open {
            return Err(first.wrong(path, (0, "a parenthesis is never closed".to_owned())));
        }
        Ok(())
    }

    /// A line, or several that parentheses make one.
    fn line(&mut self, is_indented: bool, words: &[Word]) -> Result<(), WordError> {
        let Some(first) = words.first() else { return Ok(()) };
        match text_of(first) {
            "$ORIGIN" => {
                let word = word_at(words, 1, "a domain")?;
                self.origin = self.name(word)?;
                self.zones
                    .apexes
                    .entry(self.origin.clone())
                    .or_insert_with(|| made_soa(&self.origin));
                self.owner = None;
                return nothing_more(words, 2);
            }
            "$TTL" => {
                self.ttl = number(word_at(words, 1, "a TTL")?)?;
                return nothing_more(words, 2);
            }
            word if word.starts_with('$') => {
                return Err((first.at, format!("`{word}` is not known: $ORIGIN or $TTL")));
            }
            _ => {}
        }
        let mut next = 0;
        if !is_indented {
            self.owner = Some(self.name(first)?);
            next = 1;
        }
        let owner = self.owner.clone().ok_or_else(|| (first.at, "no name before it".to_owned()))?;
        let mut ttl = self.ttl;
        let mut word = word_at(words, next, "a type")?;
        // RFC 1035 §5.1: TTL and class come in either order.
        while !word.is_quoted {
            if text_of(word).starts_with(|c: char| c.is_ascii_digit()) {
                ttl = number(word)?;
            } else if !text_of(word).eq_ignore_ascii_case("IN") {
                break;
            }
            next += 1;
            word = word_at(words, next, "a type")?;
        }
        let data = self.data(word, words, next + 1)?;
        let is_alias = |data: &RData| matches!(data, RData::CNAME(_));
        let set = self.zones.records.entry(owner.clone()).or_default();
        if !set.is_empty() && (is_alias(&data) || set.iter().any(|record| is_alias(&record.data))) {
            let why = "an alias (CNAME) has no other records beside it".to_owned();
            return Err((word.at, why));
        }
        set.push(Record::from_rdata(owner.to_lowercase(), ttl, data));
        Ok(())
    }

    /// What a record says; its words begin at `from`.
    fn data(&self, kind: &Word, words: &[Word], from: usize) -> Result<RData, WordError> {
        let word = |n: usize, what| word_at(words, from + n, what);
        let data = match text_of(kind).to_ascii_uppercase().as_str() {
            "A" => match address(word(0, "an IPv4 address")?)? {
                IpAddr::V4(v4) => RData::A(v4.into()),
                IpAddr::V6(_) => return Err((words[from].at, "an IPv4 address is wanted".into())),
            },
            "AAAA" => match address(word(0, "an IPv6 address")?)? {
                IpAddr::V6(v6) => RData::AAAA(v6.into()),
                IpAddr::V4(_) => return Err((words[from].at, "an IPv6 address is wanted".into())),
            },
            "CNAME" => RData::CNAME(CNAME(self.name(word(0, "a name")?)?)),
            "NS" => RData::NS(NS(self.name(word(0, "a name")?)?)),
            "PTR" => RData::PTR(PTR(self.name(word(0, "a name")?)?)),
            "MX" => {
                let preference = number(word(0, "a preference")?)?;
                RData::MX(MX::new(preference, self.name(word(1, "a host")?)?))
            }
            "TXT" => return texts(word(0, "a text")?, &words[from..]),
            "SOA" => return self.soa(words, from),
            "TLSA" => return tlsa(words, from),
            other => {
                let known = "A, AAAA, CNAME, MX, NS, PTR, SOA, TLSA or TXT";
                return Err((kind.at, format!("`{other}` is no type that is known: {known}")));
            }
        };
        let taken = if matches!(data, RData::MX(_)) { 2 } else { 1 };
        nothing_more(words, from + taken)?;
        Ok(data)
    }

    fn soa(&self, words: &[Word], from: usize) -> Result<RData, WordError> {
        let word = |n: usize, what| word_at(words, from + n, what);
        let (mname, rname) =
            (self.name(word(0, "a name server")?)?, self.name(word(1, "a mailbox")?)?);
        let serial = number(word(2, "a serial")?)?;
        let (refresh, retry) = (number(word(3, "a refresh")?)?, number(word(4, "a retry")?)?);
        let (expire, minimum) = (number(word(5, "an expire")?)?, number(word(6, "a minimum")?)?);
        nothing_more(words, from + 7)?;
        Ok(RData::SOA(SOA::new(mname, rname, serial, refresh, retry, expire, minimum)))
    }

    /// A name, relative to the origin without a dot at its end.
    fn name(&self, word: &Word) -> Result<Name, WordError> {
        let text = text_of(word);
        let wrong = || (word.at, format!("`{text}` is no name"));
        if text == "@" {
            return Ok(self.origin.clone());
        }
        let name = Name::from_ascii(text).map_err(|_| wrong())?;
        let whole = if text.ends_with('.') {
            name
        } else {
            name.append_domain(&self.origin).map_err(|_| wrong())?
        };
        let mut whole = whole.to_lowercase();
        whole.set_fqdn(true);
        Ok(whole)
    }
}

fn made_soa(apex: &Name) -> Record {
    let soa = SOA::new(apex.clone(), apex.clone(), 1, 3_600, 600, 86_400, TTL);
    Record::from_rdata(apex.clone(), TTL, RData::SOA(soa))
}

/// Words of a line, without its comment; counts parentheses into `depth`.
fn split(line: &str, depth: &mut i32) -> Result<Vec<Word>, WordError> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b';' => break,
            b' ' | b'\t' => {}
            b'(' => *depth += 1,
            b')' => {
                *depth -= 1;
                if *depth < 0 {
                    return Err((at, "this parenthesis was not opened".to_owned()));
                }
            }
            b'"' => {
                let mut text = Vec::new();
                loop {
                    match bytes.next() {
                        None => return Err((at, "this text is not closed".to_owned())),
                        Some((_, b'"')) => break,
                        Some((_, b'\\')) => text.extend(bytes.next().map(|(_, byte)| byte)),
                        Some((_, byte)) => text.push(byte),
                    }
                }
                words.push(Word { at, text, is_quoted: true });
            }
            _ => {
                let mut text = vec![byte];
                while let Some((_, byte)) = bytes.next_if(|(_, byte)| !b" \t;()\"".contains(byte)) {
                    text.push(byte);
                }
                words.push(Word { at, text, is_quoted: false });
            }
        }
    }
    Ok(words)
}

fn text_of(word: &Word) -> &str {
    // A line is UTF-8 and words are cut at ASCII: only an odd backslash makes it none.
    std::str::from_utf8(&word.text).unwrap_or_default()
}

fn word_at<'a>(words: &'a [Word], index: usize, what: &str) -> Result<&'a Word, WordError> {
    let end = words.last().map_or(0, |last| last.at + last.text.len());
    words.get(index).ok_or_else(|| (end, format!("the line ends where {what} is wanted")))
}

fn nothing_more(words: &[Word], from: usize) -> Result<(), WordError> {
    match words.get(from) {
        None => Ok(()),
        Some(word) => Err((word.at, format!("`{}` is too much", text_of(word)))),
    }
}

fn number<T: std::str::FromStr>(word: &Word) -> Result<T, WordError> {
    let text = text_of(word);
    text.parse().map_err(|_| (word.at, format!("`{text}` is no number that fits here")))
}

fn address(word: &Word) -> Result<IpAddr, WordError> {
    let text = text_of(word);
    text.parse().map_err(|_| (word.at, format!("`{text}` is no address")))
}

fn texts(_first: &Word, words: &[Word]) -> Result<RData, WordError> {
    if let Some(long) = words.iter().find(|word| word.text.len() > STRING_BYTES_MAX) {
        return Err((
            long.at,
            format!("a text has at most {STRING_BYTES_MAX} octets: cut it in two"),
        ));
    }
    Ok(RData::TXT(TXT::from_bytes(words.iter().map(|word| &*word.text).collect())))
}

fn tlsa(words: &[Word], from: usize) -> Result<RData, WordError> {
    let word = |n: usize, what| word_at(words, from + n, what);
    let usage: u8 = number(word(0, "a certificate usage")?)?;
    let selector: u8 = number(word(1, "a selector")?)?;
    let matching: u8 = number(word(2, "a matching type")?)?;
    let first = word(3, "certificate data")?;
    let hex: Vec<u8> = words[from + 3..].iter().flat_map(|word| word.text.clone()).collect();
    let octet = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    let data: Option<Vec<u8>> = hex.chunks(2).map(octet).collect();
    let data = data.ok_or_else(|| (first.at, "certificate data is no hexadecimal".to_owned()))?;
    Ok(RData::TLSA(TLSA::new(usage.into(), selector.into(), matching.into(), data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Zones, String> {
        Zones::read(Path::new("z"), text).map_err(|mistake| mistake.to_string())
    }

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    #[test]
    fn master_files_are_read() {
        let zones = read(
            "$ORIGIN example.test.\n\
             $TTL 300\n\
             @ IN SOA ns hostmaster ( 7 3600\n 600 86400 30 ) ; a comment\n\
             \tMX 10 mx\n\
             \t5 IN TXT \"v=spf1 \" \"; -all\" plain\n\
             mx 60 A 192.0.2.1\n\
             mx AAAA 2001:db8::1\n\
             *.wild A 192.0.2.9\n\
             a.b.deep A 192.0.2.2\n\
             _25._tcp.mx TLSA 3 1 1 ( 00ff\n AB )\n\
             $ORIGIN 2.0.192.in-addr.arpa.\n\
             1 PTR mx.example.test.\n",
        )
        .unwrap();
        let at = |text: &str| {
            let found = zones.at(&name(text)).unwrap_or_else(|| panic!("{text}"));
            found
                .iter()
                .map(|r| format!("{} {} {}", r.ttl, r.record_type(), r.data))
                .collect::<Vec<_>>()
        };
        assert!(at("example.test.")[0].starts_with("300 SOA ns.example.test."));
        assert_eq!(at("example.test.")[1], "300 MX 10 mx.example.test.");
        assert!(at("example.test.")[2].starts_with("5 TXT v=spf1 "));
        assert_eq!(at("mx.example.test."), ["60 A 192.0.2.1", "300 AAAA 2001:db8::1"]);
        assert_eq!(at("1.2.0.192.in-addr.arpa."), ["300 PTR mx.example.test."]);
        assert_eq!(at("x.y.wild.example.test."), ["300 A 192.0.2.9"]);
        assert!(at("_25._tcp.mx.example.test.")[0].to_uppercase().ends_with("3 1 1 00FFAB"));
        // Between names there are names without records; beyond them none.
        assert!(at("b.deep.example.test.").is_empty() && at("wild.example.test.").is_empty());
        assert!(zones.at(&name("c.deep.example.test.")).is_none());
        assert!(zones.at(&name("nobody.example.test.")).is_none());
        assert!(zones.soa_of(&name("x.example.test.")).is_some());
        assert!(zones.soa_of(&name("x.other.test.")).is_none());
        assert!(zones.soa_of(&name("9.2.0.192.in-addr.arpa.")).is_some());
    }

    #[test]
    fn mistakes_have_their_places() {
        for (text, told) in [
            ("a.test. A 192.0.2.256", "z:1:11: `192.0.2.256` is no address"),
            ("a.test. A 2001:db8::1", "z:1:11: an IPv4 address is wanted"),
            (
                "\na.test. 60 IN NAPTR 1",
                "z:2:15: `NAPTR` is no type that is known: A, AAAA, CNAME, MX, NS, PTR, SOA, TLSA or TXT",
            ),
            ("a.test. MX 10", "z:1:14: the line ends where a host is wanted"),
            ("a.test. MX ten mx.", "z:1:12: `ten` is no number that fits here"),
            ("a.test. A 192.0.2.1 x", "z:1:21: `x` is too much"),
            ("  A 192.0.2.1", "z:1:3: no name before it"),
            ("$INCLUDE x", "z:1:1: `$INCLUDE` is not known: $ORIGIN or $TTL"),
            ("a.test. TXT \"open", "z:1:13: this text is not closed"),
            ("a.test. TXT ) x", "z:1:13: this parenthesis was not opened"),
            ("a.test. TXT ( x", "z:1:1: a parenthesis is never closed"),
            (
                "a.test. A 192.0.2.1\na.test. CNAME b.",
                "z:2:9: an alias (CNAME) has no other records beside it",
            ),
            ("a.test. TLSA 3 1 1 0", "z:1:20: certificate data is no hexadecimal"),
            ("a..test. A 192.0.2.1", "z:1:1: `a..test.` is no name"),
        ] {
            assert_eq!(read(text).map(|zones| zones.record_count()).unwrap_err(), told);
        }
        assert!(read(&format!("a.test. TXT {}", "x".repeat(255))).is_ok());
        assert!(read(&format!("a.test. TXT {}", "x".repeat(256))).is_err());
    }
}
