"""Libraries of Debian's, in the versions that its own programs use."""

from stage import row

TITLE = "Libraries in Debian's versions"
PERL_CACHE = """
sub say { print join(" ", map { defined $_ ? $_ : "undef" } @_), "\\n" }
say($c->set("a", "one", 600)); say($c->get("a")); say($c->get("none"));
say($c->add("a", "two")); say($c->add("n", 5)); say($c->replace("a", "three"));
say($c->incr("n", 3)); say($c->decr("n", 1)); say($c->incr("none"));
say($c->set("r", [1, 2, { x => 3 }])); say($c->get("r")->[2]{x});
say($c->set("long", "text " x 5000)); say(length $c->get("long"));
my $all = $c->get_multi("a", "none", "n"); say(map { "$_=$all->{$_}" } sort keys %$all);
say($c->delete("a")); say($c->delete("a"));
"""


def perl(stage, text):
    """What a program in Perl prints."""
    path = stage.write("program.pl", text)
    return stage.run(["/usr/bin/perl", path], environment=stage.HASH_ORDER)


@row(
    "Perl Cache::Memcached",
    "libcache-memcached-perl",
    "memcached",
    "stores, counters, many keys, compression",
    configuration='servers => ["127.0.0.1:11211"]',
)
def cache_memcached(stage):
    begin = (
        'use Cache::Memcached; my $c = Cache::Memcached->new({servers => ["127.0.0.1:@memcached@"],'
        " compress_threshold => 10000, connect_timeout => 60, select_timeout => 60});"
    )
    return perl(stage, begin + PERL_CACHE)


@row(
    "Perl Cache::Memcached::Fast",
    "libcache-memcached-fast-perl",
    "memcached",
    "the same, `touch`, compare and set",
    configuration='servers => ["127.0.0.1:11211"]',
)
def cache_memcached_fast(stage):
    begin = (
        "use Cache::Memcached::Fast; my $c = Cache::Memcached::Fast->new({"
        'servers => ["127.0.0.1:@memcached@"], connect_timeout => 60, io_timeout => 60});'
    )
    end = """
$c->set("a", 1); my $found = $c->gets("a"); say($c->cas("a", $found->[0], 2));
say($c->cas("a", $found->[0], 3)); say($c->touch("a", 60)); say($c->append("a", "x"));
say($c->prepend("a", "y")); say($c->get("a")); my $set = $c->set_multi(["p", 1], ["q", 2, 60]);
say(map { "$_=$set->{$_}" } sort keys %$set); say(scalar keys %{$c->server_versions});
say(values %{$c->flush_all});
"""
    return perl(stage, begin + PERL_CACHE + end)


CHI_TEXT = """
sub say { print join(" ", map { defined $_ ? $_ : "undef" } @_), "\\n" }
say($c->set("a", "one", { expires_in => 600 }) ); say($c->get("a")); say($c->get("none"));
say($c->set("r", { x => [1, 2] }, "10 minutes")->{x}[1]); say($c->get("r")->{x}[0]);
say($c->compute("made", "10 minutes", sub { "value" }));
say($c->compute("made", undef, sub { "no" }));
my $all = $c->get_multi_hashref(["a", "none"]); say(map { $all->{$_} } sort keys %$all);
$c->remove("a"); say($c->get("a"));
"""


@row(
    "Perl CHI, driver Memcached",
    "libchi-driver-memcached-perl libchi-perl libcache-memcached-perl",
    "memcached",
    "values computed once, structures, many keys, expiration",
    configuration='CHI->new(driver => "Memcached", servers => ["127.0.0.1:11211"])',
)
def chi_memcached(stage):
    begin = (
        "BEGIN { *CORE::GLOBAL::time = sub { 1800000000 } } "
        'use CHI; my $c = CHI->new(driver => "Memcached", namespace => "web",'
        ' servers => ["127.0.0.1:@memcached@"]);'
    )
    return perl(stage, begin + CHI_TEXT)


