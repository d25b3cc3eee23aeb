<?php
require 'helpers.php';
$r = new Redis();
$r->connect($host, $port);
show('push', $r->rPush('jobs', 'a', 'b'), $r->getLastError());
show('range', $r->lRange('jobs', 0, -1), $r->lPop('jobs'), $r->blPop(['jobs'], 1));
