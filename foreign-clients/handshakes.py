"""What OpenSSL's s_client is granted and refused in a handshake, as scanners of TLS look at it."""

import concurrent.futures
import re
import socket
import subprocess

# OpenSSL's names for what has forward secrecy and encrypts with authentication, as far as the
# server has it.
GOOD = {
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    *(
        f"ECDHE-{signed}-{cipher}"
        for signed in ("ECDSA", "RSA")
        for cipher in ("AES256-GCM-SHA384", "AES128-GCM-SHA256", "CHACHA20-POLY1305")
    ),
}
SECONDS_MAX = 10
SIDE_BY_SIDE = 2
HELLO, ALERT = 22, 21
SERVER_HELLO = 2
# ECDHE-ECDSA and ECDHE-RSA with AES-128-GCM.
SUITES = b"\xc0\x2b\xc0\x2f"


def outcomes(port, authority):
    """Every check, as (test, problem)."""
    yield "each cipher without forward secrecy or AEAD is refused", ciphers(port)
    for version in ("-tls1", "-tls1_1"):
        output = spoken(port, version, "-cipher", "ALL:@SECLEVEL=0")
        yield f"s_client {version} is refused", None if refused(output) else output
    for version in ("-tls1_2", "-tls1_3"):
        yield f"s_client {version} is served", session_goes_on(port, version, authority)
    yield "renegotiation is refused", renegotiation(port)
    for minor, name in enumerate(("SSL 3", "TLS 1.0", "TLS 1.1")):
        kind, body = answer(port, hello(minor))
        refusal = kind in (None, ALERT)
        yield f"a first message of {name} is refused", None if refusal else repr(body)
    kind, body = answer(port, b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(37))
    yield "a first message of SSL 2 is refused", None if kind != HELLO else repr(body)
    yield "compression is not agreed on", compression(port)


def ciphers(port):
    """Asks for each cipher that OpenSSL has, alone; what is wrong with the answers, or None."""
    listed = subprocess.run(
        ["openssl", "ciphers", "-v", "ALL:eNULL:aNULL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    names = {line.split()[0] for line in listed.stdout.splitlines()}
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        granted = {
            name for name, good in zip(names, pool.map(lambda n: grants(port, n), names)) if good
        }
    if granted == GOOD and len(names) > 2 * len(GOOD):
        return None
    return f"of {len(names)} too many {granted - GOOD}, missing {GOOD - granted}"


def grants(port, cipher):
    """Whether the server speaks this cipher."""
    if cipher.startswith("TLS_"):
        flags = ["-tls1_3", "-ciphersuites", cipher]
    else:
        flags = ["-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0"]
    output = spoken(port, *flags)
    if f"Cipher is {cipher}" in output:
        return True
    if refused(output) or "no ciphers available" in output:
        return False
    raise RuntimeError(f"{cipher} was neither granted nor refused:\n{output}")


def refused(output):
    """Whether the server has ended a handshake with an alert."""
    return "Cipher is (NONE)" in output and re.search(r"alert (?!certificate)", output) is not None


def session_goes_on(port, version, authority):
    """A first connection, whose session a second one takes up; what is wrong, or None."""
    kept = authority.with_suffix(".session")
    trusted = ["-CAfile", authority, "-verify_return_error", "-verify_hostname", "localhost"]
    # Tickets of 1.3 come behind the handshake: s_client has to stay for an answer.
    request = "set s 0 0 1\r\nx\r\nget s\r\nquit\r\n"
    for flags, word in ((["-sess_out", kept], "New"), (["-sess_in", kept], "Reused")):
        output = spoken(port, version, *trusted, *flags, "-ign_eof", said=request)
        protocol = "TLSv1.3" if version == "-tls1_3" else "TLSv1.2"
        good = f"{word}, {protocol}, Cipher is" in output and "VALUE s 0 1" in output
        if not good or "Compression: NONE" not in output:
            return output
    return None


def renegotiation(port):
    """Asks for a second handshake on a connection; what is wrong, or None."""
    command = ["openssl", "s_client", "-connect", f"localhost:{port}", "-tls1_2"]
    pipes = {name: subprocess.PIPE for name in ("stdin", "stdout")}
    with subprocess.Popen(command, text=True, stderr=subprocess.STDOUT, **pipes) as client:
        output = ""
        # What s_client reads before its handshake is done is not a command to it.
        for line in client.stdout:
            output += line
            if "Extended master secret" in line:
                break
        client.stdin.write("R\n")
        client.stdin.flush()
        output += client.communicate(timeout=SECONDS_MAX)[0]
    good = "RENEGOTIATING" in output and "no renegotiation" in output
    return None if good else output


def compression(port):
    """Offers DEFLATE beside no compression; what is wrong with the choice, or None."""
    # The groups X25519 and P-256; signatures by ECDSA and RSA with SHA-256.
    extensions = bytes.fromhex("000a00060004001d0017" "000b00020100" "000d0006000404030804")
    kind, body = answer(port, hello(3, b"\x01\x00", extensions))
    if kind != HELLO or body[0] != SERVER_HELLO:
        return f"no ServerHello: {kind} {body!r}"
    # Its type and length, a version and 32 random bytes, a session's name, the suite.
    chosen = body[38 + 1 + body[38] + 2]
    return None if chosen == 0 else f"method {chosen}"


def hello(minor, compressions=b"\x00", extensions=b""):
    """A record with a ClientHello of version 3.MINOR."""
    body = bytes([3, minor]) + bytes(range(32)) + b"\x00"
    body += len(SUITES).to_bytes(2) + SUITES + bytes([len(compressions)]) + compressions
    if extensions:
        body += len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return bytes([HELLO, 3, min(minor, 1)]) + len(message).to_bytes(2) + message


def answer(port, message):
    """The kind and the body of the first record that comes back; None and b"" for an end."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as connection:
        connection.sendall(message)
        with connection.makefile("rb") as reader:
            try:
                head = reader.read(5)
                if len(head) < 5:
                    return None, b""
                return head[0], reader.read(int.from_bytes(head[3:]))
            except ConnectionResetError:
                return None, b""


def spoken(port, *flags, said=""):
    """What s_client prints."""
    done = subprocess.run(
        ["openssl", "s_client", "-connect", f"localhost:{port}", *flags],
        input=said,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS_MAX,
    )
    return done.stdout