@row(
    "Perl CHI, driver Redis",
    "libchi-driver-redis-perl libchi-perl libredis-perl",
    "redis",
    "values computed once, structures, many keys, expiration",
    configuration='CHI->new(driver => "Redis", server => "127.0.0.1:6379")',
)
def chi_redis(stage):
    begin = (
        "BEGIN { *CORE::GLOBAL::time = sub { 1800000000 } } "
        'use CHI; my $c = CHI->new(driver => "Redis", namespace => "web",'
        ' server => "127.0.0.1:@redis@");'
    )
    return perl(stage, begin + CHI_TEXT)


@row(
    "Perl Redis",
    "libredis-perl",
    "redis",
    "strings, hashes, lists, pipelines, transactions, subscriptions",
    configuration='Redis->new(server => "127.0.0.1:6379")',
)
def perl_redis(stage):
    return perl(
        stage,
        """use Redis; my $r = Redis->new(server => "127.0.0.1:@redis@", name => "program");
sub say { print join(" ", map { defined $_ ? $_ : "undef" } @_), "\\n" }
say($r->set("a", 1, "EX", 600)); say($r->get("a")); say($r->get("none")); say($r->incr("a"));
say($r->hset("h", "x", 1)); my %h = $r->hgetall("h"); say(%h); say($r->rpush("l", 1, 2));
say($r->lrange("l", 0, -1)); say($r->exists("none")); my @all = $r->mget("a", "none"); say(@all);
$r->set("p", 1, sub { say(@_[0]) }); $r->get("p", sub { say($_[0]) }); $r->wait_all_responses;
$r->multi; $r->incr("p"); $r->get("p"); say($r->exec); say(eval { $r->lpush("a", 1) } || "error");
say($r->eval("return ARGV[1]", 0, "v")); say($r->client_getname);
my $s = Redis->new(server => "127.0.0.1:@redis@"); $s->subscribe("c", sub { say($_[0], $_[1]) });
say($r->publish("c", "hello")); $s->wait_for_messages(1); $s->unsubscribe("c", sub {}); $s->quit;
say($r->ping); $r->quit;
""".replace("$s->unsubscribe(\"c\", sub {}); ", ""),
    )


@row(
    "Perl Apache::Session::Memcached",
    "libapache-session-memcached-perl libcache-memcached-perl",
    "memcached",
    "sessions: made, read, changed, removed",
    configuration='Servers => "127.0.0.1:11211"',
    replaced=((rb"[0-9a-f]{32}", b"(session)"),),
)
def apache_session(stage):
    return perl(
        stage,
        """use Apache::Session::Memcached;
my %options = (Servers => "127.0.0.1:@memcached@", NoRehash => 1, Readonly => 0, Debug => 0,
    CompressThreshold => 10_000);
my %s; tie %s, "Apache::Session::Memcached", undef, \\%options; my $id = $s{_session_id};
$s{n} = 1; untie %s; tie %s, "Apache::Session::Memcached", $id, \\%options; print $s{n}, "\\n";
$s{n} = 2; untie %s; tie %s, "Apache::Session::Memcached", $id, \\%options; print $s{n}, "\\n";
tied(%s)->delete; untie %s;
print eval { tie %s, "Apache::Session::Memcached", $id, \\%options; 1 } ? "there" : "gone", "\\n";
""",
    )


def ruby(stage, text):
    """What a program in Ruby prints, with Debian's gems and no others."""
    gems = "/usr/share/rubygems-integration/all"
    environment = {"GEM_HOME": gems, "GEM_PATH": gems}
    return stage.run(["/usr/bin/ruby", stage.write("program.rb", text)], environment=environment)


