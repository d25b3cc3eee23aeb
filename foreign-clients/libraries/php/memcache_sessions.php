<?php
require 'helpers.php';
ini_set('session.save_handler', 'memcache');
ini_set('session.save_path', "tcp://$host:$port");
visits();
