"""Certificates made by openssl: an authority, and what it signs."""

import os
import subprocess

DAYS = "2"
KEYS = {
    "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    "rsa": ["rsa:2048"],
}


class Authority:
    """An authority whose files are in a folder: `NAME.pem` and `NAME.key`."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        extensions = [
            "basicConstraints=critical,CA:TRUE",
            "keyUsage=critical,keyCertSign,cRLSign",
        ]
        self.request("ec", name, name, ["-x509", "-days", DAYS], extensions, self.path("pem"))

    def path(self, end, name=None):
        """A file of the authority's own, or of one that it has signed."""
        return self.folder / f"{name or self.name}.{end}"

    def issue(self, name, subject, kind="ec", names=()):
        """Signs a certificate: for a server with these names, without any for a client."""
        listed = [f"subjectAltName={','.join(names)}"] if names else []
        usage = "extendedKeyUsage=" + ("serverAuth" if names else "clientAuth")
        extensions = ["basicConstraints=critical,CA:FALSE", usage, *listed]
        request = self.path("csr", name)
        self.request(kind, name, subject, [], extensions, request)
        signer = ["-CA", self.path("pem"), "-CAkey", self.path("key"), "-CAcreateserial"]
        target = ["-days", DAYS, "-copy_extensions", "copy", "-out", self.path("pem", name)]
        openssl("x509", "-req", "-in", request, *signer, *target)
        return self.path("pem", name), self.path("key", name)

    def request(self, kind, name, subject, flags, extensions, target):
        """Makes a key and a request for it, or with the flag -x509 a certificate."""
        added = [word for extension in extensions for word in ("-addext", extension)]
        key = self.path("key", name)
        made = ["-newkey", *KEYS[kind], "-nodes", "-keyout", key, "-out", target]
        openssl("req", *flags, *made, "-subj", f"/CN={subject}", *added)
        key.chmod(0o600)


def combine(certificate, key, target):
    """Puts certificate and key into one file, which takes the place of an older one at once."""
    new = target.with_suffix(".new")
    new.touch(0o600)
    new.write_text(certificate.read_text() + key.read_text())
    os.replace(new, target)


def as_pkcs12(certificate, key, target):
    """Writes both in the form that Java reads; its password is `secret`."""
    source = ["-inkey", key, "-in", certificate, "-passout", "pass:secret"]
    openssl("pkcs12", "-export", *source, "-out", target)


def openssl(*arguments):
    """Runs openssl; what it says matters only if it fails."""
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr}")
