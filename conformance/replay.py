#!/usr/bin/env python3
"""Replays transcripts over TCP: replay.py HOST PORT [--as cellar|memcached] [FILE...]

The format is described in README.md. The server is flushed before each transcript.
"""

import pathlib
import re
import socket
import sys
import time

ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.)|\{([^{}]*)\}")
LETTERS = {"r": b"\r", "n": b"\n", "t": b"\t", "\\": b"\\"}


def parts(text):
    """Splits a text into bytes and names in braces."""
    at = 0
    for match in ESCAPE.finditer(text):
        yield text[at : match.start()].encode(), None
        at = match.end()
        escape, brace = match.groups()
        if escape:
            yield (bytes.fromhex(escape[1:]) if escape[0] == "x" else LETTERS[escape]), None
        elif (times := re.fullmatch(r"(.+)\*(\d+)", brace)):
            yield times[1].encode() * int(times[2]), None
        else:
            yield b"", brace
    yield text[at:].encode(), None


def message(text, names):
    return b"".join(names[name] if name else raw for raw, name in parts(text))


def pattern(text, names, line_end):
    """An answer as a regular expression; returns it and the names it binds."""
    out, bound = b"", []
    for raw, name in parts(text):
        if name is None:
            out += re.escape(raw)
        elif name == "*":
            out += rb"[^\r\n]*"
        elif name in names:
            out += re.escape(names[name])
        elif name in bound:
            out += b"(?P=" + name.encode() + b")"
        else:
            bound.append(name)
            out += b"(?P<" + name.encode() + rb">[^ \r\n]+)"
    return out + (rb"\r\n" if line_end else b""), bound


class Client:
    def __init__(self, address):
        self.address = address
        self.open()

    def open(self):
        self.socket = socket.create_connection(self.address)
        self.socket.settimeout(0.15)

    def exchange(self, data, expected):
        """Sends and reads until the answer fits, or nothing more comes."""
        self.closed, answer = False, b""
        try:
            self.socket.sendall(data)
            while not (expected.pattern and expected.fullmatch(answer)):
                piece = self.socket.recv(1 << 20)
                if not piece:
                    self.closed = True
                    break
                answer += piece
        except socket.timeout:
            pass
        except OSError:
            self.closed = True
        return answer

    def wait_closed(self):
        try:
            return self.closed or self.socket.recv(1) == b""
        except socket.timeout:
            return False
        except OSError:
            return True


def steps(lines, server):
    """Yields (line number, sent, answers, seconds, closed)."""
    sent, answers, first = [], [], 0
    for number, line in enumerate(lines, 1):
        mark, _, text = line.partition(" ")
        if mark in ("", "#") or mark.startswith("#"):
            continue
        if mark in (">", ">|"):
            if answers or not sent:
                if sent:
                    yield first, sent, answers, 0, False
                sent, answers, first = [], [], number
            sent.append(text + ("\\r\\n" if mark == ">" else ""))
        elif mark.startswith("<"):
            if mark in ("<", "<|", "<has", "<" + server):
                answers.append((mark, text))
            else:
                answers.append(("<other", ""))
        elif mark == "~":
            if sent:
                yield first, sent, answers, 0, False
            sent, answers = [], []
            yield number, [], [], int(text.rstrip("s")), False
        elif mark == "!":
            yield first, sent, answers, 0, True
            sent, answers = [], []
        else:
            sys.exit(f"line {number}: unknown mark {mark!r}")
    if sent:
        yield first, sent, answers, 0, False


def replay(path, address, server):
    client, names, failed = Client(address), {}, 0
    time.sleep(1.1)
    client.exchange(b"flush_all\r\n", re.compile(rb"OK\r\n"))
    time.sleep(1.1)
    for number, sent, answers, seconds, closed in steps(path.read_text().split("\n"), server):
        time.sleep(seconds)
        if not sent:
            continue
        data = b"".join(message(text, names) for text in sent)
        has = [text for mark, text in answers if mark == "<has"]
        if has:
            expected = re.compile(rb"(?s).*(END|OK|RESET)\r\n")
        else:
            known, bound = b"", []
            for mark, text in answers:
                if mark != "<other":
                    piece, more = pattern(text, {**names, **{}}, mark != "<|")
                    for name in more:
                        if name in bound:
                            piece = re.sub(b"\\(\\?P<%s>[^)]*\\)" % name.encode(),
                                           b"(?P=%s)" % name.encode(), piece)
                        else:
                            bound.append(name)
                    known += piece
            expected = re.compile(known, re.S)
        answer = client.exchange(data, expected)
        if has:
            missing = [t for t in has if not re.search(pattern(t, names, True)[0], answer)]
            fits = not missing
        else:
            match = expected.fullmatch(answer)
            fits = match is not None
            if match:
                names.update({k: v for k, v in match.groupdict().items() if v is not None})
        if fits and closed and not client.wait_closed():
            fits = False
        if not fits:
            failed += 1
            print(f"{path.name}:{number}: sent {data[:200]!r}\n  expected "
                  f"{missing if has else expected.pattern[:400]!r}\n  answer   {answer[:400]!r}")
        if closed or client.closed:
            client.open()
    return failed


def main():
    arguments = sys.argv[1:]
    server = "cellar"
    if "--as" in arguments:
        at = arguments.index("--as")
        server = arguments[at + 1]
        del arguments[at : at + 2]
    if len(arguments) < 2:
        sys.exit(__doc__)
    host, port, *files = arguments
    home = pathlib.Path(__file__).parent / "memcached"
    paths = [pathlib.Path(file) for file in files] or sorted(home.glob("*.txt"))
    failed = 0
    for path in paths:
        if server != "cellar" and path.read_text().startswith("# cellar only"):
            continue
        wrong = replay(path, (host, int(port)), server)
        failed += wrong
        print(f"{path.name}: {'ok' if not wrong else f'{wrong} wrong'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
