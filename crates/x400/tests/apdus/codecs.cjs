#!/usr/bin/env node
// Reads MTS-APDUs and writes them again, by codecs that were generated from the ITU's modules (npm, @wildboar/x400).
//   node codecs.cjs IN OUT       both are records: four octets of length, big-endian, and an APDU
'use strict';
const fs = require('fs');
const { BERElement, ASN1TagClass } = require('asn1-ts');
const $ = require('asn1-ts/dist/node/functional');
const mod = path => require(`@wildboar/x400/src/lib/modules/${path}.ta.js`);
// The codecs take any tag for an untagged CHOICE in a SET: say which tags it has.
for (const [types, name, tags] of [
  [['MessageTransferEnvelope', 'ProbeTransferEnvelope', 'ReportTransferContent'], 'content-type',
    [[ASN1TagClass.application, 6], [ASN1TagClass.universal, 6]]],
  [['MTASuppliedInformation'], 'attempted', [[ASN1TagClass.universal, 22], [ASN1TagClass.application, 3]]],
]) for (const type of types) {
  const m = mod('MTAAbstractService/' + type);
  for (const key of Object.keys(m)) if (key.startsWith('_root_component_type_list')) m[key].forEach((spec, i) => {
    if (spec.name === name) m[key][i] = new $.ComponentSpec(name, spec.optional, $.or(...tags.map(t => $.hasTag(...t))));
  });
}
const APDU = mod('MTSTransferProtocol/MTS-APDU');
const BER = () => new BERElement();
const [input, output] = process.argv.slice(2);
const octets = fs.readFileSync(input);
const out = [];
let count = 0;
for (let at = 0; at < octets.length; count++) {
  const length = octets.readUInt32BE(at);
  const record = octets.subarray(at + 4, at + 4 + length);
  at += 4 + length;
  try {
    const element = new BERElement();
    element.fromBytes(record);
    const bytes = Buffer.from(APDU._encode_MTS_APDU(APDU._decode_MTS_APDU(element), BER).toBytes());
    const head = Buffer.alloc(4);
    head.writeUInt32BE(bytes.length);
    out.push(head, bytes);
  } catch (error) {
    console.error(`APDU ${count}: ${error.message}\n${record.toString('hex')}`);
    process.exit(1);
  }
}
fs.writeFileSync(output, Buffer.concat(out));
console.log(count);
