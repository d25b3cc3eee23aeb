<?php
// What a Laravel application does with its cache.

show('put', $cache->put('a', ['n' => 1], 60), $cache->get('a'), $cache->has('a'), $cache->add('a', 2, 60));
$calls = 0;
$made = function () use ($cache, &$calls) {
    return $cache->remember('made', 60, function () use (&$calls) {
        return ++$calls;
    });
};
show('remember', $made(), $made(), $calls);
show('count', $cache->increment('n', 5), $cache->decrement('n', 2), $cache->forever('f', 1));
show('many', $cache->putMany(['x' => 1, 'y' => 2], 60), $cache->many(['x', 'none', 'y']));
$lock = $cache->lock('printer', 10);
show('lock', $lock->get(), $cache->lock('printer', 10)->get(), $lock->release());
$limiter = new Illuminate\Cache\RateLimiter($cache);
show('limit', array_map(fn () => $limiter->attempt('me', 3, fn () => 'hello'), range(1, 5)));
show('pull', $cache->pull('x'), $cache->forget('y'), $cache->flush(), $cache->get('f'));
