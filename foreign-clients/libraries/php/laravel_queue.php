<?php
require 'helpers.php';
require_once 'Illuminate/Redis/autoload.php';
require_once 'Illuminate/Queue/autoload.php';
$app = new Illuminate\Container\Container();
$servers = ['default' => ['host' => $host, 'port' => $port, 'database' => 0]];
$redis = new Illuminate\Redis\RedisManager($app, 'phpredis', $servers);
$queue = new Illuminate\Queue\RedisQueue($redis, 'default');
$queue->setContainer($app);
show('push', is_string($queue->pushRaw('{"id":"1","attempts":0}')), $queue->size());
$job = $queue->pop();
show('pop', $job->getJobId(), $job->attempts());
$job->delete();
show('left', $queue->size());
