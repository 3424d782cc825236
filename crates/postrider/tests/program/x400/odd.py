#!/usr/bin/env python3
"""What a foreign MTA does that it should not, or that befalls it: odd.py PORT WHAT."""
import os, socket, struct, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../../../../x400/tests/witness'))
from p1client import *

PORT, WHAT = int(sys.argv[1]), sys.argv[2]
ORIG = orname('GB', ' ', 'TestC', 'Gamma', 'Sender', 'Carol')
BOB = orname('GB', ' ', 'TestB', 'Beta', 'bob')
GDI = gdi('GB', ' ', 'TestC')


def bound():
    c = Conn('127.0.0.1', PORT, b'x400in88')
    open_assoc(c, 'client.test', 'secretc')
    return c


def apdu(mid='same', recipients=(BOB,), size=10):
    return message(ORIG, list(recipients), ipm22(ORIG, [BOB], 'Odd', 'x' * size), mid, GDI)


def offer(c, octets, number=1):
    """All of an activity, without waiting for what comes of it."""
    external = b'\x28\x80' + INT(5) + b'\xa0\x80' + octets + b'\0\0\0\0'
    c.send(GT + spdu(45, pv(41, INT(number))))
    c.send(GT + b'\x01\x00' + pdv(3, tlv(4, external)))
    c.send(GT + spdu(41, pv(42, b'1')))


if WHAT == 'resend':
    # The connection breaks before the acknowledgement is read; then the same octets come again, and a third time.
    octets = apdu()
    c = bound()
    offer(c, octets)
    time.sleep(1)
    c.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    c.s.close()
    c = bound()
    transfer(c, octets, 0, 3, 1)
    transfer(c, octets, 0, 3, 2)
    close(c)
elif WHAT == 'full':
    c = bound()
    offer(c, apdu())
    print(c.recv().hex())
    c.send(GT + spdu(57, pv(50, b'\x01')))
    print(c.recv().hex())
elif WHAT == 'unreadable':
    c = bound()
    transfer(c, b'\xa0\x0a\x31\x03\x02\x01\x01\x04\x03abc', 0, 3, 1)
    transfer(c, apdu(), 0, 3, 2)
    close(c)
elif WHAT == 'long':
    c = bound()
    transfer(c, apdu(size=100_000), 0, 3, 1)
    close(c)
elif WHAT == 'many':
    c = bound()
    transfer(c, apdu(recipients=[BOB] * 101), 0, 3, 1)
    close(c)
elif WHAT == 'loop':
    visits = b''.join(
        tlv(0x30, gdi('GB', ' ', name), tlv(0x31, tlv(0x80, utc()), INT(0, 0x82)))
        for name in ('TestC', 'Relay', 'Elsewhere'))
    recipient = tlv(0x31, BOB, INT(1, 0x80), tlv(0x81, b'\x00\xa8'))
    envelope = tlv(0x31, tlv(0x64, GDI, PS('loop', 0x16)), ORIG, INT(22, 0x46), tlv(0x69, visits),
                   tlv(0xa2, recipient))
    c = bound()
    transfer(c, tlv(0xa0, envelope, tlv(4, b'x')), 0, 3, 1)
    close(c)
elif WHAT == 'garbage':
    for octets in (b'GET / HTTP/1.0\r\n\r\n', b'\x03\x00\x00\x03', b'\x04\x00\x00\x07\x02\xf0\x80',
                   b'\x03\x00\x00\x07\x02\xf0\x80'):
        s = socket.create_connection(('127.0.0.1', PORT))
        s.settimeout(10)
        s.sendall(octets)
        while s.recv(1000):
            pass
        s.close()
    c = bound()
    transfer(c, apdu(), 0, 3, 1)
    close(c)
