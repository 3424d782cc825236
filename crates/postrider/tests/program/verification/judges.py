"""What OpenDKIM, as a milter that verifies, and rspamd say of messages.

argv: their ports. In: messages as JSON. Out: for each what either says, as JSON.
"""

import json
import re
import socket
import struct
import sys
import urllib.request

OPENDKIM, RSPAMD = (int(port) for port in sys.argv[1:3])


def packet(command, data=b""):
    return struct.pack(">I", len(data) + 1) + command + data


def hear(stream):
    length = struct.unpack(">I", stream.recv(4, socket.MSG_WAITALL))[0]
    said = stream.recv(length, socket.MSG_WAITALL)
    return said[:1], said[1:]


def fields_of(head):
    fields = []
    for line in head.split(b"\r\n"):
        if line[:1] in (b" ", b"\t"):
            fields[-1] += b"\n" + line
        elif line:
            fields.append(line)
    return fields


def opendkim(message):
    stream = socket.create_connection(("127.0.0.1", OPENDKIM))
    stream.sendall(packet(b"O", struct.pack(">III", 6, 0x1FF, 0x1FF7FF)))
    _, agreed = hear(stream)
    protocol = struct.unpack(">III", agreed[:12])[2]

    def tell(command, data, untold, unanswered):
        if not protocol & untold:
            stream.sendall(packet(command, data))
            if not protocol & unanswered:
                hear(stream)

    tell(b"C", b"unknown\x004\0\x19127.0.0.1\0", 0x1, 0x1000)
    tell(b"H", b"h.test\0", 0x2, 0x2000)
    tell(b"M", b"<jo@example.org>\0", 0x4, 0x4000)
    tell(b"R", b"<al@far.test>\0", 0x8, 0x8000)
    tell(b"T", b"", 0x200, 0x10000)
    head, _, body = message.partition(b"\r\n\r\n")
    for field in fields_of(head):
        name, _, value = field.partition(b":")
        if not protocol & 0x100000:
            value = value.removeprefix(b" ")
        tell(b"L", name + b"\0" + value + b"\0", 0x20, 0x80)
    tell(b"N", b"", 0x40, 0x40000)
    for at in range(0, len(body), 65535):
        tell(b"B", body[at : at + 65535], 0x10, 0x80000)
    stream.sendall(packet(b"E"))
    said = b""
    while True:
        command, data = hear(stream)
        if b"Authentication-Results" in data:
            said = data
        if command in b"cardty":
            break
    stream.close()
    return b" ".join(re.findall(rb"dkim=(\w+)", said)).decode()


def rspamd(message):
    asked = urllib.request.Request(f"http://127.0.0.1:{RSPAMD}/checkv2", data=message)
    with urllib.request.urlopen(asked) as answer:
        symbols = json.load(answer)["symbols"]
    verdicts = {"R_DKIM_ALLOW": "pass", "R_DKIM_REJECT": "fail"}
    return " ".join(verdicts[symbol] for symbol in sorted(symbols) if symbol in verdicts)


messages = [text.encode("latin-1") for text in json.load(sys.stdin)]
print(json.dumps([[opendkim(message), rspamd(message)] for message in messages]))
