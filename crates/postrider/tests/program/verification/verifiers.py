"""What dkimpy and Mail::DKIM say of messages that have one signature each.

argv: a Perl script. In: [zone, messages] as JSON, the zone being TXT records by name. Out: for each message what
either says (Mail::DKIM of RSA only), as JSON.
"""

import json
import subprocess
import sys

import dkim

zone, messages = json.load(sys.stdin)


def record(name, timeout=5):
    found = zone.get(name.decode().rstrip("."))
    return found.encode() if found else None


def dkimpy(message):
    try:
        return "pass" if dkim.verify(message.encode("latin-1"), dnsfunc=record) else "fail"
    except dkim.DKIMException as why:
        return f"fail ({why})"


perl = subprocess.run(
    ["/usr/bin/perl", "-e", sys.argv[1]],
    input=json.dumps([zone, messages]).encode(),
    stdout=subprocess.PIPE,
    check=True,
)
said = json.loads(perl.stdout)
print(json.dumps([[dkimpy(message), said[n]] for n, message in enumerate(messages)]))
