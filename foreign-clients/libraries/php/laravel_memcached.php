<?php
require 'helpers.php';
require_once 'Illuminate/Cache/autoload.php';
$servers = [['host' => $host, 'port' => $port, 'weight' => 1]];
$memcached = (new Illuminate\Cache\MemcachedConnector())->connect($servers);
$cache = new Illuminate\Cache\Repository(new Illuminate\Cache\MemcachedStore($memcached, 'app:'));
require 'laravel.php';
