<?php
require 'helpers.php';
$r = new Redis();
$r->connect($host, $port);
show('set', $r->set('a', '1', ['ex' => 60]), $r->get('a'), near($r->ttl('a'), 60), $r->incrBy('a', 4));
show('many', $r->mset(['x' => 1, 'y' => 2]), $r->mget(['x', 'none', 'y']), $r->del('x', 'none'));
show('hash', $r->hMSet('h', ['f' => 'v', 'n' => 1]), $r->hGetAll('h'), $r->hIncrBy('h', 'n', 2));
show('sorted', $r->zAdd('z', 1, 'a', 2, 'b'), $r->zRange('z', 0, -1, true), $r->sAdd('s', 'a'));
show('multi', $r->multi()->set('p', 1)->incr('p')->exec());
show('pipeline', $r->pipeline()->get('p')->get('none')->exec());
show('script', $r->eval('return {KEYS[1], ARGV[1]}', ['k', 'v'], 1));
$r->setOption(Redis::OPT_SERIALIZER, Redis::SERIALIZER_PHP);
show('serialized', $r->set('o', ['n' => 1]), $r->get('o'));
$r->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
$cursor = null;
$keys = [];
while ($some = $r->scan($cursor, '?')) {
    array_push($keys, ...$some);
}
sort($keys);
show('scan', $keys);
