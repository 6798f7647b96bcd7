"""Probes one RADIUS server, one probe after the other, as a container with pyrad
does: pyrad_loop.py PORT PROBES DICTIONARY. Prints how many were accepted."""

import sys

from pyrad.client import Client, Timeout
from pyrad.dictionary import Dictionary
from pyrad.packet import AccessAccept

port, probes, dictionary = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
client = Client("127.0.0.1", authport=port, secret=b"bench-secret", dict=Dictionary(dictionary),
                retries=3, timeout=1, enforce_ma=True)
accepted = 0
for _ in range(probes):
    request = client.CreateAuthPacket(User_Name="probe", NAS_Identifier="radwitness", NAS_IP_Address="127.0.0.1")
    request["User-Password"] = request.PwCrypt("correct-horse")
    try:
        accepted += client.SendPacket(request).code == AccessAccept
    except Timeout:
        pass
print(accepted)
