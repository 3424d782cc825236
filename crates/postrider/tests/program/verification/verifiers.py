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
        return "pass" if dkim.verify(message, dnsfunc=record) else "fail"
    except dkim.DKIMException as why:
        return f"fail ({why})"


# Perl reads megabytes of JSON slowly: each message comes with its length before it.
octets = [message.encode("latin-1") for message in messages]
perl = subprocess.run(
    ["/usr/bin/perl", "-e", sys.argv[1], json.dumps(zone)],
    input=b"".join(b"%d\n%s" % (len(message), message) for message in octets),
    stdout=subprocess.PIPE,
    check=True,
)
said = perl.stdout.decode().splitlines()
assert len(said) == len(messages), said
print(json.dumps([[dkimpy(message), said[n]] for n, message in enumerate(octets)]))
