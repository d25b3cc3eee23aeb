"""Web servers and what runs in them."""

import base64
import socket
import ssl

from stage import row

TITLE = "Web servers and PHP"
NGINX = """
master_process off; daemon off; pid @folder@/nginx.pid; error_log stderr;
MODULES
events {}
http {
    access_log off;
    client_body_temp_path @folder@/body; proxy_temp_path @folder@/proxy;
    fastcgi_temp_path @folder@/fastcgi; uwsgi_temp_path @folder@/uwsgi;
    scgi_temp_path @folder@/scgi;
    default_type text/plain;
    server { listen 127.0.0.1:@http@; LOCATIONS }
}
"""


def nginx(stage, locations, *modules):
    """Starts nginx as one process."""
    lines = "".join(f"load_module /usr/lib/nginx/modules/{name}.so;\n" for name in modules)
    config = NGINX.replace("MODULES", lines).replace("LOCATIONS", locations)
    path = stage.write("nginx.conf", config)
    stage.start(f"/usr/sbin/nginx -e stderr -p {stage.folder} -c {path}", stage.http)


@row(
    "nginx, memcached module",
    "nginx",
    "memcached",
    "pages by key, misses, 100 KiB",
    configuration="memcached_pass 127.0.0.1:11211;",
)
def nginx_memcached(stage):
    stage.put("memcached", "set /page 0 0 5\r\nhello\r\n", "STORED\r\n")
    large = "x" * 102400
    stage.put("memcached", f"set /large 0 60 102400\r\n{large}\r\n", "STORED\r\n")
    locations = "location / { set $memcached_key $uri; memcached_pass 127.0.0.1:@memcached@; }"
    nginx(stage, locations)
    paths = ("/page", "/none", "/large", "/page?a=b")
    return "".join(stage.get(stage.http, path) for path in paths)


@row(
    "nginx, memc module",
    "libnginx-mod-http-memc",
    "memcached",
    "all commands of the module",
    configuration="memc_pass 127.0.0.1:11211;",
)
def nginx_memc(stage):
    locations = """location / {
        set $memc_cmd $arg_cmd; set $memc_key $arg_key; set $memc_value $arg_val;
        set $memc_exptime $arg_exptime; set $memc_flags $arg_flags;
        memc_pass 127.0.0.1:@memcached@;
    }"""
    nginx(stage, locations, "ngx_http_memc_module")
    requests = (
        "cmd=set&key=a&val=one&exptime=600&flags=3",
        "cmd=get&key=a",
        "cmd=add&key=a&val=two",
        "cmd=add&key=b&val=2",
        "cmd=replace&key=a&val=three",
        "cmd=append&key=a&val=more",
        "cmd=prepend&key=a&val=less",
        "cmd=get&key=a",
        "cmd=incr&key=b&val=5",
        "cmd=decr&key=b&val=1",
        "cmd=incr&key=none&val=1",
        "cmd=delete&key=a",
        "cmd=get&key=a",
        "cmd=flush_all",
        "cmd=get&key=b",
    )
    return "".join(stage.get(stage.http, f"/?{request}") for request in requests)


@row(
    "lua-resty-redis in nginx",
    "lua-nginx-redis libnginx-mod-http-lua",
    "redis",
    "strings, hashes, lists, a pipeline, a transaction, a script, pooled connections",
    configuration='red:connect("127.0.0.1", 6379)',
)
def lua_redis(stage):
    locations = """location / { content_by_lua_block {
        local red = require("nginx.redis"):new()
        red:set_timeout(60000)
        assert(red:connect("127.0.0.1", @redis@))
        local function say(value)
            if type(value) == "table" then
                for _, part in ipairs(value) do say(part) end
            else ngx.say(tostring(value)) end
        end
        say(red:set("a", "1", "EX", 600)) say(red:get("a")) say(red:get("none")) say(red:incr("a"))
        say(red:hmset("h", "x", "1", "y", "2")) say(red:hmget("h", "x", "none"))
        say(red:rpush("l", "1", "2")) say(red:lrange("l", 0, -1)) say(red:ttl("a"))
        red:init_pipeline()
        red:set("p", "1") red:get("p") red:incr("h")
        for _, answer in ipairs(red:commit_pipeline()) do say(answer) end
        say(red:multi()) say(red:incr("p")) say(red:exec())
        say(red:eval("return {KEYS[1], ARGV[1]}", 1, "k", "v"))
        say(red:set_keepalive(60000, 1))
    } }"""
    nginx(stage, locations, "ndk_http_module", "ngx_http_lua_module")
    return stage.get(stage.http) + stage.get(stage.http)


