"""Hops that seal with dkimpy and rspamd, and what these say of a chain.

argv: a directory, which has message.eml, zone.json and keys; then `key NAME` (makes one, and prints its
record), `seal NAME` (by NAME.test), `verify`, or with the port of rspamd `rspamd-seal NAME PORT` and
`verify-all PORT`: what dkimpy and rspamd say of each message in messages.json.
"""

import base64
import json
import os
import subprocess
import sys
import urllib.request

import dkim

place, order = sys.argv[1:3]
zone_file = os.path.join(place, "zone.json")
mail_file = os.path.join(place, "message.eml")


def output(*words):
    return subprocess.run(words, check=True, capture_output=True).stdout


def zone():
    with open(zone_file) as file:
        return json.load(file)


def records(name, timeout=5):
    found = zone().get(name.decode().rstrip("."))
    return found.encode() if found else None


def verdict(message):
    found, _, reason = dkim.arc_verify(message, dnsfunc=records)
    # None: a seal says that the chain before it is broken.
    return (found or dkim.CV_Fail).decode(), reason


def ask_rspamd(message, port, **fields):
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/checkv2", data=message)
    for name, value in fields.items():
        asked.add_header(name.replace("_", "-"), value)
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)


def rspamd_seal(message, name, port):
    key = output("openssl", "rsa", "-in", os.path.join(place, name), "-traditional", "-outform", "DER")
    domain = {"DkimDomain": name + ".test", "DkimSelector": "s"}
    answer = ask_rspamd(
        message, port, Sign_Arc="1", DkimPrivateKey=base64.b64encode(key).decode(), **domain
    )
    made = answer["milter"]["add_headers"]
    fields = []
    for field in ("ARC-Seal", "ARC-Message-Signature", "ARC-Authentication-Results"):
        value = made[field]["value"].replace("\r\n", "\n").replace("\n", "\r\n")
        fields.append(f"{field}: {value}\r\n".encode())
    return b"".join(fields) + message


def rspamd_verdict(message, port):
    symbols = ask_rspamd(message, port)["symbols"]
    words = {"ARC_ALLOW": "pass", "ARC_REJECT": "fail", "ARC_INVALID": "fail", "ARC_NA": "none"}
    return " ".join(word for symbol, word in words.items() if symbol in symbols)


if order == "key":
    name = sys.argv[3]
    path = os.path.join(place, name)
    output("openssl", "genrsa", "-traditional", "-out", path, "2048")
    os.chmod(path, 0o600)
    public = output("openssl", "rsa", "-in", path, "-pubout", "-outform", "DER")
    record = "v=DKIM1; k=rsa; p=" + base64.b64encode(public).decode()
    known = zone() if os.path.exists(zone_file) else {}
    known[f"s._domainkey.{name}.test"] = record
    with open(zone_file, "w") as file:
        json.dump(known, file)
    print(record, end="")
elif order == "verify-all":
    with open(os.path.join(place, "messages.json")) as file:
        messages = [text.encode() for text in json.load(file)]
    print(json.dumps([[verdict(m)[0], rspamd_verdict(m, sys.argv[3])] for m in messages]))
else:
    with open(mail_file, "rb") as file:
        message = file.read()
    before, reason = verdict(message)
    if order == "verify":
        print(before, reason)
    elif order == "rspamd-seal":
        message = rspamd_seal(message, sys.argv[3], sys.argv[4])
        with open(mail_file, "wb") as file:
            file.write(message)
    else:
        name = sys.argv[3].encode()
        with open(os.path.join(place, sys.argv[3]), "rb") as file:
            key = file.read()
        # dkimpy takes the results of all hops of a name for its own.
        server = b"hop%d.test" % message.count(b"ARC-Seal:")
        message = b"Authentication-Results: " + server + b"; arc=" + before.encode() + b"\r\n" + message
        fields = dkim.arc_sign(message, b"s", name + b".test", key, server)
        assert len(fields) == 3, fields
        with open(mail_file, "wb") as file:
            file.write(b"".join(fields) + message)
