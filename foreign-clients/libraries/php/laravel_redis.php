<?php
require 'helpers.php';
require_once 'Illuminate/Cache/autoload.php';
require_once 'Illuminate/Redis/autoload.php';
$app = new Illuminate\Container\Container();
$servers = ['default' => ['host' => $host, 'port' => $port, 'database' => 0]];
$redis = new Illuminate\Redis\RedisManager($app, 'phpredis', $servers);
$cache = new Illuminate\Cache\Repository(new Illuminate\Cache\RedisStore($redis, 'app:'));
require 'laravel.php';
$tags = $cache->tags(['letters']);
show('tags', $tags->put('b', 2, 60), $tags->get('b'), $tags->flush(), $tags->get('b'));