@row(
    "lua-resty-memcached in nginx",
    "lua-nginx-memcached libnginx-mod-http-lua",
    "memcached",
    "stores, counters, compare and set, many keys, statistics, pooled connections",
    configuration='memc:connect("127.0.0.1", 11211)',
)
def lua_memcached(stage):
    locations = """location / { content_by_lua_block {
        local memc = require("nginx.memcached"):new()
        memc:set_timeout(60000)
        assert(memc:connect("127.0.0.1", @memcached@))
        local function say(...) ngx.say(tostring((...)), " ", tostring((select(2, ...)))) end
        say(memc:set("a", "1", 600, 7)) say(memc:get("a")) say(memc:get("none"))
        say(memc:add("a", "2")) say(memc:replace("a", "3")) say(memc:append("a", "4"))
        say(memc:incr("a", 5)) say(memc:decr("a", 1)) say(memc:touch("a", 60))
        local value, flags, cas = memc:gets("a")
        say(memc:cas("a", "5", cas)) say(memc:cas("a", "6", cas))
        local all = memc:get({"a", "none"}) say(all.a[1])
        say(memc:delete("a")) say(memc:delete("a")) say(type(memc:stats()))
        say(type(memc:version())) say(memc:verbosity(1)) say(memc:flush_all())
        say(memc:set_keepalive(60000, 1))
    } }"""
    nginx(stage, locations, "ndk_http_module", "ngx_http_lua_module")
    return stage.get(stage.http) + stage.get(stage.http)


APACHE = """
ServerRoot @folder@
PidFile @folder@/apache.pid
Mutex file:@folder@
ServerName localhost
User nobody
Group nogroup
Listen 127.0.0.1:@http@
ErrorLog /dev/stderr
DocumentRoot @folder@/pages
"""
APACHE_MODULES = (
    "mpm_prefork authz_core authn_core authn_file authz_user auth_basic authn_socache ssl"
    " socache_memcache socache_redis"
).split()
AUTHENTICATION = """
AuthnCacheSOCache CACHE
<Directory @folder@/pages>
    AuthType Basic
    AuthName cached
    AuthBasicProvider socache file
    AuthnCacheProvideFor file
    AuthnCacheTimeout 600
    AuthUserFile @folder@/users
    Require valid-user
</Directory>
"""
SESSIONS = """
SSLSessionCache CACHE
SSLSessionCacheTimeout 600
SSLEngine on
SSLProtocol TLSv1.2
SSLSessionTickets off
SSLCertificateFile @folder@/certificate.pem
SSLCertificateKeyFile @folder@/key.pem
"""
# The number of a TLS session is random, and so is its state (DER), which has it inside. The time to
# live counts from the session's begin, to the second.
STATE = rb"0[\x81\x82].*?\r\n"
SESSION = (
    (rb"(?s) 0 \d+ \d+ \r\n" + STATE + rb"(?=get |set |delete |\Z)", b" (state)\r\n"),
    (rb"(?s) 0 \d+\r\n" + STATE + rb"END", b" (state)\r\nEND"),
    (rb"(?s)\$3\r\n\d+\r\n\$\d+\r\n" + STATE + rb"(?=\*|\Z)", b"(state)\r\n"),
    (rb"(?s)\$\d+\r\n" + STATE + rb"(?=[+:$]|\Z)", b"(state)\r\n"),
    (rb"[0-9a-f]{64}", b"(session)"),
)
# A remembered password's time to live counts from when it was checked, to the second.
REMEMBERED = (
    (rb"\$3\r\n(?:600|599|598)\r\n", b"(time to live)\r\n"),
    (rb" 0 (?:600|599|598) ", b" 0 (time to live) "),
)


