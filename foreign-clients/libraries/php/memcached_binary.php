<?php
require 'helpers.php';
$m = new Memcached();
$m->setOption(Memcached::OPT_BINARY_PROTOCOL, !$setting);
$m->addServer($host, $port);
show('set', $m->set('a', ['n' => 1], 60), $m->getResultMessage(), $m->get('a'));
show('many', $m->setMulti(['x' => 1, 'y' => 2], 60), $m->getMulti(['x', 'none', 'y']));
show('count', $m->increment('x', 4), $m->delete('x'), $m->get('x'));