@row(
    "Ruby Dalli",
    "ruby-dalli ruby",
    "memcached",
    "stores, counters, compare and set, many keys, compression",
    configuration='Dalli::Client.new("127.0.0.1:11211")',
)
def dalli(stage):
    return ruby(
        stage,
        """require "dalli"
c = Dalli::Client.new("127.0.0.1:@memcached@", compress: true, socket_timeout: 60)
p c.set("a", "one", 600) ? 1 : 0, c.get("a"), c.get("none"), c.add("a", "x") ? 1 : 0
p c.replace("a", { "x" => [1] }) ? 1 : 0, c.get("a"), c.incr("n", 3, 60, 5), c.incr("n", 3)
p c.decr("n", 1), c.get_multi("a", "none"), c.fetch("made", 60) { 7 }, c.fetch("made") { 8 }
p c.cas("a") { |value| value.merge("y" => 1) } ? 1 : 0, c.get("a"), c.touch("a", 60)
p c.set("long", "text " * 5000) ? 1 : 0, c.get("long").size, c.delete("a"), c.delete("a")
p c.gat("made", 100), c.flush.size, c.get("made")
c.close
""",
    )


@row(
    "Ruby redis-store",
    "ruby-redis-store ruby-redis ruby",
    "redis",
    "values with expiration, `setnx`, many keys, a namespace",
    configuration='Redis::Store::Factory.create("redis://127.0.0.1:6379/0/web")',
)
def redis_store(stage):
    return ruby(
        stage,
        """require "redis-store"
s = Redis::Store::Factory.create("redis://127.0.0.1:@redis@/1/web?timeout=60")
p s.set("a", { "x" => 1 }, expire_after: 600), s.get("a"), s.get("none"), s.setnx("a", 1)
p s.setex("b", 60, "two"), s.mget("a", "b"), s.exists?("a"), s.keys("a*"), s.del("a")
p s.get("a"), s.flushdb, s.keys("*")
s.close
""",
    )


@row(
    "node-redis",
    "node-redis nodejs",
    "redis",
    "strings, hashes, a pipeline, a transaction, a script, subscriptions, scans",
    configuration='createClient({ url: "redis://127.0.0.1:6379" })',
)
def node_redis(stage):
    path = stage.write(
        "program.cjs",
        """const { createClient } = require("redis");
(async () => {
  const c = createClient({ url: "redis://127.0.0.1:@redis@", name: "program" });
  await c.connect();
  const say = (value) => console.log(JSON.stringify(value));
  say(await c.set("a", "1", { EX: 600 })); say(await c.get("a")); say(await c.get("none"));
  say(await Promise.all([c.incr("a"), c.get("a"), c.hSet("h", { x: 1, y: 2 }), c.hGetAll("h")]));
  say(await c.multi().set("p", "1").incr("p").get("p").exec());
  say(await c.eval("return {KEYS[1], ARGV[1]}", { keys: ["k"], arguments: ["v"] }));
  const found = []; for await (const field of c.hScanIterator("h")) found.push(field.field);
  say(found.sort()); say(await c.lPush("a", "1").catch((error) => error.message));
  const s = c.duplicate(); await s.connect();
  let hear; const heard = new Promise((resolve) => { hear = resolve; });
  await s.subscribe("c", hear); await c.publish("c", "hello"); say(await heard);
  await s.unsubscribe("c"); await s.quit(); await c.quit();
})();
""",
    )
    return stage.run(["/usr/bin/node", path], environment={"NODE_PATH": "/usr/share/nodejs"})


def python(stage, text):
    """What a program prints in Debian's Python, which does not look into other environments."""
    return stage.run(["/usr/bin/python3", "-s", "-P", stage.write("program.py", text)])


@row(
    "python3-memcache",
    "python3-memcache python3",
    "memcached",
    "stores, counters, compare and set, many keys, compression",
    configuration='memcache.Client(["127.0.0.1:11211"])',
)
def python_memcache(stage):
    return python(
        stage,
        """import memcache
c = memcache.Client(["127.0.0.1:@memcached@"], socket_timeout=60, cache_cas=True)
print(c.set("a", "one", 600), c.get("a"), c.get("none"), c.add("a", 1), c.replace("a", [1, "x"]))
print(c.get("a"), c.set("n", 5), c.incr("n", 3), c.decr("n", 9), c.incr("none"))
print(c.set_multi({"x": 1, "y": 2.5}, 60), c.get_multi(["x", "none", "y"]), c.touch("x", 60))
print(c.gets("a"), c.cas("a", "two"), c.get("a"), c.append("a", "more"), c.prepend("a", "less"))
print(c.set("long", "text " * 5000, min_compress_len=1000), len(c.get("long")))
print(c.delete("a"), c.delete_multi(["x", "y"]), len(c.get_stats()), c.flush_all())
""",
    )


