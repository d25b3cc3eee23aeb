<?php
require 'helpers.php';
require_once 'Predis/autoload.php';
$r = new Predis\Client(['host' => $host, 'port' => $port]);
show('set', (string) $r->set('a', '1', 'EX', 60), $r->get('a'), near($r->ttl('a'), 60), $r->incr('a'));
show('many', (string) $r->mset(['x' => 1, 'y' => 2]), $r->mget(['x', 'none', 'y']), $r->del(['x']));
show('hash', $r->hset('h', 'f', 'v'), $r->hgetall('h'), $r->zadd('z', ['a' => 1]), $r->zrange('z', 0, -1));
show('pipeline', $r->pipeline(function ($pipe) {
    $pipe->incr('n');
    $pipe->get('none');
}));
show('transaction', $r->transaction()->incr('n')->get('n')->execute());
show('script', $r->eval('return ARGV[1]', 1, 'k', 'v'));
$keys = iterator_to_array(new Predis\Collection\Iterator\Keyspace($r, '?'), false);
sort($keys);
show('scan', $keys);
