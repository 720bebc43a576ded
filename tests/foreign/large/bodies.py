"""Large bodies, and clients that send and get them without keeping any."""

import hashlib
import http.client
import socket
import ssl

from conftest import MIB

WAIT = 30
BLOCK = bytes(range(256)) * 4096
TRUSTING = ssl.create_default_context()
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE
SECURED = "\n[tls]\nself_signed = true\n"


def digest(mib):
    summed = hashlib.sha256()
    for _ in range(mib):
        summed.update(BLOCK)
    return summed.hexdigest()


class Raw:
    """A STOMP 1.2 client on a bare socket, which keeps no body."""

    def __init__(self, port, secure=False, **headers):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        if secure:
            self.socket = TRUSTING.wrap_socket(self.socket)
        self.data = b""
        self.command("CONNECT", **{"accept-version": "1.2", "host": "x"}, **headers)
        assert self.frame()[0] == "CONNECTED"

    def command(self, name, **headers):
        lines = [name] + [f"{key.replace('_', '-')}:{value}" for key, value in headers.items()]
        self.socket.sendall(("\n".join(lines) + "\n\n\0").encode())

    def subscribe(self, destination, ack="auto", **headers):
        self.command("SUBSCRIBE", id="0", destination=destination, ack=ack, receipt="s", **headers)
        assert self.frame()[:2] == ("RECEIPT", {"receipt-id": "s"})

    def begin(self, destination, length, **headers):
        lines = [f"SEND\ndestination:{destination}\ncontent-length:{length}"]
        lines += [f"{key.replace('_', '-')}:{value}" for key, value in headers.items()]
        self.socket.sendall(("\n".join(lines) + "\n\n").encode())

    def send(self, destination, mib, **headers):
        self.begin(destination, mib * MIB, **headers)
        for _ in range(mib):
            self.socket.sendall(BLOCK)
        self.socket.sendall(b"\0")

    def more(self):
        data = self.socket.recv(1 << 20)
        if not data:
            raise EOFError
        return data

    def frame(self):
        """The next frame: its command, its headers, its body's length and digest."""
        while b"\n\n" not in self.data.lstrip(b"\n"):
            self.data += self.more()
        head, _, rest = self.data.lstrip(b"\n").partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        summed = hashlib.sha256()
        if "content-length" not in headers:
            body, _, self.data = rest.partition(b"\0")
            return command, headers, len(body), None
        length = left = int(headers["content-length"])
        while True:
            summed.update(rest[:left])
            if len(rest) > left:
                break
            left -= len(rest)
            rest = self.more()
        assert rest[left : left + 1] == b"\0"
        self.data = rest[left + 1 :]
        return command, headers, length, summed.hexdigest()

    def close(self):
        self.socket.close()


def refused(client):
    command, headers, *_ = client.frame()
    assert command == "ERROR"
    return headers["code"]


def rest(server, method, path, body, **headers):
    """Status and body of the answer, which may come before all of the request has been sent."""
    one = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    one.putrequest(method, path)
    chunked = body is not None and not isinstance(body, bytes)
    if chunked:
        one.putheader("Transfer-Encoding", "chunked")
    elif body is not None:
        one.putheader("Content-Length", str(len(body)))
    for name, value in headers.items():
        one.putheader(name, value)
    one.endheaders()
    try:
        for piece in (body if chunked else [body or b""]):
            one.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            one.send(b"0\r\n\r\n")
    except ConnectionError:
        pass
    answer = one.getresponse()
    found = answer.status, answer.read()
    one.close()
    return found
