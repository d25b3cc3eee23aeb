<?php
// What every program needs: the server's address, and lines to be compared.

error_reporting(E_ALL & ~E_DEPRECATED);
ini_set('display_errors', 'stderr');
$host = getenv('HOST');
$port = (int) getenv('PORT');
$setting = getenv('SETTING') !== false;

/** One line of the program's result. */
function show(string $what, ...$values): void
{
    echo $what, ': ', implode(' ', array_map('json_encode', $values)), "\n";
}

/** Whether a TTL is what was set, but for a moment that has gone by. */
function near($seconds, int $expected): bool
{
    return $expected - 3 <= $seconds && $seconds <= $expected;
}

/** A page that counts its visits, asked by PHP's own sessions. */
function visits(): void
{
    ini_set('session.use_cookies', '0');
    ini_set('session.cache_limiter', '');
    ob_start();
    foreach ([1, 2, 3] as $visit) {
        session_id('cellarsession');
        session_start();
        $_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
        show('visit', $_SESSION['visits']);
        $visit < 3 ? session_write_close() : session_destroy();
    }
    session_id('cellarsession');
    session_start();
    show('left', $_SESSION);
    session_write_close();
}
