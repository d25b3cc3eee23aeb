<?php
require 'helpers.php';
ini_set('session.save_handler', 'redis');
ini_set('session.save_path', "tcp://$host:$port?prefix=session:");
ini_set('redis.session.locking_enabled', '1');
visits();