@row(
    "python3-pylibmc",
    "python3-pylibmc python3",
    "memcached",
    "text and binary: stores, counters, compare and set, many keys",
    configuration='pylibmc.Client(["127.0.0.1:11211"])',
)
def pylibmc(stage):
    return python(
        stage,
        """import pylibmc
for binary in (False, True):
    c = pylibmc.Client(["127.0.0.1:@memcached@"], binary=binary, behaviors={"cas": True})
    print(c.set("a", "one", 600), c.get("a"), c.get("none"), c.add("a", 1), c.replace("a", [1]))
    print(c.get("a"), c.set("n", 5), c.incr("n", 3), c.decr("n", 1), c.append("b", "x"))
    print(c.set_multi({"x": 1, "y": 2.5}, 60), c.get_multi(["x", "none", "y"]))
    value, cas = c.gets("a")
    print(value, c.cas("a", "two", cas), c.get("a"), c.delete("a"), c.delete("a"))
    print(c.set("long", "text " * 5000, min_compress_len=1000), len(c.get("long")))
    print(len(c.get_stats()), c.flush_all())
""",
    )


@row(
    "python3-dogpile.cache",
    "python3-dogpile.cache python3-redis python3-pymemcache python3",
    "redis memcached",
    "values computed once with a distributed lock, many keys, expiration",
    configuration='region.configure("dogpile.cache.redis", arguments={"port": 6379})',
    # Values have the time at which they were made, and locks random names.
    replaced=((rb"\"ct\": [0-9.]+", b"(time)"), (rb"\$\d+\r\n(?=[^\r\n]*\(time\))", b"(size)"),
              (rb"(?m)^((?:set|VALUE) [^\r\n]* )\d+(?= *\r\n[^\r\n]*\(time\))", b"\\1(size)"),
              (rb"\$32\r\n[0-9a-f]{32}", b"(token)")),  # fmt: skip
)
def dogpile(stage):
    return python(
        stage,
        """from dogpile.cache import make_region
arguments = {"host": "127.0.0.1", "port": @redis@, "distributed_lock": True,
             "redis_expiration_time": 600, "thread_local_lock": False}
kinds = {"redis": arguments,
         "pymemcache": {"url": "127.0.0.1:@memcached@", "distributed_lock": True,
                        "memcached_expire_time": 600}}
for kind, arguments in kinds.items():
    import json
    r = make_region(serializer=lambda v: json.dumps(v).encode(), deserializer=json.loads)
    r.configure(f"dogpile.cache.{kind}", expiration_time=300, arguments=arguments)
    print(r.get_or_create("a", lambda: "made"), r.get_or_create("a", lambda: "again"))
    r.set("b", [1, 2]); print(r.get("b"), r.get_multi(["a", "b"]), bool(r.get("none")))
    r.delete("a"); print(bool(r.get("a")))
""",
    )


@row(
    "Lua redis-lua",
    "lua-redis lua-socket lua5.1",
    "redis",
    "strings, hashes, a pipeline, a transaction",
    configuration='redis.connect("127.0.0.1", 6379)',
)
def lua(stage):
    path = stage.write(
        "program.lua",
        """local redis = require("redis"); local c = redis.connect("127.0.0.1", @redis@)
print(c:set("a", 1), c:get("a"), c:get("none"), c:incr("a"), c:expire("a", 600))
c:hmset("h", { x = 1 }); print(c:hgetall("h").x, c:exists("none"), c:ping())
for _, answer in ipairs((c:pipeline(function(p) p:set("p", 1); p:get("p") end))) do
    print(answer)
end
for _, answer in ipairs((c:transaction(function(t) t:incr("p"); t:get("p") end))) do
    print(answer)
end
print(pcall(c.lpush, c, "a", 1)); print(c:eval("return ARGV[1]", 0, "v")); c:quit()
""",
    )
    return stage.run(["/usr/bin/lua5.1", path])