def apache(stage, config):
    """Starts Apache as one process."""
    modules = "".join(
        f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"
        for name in APACHE_MODULES
    )
    path = stage.write("apache.conf", modules + APACHE + config)
    stage.write("pages/index.html", "page\n")
    stage.start(f"/usr/sbin/apache2 -X -f {path}", stage.http)


def authenticated(stage, cache):
    """The answers to good and bad passwords, again from the cache."""
    # The password is `password`, in the form that `htpasswd -s` writes.
    stage.write("users", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
    apache(stage, AUTHENTICATION.replace("CACHE", cache))
    answers = ""
    for password in ("password", "password", "wrong", "password"):
        word = base64.b64encode(f"ann:{password}".encode()).decode()
        answers += stage.get(stage.http, "/index.html", Authorization=f"Basic {word}")[:4]
    return answers


def resumed(stage, cache):
    """Whether the second connection resumes the session of the first."""
    stage.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9"
        " -subj /CN=localhost -keyout key.pem -out certificate.pem"
    )
    apache(stage, SESSIONS.replace("CACHE", cache))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    said, session = [], None
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", stage.http), timeout=60) as plain:
            with context.wrap_socket(plain, session=session) as connection:
                connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
                said.append((connection.session_reused, connection.recv(4096)[:12]))
                session = connection.session
    return f"{said}"


@row(
    "Apache, mod_socache_memcache with mod_authn_socache",
    "apache2-bin",
    "memcached",
    "passwords, cached",
    configuration="AuthnCacheSOCache memcache:127.0.0.1:11211",
    replaced=REMEMBERED,
)
def authn_memcache(stage):
    return authenticated(stage, "memcache:127.0.0.1:@memcached@")


@row(
    "Apache, mod_socache_redis with mod_authn_socache",
    "apache2-bin",
    "redis",
    "passwords, cached",
    configuration="AuthnCacheSOCache redis:127.0.0.1:6379",
    replaced=REMEMBERED,
)
def authn_redis(stage):
    return authenticated(stage, "redis:127.0.0.1:@redis@")


@row(
    "Apache, mod_socache_memcache with mod_ssl",
    "apache2-bin",
    "memcached",
    "TLS sessions, resumed",
    configuration="SSLSessionCache memcache:127.0.0.1:11211",
    replaced=SESSION,
)
def ssl_memcache(stage):
    return resumed(stage, "memcache:127.0.0.1:@memcached@")


@row(
    "Apache, mod_socache_redis with mod_ssl",
    "apache2-bin",
    "redis",
    "TLS sessions, resumed",
    configuration="SSLSessionCache redis:127.0.0.1:6379",
    replaced=SESSION,
)
def ssl_redis(stage):
    return resumed(stage, "redis:127.0.0.1:@redis@")


# The output is held back: no session begins once a line was printed.
PHP_SESSIONS = """<?php
ob_start();
function session($id, $act) {
    session_id($id); session_start(); $act(); session_write_close();
}
session("cellarsession0001", function () { $_SESSION["n"] = 1; $_SESSION["text"] = "hello"; });
session("cellarsession0001", function () { $_SESSION["n"]++; });
session("cellarsession0001", function () { echo json_encode($_SESSION), "\\n"; });
session("cellarsession0002", function () { echo json_encode($_SESSION), "\\n"; });
session_id("cellarsession0001"); session_start(); session_destroy();
session("cellarsession0001", function () { echo json_encode($_SESSION), "\\n"; });
"""
# Settings of the machine do not count; extensions are named, because `-n` reads no file.
PHP = "/usr/bin/php -n -d session.use_strict_mode=0 -d extension=igbinary -d extension=msgpack"


def php(stage, text, *settings):
    """What a script prints."""
    path = stage.write("script.php", text)
    words = [part for setting in settings for part in ("-d", setting)]
    return stage.run([*PHP.split(), *words, path])


