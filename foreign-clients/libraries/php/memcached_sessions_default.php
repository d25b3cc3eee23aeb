<?php
require 'helpers.php';
ini_set('session.save_handler', 'memcached');
ini_set('session.save_path', "$host:$port");
ini_set('memcached.sess_lock_retries', '2');
if ($setting) {
    ini_set('memcached.sess_binary_protocol', '0');
}
visits();
