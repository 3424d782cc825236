//! What is answered to a question.

use super::zone::Zones;
use hickory_proto::op::{Edns, Message, MessageType, Metadata, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

/// Octets of an answer over UDP to who says nothing of EDNS (RFC 1035 §4.2.1).
const PLAIN_BYTES_MAX: usize = 512;
/// Octets of any other over UDP: what passes everywhere.
const EDNS_BYTES_MAX: usize = 1_232;
/// Aliases that are followed within our own zones.
const ALIASES_MAX: usize = 8;

/// The answer, as octets; `None` where none is owed: what came is no question.
#[must_use]
pub fn answer(zones: &Zones, request: &[u8], is_tcp: bool) -> Option<Vec<u8>> {
    let Ok(request) = Message::from_vec(request) else { return malformed(request) };
    if request.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut response = Message::response(request.metadata.id, request.metadata.op_code);
    response.metadata = Metadata::response_from_request(&request.metadata);
    response.metadata.message_type = MessageType::Response;
    let bytes_max = match &request.edns {
        Some(edns) => {
            let mut ours = Edns::new();
            ours.set_max_payload(EDNS_BYTES_MAX as u16).set_version(0);
            response.set_edns(ours);
            usize::from(edns.max_payload()).clamp(PLAIN_BYTES_MAX, EDNS_BYTES_MAX)
        }
        None => PLAIN_BYTES_MAX,
    };
    match request.queries.as_slice() {
        _ if request.metadata.op_code != OpCode::Query => {
            response.metadata.response_code = ResponseCode::NotImp;
        }
        [query] if query.query_class() == DNSClass::IN => {
            response.add_query(query.clone());
            fill(zones, &query.name().to_lowercase(), query.query_type(), &mut response);
        }
        [query] => {
            response.add_query(query.clone());
            response.metadata.response_code = ResponseCode::Refused;
        }
        _ => response.metadata.response_code = ResponseCode::FormErr,
    }
    let wire = response.to_vec().ok()?;
    if is_tcp || wire.len() <= bytes_max { Some(wire) } else { response.truncate().to_vec().ok() }
}

/// RFC 1035 §4.1.1: what can't be read is answered as such, if it has a header at all.
fn malformed(request: &[u8]) -> Option<Vec<u8>> {
    let id = u16::from_be_bytes([*request.first()?, *request.get(1)?]);
    let is_answer = request.get(2)? & 0x80 != 0;
    if is_answer || request.len() < 12 {
        return None;
    }
    Message::error_msg(id, OpCode::Query, ResponseCode::FormErr).to_vec().ok()
}

/// The answer section, or the SOA that says why it is empty (RFC 2308 §2).
fn fill(zones: &Zones, name: &Name, wanted: RecordType, response: &mut Message) {
    let mut name = name.clone();
    if zones.soa_of(&name).is_none() {
        response.metadata.response_code = ResponseCode::Refused;
        return;
    }
    response.metadata.authoritative = true;
    for _ in 0..=ALIASES_MAX {
        // An alias has led out of our zones: the rest is for the resolver to find.
        let Some(soa) = zones.soa_of(&name) else { return };
        let Some(records) = zones.at(&name) else {
            response.metadata.response_code = ResponseCode::NXDomain;
            response.add_authority(negative(soa));
            return;
        };
        let alias = records.iter().find(|record| record.record_type() == RecordType::CNAME);
        let is_asked =
            |record: &&Record| wanted == RecordType::ANY || record.record_type() == wanted;
        let found: Vec<Record> =
            records.iter().filter(is_asked).map(|record| named(record, &name)).collect();
        if !found.is_empty() {
            response.add_answers(found);
            return;
        }
        match alias.map(|alias| (alias, &alias.data)) {
            Some((alias, RData::CNAME(target))) => {
                response.add_answer(named(alias, &name));
                name = target.0.to_lowercase();
            }
            _ => {
                response.add_authority(negative(soa));
                return;
            }
        }
    }
    response.metadata.response_code = ResponseCode::ServFail;
}

/// The record under the name that was asked for, which a wildcard's is not.
fn named(record: &Record, name: &Name) -> Record {
    Record::from_rdata(name.clone(), record.ttl, record.data.clone())
}

/// The SOA with the time that a negative answer may be kept (RFC 2308 §5).
fn negative(soa: &Record) -> Record {
    let ttl = match &soa.data {
        RData::SOA(data) => soa.ttl.min(data.minimum),
        _ => soa.ttl,
    };
    Record::from_rdata(soa.name.clone(), ttl, soa.data.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_proto::op::Query;
    use std::path::Path;

    const ZONE: &str = "$ORIGIN a.test.\n@ SOA ns h 1 2 3 4 5\n@ MX 10 mx\nmx A 192.0.2.1\n\
                        www CNAME mx\nout CNAME b.test.\nmissing CNAME nobody\nl1 CNAME l2\n\
                        l2 CNAME l1\n* TXT any\n$ORIGIN c.test.\nmany TXT ";

    fn zones() -> Zones {
        let many = format!("{}\n", vec![format!("\"{}\"", "x".repeat(250)); 8].join(" "));
        Zones::read(Path::new("z"), &(ZONE.to_owned() + &many)).unwrap()
    }

    fn question(name: &str, kind: RecordType) -> Message {
        let mut message = Message::query();
        message.metadata.id = 7;
        message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
        message
    }

    fn ask(name: &str, kind: RecordType) -> Message {
        let wire = answer(&zones(), &question(name, kind).to_vec().unwrap(), true).unwrap();
        Message::from_vec(&wire).unwrap()
    }

    fn shown(records: &[Record]) -> Vec<String> {
        records.iter().map(|r| format!("{} {} {}", r.name, r.ttl, r.record_type())).collect()
    }

    #[test]
    fn there_is_an_answer_or_a_reason() {
        let got = ask("A.test.", RecordType::MX);
        assert!(got.metadata.authoritative && got.metadata.id == 7);
        assert_eq!(shown(&got.answers), ["a.test. 60 MX"]);
        // No such type: the SOA, with the lesser of its TTL and its minimum.
        let none = ask("mx.a.test.", RecordType::AAAA);
        assert_eq!(none.metadata.response_code, ResponseCode::NoError);
        assert_eq!(
            (none.answers.len(), shown(&none.authorities)),
            (0, vec!["a.test. 5 SOA".into()])
        );
        // No such name, below one that is there: the wildcard doesn't reach.
        let gone = ask("x.mx.a.test.", RecordType::A);
        assert_eq!(gone.metadata.response_code, ResponseCode::NXDomain);
        assert_eq!(shown(&gone.authorities), ["a.test. 5 SOA"]);
        assert_eq!(shown(&ask("x.y.a.test.", RecordType::TXT).answers), ["x.y.a.test. 60 TXT"]);
        assert_eq!(ask("b.test.", RecordType::A).metadata.response_code, ResponseCode::Refused);
        // A zone whose file has no SOA has one.
        let made = ask("c.test.", RecordType::SOA);
        assert_eq!(shown(&made.answers), ["c.test. 60 SOA"]);
        assert_eq!(ask("x.c.test.", RecordType::A).metadata.response_code, ResponseCode::NXDomain);
    }

    #[test]
    fn aliases_are_followed_as_far_as_the_zones_go() {
        let got = ask("www.a.test.", RecordType::A);
        assert_eq!(shown(&got.answers), ["www.a.test. 60 CNAME", "mx.a.test. 60 A"]);
        assert_eq!(shown(&ask("www.a.test.", RecordType::CNAME).answers), ["www.a.test. 60 CNAME"]);
        let out = ask("out.a.test.", RecordType::A);
        assert_eq!((out.metadata.response_code, out.answers.len()), (ResponseCode::NoError, 1));
        assert_eq!(ask("l1.a.test.", RecordType::A).metadata.response_code, ResponseCode::ServFail);
    }

    #[test]
    fn over_udp_a_long_answer_says_that_it_is_cut() {
        let question = question("many.c.test.", RecordType::TXT);
        let plain = question.to_vec().unwrap();
        let over = |wire: &[u8], is_tcp| {
            let got = answer(&zones(), wire, is_tcp).unwrap();
            (got.len(), Message::from_vec(&got).unwrap().metadata.truncation)
        };
        assert!(over(&plain, true) > (2_000, false) && !over(&plain, true).1);
        assert!(over(&plain, false).0 <= PLAIN_BYTES_MAX && over(&plain, false).1);
    }

    #[test]
    fn what_is_no_question_gets_no_answer_of_the_zones() {
        let zones = zones();
        assert_eq!(answer(&zones, b"", false), None);
        assert_eq!(answer(&zones, &[0; 11], false), None);
        let mut reply = question("a.test.", RecordType::A).to_vec().unwrap();
        reply[2] |= 0x80;
        assert_eq!(answer(&zones, &reply, false), None);
        let cut = &question("a.test.", RecordType::A).to_vec().unwrap()[..16];
        let got = Message::from_vec(&answer(&zones, cut, false).unwrap()).unwrap();
        assert_eq!((got.metadata.id, got.metadata.response_code), (7, ResponseCode::FormErr));
    }
}
