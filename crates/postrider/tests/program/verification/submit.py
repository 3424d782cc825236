"""Submits messages as a user who logs in.

argv: port. In: [how, message] as JSON, `how` being DATA or BDAT. Out: the last reply to each, as JSON.
"""

import json
import smtplib
import ssl
import sys

context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
client = smtplib.SMTP_SSL("127.0.0.1", int(sys.argv[1]), timeout=60, context=context)
client.login("jo", "pencil")
replies = []
for how, text in json.load(sys.stdin):
    message = text.encode("latin-1")
    client.mail("jo@example.org", ["BODY=8BITMIME"])
    client.rcpt("al@far.test")
    if how == "DATA":
        code, said = client.data(message)
    else:
        # In pieces that end anywhere.
        for at in range(0, len(message), 70001):
            piece = message[at : at + 70001]
            last = " LAST" if at + 70001 >= len(message) else ""
            client.send(b"BDAT %d%s\r\n" % (len(piece), last.encode()) + piece)
            code, said = client.getreply()
    replies.append(f"{code} {said.decode()}")
client.quit()
print(json.dumps(replies))
