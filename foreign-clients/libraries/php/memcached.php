<?php
require 'helpers.php';
$m = new Memcached();
$m->addServer($host, $port);
show('set', $m->set('a', ['n' => 1], 60), $m->get('a'), $m->add('a', 2), $m->getResultMessage());
show('many', $m->setMulti(['x' => 1, 'y' => 2], 60), $m->getMulti(['x', 'none', 'y']));
show('count', $m->increment('x', 4), $m->decrement('x'), $m->increment('none'));
$found = $m->get('y', null, Memcached::GET_EXTENDED);
show('cas', $m->cas($found['cas'], 'y', 9), $m->cas($found['cas'], 'y', 8), $m->get('y'));
show('touch', $m->touch('y', 30), $m->delete('y'), $m->delete('y'), $m->getResultCode());
show('large', $m->set('l', str_repeat('x', 100000)), strlen($m->get('l')), $m->flush());
