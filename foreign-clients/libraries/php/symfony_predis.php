<?php
require 'helpers.php';
require_once 'Symfony/Component/Cache/autoload.php';
require_once 'Predis/autoload.php';
use Symfony\Component\Cache\Adapter\{RedisAdapter, TagAwareAdapter};
use Symfony\Contracts\Cache\ItemInterface;

$connection = RedisAdapter::createConnection("redis://$host:$port", ['class' => Predis\Client::class]);
$cache = new TagAwareAdapter(new RedisAdapter($connection, 'app', 60));
$calls = 0;
$made = function () use ($cache, &$calls) {
    return $cache->get('made', function (ItemInterface $item) use (&$calls) {
        $item->expiresAfter(30);
        $item->tag(['letters']);
        return ['n' => ++$calls];
    });
};
show('made once', $made(), $made(), $calls);
show('invalidated', $cache->invalidateTags(['letters']), $made(), $calls);
$item = $cache->getItem('a')->set('1');
show('saved', $cache->save($item), $cache->getItem('a')->get(), $cache->hasItem('none'));
show('many', array_map(fn ($one) => $one->get(), iterator_to_array($cache->getItems(['a', 'none']))));
show('delete', $cache->deleteItem('a'), $cache->hasItem('a'), $cache->clear());