@row(
    "PHP sessions in memcached",
    "php-memcached php-cli",
    "memcached",
    "sessions with locks, written, read, destroyed",
    configuration='session.save_handler = memcached\nsession.save_path = "127.0.0.1:11211"',
)
def php_sessions_memcached(stage):
    return php(
        stage,
        PHP_SESSIONS,
        "extension=memcached",
        "session.save_handler=memcached",
        "session.save_path=127.0.0.1:@memcached@",
    )


@row(
    "PHP sessions in Redis",
    "php-redis php-cli",
    "redis",
    "sessions with locks, written, read, destroyed",
    configuration='session.save_handler = redis\nsession.save_path = "tcp://127.0.0.1:6379"',
    # The secret of a lock is the host's name and random bytes.
    replaced=((rb"(?s)(_LOCK\r\n\$)\d+\r\n[^\r\n]+", b"\\1(secret)"),
              (rb"\$\d+\r\n[^\r\n]*\|\d+[^\r\n]*", b"(secret)")),  # fmt: skip
)
def php_sessions_redis(stage):
    return php(
        stage,
        PHP_SESSIONS,
        "extension=redis",
        "session.save_handler=redis",
        "session.save_path=\"tcp://127.0.0.1:@redis@?prefix=web:\"",
        "redis.session.locking_enabled=1",
    )


PHP_MEMCACHED = """<?php
foreach ([true, false] as $binary) {
    $m = new Memcached();
    $m->setOption(Memcached::OPT_BINARY_PROTOCOL, $binary);
    $m->addServer("127.0.0.1", @memcached@);
    $say = function ($value) use ($m) {
        echo json_encode($value), " ", $m->getResultMessage(), "\\n";
    };
    $say($m->set("a", "one", 600)); $say($m->get("a")); $say($m->get("none"));
    $say($m->add("a", 1)); $say($m->replace("a", "two")); $say($m->append("a", "x"));
    $say($m->set("n", 5)); $say($m->increment("n", 3)); $say($m->decrement("n", 100));
    $say($m->setMulti(["x" => 1, "y" => [1, 2], "z" => 1.5], 60));
    $say($m->getMulti(["x", "y", "none", "z"]));
    $found = $m->get("a", null, Memcached::GET_EXTENDED);
    $say($m->cas($found["cas"], "a", "three")); $say($m->cas($found["cas"], "a", "four"));
    $say($m->touch("a", 100)); $say($m->set("large", str_repeat("text ", 5000)));
    $say(strlen($m->get("large"))); $say($m->deleteMulti(["x", "none"])); $say($m->delete("a"));
    $say(count($m->getVersion())); $say($m->flush()); $say($m->get("n"));
}
"""


@row(
    "PHP, class Memcached",
    "php-memcached php-cli",
    "memcached",
    "text and binary: stores, counters, compare and set, many keys, compression",
    configuration='$m->addServer("127.0.0.1", 11211);',
)
def php_memcached(stage):
    return php(stage, PHP_MEMCACHED, "extension=memcached")


@row(
    "PHP, Predis",
    "php-predis php-cli",
    "redis",
    "strings, hashes, a pipeline, a transaction, a script",
    configuration='new Predis\\Client("tcp://127.0.0.1:6379")',
)
def predis(stage):
    return php(
        stage,
        """<?php
error_reporting(E_ALL & ~E_DEPRECATED);
require "/usr/share/php/Predis/autoload.php";
$r = new Predis\\Client("tcp://127.0.0.1:@redis@?database=2");
$say = function ($value) { echo json_encode($value), "\\n"; };
$say((string) $r->set("a", "1", "EX", 600)); $say($r->get("a")); $say($r->incr("a"));
$say($r->hmset("h", ["x" => 1, "y" => 2])); $say($r->hgetall("h")); $say($r->expire("h", 60));
$say($r->pipeline(function ($p) { $p->set("p", 1); $p->get("p"); $p->del("none"); }));
$say($r->transaction(function ($t) { $t->incr("p"); $t->get("p"); }));
$say($r->eval("return {KEYS[1], ARGV[1]}", 1, "k", "v")); $say($r->mget(["a", "none"]));
""",
    )
