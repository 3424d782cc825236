#!/usr/bin/env node
// A small P1 peer, both roles: framing and session by hand (RFC 1006, X.224, X.225), everything in ASN.1 by the
// @wildboar codecs (npm, generated from the ITU modules).
//   node peer.cjs listen PORT            accept associations (0: any port), print a line of JSON for each APDU
//   node peer.cjs send PORT FILE.ber...  bind in normal mode, transfer each MTS-APDU (re-encoded by the codecs), release
'use strict';
const net = require('net'), fs = require('fs');
const { BERElement, ASN1TagClass } = require('asn1-ts');
const $ = require('asn1-ts/dist/node/functional');
const mod = (pkg, path) => require(`@wildboar/${pkg}/src/lib/modules/${path}.ta.js`);
const X = 'MTAAbstractService/';
// The codecs (1.x) take any tag for an untagged CHOICE in a SET: say which tags it has.
for (const [types, name, tags] of [
  [['MessageTransferEnvelope', 'ProbeTransferEnvelope', 'ReportTransferContent'], 'content-type', [[ASN1TagClass.application, 6], [ASN1TagClass.universal, 6]]],
  [['MTASuppliedInformation'], 'attempted', [[ASN1TagClass.universal, 22], [ASN1TagClass.application, 3]]],
]) for (const type of types) {
  const m = mod('x400', X + type);
  for (const key of Object.keys(m)) if (key.startsWith('_root_component_type_list')) m[key].forEach((spec, i) => {
    if (spec.name === name) m[key][i] = new $.ComponentSpec(name, spec.optional, $.or(...tags.map(t => $.hasTag(...t))));
  });
}
const CP = mod('copp', 'ISO8823-PRESENTATION/CP-type'), USER = mod('copp', 'ISO8823-PRESENTATION/User-data');
const ACSE = mod('acse', 'ACSE-1/ACSE-apdu'), RTORQ = mod('rtse', 'Reliable-Transfer-APDU/RTORQapdu');
const BIND = mod('x400', X + 'MTABindArgument'), APDU = mod('x400', 'MTSTransferProtocol/MTS-APDU');
const BER = () => new BERElement();
const el = bytes => { const e = new BERElement(); e.fromBytes(bytes); return e; };
const cat = (...b) => Buffer.concat(b.map(x => Buffer.from(x)));
const len = n => n < 128 ? [n] : n < 256 ? [0x81, n] : n < 65536 ? [0x82, n >> 8, n & 255] : [0x83, n >> 16, (n >> 8) & 255, n & 255];
const tlv = (tag, ...v) => { const b = cat(...v); return cat([tag], len(b.length), b); };
const hex = s => Buffer.from(s.replace(/ /g, ''), 'hex');
// ---- session -----------------------------------------------------------------------------------------------
const sl = n => n < 255 ? [n] : [255, n >> 8, n & 255];
const pv = (code, v) => cat([code], sl(v.length), v);
const spdu = (si, ...p) => { const b = cat(...p); return cat([si], sl(b.length), b); };
const GT = [1, 0], PT = [2, 0];
function params(b) {                                     // flat map; the members of PGI 1, 5 and 33 are merged
  const out = {};
  for (let i = 0; i < b.length;) {
    const code = b[i++]; let n = b[i++]; if (n === 255) { n = b.readUInt16BE(i); i += 2; }
    if ([1, 5, 33].includes(code)) Object.assign(out, params(b.subarray(i, i + n))); else out[code] = b.subarray(i, i + n);
    i += n;
  }
  return out;
}
function spdus(t) {                                      // one TSDU; the SPDU after GT or PT has category 2
  const out = [];
  for (let i = 0; i < t.length;) {
    const si = t[i++]; let n = t[i++]; if (n === 255) { n = t.readUInt16BE(i); i += 2; }
    const s = { si, second: out.length > 0, p: params(t.subarray(i, i + n)) }; i += n;
    if (si === 1 && s.second) { s.data = t.subarray(i); i = t.length; }
    out.push(s);
  }
  return out;
}
// ---- transport ---------------------------------------------------------------------------------------------
class Transport {
  constructor(socket, onTsdu, onConfirm) {
    Object.assign(this, { socket, onTsdu, onConfirm, in: Buffer.alloc(0), parts: [], max: 65531 });
    socket.setNoDelay(true);
    socket.on('error', () => {});
    socket.on('data', d => { this.in = cat(this.in, d); this.step(); });
  }
  step() {
    while (this.in.length >= 4 && this.in.length >= this.in.readUInt16BE(2)) {
      const n = this.in.readUInt16BE(2), t = this.in.subarray(4, n); this.in = this.in.subarray(n);
      switch (t[1] & 0xf0) {
        case 0xe0: this.limit(t); this.raw(cat([9, 0xd0], t.subarray(4, 6), [0x12, 0x35, 0, 0xc0, 1, 0x0b])); this.max = 2048; break;
        case 0xd0: this.limit(t); this.onConfirm(); break;
        case 0xf0: this.parts.push(t.subarray(3)); if (t[2] & 0x80) { const x = cat(...this.parts); this.parts = []; this.onTsdu(x); } break;
        default: this.socket.end();
      }
    }
  }
  limit(t) { for (let i = 7; i <= t[0]; i += 2 + t[i + 1]) if (t[i] === 0xc0) this.max = 1 << t[i + 2]; }
  raw(t) { this.socket.write(cat([3, 0, (t.length + 4) >> 8, (t.length + 4) & 255], t)); }
  send(...tsdus) {                                       // all of them in one write
    const out = [];
    for (let t of tsdus.map(x => cat(...x))) do {
      const c = t.subarray(0, this.max - 3); t = t.subarray(this.max - 3);
      out.push(cat([3, 0, (c.length + 7) >> 8, (c.length + 7) & 255, 2, 0xf0, t.length ? 0 : 0x80], c));
    } while (t.length);
    this.socket.write(cat(...out));
  }
}
const pdv = (ctx, v) => tlv(0x61, tlv(0x30, tlv(2, [ctx]), tlv(0xa0, v)));
const json = o => JSON.stringify(o, (k, v) => typeof v === 'bigint' ? String(v) : v instanceof Uint8Array || Buffer.isBuffer(v) ? Buffer.from(v).toString('hex').slice(0, 64) : v);
// ---- responder ---------------------------------------------------------------------------------------------
function respond(socket) {
  let mode, ids = {}, pieces, checkpoint = 0;
  const transport = new Transport(socket, tsdu => spdus(tsdu).forEach(s => handle(s)));
  function handle(s) {
    if (s.si === 13) return connect(s);
    if (s.si === 45) { pieces = []; return; }
    if (s.si === 1 && s.second) return pieces.push(mode === 'normal' ? rttr(s.data) : s.data);
    if (s.si === 49) return transport.send([PT, spdu(50, pv(42, s.p[42]))]);
    if (s.si === 41) { apdu(cat(...pieces)); return transport.send([PT, spdu(42, pv(42, s.p[42]))]); }
    if (s.si === 57) return transport.send([PT, spdu(58)]);
    if (s.si === 21) return transport.send([spdu(22)]);
    if (s.si === 9) return transport.send([mode === 'normal' ? spdu(10, pv(193, pdv(ids.acse, tlv(0x63, tlv(0x80, [0]))))) : spdu(10)]);
    if (s.si !== 1 && s.si !== 2) { console.log(json({ unexpected: s.si })); socket.end(); }
  }
  function rttr(data) {
    const list = USER._decode_User_data(el(data)).fully_encoded_data[0];
    if (Number(list.presentation_context_identifier) !== ids.rtse) throw new Error('RTTR in another context');
    return list.presentation_data_values.single_ASN1_type.octetString;
  }
  function apdu(bytes) {
    let e = el(bytes);
    if (mode === 'normal') e = e.sequence.find(c => c.tagClass === ASN1TagClass.context && c.tagNumber === 0).inner;   // EXTERNAL; .external of 8.0.5 fails on indefinite lengths
    const m = APDU._decode_MTS_APDU(e), kind = Object.keys(m)[0];
    const env = kind === 'message' ? m.message.envelope : kind === 'probe' ? m.probe : m.report.envelope;
    const id = env.message_identifier || env.probe_identifier || env.report_identifier;
    console.log(json({ mode, kind, id: id.local_identifier, priority: env.priority, recipients: (env.per_recipient_fields || m.report.content.per_recipient_fields).length,
      trace: env.trace_information.length, content: m.message ? m.message.content.length : undefined }));
  }
  function connect(s) {
    const cp = CP._decode_CP_type(el(s.p[193] || s.p[194]));
    let answer;
    if (cp.normal_mode_parameters) {
      mode = 'normal';
      const n = cp.normal_mode_parameters, list = n.presentation_context_definition_list;
      const names = { '2.2.1.0.1': 'acse', '2.6.0.2.12': 'rtse', '2.6.0.2.7': 'mts' };
      for (const c of list) ids[names[String(c.abstract_syntax_name)]] = Number(c.presentation_context_identifier);
      const aarq = ACSE._decode_ACSE_apdu(n.user_data.fully_encoded_data[0].presentation_data_values.single_ASN1_type).aarq;
      const rq = RTORQ._decode_RTORQapdu(aarq.user_information[0].encoding);
      const open = rq.connectionDataRQ.open;             // [0] around the bind's own [16]
      const arg = BIND._decode_MTABindArgument(open.inner.tagNumber === 16 ? open.inner.inner : open.inner);
      checkpoint = Number(rq.checkpointSize || 0);
      console.log(json({ mode, context: String(aarq.aSO_context_name), who: arg.authenticated && arg.authenticated.initiator_name, checkpoint, window: rq.windowSize, dialogue: rq.dialogueMode }));
      const bind = tlv(0xb1, tlv(0xa1, tlv(0x80, Buffer.from('peer')), tlv(0xa1, tlv(0x16, Buffer.from('secret')))));
      const rtoac = tlv(0xb1, tlv(0x80, [checkpoint]), tlv(0x81, [3]), tlv(0xa2, tlv(0xa0, bind)));
      const aare = tlv(0x61, hex('a106060456000106 a203020100 a305a103020100'), tlv(0xbe, tlv(0x28, hex('06025101'), tlv(2, [ids.rtse]), tlv(0xa0, rtoac))));
      answer = tlv(0x31, hex('a003800101'), tlv(0xa2, tlv(0xa5, ...list.map(() => hex('300780010081025101'))), pdv(ids.acse, aare)));
    } else {
      mode = 'x410';
      const x = cp.x410_mode_parameters;
      console.log(json({ mode, protocol: String(x.applicationProtocol), checkpoint: String(x.checkpointSize) }));
      const open = tlv(0xa0, tlv(0xa1, tlv(0x80, Buffer.from('peer')), tlv(0xa1, tlv(0x16, Buffer.from('secret')))));
      answer = tlv(0x31, hex('a003800100'), tlv(0xa1, tlv(0x80, [1]), tlv(0x81, [3]), tlv(0xa2, open)));
    }
    const ref = pv(1, cat(pv(9, hex('04041402706a')), pv(11, s.p[11])));
    transport.send([spdu(14, ref, pv(5, cat(pv(19, [0]), pv(22, [2]), pv(26, [0]))), pv(20, hex('0249')), pv(193, answer))]);
  }
}
// ---- initiator ---------------------------------------------------------------------------------------------
function send(port, files) {
  const ctx = (id, oid) => tlv(0x30, tlv(2, [id]), tlv(6, hex(oid)), tlv(0x30, hex('06025101')));
  const bind = tlv(0xb0, tlv(0xa1, tlv(0x80, Buffer.from('peer')), tlv(0xa1, tlv(0x16, Buffer.from('secret')))));
  const rtorq = tlv(0xb0, tlv(0xa3, tlv(0xa0, bind)));
  const aarq = tlv(0x60, hex('a106060456000106'), tlv(0xbe, tlv(0x28, hex('06025101 020103'), tlv(0xa0, rtorq))));
  const cp = tlv(0x31, hex('a003800101'), tlv(0xa2, tlv(0xa4, ctx(1, '52010001'), ctx(3, '5600020c'), ctx(5, '56000207')), pdv(1, aarq)));
  const socket = net.connect(port, '127.0.0.1', () => transport.raw(hex('09e000001234 00 c0010d')));   // 8,192 octets
  const cn = spdu(13, pv(1, cat(pv(10, hex('04041402706a')), pv(11, cat([0x17, 13], Buffer.from('261122060000Z'))))), pv(5, cat(pv(19, [0]), pv(22, [3]), pv(26, [0]))), pv(20, hex('0249')), pv(193, cp));
  let n = 0;
  const next = () => {
    if (n === files.length) return transport.send([spdu(9, pv(17, [1]), pv(193, pdv(1, tlv(0x62, hex('800100')))))]);
    const m = APDU._encode_MTS_APDU(APDU._decode_MTS_APDU(el(fs.readFileSync(files[n++]))), BER).toBytes();
    const ext = tlv(0x28, hex('020105'), tlv(0xa0, m));
    transport.send([GT, spdu(45, pv(41, tlv(2, [n])))], [GT, [1, 0], pdv(3, tlv(4, ext))], [GT, spdu(41, pv(42, Buffer.from('1')))]);
  };
  const transport = new Transport(socket, tsdu => spdus(tsdu).forEach(s => {
    if (s.si === 14 || (s.si === 42 && s.second)) { if (s.si === 42) console.log(files[n - 1], 'acknowledged'); next(); }
    else if (s.si === 10) socket.end();
    else if (s.si !== 2) { console.log('answer', s.si, json(s.p)); socket.end(); }
  }), () => transport.send([cn]));
}
const [role, port, ...files] = process.argv.slice(2);
if (role === 'listen') {
  const server = net.createServer(respond).listen(Number(port), '127.0.0.1', () => console.log('listening', server.address().port));
}
else if (role === 'send') send(Number(port), files);
else console.log('peer.cjs listen PORT | send PORT FILE.ber...');
