"""A relay of aiosmtpd and smtplib, told what to do by a JSON argument.

What smtplib is told by the next server is the reply to the content. Of recipients put off, or too
many for a transaction, another one is made.
"""

import asyncio
import json
import smtplib
import sys

from aiosmtpd.smtp import SMTP

told = json.loads(sys.argv[1])
refusals = {step: (sender, recipient, reply) for step, sender, recipient, reply in told["refusals"]}
put_off = set()


def reply_of(code, words):
    """The reply as it came."""
    return f"{code} {words.decode('utf-8', 'replace')}".replace("\n", " ")


def send(envelope):
    """Passes a message on; gives the reply."""
    waiting = list(envelope.rcpt_tos)
    with smtplib.SMTP("127.0.0.1", told["next_port"], "aiosmtpd.test") as client:
        while waiting:
            try:
                refused = client.sendmail(
                    envelope.mail_from, waiting, envelope.content, envelope.mail_options
                )
            except smtplib.SMTPSenderRefused as error:
                return reply_of(error.smtp_code, error.smtp_error)
            except smtplib.SMTPRecipientsRefused as error:
                return reply_of(*next(iter(error.recipients.values())))
            except smtplib.SMTPDataError as error:
                return reply_of(error.smtp_code, error.smtp_error)
            permanent = [reply for reply in refused.values() if reply[0] >= 500]
            if permanent:
                return reply_of(*permanent[0])
            waiting = list(refused)
    return "250 2.0.0 Passed on"


class Relay(SMTP):
    """Refuses what it was told to refuse."""

    async def smtp_DATA(self, arg):
        sender, _, reply = refusals["data"]
        if self.envelope.mail_from == sender:
            await self.push(reply)
        else:
            await super().smtp_DATA(arg)


class Handler:
    """The same for the steps that aiosmtpd asks about."""

    async def handle_MAIL(self, server, session, envelope, address, options):
        sender, _, reply = refusals["mail"]
        if address == sender:
            return reply
        envelope.mail_from = address
        # Those that the next server is told, too.
        envelope.mail_options.extend(word for word in options if word.startswith("BODY="))
        return "250 2.1.0 Ok"

    async def handle_RCPT(self, server, session, envelope, address, options):
        _, recipient, reply = refusals["rcpt"]
        if address == recipient:
            return reply
        if address == told["deferred"] and address not in put_off:
            put_off.add(address)
            return told["deferral"]
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 Ok"

    async def handle_DATA(self, server, session, envelope):
        sender, _, reply = refusals["dot"]
        if envelope.mail_from == sender:
            return reply
        return await asyncio.get_running_loop().run_in_executor(None, send, envelope)


class Rude(Handler):
    """Takes nobody."""

    async def handle_EHLO(self, server, session, envelope, hostname, responses):
        return [told["rude"]]

    async def handle_HELO(self, server, session, envelope, hostname):
        return told["rude"]


async def main():
    loop = asyncio.get_running_loop()

    async def listen(handler):
        def session():
            return Relay(
                handler, hostname="aiosmtpd.test", data_size_limit=told["size_max"],
                enable_SMTPUTF8=True,
            )

        server = await loop.create_server(session, "127.0.0.1", 0)
        return server.sockets[0].getsockname()[1]

    port, rude_port = await listen(Handler()), await listen(Rude())
    event = {"event": "listening", "address": f"127.0.0.1:{port}", "rude_port": rude_port}
    print(json.dumps(event), flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
