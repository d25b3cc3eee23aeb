"""Mail servers and their filters."""

from stage import row

TITLE = "Mail"
POSTFIX = """
compatibility_level = 3.6
mail_owner = postfix
setgid_group = postdrop
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
data_directory = @folder@
queue_directory = @folder@
"""


@row(
    "Postfix, memcache table",
    "postfix",
    "memcached",
    "`postmap`: existing and missing keys",
    configuration="memcache = inet:127.0.0.1:11211",
)
def postmap(stage):
    stage.put("memcached", "set mail:ann 0 0 11\r\nexample.net\r\n", "STORED\r\n")
    stage.write("main.cf", POSTFIX)
    stage.write("master.cf", "")
    stage.write("cache.cf", "memcache = inet:127.0.0.1:@memcached@\nkey_format = mail:%s\n")
    table = f"memcache:{stage.path('cache.cf')}"
    command = ["/usr/sbin/postmap", "-c", str(stage.folder)]
    said = [stage.run([*command, "-q", key, table], codes=(0, 1)) for key in ("ann", "none")]
    return "".join(said) + stage.run([*command, "-q", "-", table], text="none\nann\n")


DOVECOT = """
base_dir = @folder@/run
state_dir = @folder@/state
log_path = /dev/stderr
ssl = no
protocols =
default_internal_user = nobody
default_internal_group = nogroup
default_login_user = nobody
"""


def doveadm(stage, address, *requests):
    """What `doveadm dict` prints for each request."""
    path = stage.write("dovecot.conf", DOVECOT)
    (stage.folder / "run").mkdir()
    said = ""
    for request in requests:
        verb, *words = request.split()
        command = ["/usr/bin/doveadm", "-c", path, "dict", verb, "-u", "ann", address, *words]
        said += f"{verb}: {stage.run(command, codes=None)}"
    return said


REQUESTS = ("set shared/name value", "get shared/name", "get shared/none")


@row(
    "Dovecot, dict redis",
    "dovecot-core",
    "redis",
    "`doveadm dict`: stored, read, counted, removed",
    configuration="redis:host=127.0.0.1:port=6379:prefix=dict/",
)
def dovecot_redis(stage):
    return doveadm(
        stage,
        "redis:host=127.0.0.1:port=@redis@:prefix=dict/:db=1:expire_secs=600:timeout_msecs=60000",
        *REQUESTS,
        "set shared/count 5",
        "inc shared/count 3",
        "get shared/count",
        "unset shared/name",
        "get shared/name",
    )


@row(
    "Dovecot, dict memcached_ascii",
    "dovecot-core",
    "memcached",
    "`doveadm dict`: stored, read, counted, removed",
    configuration="memcached_ascii:host=127.0.0.1:port=11211:prefix=dict/",
)
def dovecot_memcached(stage):
    return doveadm(
        stage,
        "memcached_ascii:host=127.0.0.1:port=@memcached@:prefix=dict/:timeout_msecs=60000",
        *REQUESTS,
        "set shared/count 5",
        "inc shared/count 3",
        "get shared/count",
        "unset shared/name",
        "get shared/name",
    )


@row(
    "OpenDKIM, memcache data set",
    "opendkim",
    "memcached",
    "`opendkim -Q`: existing and missing keys",
    configuration="SigningTable memcache:127.0.0.1:11211/dkim",
)
def opendkim(stage):
    stage.put("memcached", "set dkim:ann 0 0 5\r\nvalue\r\n", "STORED\r\n")
    address = "memcache:127.0.0.1:@memcached@/dkim"
    said = ""
    for key in ("ann", "none"):
        said += stage.run("/usr/sbin/opendkim -Q", text=f"{address}\n{key}/1\n", codes=None)
    return said
