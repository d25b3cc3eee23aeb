<?php
require 'helpers.php';
$m = new Memcache();
$m->addServer($host, $port);
show('set', $m->set('a', ['n' => 1], 0, 60), $m->get('a'), $m->add('a', 2));
show('compressed', $m->set('l', str_repeat('x', 50000), MEMCACHE_COMPRESSED), strlen($m->get('l')));
show('many', $m->set('x', 1), $m->get(['a', 'none', 'x']), $m->increment('x', 4), $m->decrement('x'));
show('delete', $m->replace('x', 2), $m->delete('a'), $m->get('a'), $m->flush());
