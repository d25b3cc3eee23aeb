use strict;
use warnings;
use FindBin;
use lib $FindBin::Bin;
use Helpers;
use Memcached::libmemcached;

my $m = Memcached::libmemcached->new;
$m->memcached_server_add($host, $port);
show('set', $m->memcached_set('a', 'one', 60), $m->memcached_get('a'), $m->memcached_add('a', 2) ? 1 : 0);
show('delete', $m->memcached_delete('a'), $m->memcached_get('a'));
